import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// Content files that are gone or shorter than they were, as after a repair of the disk.
@Suite(.timeLimit(.minutes(2))) struct LostBytesTests {
    enum Loss: CaseIterable { case all, end, bytes }

    private static let bytes = (0..<50_000).map { UInt8(truncatingIfNeeded: $0 &* 11 ^ $0 >> 8 | 1) }
    private static let good = Array("good".utf8)

    private func lose(_ loss: Loss, of id: ItemID, in state: String) throws {
        let file = "\(state)/content/\(String(id.rawValue & 0xFF, radix: 16))/\(id.rawValue)"
        switch loss {
        case .all: try System.unlink(file)
        case .end: try Command.run("truncate", ["-s", "30000", file])
        case .bytes: try Command.run("truncate", ["-s", "0", file])
        }
    }

    private func query(_ state: String, _ text: String) throws {
        try Command.run("sqlite3", ["\(state)/catalog.db", text])
    }

    enum Use: CaseIterable { case read, append, cut, punch, copy, sync }

    /// Uses the file; what it is to hold then.
    private func apply(_ use: Use, _ name: String, _ account: EngineAccount) throws -> [UInt8] {
        let id = try account.tree.resolve(name)
        var wanted = Self.bytes
        switch use {
        case .read: break
        case .sync: try account.engine.fsync(id, dataOnly: false)
        case .append:
            try account.tree.append(name, [1, 2, 3])
            wanted += [1, 2, 3]
        case .cut:
            try account.tree.truncate(name, to: 40_000)
            wanted.removeSubrange(40_000...)
        case .punch:
            let hole = Allocation.punches | Allocation.keepsSize
            try account.engine.allocate(id, mode: hole, offset: 100, length: 1000)
            wanted.replaceSubrange(100..<1100, with: repeatElement(0, count: 1000))
        case .copy:
            try account.tree.write("copy", [])
            let copy = try account.tree.resolve("copy")
            // The kernel reads and writes them instead.
            #expect(throws: Errno.notSupported) {
                try account.engine.copyRange(from: id, at: 0, to: copy, at: 0, count: 50_000)
            }
        }
        return wanted
    }

    /// Uses the file, which is then as it should be, here and at the source.
    private func use(_ use: Use, _ name: String, _ account: EngineAccount) async throws {
        let wanted = try apply(use, name, account)
        #expect(try account.tree.read(name) == wanted)
        try await account.settle()
        #expect(try SourceFolder(account.source).snapshot()[name] == wanted)
        await account.stop()
        #expect(try account.repair().findings == [])
    }

    @Test(arguments: Loss.allCases, Use.allCases)
    func `bytes that the source has too are fetched again`(loss: Loss, use: Use) async throws {
        try await blocking {
            let account = try EngineAccount()
            try SourceFolder(account.source).save("f", Self.bytes)
            #expect(try account.tree.read("f") == Self.bytes)
            try await account.settle()
            let id = try account.tree.resolve("f")
            try await account.restart { state in try lose(loss, of: id, in: state) }
            try await self.use(use, "f", account)
        }
    }

    enum Here: CaseIterable { case all, part }

    @Test(arguments: Loss.allCases, Here.allCases)
    func `a death before a new name is sent changes none of that`(loss: Loss, here: Here) async throws {
        try await blocking {
            let account = try EngineAccount()
            try SourceFolder(account.source).save("f", Self.bytes)
            #expect(try account.tree.read("f") == Self.bytes)
            try await account.settle()
            try await account.setOffline(true)
            try account.tree.rename("f", "g")
            let id = try account.tree.resolve("g")
            try await account.die { state in
                try lose(loss, of: id, in: state)
                if here == .all { return }
                try query(
                    state,
                    """
                    UPDATE items SET state = 2, resident = 40000, version =
                        (SELECT remote_version FROM entries WHERE item = \(id.rawValue)) WHERE id = \(id.rawValue);
                    INSERT INTO ranges VALUES(\(id.rawValue), 0, 40000);
                    """
                )
            }
            #expect(try account.tree.size("g") == Self.bytes.count)
            try await account.setOffline(false)
            try await account.settle()
            try await use(.append, "g", account)
        }
    }

    enum Change: CaseIterable { case part, all, new }

    /// Changes a file of which the source has other bytes, or none.
    private func apply(_ change: Change, _ account: EngineAccount) async throws -> ItemID {
        if change != .new { try SourceFolder(account.source).save("f", Self.good) }
        #expect(try account.tree.list("").isEmpty == (change == .new))
        if change == .all { #expect(try account.tree.read("f") == Self.good) }
        try await account.settle()
        try await account.setOffline(true)
        if change == .part {
            try account.tree.overwrite("f", at: 1, Array("00".utf8), mapped: false)
        } else {
            try account.tree.write("f", Self.bytes)
        }
        return try account.tree.resolve("f")
    }

    @Test(arguments: Change.allCases)
    func `a content file that is gone after a death is no empty file`(change: Change) async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            let id = try await apply(change, account)
            try await account.die { state in try lose(.all, of: id, in: state) }
            try await account.setOffline(false)
            if change == .new {
                #expect(throws: Errno.inputOutput) { try account.tree.read("f") }
                await account.engine.sync(nil, acceptDeletions: true, acceptLocalDeletions: true)
                try waitUntil("the trouble is shown") {
                    account.engine.accountStatus().errors.contains { $0.path == "f" }
                }
                #expect(try source.snapshot().isEmpty)
            } else {
                try await account.settle()
                #expect(try account.tree.read("f") == Self.good)
                #expect(try source.snapshot() == ["f": Self.good])
            }
            await account.stop()
        }
    }

    @Test(arguments: Loss.allCases)
    func `bytes that only this device had are no zeros, and are not sent`(loss: Loss) async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            let id = try await apply(.all, account)
            try await account.restart { state in try lose(loss, of: id, in: state) }
            #expect(throws: Errno.inputOutput) { try account.tree.read("f") }
            #expect(throws: Errno.inputOutput) { try account.tree.append("f", [1]) }
            #expect(throws: Errno.inputOutput) { try account.tree.truncate("f", to: 60_000) }
            try await account.setOffline(false)
            await account.engine.sync(nil, acceptDeletions: true, acceptLocalDeletions: true)
            try waitUntil("the trouble is shown") { account.engine.accountStatus().errors.contains { $0.path == "f" } }
            #expect(try source.snapshot()["f"] == Self.good)
            // Its name is free for what a person has elsewhere.
            try account.tree.unlink("f")
            try account.tree.write("f", Self.bytes)
            try await account.settle()
            #expect(try source.snapshot()["f"] == Self.bytes)
            await account.stop()
        }
    }

    @Test(arguments: Change.allCases, [true, false])
    func `whoever needs none of the lost bytes can write others`(change: Change, opens: Bool) async throws {
        try await blocking {
            let account = try EngineAccount()
            let id = try await apply(change, account)
            try await account.restart { state in
                try lose(.all, of: id, in: state)
                if change == .part { return }
                try query(
                    state,
                    """
                    INSERT INTO versions(document, item, size, mtime, replaced) SELECT e.document, i.id, i.size, 1, 1
                        FROM entries e JOIN items i ON i.id = e.item WHERE i.id = \(id.rawValue)
                    """
                )
            }
            let new = Array("new".utf8)
            if opens {
                try account.tree.write("f", new)
            } else {
                try account.tree.truncate("f", to: 0)
                #expect(try account.tree.read("f").isEmpty)
                try account.tree.append("f", new)
            }
            #expect(try account.tree.read("f") == new)
            // What stood for them is no version.
            let versions = try account.engine.versions(of: RemotePath(unchecked: Array("f".utf8)))
            #expect(versions.allSatisfy { $0.size == Self.good.count })
            try await account.setOffline(false)
            try await account.settle()
            #expect(try SourceFolder(account.source).snapshot() == ["f": new])
            await account.stop()
            #expect(try account.repair().findings == [])
        }
    }

    @Test func `a file that can't be cut is as lost as before`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let id = try await apply(.all, account)
            try await account.restart { state in try lose(.end, of: id, in: state) }
            let opened = try account.tree.open("f", O_RDONLY)
            let database = try Database(
                path: account.engine.catalog.path,
                disk: account.engine.disk,
                log: account.engine.log
            )
            try database.execute(
                "CREATE TRIGGER fault BEFORE UPDATE ON items BEGIN SELECT RAISE(ABORT, 'a test'); END"
            )
            #expect(throws: Errno.self) { try account.tree.truncate("f", to: 0) }
            try database.execute("DROP TRIGGER fault")
            #expect(throws: Errno.inputOutput) { try account.tree.read(opened, at: 0, count: 10) }
            await account.stop()
        }
    }

    @Test(arguments: Loss.allCases)
    func `the kernel is not given what lacks bytes`(loss: Loss) async throws {
        try await blocking {
            let account = try EngineAccount()
            try SourceFolder(account.source).save("f", Self.bytes)
            #expect(try account.tree.read("f") == Self.bytes)
            try await account.settle()
            let id = try account.tree.resolve("f")
            try await account.restart { state in try lose(loss, of: id, in: state) }
            let kernel = PassingKernel(account.engine, state: account.state)
            #expect(try account.tree.open("f", O_RDONLY) == id)
            #expect(account.engine.backingNumber(of: id) == nil)
            #expect(try account.tree.read(id) == Self.bytes)
            withExtendedLifetime(kernel) {}
            await account.stop()
        }
    }

    @Test func `a file whose bytes are lost keeps no other one from being sent`() async throws {
        try await blocking {
            let account = try EngineAccount()
            #expect(try account.tree.list("").isEmpty)
            try await account.setOffline(true)
            for name in ["a", "b"] { try account.tree.write(name, Self.bytes) }
            let (one, lost) = (try account.tree.resolve("a"), try account.tree.resolve("b"))
            try await account.restart { state in
                try lose(.all, of: lost, in: state)
                try query(state, "UPDATE items SET synced = 0; UPDATE journal SET changed = 0, retry = 0")
            }
            let sync = try #require(account.engine.syncEngine)
            let host = await sync.host
            try host.syncAhead(of: one)
            let isSynced = try account.engine.catalog.read { database throws(Errno) in
                try database.existingItem(one).isSynced
            }
            #expect(isSynced)
            #expect(throws: Errno.inputOutput) { try host.syncAhead(of: lost) }
            await account.stop()
        }
    }

    @Test(arguments: [true, false])
    func `a hole at the end of a file that is not here is a part of it`(dies: Bool) async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try source.save("f", Self.bytes)
            #expect(try account.tree.list("") == ["f": .file])
            try await account.settle()
            try await account.setOffline(true)
            let id = try account.tree.open("f")
            let hole = Allocation.punches | Allocation.keepsSize
            try account.engine.allocate(id, mode: hole, offset: 40_000, length: 20_000)
            if dies { try await account.die() } else { try account.tree.close(id) }
            try await account.setOffline(false)
            let wanted = Self.bytes.prefix(40_000) + [UInt8](repeating: 0, count: 10_000)
            try await account.settle()
            #expect(try account.tree.read("f") == Array(wanted))
            #expect(try source.snapshot()["f"] == Array(wanted))
            await account.stop()
        }
    }
}
