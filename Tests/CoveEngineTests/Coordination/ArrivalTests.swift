import CoveClaims
import CoveCore
import CoveTestSupport
import Glibc
import Synchronization
import Testing

@testable import CoveEngine

/// What happens between the moment a claim's items are looked up and the moment it is in the table.
@Suite struct ArrivalTests {
    private func text(_ string: String) -> [UInt8] { Array(string.utf8) }

    @Test func `what was at the source before anybody looked is no news`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try source.makeDirectory("d")
            for number in 0..<100 { try source.save("d/\(number)", text("x")) }
            let engine = account.engine
            let told = Mutex<[String]>([])
            let (session, _) = try engine.attend(process: getpid(), resuming: nil) { message in
                told.withLock { $0.append("\(message.kind) \((try? message.path.remotePath())?.description ?? "")") }
                return true
            }
            let kinds = CoordinationInterface.MessageKind.allCases.filter { !$0.wantsReply }.map(\.rawValue)
            _ = try engine.addPresenter(
                session: session,
                at: RemotePath(unchecked: text("d")),
                implements: kinds,
                observes: []
            )
            #expect(try account.tree.list("d").count == 100)
            try source.save("d/new", text("x"))
            try waitUntil("what is new is told") { told.withLock { $0.contains("subitemDidAppear d/new") } }
            #expect(told.withLock { $0.filter { $0.hasPrefix("subitem") } } == ["subitemDidAppear d/new"])
            engine.endSession(session)
            await account.stop()
        }
    }

    @Test func `a token of another mount is of no claim`() async throws {
        try await blocking {
            let accounts = [try EngineAccount(), try EngineAccount()]
            var tokens: Set<String> = []
            for account in accounts {
                try account.tree.write("f", text("x"))
                let session = try account.engine.beginConnection(process: getpid())
                let request = CoordinationInterface.ClaimRequest(
                    intents: [CoordinationInterface.Intent(writing: PathParameter(RemotePath(unchecked: text("f"))))]
                )
                tokens.insert(try await account.engine.claim(request, session: session).claim)
            }
            #expect(tokens.count == 2)
            for account in accounts { await account.stop() }
        }
    }

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
