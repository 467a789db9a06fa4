import CoveCore
import CoveEngine
import CoveTestSupport
import Foundation
import Testing

/// What a document had before: kept, listed, restored and forgotten.
@Suite struct VersionTests {
    private func text(_ string: String) -> [UInt8] { Array(string.utf8) }
    private func path(_ string: String) -> RemotePath { RemotePath(unchecked: text(string)) }

    /// The versions of a document, newest first, by their bytes.
    private func history(_ account: EngineAccount, _ name: String = "doc") async throws -> [String] {
        var contents: [String] = []
        for version in try account.engine.versions(of: path(name)) {
            contents.append(try await bytes(account, version.id, name))
        }
        return contents
    }

    private func bytes(_ account: EngineAccount, _ id: String, _ name: String = "doc") async throws -> String {
        let content = try await account.engine.versionContent(id, of: path(name))
        return String(decoding: try content.read(at: 0, count: 1 << 20), as: UTF8.self)
    }

    /// Saves as an editor does that writes a new file and renames it.
    ///
    /// Under a name that is never sent: a document of its own would take the place of the other one.
    private func save(_ account: EngineAccount, _ content: String, _ name: String = "doc") throws {
        try account.tree.write(".goutputstream-NEW123", text(content))
        try account.tree.rename(".goutputstream-NEW123", name)
    }

    private func saved(_ contents: String...) async throws -> EngineAccount {
        let account = try EngineAccount()
        for content in contents { try save(account, content) }
        return account
    }

    @Test func `a save by renaming keeps what it replaces, sent or not`() async throws {
        try await blocking {
            let account = try await saved("one")
            try await account.settle()
            await account.engine.pause()
            try save(account, "two")
            try save(account, "three")
            #expect(try await history(account) == ["two", "one"])
            let versions = try account.engine.versions(of: path("doc"))
            #expect(versions.map(\.host) == ["here", "here"] && versions.map(\.size) == [3, 3])
            #expect(versions[0].contentVersion == nil && versions[1].contentVersion != nil)
            #expect(versions.allSatisfy { $0.isLocal && !$0.isConflict })
            await account.engine.resume()
            try await account.settle()
            #expect(try SourceFolder(account.source).snapshot() == ["doc": text("three")])
            await account.stop()
            #expect(try account.repair() == RepairReport())
        }
    }

    @Test func `a change in place keeps what was sent before`() async throws {
        try await blocking {
            let account = try await saved("one")
            try await account.settle()
            try account.tree.write("doc", text("two"))
            try account.tree.append("doc", text(" more"))
            #expect(try await history(account) == ["one"])
            try await account.settle()
            try account.tree.overwrite("doc", at: 0, text("Two"), mapped: false)
            #expect(try await history(account) == ["two more", "one"])
            #expect(try account.tree.read("doc") == text("Two more"))
            await account.stop()
            #expect(try account.repair() == RepairReport())
        }
    }

    @Test func `what was read to its end is kept when it is written over, while its fetch ends`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let names = (0..<100).map { "f\($0)" }
            for name in names { try SourceFolder(account.source).save(name, text("one")) }
            for name in names {
                #expect(try account.tree.read(name) == text("one"))
                try account.tree.write(name, text("newer"))
                #expect(try account.engine.versions(of: path(name)).map(\.size) == [3], "\(name)")
            }
            await account.stop()
        }
    }

    @Test func `what was sent of a file that stays open is no content that somebody saved`() async throws {
        try await blocking {
            let account = try EngineAccount { $0.openFileRest = .zero }
            try save(account, "one")
            try await account.settle()
            let handle = try account.tree.open("doc", O_RDWR)
            for letter in ["1", "2", "3"] {
                try account.tree.write(handle, at: 0, text(letter))
                try await account.settle()
                #expect(try SourceFolder(account.source).snapshot() == ["doc": text(letter + "ne")])
            }
            try account.tree.close(handle)
            #expect(try await history(account) == ["one"])
            try account.tree.append("doc", text(" more"))
            #expect(try await history(account) == ["3ne", "one"])
            await account.stop()
        }
    }

    @Test func `a large file changed in place has a version where the disk shares blocks`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try account.tree.write("doc", [UInt8](repeating: 1, count: 3 << 20))
            try await account.settle()
            try Command.run("dd", ["if=/dev/zero", "of=\(account.state)/probe", "bs=1M", "count=1", "status=none"])
            let reflink = try Command.run(
                "cp",
                ["--reflink=always", "\(account.state)/probe", "\(account.state)/probe2"],
                mayFail: true
            )
            try account.tree.overwrite("doc", at: 5, [2], mapped: false)
            let versions = try account.engine.versions(of: path("doc"))
            #expect(versions.map(\.size) == (reflink.status == 0 ? [3 << 20] : []))
            // What is too large to be kept is no reason to fail.
            #expect(try account.tree.size("doc") == 3 << 20)
            await account.stop()
        }
    }

    @Test(arguments: ["backup", "delete", "exchange"])
    func `other ways to save keep what was there`(way: String) async throws {
        try await blocking {
            let account = try await saved("one")
            try await account.settle()
            let document = try account.engine.item(at: path("doc")).documentID
            // Nothing is sent between the steps of a save.
            await account.engine.pause()
            switch way {
            case "backup":
                try account.tree.rename("doc", "doc~")
                try account.tree.write("doc", text("two"))
                try account.tree.unlink("doc~")
            case "delete":
                try account.tree.unlink("doc")
                try account.tree.write("doc", text("two"))
            default:
                try account.tree.write(".goutputstream-NEW123", text("two"))
                try account.tree.exchange(".goutputstream-NEW123", "doc")
                try account.tree.unlink(".goutputstream-NEW123")
            }
            #expect(try account.engine.item(at: path("doc")).documentID == document)
            #expect(try await history(account) == ["one"])
            await account.engine.resume()
            try await account.settle()
            #expect(try SourceFolder(account.source).snapshot() == ["doc": text("two")])
            #expect(try await history(account) == ["one"])
            #expect(account.engine.trash().isEmpty)
            await account.stop()
            #expect(try account.repair() == RepairReport())
        }
    }

    @Test func `a backup that is changed or evicted later is not the version any more`() async throws {
        try await blocking {
            let account = try await saved("one")
            try await account.settle()
            try account.tree.rename("doc", "doc.bak")
            try account.tree.write("doc", text("two"))
            #expect(try await history(account) == ["one"])
            try account.tree.append("doc.bak", text(" more"))
            #expect(try await history(account) == ["one"])
            #expect(try account.tree.read("doc.bak") == text("one more"))
            try await account.settle()
            #expect(await account.evict("doc.bak"))
            #expect(try await history(account) == ["one"])
            await account.stop()
            #expect(try account.repair() == RepairReport())
        }
    }

    @Test func `a remote change keeps what was here, and nothing of what was not`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try source.save("doc", text("one"))
            try source.save("other", text("one"))
            #expect(try account.tree.list("").count == 2)
            #expect(try account.tree.read("doc") == text("one"))
            try source.save("doc", text("two"))
            try source.save("other", text("two"))
            try await account.settle()
            #expect(try await history(account) == ["one"])
            #expect(try await history(account, "other") == [])
            #expect(try account.engine.versions(of: path("doc")).map(\.host) == [nil])
            #expect(try account.tree.read("doc") == text("two"))
            await account.stop()
        }
    }

    @Test func `what a program can still write to is no version`() async throws {
        try await blocking {
            let account = try await saved("one")
            try await account.settle()
            let handle = try account.tree.open("doc", O_RDWR)
            try save(account, "two")
            try account.tree.write(handle, at: 0, text("late"))
            #expect(try await history(account).isEmpty)
            try account.tree.close(handle)
            let reader = try account.tree.open("doc", O_RDONLY)
            try save(account, "three")
            #expect(try await history(account) == ["two"])
            #expect(try account.tree.read(reader) == text("two"))
            try account.tree.close(reader)
            #expect(try await history(account) == ["two"])
            await account.stop()
            #expect(try account.repair() == RepairReport())
        }
    }

    @Test func `the oldest go, by count and by age`() async throws {
        try await blocking {
            let account = try EngineAccount { $0.keptVersions = 3 }
            for number in 0...6 { try save(account, "\(number)") }
            #expect(try await history(account) == ["5", "4", "3"])
            await account.stop()
            let change = "UPDATE versions SET replaced = 1 WHERE size > 0 AND id < (SELECT max(id) FROM versions)"
            try Command.run("sqlite3", ["\(account.state)/catalog.db", change])
            try account.reopen()
            try waitUntil("the old ones are gone") { try account.engine.versions(of: path("doc")).count == 1 }
            #expect(try await history(account) == ["5"])
            await account.stop()
            #expect(try account.repair() == RepairReport())
        }
    }

    @Test func `versions go first when room is needed, the newest of each document last`() async throws {
        try await blocking {
            let account = try EngineAccount { $0.cacheLimit = 350 << 10 }
            func fill(_ name: String, _ letter: String) throws {
                try save(account, String(repeating: letter, count: 50 << 10), name)
            }
            try fill("other", "x")
            try fill("other", "y")
            for letter in ["a", "b", "c", "d", "e"] { try fill("doc", letter) }
            try await account.settle()
            try fill("doc", "f")
            // 400 KiB are here, and a tenth less than the limit may be: two have to go.
            try waitUntil("there is room") { account.engine.accountStatus().residentBytes <= 315 << 10 }
            #expect(try await history(account).map { $0.prefix(1) } == ["e", "d", "c"])
            #expect(try await history(account, "other").map { $0.prefix(1) } == ["x"])
            #expect(try account.tree.read("doc").first == UInt8(ascii: "f"))
            await account.stop()
            #expect(try account.repair() == RepairReport())
        }
    }
}
