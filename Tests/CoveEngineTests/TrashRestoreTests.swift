import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// Putting deleted documents back, whatever is on its way to the source and back.
@Suite struct TrashRestoreTests {
    private func text(_ string: String) -> [UInt8] { Array(string.utf8) }

    @Test func `what was edited, deleted and edited elsewhere is kept in the trash`() async throws {
        try await blocking {
            let account = try EngineAccount { $0.settleTime = .zero }
            try account.tree.write("doc", text("base"))
            try await account.settle()
            try await account.setOffline(true)
            try account.tree.write("doc", text("mine, and nobody else's"))
            try account.tree.unlink("doc")
            try SourceFolder(account.source).save("doc", text("theirs"))
            try await account.setOffline(false)
            try await account.settle()
            #expect(try account.tree.read("doc") == text("theirs"))
            let kept = try #require(account.engine.trash().first)
            #expect(kept.path == "doc" && kept.size == 23 && kept.location == "local", "\(kept)")
            let path = try await account.engine.restore(kept.documentID)
            #expect(try account.tree.read(path.description) == text("mine, and nobody else's"))
            #expect(try account.tree.read("doc") == text("theirs") && path.description != "doc")
            try await account.settle()
            #expect(try SourceFolder(account.source).snapshot().count == 2)
            await account.stop()
        }
    }

    @Test func `what was edited and deleted is kept in the trash when a look finds it edited elsewhere`() async throws {
        try await blocking {
            let account = try EngineAccount { $0.settleTime = .zero }
            let (engine, tree) = (account.engine, account.tree)
            try tree.write("doc", text("base"))
            try await account.settle()
            // The look comes before the deletion is sent.
            await engine.pause()
            try tree.write("doc", text("mine, and nobody else's"))
            try tree.unlink("doc")
            try SourceFolder(account.source).save("doc", text("theirs"))
            await engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
            try waitUntil("the other one is here") { (try? tree.read("doc")) == text("theirs") }
            let kept = try #require(engine.trash().first)
            #expect(kept.path == "doc" && kept.size == 23 && kept.location == "local", "\(kept)")
            let path = try await engine.restore(kept.documentID)
            #expect(try tree.read(path.description) == text("mine, and nobody else's") && path.description != "doc")
            await engine.resume()
            try await account.settle()
            #expect(try tree.read("doc") == text("theirs") && SourceFolder(account.source).snapshot().count == 2)
            await account.stop()
            #expect(try account.repair() == RepairReport())
        }
    }

    @Test func `what the source's trash does not take is deleted there all the same`() async throws {
        try await blocking {
            let account = try EngineAccount(
                wrap: { MeddledProvider($0, hasTrash: false) },
                configure: { $0.settleTime = .zero }
            )
            try account.tree.write("doc", text("the only bytes"))
            try await account.settle()
            #expect(await account.evict("doc"))
            try account.tree.unlink("doc")
            try await account.settle()
            #expect(try SourceFolder(account.source).snapshot().isEmpty && account.tree.list("").isEmpty)
            #expect(account.engine.trash().isEmpty)
            await account.stop()
        }
    }

    @Test func `what the source's trash does not take is not deleted there to put it back`() async throws {
        try await blocking {
            let account = try EngineAccount(wrap: { MeddledProvider($0, hasTrash: false) }, configure: { _ in })
            let engine = account.engine
            try account.tree.write("doc", text("the only bytes"))
            try await account.settle()
            #expect(await account.evict("doc"))
            await engine.pause()
            try account.tree.unlink("doc")
            let document = try #require(engine.trash().first?.documentID)
            // An attempt failed without anybody knowing where.
            try engine.catalog.write { database throws(Errno) in try database.run("UPDATE trash SET sent = 1") }
            #expect(try await engine.restore(document).description == "doc")
            await engine.resume()
            try await account.settle()
            #expect(try account.tree.read("doc") == text("the only bytes"))
            #expect(try SourceFolder(account.source).snapshot() == ["doc": text("the only bytes")])
            await account.stop()
        }
    }

    @Test(arguments: [true, false], [true, false])
    func `what is put back while its deletion is on its way stays`(isHere: Bool, isAnswered: Bool) async throws {
        try await blocking {
            let held = HeldAnswer(of: "doc")
            let account = try EngineAccount(wrap: held.wrap) { $0.settleTime = .zero }
            try account.tree.write("doc", text("the only bytes"))
            try await account.settle()
            if !isHere { #expect(await account.evict("doc")) }
            let engine = account.engine
            held.arm()
            try account.tree.unlink("doc")
            try waitUntil("the source has the deletion") { held.hasArrived }
            #expect(try SourceFolder(account.source).snapshot().isEmpty)
            let document = try #require(engine.trash().first?.documentID)
            let isBack = Mutex(false)
            async let restored = {
                let path = try await engine.restore(document)
                isBack.withLock { $0 = true }
                return path
            }()
            // It waits for the answer: what is back before is taken again.
            try? waitUntil("it is back", deadline: 1) { isBack.withLock { $0 } }
            held.answer(isLost: !isAnswered)
            #expect(try await restored.description == "doc")
            try await account.settle()
            #expect(try account.tree.read("doc") == text("the only bytes"))
            #expect(try SourceFolder(account.source).snapshot() == ["doc": text("the only bytes")])
            #expect(engine.trash().isEmpty)
            await account.stop()
        }
    }

    @Test func `what may still be at a source without a trash is not deleted there to put it back`() async throws {
        try await blocking {
            let account = try EngineAccount(
                wrap: { MeddledProvider($0, alter: { $0.trash = false }) },
                configure: { _ in }
            )
            let engine = account.engine
            try account.tree.write("doc", text("the only bytes"))
            try await account.settle()
            #expect(await account.evict("doc"))
            await engine.pause()
            try account.tree.unlink("doc")
            let document = try #require(engine.trash().first?.documentID)
            // An attempt failed without anybody knowing where.
            try engine.catalog.write { database throws(Errno) in try database.run("UPDATE trash SET sent = 1") }
            #expect(try await engine.restore(document).description == "doc")
            await engine.resume()
            try await account.settle()
            #expect(try account.tree.read("doc") == text("the only bytes"))
            #expect(try SourceFolder(account.source).snapshot() == ["doc": text("the only bytes")])
            await account.stop()
        }
    }

    @Test(arguments: [true, false])
    func `what was put back without an answer is there at the next attempt`(isSeen: Bool) async throws {
        try await blocking {
            let held = HeldAnswer(of: "doc")
            let account = try EngineAccount(wrap: held.wrap) { $0.settleTime = .zero }
            try account.tree.write("doc", text("the only bytes"))
            try await account.settle()
            #expect(await account.evict("doc"))
            try account.tree.unlink("doc")
            try await account.settle()
            let engine = account.engine
            let document = try #require(engine.trash().first?.documentID)
            held.arm()
            let first = Task { try await engine.restore(document) }
            try waitUntil("it is back at the source") { held.hasArrived }
            held.answer(isLost: true)
            await #expect(throws: Errno.self) { try await first.value }
            if isSeen {
                await engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
                try waitUntil("it is seen") { try account.tree.list("").count == 1 }
            }
            #expect(try await engine.restore(document).description == "doc")
            #expect(engine.trash().isEmpty)
            try await account.settle()
            #expect(try account.tree.list("").count == 1 && account.tree.read("doc") == text("the only bytes"))
            #expect(try SourceFolder(account.source).snapshot() == ["doc": text("the only bytes")])
            await account.stop()
        }
    }

    @Test(arguments: [true, false])
    func `what comes back where its name is taken only at the source gets another one`(isAnswered: Bool) async throws {
        try await blocking {
            let held = HeldAnswer(of: "doc (restored 2)")
            let account = try EngineAccount(wrap: held.wrap) { $0.settleTime = .zero }
            let (engine, tree) = (account.engine, account.tree)
            try tree.write("doc", text("the only bytes"))
            try await account.settle()
            #expect(await account.evict("doc"))
            try tree.unlink("doc")
            try await account.settle()
            let document = try #require(engine.trash().first?.documentID)
            try tree.write("other", text("others"))
            try tree.rename("other", "doc")
            try await account.settle()
            await engine.pause()
            try tree.rename("doc", "other")
            if !isAnswered {
                held.arm()
                let first = Task { try await engine.restore(document) }
                try waitUntil("it is back at the source") { held.hasArrived }
                held.answer(isLost: true)
                await #expect(throws: Errno.self) { try await first.value }
            }
            #expect(try await engine.restore(document).description == "doc (restored 2)")
            await engine.resume()
            try await account.settle()
            #expect(try tree.read("doc (restored 2)") == text("the only bytes") && tree.list("").count == 2)
            let found = try SourceFolder(account.source).snapshot()
            #expect(found == ["doc (restored 2)": text("the only bytes"), "other": text("others")])
            await account.stop()
        }
    }

    /// Of a file that was not here: cut, and changed in the middle.
    @Test(arguments: [true, false], [true, false])
    func `what was changed of a file that is here in part comes back from the trash`(
        isCut: Bool,
        isDeletedThere: Bool
    ) async throws {
        try await blocking {
            let account = try EngineAccount { $0.settleTime = .zero }
            let source = SourceFolder(account.source)
            let there = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 / 1000) }
            try source.save("doc", there)
            #expect(try account.tree.list("").count == 1)
            await account.engine.pause()
            var expected = there
            if isCut {
                try account.tree.truncate("doc", to: 2_000_000)
                expected = Array(there.prefix(2_000_000))
            } else {
                try account.tree.overwrite("doc", at: 1_000_000, [1, 2, 3], mapped: false)
                expected.replaceSubrange(1_000_000..<1_000_003, with: [1, 2, 3])
            }
            try account.tree.unlink("doc")
            if isDeletedThere {
                await account.engine.resume()
                try await account.settle()
                #expect(try source.snapshot().isEmpty)
            }
            let trashed = try #require(account.engine.trash().first)
            #expect(trashed.size == Int64(expected.count) && trashed.location == "local")
            #expect(try await account.engine.restore(trashed.documentID).description == "doc")
            #expect(try account.tree.read("doc") == expected)
            await account.engine.resume()
            try await account.settle()
            #expect(try source.snapshot() == ["doc": expected])
            #expect(try account.repair() == RepairReport())
            await account.stop()
        }
    }

    @Test(arguments: [true, false])
    func `of a deleted file that was here in part the source's version outlives a power cut`(isSent: Bool) async throws
    {
        try await blocking {
            let gate = FetchGate()
            let wrap = { (base: any Provider) in MeddledProvider(base, amidFetch: { await gate.pass() }) }
            let account = try EngineAccount(wrap: wrap) { $0.settleTime = .zero }
            let there = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 / 1000) }
            try SourceFolder(account.source).save("doc", there)
            #expect(try account.tree.list("").count == 1)
            await account.engine.pause()
            try account.tree.truncate("doc", to: 2_000_000)
            try account.tree.unlink("doc")
            if isSent {
                await account.engine.resume()
                try await account.settle()
            }
            try await account.losePower()
            gate.open()
            try waitUntil("it is connected", deadline: 60) { account.engine.syncEngine?.isConnected == true }
            let trashed = try #require(account.engine.trash().first)
            #expect(trashed.location == "remote")
            #expect(try await account.engine.restore(trashed.documentID).description == "doc")
            #expect(try account.tree.read("doc") == there)
            try await account.settle()
            #expect(try SourceFolder(account.source).snapshot() == ["doc": there])
            await account.stop()
            #expect(try account.repair() == RepairReport())
        }
    }

    @Test func `what was changed in part comes back though the answer got lost`() async throws {
        try await blocking {
            let (held, gate) = (HeldAnswer(of: "doc"), FetchGate())
            let wrap = { (base: any Provider) in held.wrap(MeddledProvider(base, amidFetch: { await gate.pass() })) }
            let account = try EngineAccount(wrap: wrap) { $0.settleTime = .zero }
            let there = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 / 1000) }
            try SourceFolder(account.source).save("doc", there)
            let (engine, tree) = (account.engine, account.tree)
            #expect(try tree.list("").count == 1)
            await engine.pause()
            try tree.truncate("doc", to: 2_000_000)
            try tree.unlink("doc")
            await engine.resume()
            try await account.settle()
            let document = try #require(engine.trash().first?.documentID)
            held.arm()
            let first = Task { try await engine.restore(document) }
            try waitUntil("it is back at the source") { held.hasArrived }
            held.answer(isLost: true)
            await #expect(throws: Errno.self) { try await first.value }
            await engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
            try waitUntil("it is seen") { try tree.list("").count == 1 }
            #expect(try await engine.restore(document).description == "doc")
            gate.open()
            let expected = Array(there.prefix(2_000_000))
            #expect(try tree.read("doc") == expected)
            try await account.settle()
            #expect(try SourceFolder(account.source).snapshot() == ["doc": expected])
            await account.stop()
            #expect(try account.repair() == RepairReport())
        }
    }
}
