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

    @Test func `programs outside the process namespace of the daemon wait for the claims of those inside`() async throws
    {
        try await blocking {
            let account = try EngineAccount()
            let engine = account.engine
            try account.tree.write("f", text("x"))
            let file = try account.tree.resolve("f")
            // So the kernel names whoever has no number there.
            let outside = Caller(thread: 0, user: 0, group: 0)
            func waits() throws -> Bool {
                guard let pending = try engine.plainClaim(.open(file, flags: O_RDONLY), outside) else { return false }
                let isWaiting = !pending.isDone
                pending.whenDone { if case .success(let claim) = $0 { engine.end(claim) } }
                pending.cancel()
                return isWaiting
            }
            for (holder, isInTheWay) in [(getpid(), true), (0, false)] {
                let session = try engine.beginConnection(process: holder)
                let intent = CoordinationInterface.Intent(writing: PathParameter(RemotePath(unchecked: text("f"))))
                let request = CoordinationInterface.ClaimRequest(intents: [intent])
                let claim = try await engine.claim(request, session: session).claim
                #expect(try waits() == isInTheWay, "\(holder)")
                try engine.releaseClaim(claim)
                engine.endSession(session)
            }
            await account.stop()
        }
    }

    @Test func `an open that may not block waits for what comes from the source, which takes a moment`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let (engine, tree) = (account.engine, account.tree)
            try tree.write("f", text("x"))
            try await account.settle()
            let (session, _) = try engine.attend(process: getpid(), resuming: nil) { _ in true }
            let path = RemotePath(unchecked: text("f"))
            _ = try engine.addPresenter(session: session, at: path, implements: [], observes: [])
            let file = try tree.resolve("f")
            let remote = try await engine.provider.lookup(FileName(unchecked: text("f")), in: .root)
            let found = try engine.catalog.read { database throws(Errno) in try database.entry(.root, text("f")) }
            let transition = Transition(kind: .replace(entry: try #require(found).id), remote: remote)
            let claim = try #require(try await engine.coordinator.remoteClaim(for: transition) {})
            let use = PlainUse.open(file, flags: O_RDONLY | O_NONBLOCK)
            let pending = try #require(try engine.plainClaim(use, Caller(thread: 0, user: 0, group: 0)))
            #expect(!pending.isDone)
            engine.coordinator.coordination.release(claim)
            engine.end(try await pending.value())
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
            let count = engine.coordinator.coordination.beginArrival()
            let place = try engine.namespace.place(at: path)
            // An alarm, or anybody's call, in the middle of the look-up.
            engine.coordinator.coordination.act { _, _ in }
            try tree.rename("a", "b")
            try tree.write("a", text("second"))
            engine.coordinator.coordination.act { _, _ in }
            #expect(!engine.isUncoordinated)
            let request = ClaimRequest(session: session, items: [WantedItem(path: place.steps, use: .write(nil))])
            _ = try await engine.coordinator.wait(for: request, [place], since: count)
            engine.coordinator.coordination.endArrival()
            let (new, old) = (try tree.resolve("a"), try tree.resolve("b"))
            let watched = engine.coordinator.coordination.state.withLock {
                [$0.watched[new] != nil, $0.watched[old] != nil]
            }
            #expect(watched == [true, false])
            engine.endSession(session)
            engine.coordinator.coordination.act { _, _ in }
            #expect(engine.isUncoordinated)
            await account.stop()
        }
    }

    @Test(arguments: ["f", "d/F"])
    func `a claim that comes while a link is made is of what that leads to`(_ name: String) async throws {
        try await blocking {
            let account = try EngineAccount()
            let (engine, tree) = (account.engine, account.tree)
            try tree.makeDirectory("real")
            try tree.write("real/F", text("x"))
            let session = try engine.beginConnection(process: .max)
            let isAbove = name == "d/F"
            let count = engine.coordinator.coordination.beginArrival()
            let place = try engine.namespace.place(at: RemotePath(unchecked: text(name)))
            let target = isAbove ? "real" : "real/F"
            _ = try engine.makeSymbolicLink(.root, text(isAbove ? "d" : name), target: text(target), tree.caller)
            // The table hears of the link before the claim comes.
            engine.coordinator.coordination.act { _, _ in }
            let request = ClaimRequest(session: session, items: [WantedItem(path: place.steps, use: .write(nil))])
            let claim = try await engine.coordinator.wait(for: request, [place], since: count)
            engine.coordinator.coordination.endArrival()
            let paths = engine.coordinator.coordination.act { state, _ in
                state.table.paths(of: claim).map(\.description)
            }
            #expect(paths == ["real/F"])
            let file = try tree.resolve("real/F")
            #expect(engine.coordinator.coordination.state.withLock { $0.watched[file] } == 1)
            engine.endSession(session)
            await account.stop()
        }
    }

    @Test func `a claim that comes while its file gets another name is of that too`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let (engine, tree) = (account.engine, account.tree)
            try tree.write("f", text("x"))
            let session = try engine.beginConnection(process: .max)
            let count = engine.coordinator.coordination.beginArrival()
            let place = try engine.namespace.place(at: RemotePath(unchecked: text("f")))
            _ = try engine.link(try tree.resolve("f"), .root, text("g"), tree.caller)
            engine.coordinator.coordination.act { _, _ in }
            let request = ClaimRequest(session: session, items: [WantedItem(path: place.steps, use: .write(nil))])
            let claim = try await engine.coordinator.wait(for: request, [place], since: count)
            engine.coordinator.coordination.endArrival()
            let paths = engine.coordinator.coordination.act { state, _ in
                state.table.paths(of: claim).map(\.description)
            }
            #expect(paths == ["f", "g"])
            engine.endSession(session)
            await account.stop()
        }
    }

    @Test func `who comes to present a name while a link takes it presents what that leads to`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let (engine, tree) = (account.engine, account.tree)
            try tree.write("real", text("x"))
            let session = try engine.attend(process: .max, resuming: nil) { _ in true }.session
            let path = RemotePath(unchecked: text("f"))
            let (count, place) = (engine.coordinator.coordination.beginArrival(), try engine.namespace.place(at: path))
            _ = try engine.makeSymbolicLink(.root, text("f"), target: text("real"), tree.caller)
            let presenter = engine.coordinator.coordination.act { state, now in
                let found = engine.coordinator.placeNow(place, since: count, state)
                return state.table.addPresenter(
                    session: session,
                    at: found?.steps,
                    implements: [],
                    observes: [],
                    now: now
                )
            }
            engine.coordinator.coordination.endArrival()
            let presented = engine.coordinator.coordination.act { state, _ in
                presenter.flatMap { state.table.presenters[$0]?.node?.path.description }
            }
            #expect(presented == "real")
            engine.endSession(session)
            await account.stop()
        }
    }
}
