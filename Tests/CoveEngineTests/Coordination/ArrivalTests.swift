import CoveCore
import CoveTestSupport
import Glibc
import Synchronization
import Testing

@testable import CoveEngine

/// What happens between the moment a claim's items are looked up and the moment it is in the table.
@Suite struct ArrivalTests {
    private func text(_ string: String) -> [UInt8] { Array(string.utf8) }

    @Test func `a claim is of what has its path when it comes`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let (engine, tree) = (account.engine, account.tree)
            try tree.write("a", text("first"))
            let session = try engine.beginConnection(process: getpid())
            let path = RemotePath(unchecked: text("a"))
            let count = engine.coordination.beginArrival()
            let place = try engine.place(at: path)
            // An alarm, or anybody's call, in the middle of the look-up.
            engine.coordination.act { _, _ in }
            try tree.rename("a", "b")
            try tree.write("a", text("second"))
            engine.coordination.act { _, _ in }
            #expect(!engine.isUncoordinated)
            let request = ClaimRequest(session: session, items: [WantedItem(path: place.steps, use: .write(nil))])
            _ = try await engine.wait(for: request, [place], since: count)
            engine.coordination.endArrival()
            let (new, old) = (try tree.resolve("a"), try tree.resolve("b"))
            let watched = engine.coordination.state.withLock { [$0.watched[new] != nil, $0.watched[old] != nil] }
            #expect(watched == [true, false])
            engine.endSession(session)
            engine.coordination.act { _, _ in }
            #expect(engine.isUncoordinated)
            await account.stop()
        }
    }
}
