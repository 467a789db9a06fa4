import CoveCore
import CoveEngine
import CoveTestSupport
import Foundation
import Testing

/// What a start makes of a state that the power's failure left behind.
@Suite struct PowerTests {
    private static let base = Array(repeating: UInt8(ascii: "b"), count: 300_000)

    /// The one document was sent, without an answer, and changed once more.
    private static let sentAndChanged = """
        INSERT INTO underway
            SELECT e.document, e.parent, e.name, 0, e.remote_id IS NULL, i.size, i.id, i.generation, i.mtime, NULL
            FROM entries e JOIN items i ON i.id = e.item;
        UPDATE items SET generation = generation + 1, synced = 0 WHERE kind = 0
        """

    private func text(_ string: String) -> [UInt8] { Array(string.utf8) }

    /// The machine went down: another boot.
    private func reboot(_ state: String) throws {
        try query(state, "INSERT OR REPLACE INTO meta VALUES('boot', x'00')")
    }

    @discardableResult
    private func query(_ state: String, _ sql: String) throws -> String {
        try Command.run("sqlite3", ["-cmd", ".timeout 5000", "\(state)/catalog.db", sql]).output
    }

    /// An account that sends nothing, with a file of which only the bytes written to it are here, and those are synced.
    private func accountWithPart() async throws -> (EngineAccount, ItemID) {
        let account = try EngineAccount()
        try SourceFolder(account.source).save("f", Self.base)
        #expect(try account.tree.list("") == ["f": .file])
        await account.engine.pause()
        try await account.setOffline(true)
        let id = try account.tree.open("f")
        try account.tree.write(id, at: 1000, text("first"))
        try account.engine.fsync(id, dataOnly: true)
        return (account, id)
    }

    private func expect(_ account: EngineAccount, changed: [Int: String]) async throws {
        var expected = Self.base
        for (offset, string) in changed {
            expected.replaceSubrange(offset..<(offset + string.count), with: text(string))
        }
        try await account.setOffline(false)
        await account.engine.resume()
        try await account.settle()
        #expect(try account.tree.list("") == ["f": .file])
        #expect(try account.tree.read("f") == expected)
        #expect(try SourceFolder(account.source).snapshot() == ["f": expected])
        await account.stop()
    }

    @Test func `what was synced stays when the rest of the file comes after it`() async throws {
        try await blocking {
            let (account, id) = try await accountWithPart()
            try await account.setOffline(false)
            try await account.download("f")
            try waitUntil("all of it is recorded") {
                try query(account.state, "SELECT state FROM items WHERE id = 2") == "0\n"
            }
            try await account.die(reboot)
            withExtendedLifetime(id) {}
            try await expect(account, changed: [1000: "first"])
        }
    }

    @Test func `what was synced stays when a program writes on while the rest is not here`() async throws {
        try await blocking {
            let (account, id) = try await accountWithPart()
            try account.tree.write(id, at: 200_000, text("second"))
            try account.engine.flush(id)
            try await account.die(reboot)
            try await expect(account, changed: [1000: "first", 200_000: "second"])
        }
    }

    @Test func `what was synced stays when the next start writes on while the rest is not here`() async throws {
        try await blocking {
            let (account, _) = try await accountWithPart()
            try await account.die { _ in }
            let id = try account.tree.open("f")
            try account.tree.write(id, at: 200_000, text("second"))
            try account.tree.close(id)
            try await account.die(reboot)
            try await expect(account, changed: [1000: "first", 200_000: "second"])
        }
    }

    @Test func `a cut of what was synced in part is finished`() async throws {
        try await blocking {
            let (account, _) = try await accountWithPart()
            try await account.die { state in
                try reboot(state)
                let file = try #require(FileHandle(forWritingAtPath: "\(state)/content/2/2"))
                try file.truncate(atOffset: 1002)
            }
            try await account.setOffline(false)
            await account.engine.resume()
            try await account.settle()
            let expected = Self.base.prefix(1000) + text("fi")
            #expect(try SourceFolder(account.source).snapshot() == ["f": Array(expected)])
            #expect(try account.tree.read("f") == Array(expected))
            await account.stop()
        }
    }

    @Test func `a document whose sending was not answered gets the provider's bytes when its own are lost`()
        async throws
    {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try source.save("f", text("one"))
            #expect(try account.tree.read("f") == text("one"))
            await account.engine.pause()
            try account.tree.write("f", text("two two"))
            let before = try account.keepState()
            await account.engine.resume()
            try await account.settle()
            #expect(try source.snapshot() == ["f": text("two two")])
            // It was sent, and changed once more, when the power failed.
            try await account.restart(from: before) { state in
                try reboot(state)
                try query(state, Self.sentAndChanged)
            }
            try await account.settle()
            #expect(try account.tree.read("f") == text("two two"))
            #expect(try account.tree.list("").count == 2)
            #expect(Set(try source.snapshot().values) == [text("two two")])
            await account.stop()
        }
    }

    @Test func `torn bytes of a new document do not replace what was sent of it`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            await account.engine.pause()
            try account.tree.write("f", text("one"))
            let before = try account.keepState()
            await account.engine.resume()
            try await account.settle()
            try await account.restart(from: before) { state in
                try reboot(state)
                try query(state, Self.sentAndChanged)
                try Data(count: 3).write(to: URL(fileURLWithPath: "\(state)/content/2/2"))
            }
            try await account.settle()
            #expect(try account.tree.read("f") == text("one"))
            #expect(try source.snapshot()["f"] == text("one"))
            #expect(try Set(source.snapshot().values) == [text("one"), [0, 0, 0]])
            await account.stop()
        }
    }

    @Test func `a sync makes names durable even where it changes nothing itself`() async throws {
        try await blocking {
            let place = try TemporaryDirectory("cove-power")
            let disk = try LoopDisk(in: place.path, megabytes: 64)
            let account = try EngineAccount(states: disk.path)
            try SourceFolder(account.source).save("f", text("one"))
            await account.engine.pause()
            let id = try account.tree.open("f")
            let names = (0..<8).map { "d\($0)" }
            for name in names {
                try account.tree.makeDirectory(name)
                try account.engine.fsync(id, dataOnly: false)
            }
            try disk.fail()
            let survivor = try LoopDisk(in: place.appending("survivor"), copying: disk)
            try await account.restart(from: "\(survivor.path)/state0") { _ in }
            #expect(try Set(account.tree.list("").keys) == Set(names + ["f"]))
            await account.stop()
        }
    }

    @Test func `what was sent is known after the power failed`() async throws {
        try await blocking {
            let place = try TemporaryDirectory("cove-power")
            let disk = try LoopDisk(in: place.path, megabytes: 64)
            let account = try EngineAccount(states: disk.path) { $0.tombstoneTime = .zero }
            let source = SourceFolder(account.source)
            try source.save("f", text("old"))
            #expect(try account.tree.read("f") == text("old"))
            let moved = try document("f", account)
            await account.engine.pause()
            try account.tree.rename("f", "g")
            try account.tree.write("f", text("new"))
            await account.engine.resume()
            try await account.settle()
            try disk.fail()
            let survivor = try LoopDisk(in: place.appending("survivor"), copying: disk)
            try await account.restart(from: "\(survivor.path)/state0", reboot)
            try await account.settle()
            // What lies at its old name is no new version of it.
            #expect(try document("g", account) == moved)
            #expect(try document("f", account) != moved)
            #expect(try source.snapshot() == ["f": text("new"), "g": text("old")])
            #expect(try account.tree.list("").count == 2)
            await account.stop()
        }
    }

    private func document(_ path: String, _ account: EngineAccount) throws -> [UInt8] {
        try account.engine.extendedAttribute(account.tree.resolve(path), text("user.cove.docid"))
    }

    @Test func `a part of a document whose rest is gone is kept, and said to be`() async throws {
        try await blocking {
            let (account, id) = try await accountWithPart()
            let source = SourceFolder(account.source)
            try source.save("f", text("other"))
            try await account.setOffline(false)
            try account.tree.close(id)
            await account.engine.resume()
            try await account.settle()
            let kept = "f (incomplete from here)"
            #expect(try account.tree.list("").keys.sorted() == ["f", kept])
            #expect(try account.tree.read("f") == text("other"))
            var expected = [UInt8](repeating: 0, count: Self.base.count)
            expected.replaceSubrange(1000..<1005, with: text("first"))
            #expect(try account.tree.read(kept) == expected)
            #expect(try source.snapshot() == ["f": text("other"), kept: expected])
            await account.stop()
        }
    }

    @Test func `what is written to a file that was just evicted is not taken for what was there`() async throws {
        try await blocking {
            let place = try TemporaryDirectory("cove-power")
            let disk = try LoopDisk(in: place.path, megabytes: 64)
            let account = try EngineAccount(states: disk.path)
            try SourceFolder(account.source).save("f", Self.base)
            let first = try account.tree.open("f")
            #expect(try account.tree.read(first) == Self.base)
            try account.engine.fsync(first, dataOnly: false)
            try account.tree.close(first)
            await account.engine.pause()
            try await account.setOffline(true)
            #expect(await account.evict("f"))
            try account.tree.write(account.tree.open("f"), at: 5000, text("new"))
            // The disk's own journal is written, and with it the sizes of all files.
            let other = try System.open("\(disk.path)/other", O_RDWR | O_CREAT)
            try System.fsync(other)
            System.close(other)
            try disk.fail()
            let survivor = try LoopDisk(in: place.appending("survivor"), copying: disk)
            try await account.setOffline(false)
            try await account.restart(from: "\(survivor.path)/state0", reboot)
            try await account.settle()
            #expect(try account.tree.read("f") == Self.base)
            #expect(try SourceFolder(account.source).snapshot() == ["f": Self.base])
            await account.stop()
        }
    }

    @Test func `a deletion whose answer was lost with that of a change before it is over`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try source.save("f", text("one"))
            #expect(try account.tree.list("") == ["f": .file])
            await account.engine.pause()
            try account.tree.unlink("f")
            let before = try account.keepState()
            await account.engine.resume()
            try await account.settle()
            try await account.restart(from: before) { state in
                try reboot(state)
                try query(state, "UPDATE trash SET remote_id = x'31', remote_version = x'31'")
            }
            try await account.settle()
            #expect(try account.tree.list("").isEmpty)
            #expect(try source.snapshot().isEmpty)
            #expect(account.engine.trash().count == 1)
            await account.stop()
        }
    }
}
