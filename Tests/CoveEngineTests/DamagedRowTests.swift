import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// Numbers that a catalog was given by hand or by a failing disk: errors, and no daemon that dies at every start.
@Suite(.timeLimit(.minutes(10))) struct DamagedRowTests {
    /// What can be damaged: a table, and a column of numbers.
    private static func columns(_ state: String) throws -> [(table: String, column: String)] {
        let query = """
            SELECT m.name || ' ' || c.name FROM sqlite_master m, pragma_table_info(m.name) c
            WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND upper(c.type) = 'INTEGER'
            """
        return try Command.run("sqlite3", ["\(state)/catalog.db", query]).output.split(separator: "\n").compactMap {
            let words = $0.split(separator: " ").map(String.init)
            return words.count == 2 ? (words[0], words[1]) : nil
        }
    }

    private static let attributes = [
        "conflicts", "downloading-status", "is-downloading", "percent-downloaded", "is-uploaded", "is-uploading",
        "has-conflicts", "is-ubiquitous", "docid", "pinned", "content-version", "uploading-error", "downloading-error",
        "tags", "item-id", "package",
    ]

    /// What programs and people do, whatever comes of it.
    private static func use(_ account: EngineAccount) async {
        let (engine, tree) = (account.engine, account.tree)
        for path in ["", "d"] { _ = try? tree.list(path) }
        for path in ["a", "b", "d/c", "large", "tiny"] {
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
        try? engine.walk(.root) { _ in true }
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

    @Test func `numbers beyond all sense in the catalog end no daemon`() async throws {
        try await blocking {
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
            let kept = try account.keepState()
            let columns = try Self.columns(kept)
            #expect(columns.count > 50)
            for (table, column) in columns {
                for value in [Int64.min, -1, .max] {
                    let state = account.root.appending("damaged")
                    try? FileManager.default.removeItem(atPath: state)
                    try Command.run("cp", ["-a", kept, state])
                    let change = "UPDATE OR IGNORE \(table) SET \(column) = \(value)"
                    let done = try Command.run("sqlite3", ["\(state)/catalog.db", change], mayFail: true)
                    guard done.status == 0 else { continue }
                    guard (try? await account.restart(from: state, { _ in })) != nil else { continue }
                    await Self.use(account)
                }
            }
            try await account.restart(from: kept) { _ in }
            #expect(try account.tree.read("new") == Array("new".utf8))
            await account.stop()
        }
    }
}
