import CoveClaims
import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// What other devices change while programs claim it.
@Suite struct ClaimedChangeTests {
    private func text(_ string: String) -> [UInt8] { Array(string.utf8) }

    @Test func `a change of what programs claim waits for them, and others don't`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            let names = (0..<4).map { "claimed\($0)" }
            for name in names + ["gone", "z"] { try source.save(name, text("old")) }
            for name in names + ["gone", "z"] { #expect(try account.tree.read(name) == text("old")) }
            let session = try account.engine.beginConnection(process: getpid())
            let intents = (names + ["gone"]).map { name in
                CoordinationInterface.Intent(reading: PathParameter(RemotePath(unchecked: text(name))))
            }
            let request = CoordinationInterface.ClaimRequest(intents: intents)
            let held = try await account.engine.claim(request, session: session)
            for name in names + ["z"] { try source.save(name, text("newer")) }
            try source.remove("gone")
            let asked = account.engine.counters.providerRequests.load(ordering: .relaxed)
            await account.engine.sync(nil, acceptDeletions: true, acceptLocalDeletions: true)
            try waitUntil("the other one is here") { try account.tree.read("z") == text("newer") }
            func claims() -> Int { account.engine.coordinator.coordination.state.withLock { $0.table.claims.count } }
            try waitUntil("all wait") { claims() == 6 }
            #expect(account.engine.counters.providerRequests.load(ordering: .relaxed) - asked < 20)
            for name in names + ["gone"] { #expect(try account.tree.read(name) == text("old")) }
            // A deletion is another change than the one that waits already.
            try source.remove("claimed0")
            await account.engine.sync(nil, acceptDeletions: true, acceptLocalDeletions: true)
            try waitUntil("that waits too") { claims() == 7 }
            try account.engine.releaseClaim(held.claim)
            try waitUntil("all are here") {
                try account.tree.list("").keys.sorted() == names.dropFirst() + ["z"]
                    && names.dropFirst().allSatisfy { try account.tree.read($0) == text("newer") }
            }
            account.engine.endSession(session)
            await account.stop()
        }
    }

    @Test func `a change that was told and waits for programs is not lost with the daemon`() async throws {
        try await blocking {
            // A feed that goes on where it was left.
            let told = Mutex<[RemoteChange]>([])
            let account = try EngineAccount(
                wrap: {
                    MeddledProvider(
                        $0,
                        tellChanges: { anchor in
                            let events = told.withLock { $0 }
                            let known = anchor.map { Int($0.bytes.first ?? 0) } ?? events.count
                            let rest = Array(events.dropFirst(known))
                            return Changes(events: rest, anchor: Anchor([UInt8(events.count)]), moreComing: false)
                        }
                    )
                },
                configure: { _ in }
            )
            let source = SourceFolder(account.source)
            try source.save("doc", text("old"))
            #expect(try account.tree.read("doc") == text("old"))
            try await account.settle()
            let session = try account.engine.beginConnection(process: getpid())
            let path = PathParameter(RemotePath(unchecked: text("doc")))
            let request = CoordinationInterface.ClaimRequest(intents: [CoordinationInterface.Intent(reading: path)])
            _ = try await account.engine.claim(request, session: session)
            try source.save("doc", text("newer"))
            told.withLock { $0.append(.directoryChanged(.root)) }
            await account.engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
            let (engine, tree) = (account.engine, account.tree)
            try waitUntil("it is known how far the source has told") {
                try engine.catalog.read { database throws(Errno) in try database.meta("anchor") } == [1]
            }
            #expect(try tree.read("doc") == text("old"))
            try await account.die()
            let next = account.tree
            try waitUntil("it is here", deadline: 30) { (try? next.read("doc")) == text("newer") }
            try await account.settle()
            let mark = try account.engine.catalog.read { database throws(Errno) in try database.meta("put-off") }
            #expect(mark == nil)
            await account.stop()
        }
    }
}
