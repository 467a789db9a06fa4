import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// What a program is told of a directory that it has open while somebody removes it.
@Suite struct RemovedDirectoryTests {
    /// Asks for a directory's attributes without a pause while the body removes it, until they tell that it is removed.
    private func attributes(of directory: ItemID, in engine: Engine, while body: () throws -> Void) throws -> Result<
        ItemAttributes, Errno
    > {
        let isAsking = DispatchSemaphore(value: 0)
        let isOver = DispatchSemaphore(value: 0)
        let last = Mutex<Result<ItemAttributes, Errno>?>(nil)
        Thread.detachNewThread {
            defer { isOver.signal() }
            let end = System.monotonic() + .seconds(30)
            while System.monotonic() < end {
                let found: Result<ItemAttributes, Errno>
                do throws(Errno) { found = .success(try engine.attributes(of: directory)) } catch {
                    found = .failure(error)
                }
                last.withLock { $0 = found }
                isAsking.signal()
                guard case .success(let attributes) = found, attributes.linkCount > 0 else { return }
            }
        }
        isAsking.wait()
        try body()
        isOver.wait()
        return try #require(last.withLock { $0 })
    }

    @Test func `has attributes at every moment`() async throws {
        try await blocking {
            let account = try EngineAccount()
            for number in 0..<1000 {
                try account.tree.makeDirectory("d\(number)")
                let id = try account.tree.resolve("d\(number)")
                let found = try attributes(of: id, in: account.engine) {
                    try account.tree.removeDirectory("d\(number)")
                }
                #expect(try found.get().linkCount == 0)
                account.engine.forget(id)
            }
            await account.stop()
        }
    }

    @Test func `has attributes when another device has removed it`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try source.makeDirectory("d")
            #expect(try account.tree.list("") == ["d": .directory])
            #expect(try account.tree.list("d") == [:])
            let id = try account.tree.resolve("d")
            let found = try attributes(of: id, in: account.engine) { try source.remove("d") }
            #expect(try found.get().linkCount == 0)
            // By its path nobody comes to it any more.
            #expect(throws: Errno.stale) {
                _ = try account.engine.openDirectory(id, Caller(thread: 7, user: 0, group: 0))
            }
            account.engine.forget(id)
            #expect(throws: Errno.stale) { try account.engine.attributes(of: id) }
            await account.stop()
        }
    }

    @Test func `has attributes in the next daemon, until the kernel has forgotten it`() throws {
        let ledger = try HandleLedger()
        let rows = [ItemID(7), ItemID(8)].map { id in
            var row = ItemRow(kind: .directory, permissions: 0o1751, user: 70_000, group: .max, now: Timestamp(5))
            row.id = id
            row.accessTime = Timestamp(-3)
            return row
        }
        let before = RemovedDirectories(ledger)
        // More than a piece of the ledger holds, and each record is used again.
        for number in 0..<2000 {
            var other = ItemRow(kind: .directory, permissions: 0o700, user: 0, group: 0, now: .epoch)
            other.id = ItemID(100 + UInt64(number))
            before.insert(other, at: .epoch, isDead: number % 2 == 0)
        }
        for number in 0..<2000 { before.remove(ItemID(100 + UInt64(number))) }
        for (row, isDead) in zip(rows, [true, false]) { before.insert(row, at: Timestamp(9), isDead: isDead) }
        let next = try HandleLedger(inherited: dup(ledger.descriptor))
        // An open item finds no record that is in use.
        #expect(try #require(next.allocate()).removed == nil)
        let after = RemovedDirectories(next)
        for row in rows {
            var expected = row.attributes
            expected.linkCount = 0
            expected.changeTime = Timestamp(9)
            #expect(after.attributes(of: row.id) == expected)
            #expect(after.isDead(row.id) == (row.id == ItemID(7)))
        }
        #expect(after.attributes(of: ItemID(100)) == nil)
        for row in rows { after.remove(row.id) }
        let last = RemovedDirectories(try HandleLedger(inherited: dup(ledger.descriptor)))
        #expect(rows.allSatisfy { last.attributes(of: $0.id) == nil })
    }

    @Test func `is none any more when it was not removed after all`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let namespace = account.engine.namespace
            let removed = namespace.removedDirectories
            try account.tree.makeDirectory("d")
            let id = try account.tree.resolve("d")
            _ = try account.tree.list("d")
            let row = try #require(try namespace.catalog.read { database throws(Errno) in try database.item(id) })
            #expect(throws: Errno.noSpace) {
                try namespace.catalog.write { database throws(Errno) in
                    #expect(try namespace.drop(row, database))
                    throw Errno.noSpace
                }
            }
            #expect(removed.attributes(of: id) == nil)
            // A daemon died between the note and the commit.
            namespace.noteRemoved(row, at: .epoch)
            try namespace.takeOver()
            #expect(removed.attributes(of: id) == nil)
            try account.tree.removeDirectory("d")
            try namespace.takeOver()
            #expect(removed.attributes(of: id)?.linkCount == 0)
            account.engine.forget(id)
            await account.stop()
        }
    }
}
