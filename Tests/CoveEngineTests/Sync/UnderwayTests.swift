import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// What was sent before the daemon died, and changed before the next one sends again.
@Suite struct UnderwayTests {
    private static let sent = """
        INSERT INTO underway
            SELECT e.document, e.parent, e.name, 0, e.remote_id IS NULL, i.size, i.id, i.generation, i.mtime
            FROM entries e JOIN items i ON i.id = e.item;
        UPDATE journal SET sent = 1
        """

    private func text(_ string: String) -> [UInt8] { Array(string.utf8) }

    /// An account that is paused, whose one document has arrived at the source without an answer.
    private func account(isNew: Bool) async throws -> EngineAccount {
        let account = try EngineAccount()
        if !isNew {
            try account.tree.write("f", text("base"))
            try await account.settle()
        }
        await account.engine.pause()
        try account.tree.write("f", text("sent"))
        let before = try account.keepState()
        await account.engine.resume()
        try await account.settle()
        #expect(try SourceFolder(account.source).snapshot() == ["f": text("sent")])
        try await account.restart(from: before) { state in
            try Command.run("sqlite3", ["-cmd", ".timeout 5000", "\(state)/catalog.db", Self.sent])
        }
        // It has looked what became of it, and waits.
        await account.engine.connected.pass()
        return account
    }

    private func expect(_ account: EngineAccount, _ files: [String: String]) async throws {
        await account.engine.resume()
        try await account.settle()
        let found = try SourceFolder(account.source).snapshot().mapValues { String(decoding: $0 ?? [], as: UTF8.self) }
        #expect(found == files, "\(account.state)")
        #expect(try account.tree.list("").keys.sorted() == files.keys.sorted())
        for (path, content) in files { #expect(try account.tree.read(path) == text(content)) }
        #expect(try account.engine.catalog.read { database throws(Errno) in try database.underway().count } == 0)
        await account.stop()
    }

    @Test(arguments: [true, false])
    func `a document that has arrived and is renamed is at one place`(isNew: Bool) async throws {
        try await blocking {
            let account = try await account(isNew: isNew)
            try account.tree.rename("f", "g")
            try await expect(account, ["g": "sent"])
        }
    }

    @Test(arguments: [true, false])
    func `a document that has arrived and is deleted is gone`(isNew: Bool) async throws {
        try await blocking {
            let account = try await account(isNew: isNew)
            try account.tree.unlink("f")
            try await expect(account, [:])
        }
    }

    @Test(arguments: [true, false])
    func `a document that has arrived, is renamed and changed is one`(isNew: Bool) async throws {
        try await blocking {
            let account = try await account(isNew: isNew)
            try account.tree.rename("f", "g")
            try account.tree.write("g", text("changed"))
            try account.tree.write("f", text("another"))
            try await expect(account, ["f": "another", "g": "changed"])
        }
    }

    @Test(arguments: [true, false])
    func `a document that has arrived and is replaced has the new bytes alone`(isNew: Bool) async throws {
        try await blocking {
            let account = try await account(isNew: isNew)
            try account.tree.write("f.part", text("replaced"))
            try account.tree.rename("f.part", "f")
            try await expect(account, ["f": "replaced"])
        }
    }

    @Test(arguments: [true, false])
    func `a document that has arrived is told of once`(isNew: Bool) async throws {
        try await blocking {
            let account = try await account(isNew: isNew)
            try await expect(account, ["f": "sent"])
        }
    }
}
