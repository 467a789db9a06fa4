import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// Putting an earlier content back, conflicts, and what a death leaves of versions.
@Suite struct RestoreTests {
    private func text(_ string: String) -> [UInt8] { Array(string.utf8) }
    private let doc = RemotePath(unchecked: Array("doc".utf8))

    private func history(_ account: EngineAccount) async throws -> [String] {
        var contents: [String] = []
        for version in try account.engine.versions(of: doc) {
            let content = try await account.engine.versionContent(version.id, of: doc)
            contents.append(String(decoding: try content.read(at: 0, count: 1 << 20), as: UTF8.self))
        }
        return contents
    }

    /// Under a name that is never sent: a document of its own would take the place of the other one.
    private func save(_ account: EngineAccount, _ content: String) throws {
        try account.tree.write(".goutputstream-NEW123", text(content))
        try account.tree.rename(".goutputstream-NEW123", "doc")
    }

    /// An account whose document had three contents, all sent.
    private func account() async throws -> EngineAccount {
        let account = try EngineAccount()
        #expect(try account.tree.list("").isEmpty)
        for content in ["one", "two", "three"] {
            try save(account, content)
            try await account.settle()
        }
        let kept = try await history(account)
        try #require(kept == ["two", "one"])
        return account
    }

    private func id(_ account: EngineAccount, _ index: Int) throws -> String {
        try account.engine.versions(of: doc)[index].id
    }

    @Test func `a deleted file stays in the trash where a directory of another device has its name`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try account.tree.write("doc", text("the last bytes"))
            try await account.settle()
            await account.engine.pause()
            try account.tree.unlink("doc")
            try source.remove("doc")
            try source.makeDirectory("doc")
            try source.save("doc/below", text("other"))
            await account.engine.resume()
            try await account.settle()
            #expect(try account.tree.list("doc").keys.sorted() == ["below"])
            #expect(try source.snapshot()["doc/below"] == text("other"))
            #expect(account.engine.trash().map(\.path) == ["doc"])
            await account.stop()
        }
    }

    @Test func `restoring never destroys what it replaces`() async throws {
        try await blocking {
            let account = try await account()
            let caller = Caller(thread: 0, user: 0, group: 0)
            let current = try account.tree.resolve("doc")
            try account.engine.setExtendedAttribute(current, text("user.color"), text("red"), flags: 0, caller)
            let document = try account.engine.item(at: doc).documentID
            try await account.engine.restoreVersion(id(account, 1), of: doc)
            #expect(try account.tree.read("doc") == text("one"))
            #expect(try await history(account) == ["three", "two", "one"])
            #expect(try account.engine.item(at: doc).documentID == document)
            let restored = try account.tree.resolve("doc")
            #expect(try account.engine.extendedAttribute(restored, text("user.color")) == text("red"))
            try await account.settle()
            #expect(try SourceFolder(account.source).snapshot() == ["doc": text("one")])
            // And back again.
            try await account.engine.restoreVersion(id(account, 0), of: doc)
            #expect(try account.tree.read("doc") == text("three"))
            #expect(try await history(account) == ["one", "three", "two", "one"])
            try await account.settle()
            #expect(try SourceFolder(account.source).snapshot() == ["doc": text("three")])
            await account.stop()
            #expect(try account.repair() == RepairReport())
        }
    }

    @Test func `what a document has only at the source is fetched before another content takes its place`() async throws
    {
        try await blocking {
            let account = try await account()
            #expect(await account.evict("doc"))
            try await account.setOffline(true)
            let first = try id(account, 0)
            await #expect(throws: Errno.self) { try await account.engine.restoreVersion(first, of: doc) }
            #expect(try await history(account) == ["two", "one"])
            try await account.setOffline(false)
            try await account.settle()
            try await account.engine.restoreVersion(first, of: doc)
            #expect(try await history(account) == ["three", "two", "one"])
            #expect(try account.tree.read("doc") == text("two"))
            await account.stop()
        }
    }

    @Test func `a file that a program writes to is left alone`() async throws {
        try await blocking {
            let account = try await account()
            let first = try id(account, 0)
            let handle = try account.tree.open("doc", O_RDWR)
            try account.tree.write(handle, at: 0, text("T"))
            await #expect(throws: Errno.busy) { try await account.engine.restoreVersion(first, of: doc) }
            try account.tree.close(handle)
            #expect(try account.tree.read("doc") == text("Three"))
            await #expect(throws: Errno.noData) { try await account.engine.restoreVersion("9999", of: doc) }
            await #expect(throws: Errno.isDirectory) { try await account.engine.restoreVersion(first, of: .root) }
            try await account.settle()
            try await account.engine.restoreVersion(first, of: doc)
            #expect(try await history(account).prefix(2) == ["Three", "three"])
            await account.stop()
            #expect(try account.repair() == RepairReport())
        }
    }

    @Test func `a source that has changed meanwhile gets no restored content unseen`() async throws {
        try await blocking {
            let account = try await account()
            try await account.setOffline(true)
            try await account.engine.restoreVersion(id(account, 1), of: doc)
            try SourceFolder(account.source).save("doc", text("elsewhere"))
            try await account.setOffline(false)
            try await account.settle()
            let contents = try SourceFolder(account.source).snapshot().values.compactMap { $0 }
            #expect(Set(contents) == [text("elsewhere"), text("one")] && contents.count == 2)
            #expect(try account.tree.read("doc") == text("elsewhere"))
            await account.stop()
        }
    }

    @Test func `the other side of a conflict is a version until that is resolved`() async throws {
        try await blocking {
            let account = try await account()
            try await account.setOffline(true)
            try save(account, "here")
            try SourceFolder(account.source).save("doc", text("elsewhere"))
            try await account.setOffline(false)
            try await account.settle()
            #expect(try account.tree.read("doc") == text("elsewhere"))
            let copy = try #require(try account.engine.versions(of: doc).first { $0.isConflict })
            let copyPath = RemotePath(unchecked: text(copy.conflictPath ?? ""))
            #expect(copy.host == "here" && copy.isLocal && copy.size == 4)
            #expect(try await history(account).last == "here")
            let count = try account.engine.extendedAttribute(account.tree.resolve("doc"), text("user.cove.conflicts"))
            #expect(count == text("1"))
            try await account.engine.restoreVersion(copy.id, of: doc)
            #expect(try account.tree.read("doc") == text("here"))
            #expect(try await history(account).first == "elsewhere")
            #expect(throws: Errno.noData) { try account.engine.removeVersions(of: doc, copy.id) }
            #expect(try account.engine.resolveConflicts(of: doc, copy.id) == 1)
            #expect(throws: Errno.noData) { try account.engine.resolveConflicts(of: doc, copy.id) }
            #expect(throws: Errno.noSuchEntry) { try account.engine.item(at: copyPath) }
            let settled = RemotePath(
                unchecked: Array(copyPath.description.replacing("(conflict from", with: "(from").utf8)
            )
            #expect(try account.engine.conflicts().isEmpty && account.engine.item(at: settled).size == 4)
            #expect(try !account.engine.versions(of: doc).contains { $0.isConflict })
            await account.stop()
        }
    }

    @Test func `a version that is deleted leaves nothing behind`() async throws {
        try await blocking {
            let account = try await account()
            let before = account.engine.accountStatus().residentBytes
            #expect(try account.engine.removeVersions(of: doc, id(account, 0)) == 1)
            #expect(try await history(account) == ["one"])
            #expect(account.engine.accountStatus().residentBytes == before - 3)
            #expect(try account.engine.removeVersions(of: doc, nil) == 1)
            #expect(account.engine.accountStatus().residentBytes == 5)
            #expect(account.engine.statistics().items == 2)
            await account.stop()
            #expect(try account.contentFiles() == 1)
        }
    }

    @Test func `a death at any step leaves every version or none of it`() async throws {
        try await blocking {
            let account = try await account()
            let steps: [(EngineAccount) async throws -> Void] = [
                { try save($0, "four") },
                { try await $0.engine.restoreVersion(id($0, 1), of: doc) },
                { try await $0.settle() },
                { try $0.tree.write("doc", text("five")) },
                { _ = try $0.engine.removeVersions(of: doc, id($0, 0)) },
            ]
            for step in steps {
                try await step(account)
                let expected = try await history(account)
                let content = try account.tree.read("doc")
                try await account.die()
                #expect(try await history(account) == expected)
                #expect(try account.tree.read("doc") == content)
                try await account.setOffline(false)
            }
            try await account.settle()
            await account.stop()
            #expect(try account.repair() == RepairReport())
        }
    }

    @Test func `a death before a copy is recorded leaves no trace of it`() async throws {
        try await blocking {
            let account = try await account()
            // A row of a copy that nothing keeps, and its file.
            try await account.die { state in
                let row = """
                    INSERT INTO items SELECT 5000, kind, mode, uid, gid, 0, 0, size, atime, mtime, ctime, 0, 1, NULL, size, 0,
                        used, NULL, NULL, 0 FROM items WHERE kind = 0 AND nlink = 1 LIMIT 1
                    """
                try Command.run("sqlite3", ["\(state)/catalog.db", row])
                try FileManager.default.createDirectory(
                    atPath: "\(state)/content/88",
                    withIntermediateDirectories: true
                )
                try Data("three".utf8).write(to: URL(fileURLWithPath: "\(state)/content/88/5000"))
            }
            #expect(try await history(account) == ["two", "one"])
            await account.stop()
            #expect(try account.contentFiles() == 3)
            #expect(try account.repair() == RepairReport())
        }
    }

    @Test func `after a power cut no version has other bytes than it had`() async throws {
        try await blocking {
            let account = try await account()
            try await account.losePower()
            #expect(try account.engine.versions(of: doc).isEmpty)
            try await account.settle()
            #expect(try account.tree.read("doc") == text("three"))
            try save(account, "four")
            #expect(try await history(account) == ["three"])
            await account.stop()
            #expect(try account.repair() == RepairReport())
        }
    }
}

extension EngineAccount {
    /// How many content files there are.
    fileprivate func contentFiles() throws -> Int {
        try Command.run("find", ["\(state)/content", "-type", "f"]).output.split(separator: "\n").count
    }
}
