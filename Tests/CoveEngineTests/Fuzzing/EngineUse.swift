import CoveCore
import CoveEngine
import CoveTestSupport
import Testing

extension EngineAccount {
    /// An account that is offline, whose catalog has rows of nearly all kinds.
    static func ofManyRows() async throws -> EngineAccount {
        let account = try EngineAccount { $0.stallLimit = .seconds(2) }
        let source = SourceFolder(account.source)
        try source.makeDirectory("d")
        for name in ["a", "b", "d/c"] { try source.save(name, Array(name.utf8)) }
        try source.save("large", [UInt8](repeating: 1, count: 4 << 20))
        try source.save("tiny", [UInt8](repeating: 2, count: 50))
        for path in ["", "d"] { _ = try account.tree.list(path) }
        for name in ["a", "b", "d/c"] { _ = try account.tree.read(name) }
        try account.tree.write("a", Array("again".utf8))
        try await account.settle()
        #expect(try account.engine.versions(of: RemotePath(unchecked: [0x61])).count == 1)
        let large = try account.tree.resolve("large")
        _ = try account.tree.read(large, at: 2 << 20, count: 10)
        try await account.setOffline(true)
        try account.tree.write("b", Array("changed".utf8))
        try account.tree.write("new", Array("new".utf8))
        try account.tree.unlink("d/c")
        // A part of it is here, and no more comes.
        try account.tree.overwrite("tiny", at: 10, [3], mapped: false)
        return account
    }
}

private let attributes = [
    "conflicts", "downloading-status", "is-downloading", "percent-downloaded", "is-uploaded", "is-uploading",
    "has-conflicts", "is-ubiquitous", "docid", "pinned", "content-version", "uploading-error", "downloading-error",
    "tags", "item-id", "package", "policy", "decorations", "percent-uploaded", "download-requested", "content-policy",
    "container-display-name", "most-recent-editor",
]

/// What programs and people do with some files, whatever comes of it.
func use(_ engine: Engine, paths: [String] = ["a", "b", "d/c", "large", "tiny"]) async {
    let tree = EngineTree(engine)
    for path in ["", "d"] { _ = try? tree.list(path) }
    for path in paths {
        let place = RemotePath(unchecked: Array(path.utf8))
        if let id = try? tree.resolve(path) {
            for name in attributes { _ = try? engine.extendedAttribute(id, Array("user.cove.\(name)".utf8)) }
            _ = try? tree.read(id, at: 0, count: 100)
        }
        _ = try? engine.item(at: place)
        for version in (try? engine.versions(of: place)) ?? [] {
            _ = try? await engine.versionContent(version.id, of: place).read(at: 0, count: 10)
            _ = try? await engine.restoreVersion(version.id, of: place)
        }
        try? tree.write(path, Array("more".utf8))
        _ = try? engine.evict(place)
    }
    // Folders that are in each other have no end.
    var left = 1000
    try? engine.walk(.root) { _ in
        left -= 1
        return left > 0
    }
    for version in 1...2 {
        _ = try? engine.hiddenAttributes(of: .version(Int64(version)))
        _ = try? engine.hiddenAttributes(of: .document(Int64(version)))
    }
    try? tree.rename("a", "d/a")
    try? tree.unlink("b")
    _ = (engine.accountStatus(), engine.statistics(), engine.trash(), engine.conflicts())
    _ = await engine.diagnose()
    _ = engine.fileSystemStatus()
}
