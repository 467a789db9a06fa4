import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// Files that are here in part, whose other bytes go at the source.
@Suite struct PartialFileTests {
    private static let size = 40_000_000

    /// What makes a source give no more bytes, so that a file stays here in part however long a test takes.
    private final class Tap: Sendable {
        let isClosed = Atomic<Bool>(false)

        func account() throws -> EngineAccount {
            try EngineAccount(
                wrap: { [self] in
                    MeddledProvider(
                        $0,
                        refuseFetch: { [self] _ in
                            isClosed.load(ordering: .acquiring) ? .failed("it gives no more", nil) : nil
                        }
                    )
                },
                configure: { $0.settleTime = .zero }
            )
        }
    }

    /// An account with a file in part, changed there or not, that was moved out of a folder which another device has deleted
    /// since; paused.
    private func bereft(isChanged: Bool) async throws -> EngineAccount {
        let tap = Tap()
        let account = try tap.account()
        let (engine, tree, source) = (account.engine, account.tree, SourceFolder(account.source))
        for folder in ["from", "to"] { try source.makeDirectory(folder) }
        try source.save("from/file", [UInt8](repeating: 7, count: Self.size))
        for folder in ["", "from", "to"] { _ = try tree.list(folder) }
        try await account.settle()
        await engine.pause()
        let id = try tree.open("from/file")
        #expect(try tree.read(id, at: 0, count: 100) == [UInt8](repeating: 7, count: 100))
        tap.isClosed.store(true, ordering: .releasing)
        if isChanged { try tree.write(id, at: 10, [1, 2, 3]) }
        try tree.close(id)
        try waitUntil("a part of it is known to be here") {
            try engine.catalog.read { database throws(Errno) in try database.item(id)?.residency } == .partial
        }
        try tree.rename("from/file", "to/file")
        try source.removeAtOnce("from")
        await engine.sync(nil, acceptDeletions: true, acceptLocalDeletions: false)
        try waitUntil("the folder is gone") { try tree.list("")["from"] == nil }
        return account
    }

    /// An account with a file in part, which a program has changed; paused, and its source gives no more.
    private func partlyChanged(_ tap: Tap) async throws -> EngineAccount {
        let account = try tap.account()
        let (engine, tree) = (account.engine, account.tree)
        try SourceFolder(account.source).save("file", [UInt8](repeating: 7, count: Self.size))
        _ = try tree.list("")
        try await account.settle()
        await engine.pause()
        let id = try tree.open("file")
        #expect(try tree.read(id, at: 0, count: 100) == [UInt8](repeating: 7, count: 100))
        tap.isClosed.store(true, ordering: .releasing)
        try tree.write(id, at: 10, [1, 2, 3])
        try tree.close(id)
        try waitUntil("a part of it is known to be here") {
            try engine.catalog.read { database throws(Errno) in try database.item(id)?.residency } == .partial
        }
        return account
    }

    @Test(arguments: [true, false])
    func `zeros never stand for bytes that are gone under a file's own name`(isChanged: Bool) async throws {
        try await blocking {
            let account = try await bereft(isChanged: isChanged)
            let (engine, tree, source) = (account.engine, account.tree, SourceFolder(account.source))
            await engine.resume()
            try await account.settle()
            let there = try source.snapshot()
            #expect(there.keys.contains("to") && there["to/file"] == nil)
            let left = try tree.list("to").keys
            if isChanged {
                let name = try #require(left.first { $0.contains("incomplete") })
                var expected = [UInt8](repeating: 7, count: 100)
                expected.replaceSubrange(10..<13, with: [1, 2, 3])
                #expect(left.count == 1 && there["to/\(name)"]??.prefix(100) == expected[...])
            } else {
                #expect(left.isEmpty && there.count == 1)
            }
            await account.stop()
            #expect(try account.repair() == RepairReport())
        }
    }

    @Test func `what was written into a file in part is in the trash when another device has changed the deleted file`()
        async throws
    {
        try await blocking {
            let tap = Tap()
            let account = try await partlyChanged(tap)
            let (engine, tree, source) = (account.engine, account.tree, SourceFolder(account.source))
            try tree.unlink("file")
            try source.save("file", Array("theirs".utf8))
            tap.isClosed.store(false, ordering: .releasing)
            await engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
            try waitUntil("the other one is here") { (try? tree.read("file")) == Array("theirs".utf8) }
            let kept = try #require(engine.trash().first)
            #expect(kept.path.contains("incomplete") && kept.size == Int64(Self.size), "\(kept)")
            let path = try await engine.restore(kept.documentID).description
            #expect(path.contains("incomplete"))
            let restored = try tree.open(path)
            #expect(try tree.read(restored, at: 10, count: 4) == [1, 2, 3, 7])
            try tree.close(restored)
            await engine.resume()
            try await account.settle()
            #expect(try tree.read("file") == Array("theirs".utf8))
            await account.stop()
            #expect(try account.repair() == RepairReport())
        }
    }

    @Test func `what was written into a file in part is in the trash when it is deleted everywhere`() async throws {
        try await blocking {
            let tap = Tap()
            let account = try await partlyChanged(tap)
            let (engine, tree, source) = (account.engine, account.tree, SourceFolder(account.source))
            try tree.unlink("file")
            try source.remove("file")
            await engine.resume()
            try await account.settle()
            let kept = try #require(engine.trash().first)
            #expect(kept.path.contains("incomplete") && kept.location == "local", "\(kept)")
            await account.stop()
            #expect(try account.repair() == RepairReport())
        }
    }

    @Test func `what was written into a file in part comes back with it, also where the source has no trash`()
        async throws
    {
        try await blocking {
            let account = try EngineAccount(
                wrap: { MeddledProvider($0, alter: { $0.trash = false }) },
                configure: { $0.settleTime = .zero }
            )
            let (engine, tree, source) = (account.engine, account.tree, SourceFolder(account.source))
            try source.save("file", [UInt8](repeating: 7, count: 1000))
            _ = try tree.list("")
            try await account.settle()
            await engine.pause()
            let id = try tree.open("file")
            try tree.write(id, at: 10, [1, 2, 3])
            try tree.close(id)
            try tree.unlink("file")
            let kept = try #require(engine.trash().first)
            #expect(try await engine.restore(kept.documentID).description == "file")
            var expected = [UInt8](repeating: 7, count: 1000)
            expected.replaceSubrange(10..<13, with: [1, 2, 3])
            #expect(try tree.read("file") == expected)
            await engine.resume()
            try await account.settle()
            #expect(try source.snapshot() == ["file": expected])
            await account.stop()
            #expect(try account.repair() == RepairReport())
        }
    }

    @Test func `a daemon that dies between the name and the zeros leaves one name`() async throws {
        try await blocking {
            let account = try await bereft(isChanged: true)
            let engine = account.engine
            let entry = try #require(
                try engine.catalog.read { database throws(Errno) in
                    try database.all("SELECT id FROM entries WHERE name = CAST('file' AS BLOB)") { $0.int(0) }
                }.first
            )
            try engine.namespace.nameIncomplete(entry, missing: 1)
            let names = try account.tree.list("to").keys.sorted()
            try await account.die()
            try await account.settle()
            #expect(try account.tree.list("to").keys.sorted() == names && names.count == 1)
            #expect(try SourceFolder(account.source).snapshot().keys.sorted() == ["to", "to/\(names[0])"])
            await account.stop()
        }
    }
}
