import CoveCore
import CoveEngine
import CoveTestSupport
import Foundation
import Testing

/// Random saves of all kinds, evictions, restores and deaths: no version ever changes, and each is something that was saved.
@Suite struct VersionModelTests {
    private let doc = RemotePath(unchecked: Array("doc".utf8))

    /// What one run has seen.
    private struct History {
        /// Every content that the document, or a file that its identity may go to, ever had.
        var contents: Set<[UInt8]> = []
        /// The bytes of each version when it was first seen.
        var versions: [String: [UInt8]] = [:]
        var kept = 0
    }

    @Test(arguments: 0..<12)
    func `versions are what was saved, and stay that`(seed: Int) async throws {
        try await blocking {
            var random = SeededGenerator(seed: UInt64(seed))
            let account = try EngineAccount { $0.keptVersions = 4 }
            #expect(try account.tree.list("").isEmpty)
            var history = History()
            try account.tree.write("doc", random.bytes(100))
            for step in 0..<60 {
                try note(account, &history)
                try await change(account, &history, &random)
                try note(account, &history)
                try await check(account, &history, "seed \(seed), step \(step)")
            }
            #expect(history.kept > 10, "seed \(seed)")
            try await account.settle()
            let current = try account.tree.read("doc")
            #expect(try SourceFolder(account.source).snapshot()["doc"] == current)
            await account.stop()
            #expect(try account.repair() == RepairReport(), "seed \(seed)")
        }
    }

    private func note(_ account: EngineAccount, _ history: inout History) throws {
        for name in try account.tree.list("").keys { history.contents.insert(try account.tree.read(name)) }
    }

    private func change(
        _ account: EngineAccount,
        _ history: inout History,
        _ random: inout SeededGenerator
    ) async throws {
        let bytes = random.bytes(Int.random(in: 1...5000, using: &random))
        switch Int.random(in: 0..<12, using: &random) {
        case 0, 1:
            try account.tree.write("new", bytes)
            try account.tree.rename("new", "doc")
        case 2:
            try account.tree.rename("doc", "doc~")
            try account.tree.write("doc", bytes)
        case 3: try account.tree.write("doc", bytes)
        case 4: try account.tree.append("doc", bytes)
        case 5:
            // The backup shares its bytes with a version.
            if try account.tree.list("")["doc~"] != nil {
                try account.tree.overwrite("doc~", at: 0, bytes, mapped: false)
            }
        case 6:
            try account.tree.write("new", bytes)
            try account.tree.exchange("new", "doc")
            try account.tree.append("new", bytes)
            try note(account, &history)
            try account.tree.unlink("new")
        case 7: try await account.settle()
        case 8:
            try await account.settle()
            _ = await account.evict("doc")
        case 9:
            try await account.settle()
            try SourceFolder(account.source).save("doc", bytes)
            try await account.settle()
        case 10:
            let versions = try account.engine.versions(of: doc)
            guard let version = versions.randomElement(using: &random) else { return }
            let content = try await account.engine.versionContent(version.id, of: doc).read(at: 0, count: 1 << 20)
            try await account.engine.restoreVersion(version.id, of: doc)
            #expect(try account.tree.read("doc") == content)
        default:
            try await account.die()
            try await account.setOffline(false)
            try await account.settle()
        }
    }

    private func check(_ account: EngineAccount, _ history: inout History, _ place: String) async throws {
        let versions = try account.engine.versions(of: doc).filter { !$0.isConflict }
        #expect(versions.count <= 4, "\(place)")
        for version in versions {
            let bytes = try await account.engine.versionContent(version.id, of: doc).read(at: 0, count: 1 << 20)
            #expect(bytes.count == version.size, "\(place)")
            if let known = history.versions[version.id] {
                #expect(bytes == known, "\(place)")
            } else {
                #expect(history.contents.contains(bytes), "\(place)")
                history.versions[version.id] = bytes
                history.kept += 1
            }
        }
    }
}
