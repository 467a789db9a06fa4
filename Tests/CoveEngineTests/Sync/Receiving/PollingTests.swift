import CoveCore
import CoveProviders
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// An account on a server that is asked again and again, and what a server that fails for a while must not do to it.
@Suite(.timeLimit(.minutes(30))) struct PollingTests {
    private final class Account {
        let cloud: ScriptedCloud
        let engine: Engine
        let tree: EngineTree
        private let folder: TemporaryDirectory

        init(tagsRise: Bool) throws {
            cloud = try ScriptedCloud(tagsRise: tagsRise)
            folder = try TemporaryDirectory("polling")
            let configuration = EngineConfiguration.ofTest(cloud.source, state: folder.path) {
                $0.pollInterval = .milliseconds(50)
                $0.stallLimit = .seconds(5)
            }
            engine = try .onSource(configuration)
            tree = EngineTree(engine)
            engine.start(kernel: nil, announcer: nil)
        }

        func text(_ path: String) -> String? { (try? tree.read(path)).map { String(decoding: $0, as: UTF8.self) } }

        func waitUntil(_ what: String, _ isSo: () throws -> Bool) throws {
            do { try CoveTestSupport.waitUntil(what, deadline: 40, isSo) } catch {
                let texts = cloud.names().map {
                    "\($0): \(cloud.bytes($0).map { String(decoding: $0, as: UTF8.self) } ?? "/")"
                }
                throw CommandFailure("\(error): \(engine.accountStatus()), there \(texts)")
            }
        }
    }

    private func account(
        tagsRise: Bool = true,
        _ body: @escaping @Sendable (Account) async throws -> Void
    ) async throws {
        try await blocking {
            let account = try Account(tagsRise: tagsRise)
            try await body(account)
            await account.engine.stop()
        }
    }

    @Test(arguments: [true, false])
    func `a change is seen though the first look at its folder failed`(isListed: Bool) async throws {
        try await account { account in
            let cloud = account.cloud
            for folder in ["a", "a/b"] { cloud.makeFolder(folder) }
            cloud.put("a/b/file", Array("one".utf8))
            if isListed {
                for folder in ["", "a", "a/b"] { #expect(try account.tree.list(folder).count == 1) }
            }
            #expect(account.text("a/b/file") == "one")
            let failures = Atomic(0)
            cloud.answer { request in
                guard request.method == "PROPFIND", request.target.hasSuffix("/a/b/") else { return nil }
                failures.add(1, ordering: .relaxed)
                return ScriptedServer.answer(500)
            }
            cloud.put("a/b/file", Array("two".utf8))
            try account.waitUntil("the look fails, and the round ends") {
                let rounds = cloud.server.exchanges.filter {
                    $0.request.method == "PROPFIND" && $0.request.target.hasSuffix("/files/ada/")
                }
                return failures.load(ordering: .relaxed) > 0 && rounds.count > 10
            }
            cloud.answer(nil)
            try account.waitUntil("the change is here") { account.text("a/b/file") == "two" }
        }
    }

    @Test func `a folder that costs more than there is keeps no other from its turn`() async throws {
        try await blocking {
            let (folder, state) = (try TemporaryDirectory("pages"), try TemporaryDirectory("pages-state"))
            let source = SourceFolder(folder.path)
            for name in ["a", "b"] {
                try source.makeDirectory(name)
                try source.save("\(name)/f", Array("one".utf8))
            }
            let configuration = EngineConfiguration.ofTest("dir://\(folder.path)", state: state.path) {
                $0.pollInterval = .milliseconds(200)
            }
            // The root has more pages than may be asked for in one round.
            let pages = Mutex<[Listing]?>(nil)
            let base = FolderProvider(root: folder.path)
            let provider = MeddledProvider(
                base,
                show: { path in path.isRoot ? pages.withLock { $0 } : nil },
                alter: { $0.stableIDs = false },
                isSilent: true
            )
            let engine = try Engine(
                configuration: configuration,
                provider: provider,
                log: Log(path: nil, echoToStandardError: false)
            )
            let tree = EngineTree(engine)
            engine.start(kernel: nil, announcer: nil)
            for name in ["", "a", "b"] { #expect(try !tree.list(name).isEmpty) }
            let listed = try await base.list(RemoteReference(id: nil, path: .root), page: nil).items
            let rest = [Listing](repeating: Listing(items: [], next: nil), count: 2 * RequestBudget.inUse)
            pages.withLock { $0 = [Listing(items: listed, next: nil)] + rest }
            for round in 0..<3 {
                for name in ["a", "b"] {
                    try source.save("\(name)/new\(round)", Array("text".utf8))
                }
                try CoveTestSupport.waitUntil("both are seen", deadline: 40) {
                    try ["a", "b"].allSatisfy { try tree.list($0)["new\(round)"] != nil }
                }
            }
            await engine.stop()
        }
    }

    @Test(arguments: [403, 500])
    func `a folder that can't be listed keeps no other from it`(status: Int) async throws {
        try await account(tagsRise: false) { account in
            let cloud = account.cloud
            for folder in ["a", "b"] {
                cloud.makeFolder(folder)
                cloud.put("\(folder)/file", Array("one".utf8))
            }
            // Used last, it is looked at first.
            for folder in ["", "b", "a"] { #expect(try !account.tree.list(folder).isEmpty) }
            #expect(account.text("b/file") == "one" && account.text("a/file") == "one")
            cloud.answer { request in
                guard request.method == "PROPFIND", request.target.hasSuffix("/a/") else { return nil }
                return ScriptedServer.answer(status)
            }
            cloud.put("b/file", Array("two".utf8))
            try account.waitUntil("the change is here") { account.text("b/file") == "two" }
            #expect(account.text("a/file") == "one")
        }
    }

    @Test(arguments: [true, false])
    func `a server that says of everything that it is gone takes nothing away`(isAtOnce: Bool) async throws {
        try await account(tagsRise: false) { account in
            let cloud = account.cloud
            cloud.makeFolder("d")
            for name in ["d/one", "d/two", "three"] { cloud.put(name, Array(name.utf8)) }
            for folder in ["", "d"] { #expect(try account.tree.list(folder).count == 2) }
            #expect(account.text("d/one") == "d/one")
            let isGone = Atomic(isAtOnce)
            cloud.answer { request in
                // The root may have been listed before it begins.
                if !isGone.load(ordering: .relaxed), request.target.hasSuffix("/files/ada/") { return nil }
                isGone.store(true, ordering: .relaxed)
                return ScriptedServer.answer(404)
            }
            try account.waitUntil("the account is offline") { account.engine.accountStatus().state == "offline" }
            #expect(try Set(account.tree.list("").keys) == ["d", "three"])
            #expect(try Set(account.tree.list("d").keys) == ["one", "two"])
            cloud.answer(nil)
            account.engine.networkChanged()
            try account.waitUntil("it is back") { account.engine.accountStatus().state == "idle" }
            #expect(account.text("d/two") == "d/two")
            #expect(account.engine.trash().isEmpty)
        }
    }

    @Test func `what a clock hours ahead has dated is not held up by that`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try account.tree.write("file", Array("one".utf8))
            #expect(try account.tree.list("").count == 1)
            try await account.settle()
            try await account.setOffline(true)
            try account.tree.write("file", Array("two".utf8))
            try account.tree.write("other", Array("new".utf8))
            // The clock is set back by three hours while the machine is off.
            let later = (account.engine.journalTime() + .seconds(3 * 3600)).millisecondsSinceEpoch
            try await account.restart { state in
                let change = "UPDATE journal SET changed = \(later), retry = \(later)"
                try Command.run("sqlite3", ["\(state)/catalog.db", change])
            }
            try await account.setOffline(false)
            let source = SourceFolder(account.source)
            try waitUntil("it is sent") {
                try source.snapshot() == ["file": Array("two".utf8), "other": Array("new".utf8)]
            }
            await account.stop()
        }
    }

    @Test(
        arguments: [
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 20\r\n\r\n<html>Login</html>  ",
            "HTTP/1.1 302 Found\r\nLocation: http://login.example/portal\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 511 Network Authentication Required\r\nContent-Length: 0\r\n\r\n",
        ]
    )
    func `a network that answers in the server's place takes nothing away`(answer: String) async throws {
        try await account { account in
            let cloud = account.cloud
            cloud.makeFolder("d")
            for name in ["d/one", "d/two", "three"] { cloud.put(name, Array(name.utf8)) }
            #expect(account.text("d/one") == "d/one" && account.text("three") == "three")
            for folder in ["", "d"] { #expect(try account.tree.list(folder).count == 2) }
            try account.tree.write("own", Array("sent".utf8))
            try account.waitUntil("it is sent") {
                cloud.bytes("own") == Array("sent".utf8) && account.engine.accountStatus().queuedOperations == 0
            }
            let answers = Atomic(0)
            cloud.answer { _ in
                answers.add(1, ordering: .relaxed)
                return .bytes(Array(answer.utf8))
            }
            try account.tree.write("own", Array("changed".utf8))
            try account.tree.write("new", Array("new".utf8))
            try account.tree.unlink("three")
            try account.waitUntil("the account is offline and says why") {
                let status = account.engine.accountStatus()
                return status.state == "offline" && status.reason?.isEmpty == false
            }
            // It tries again, and again is not fooled.
            let before = answers.load(ordering: .relaxed)
            account.engine.networkChanged()
            try account.waitUntil("it has tried again") { answers.load(ordering: .relaxed) > before + 1 }
            #expect(try Set(account.tree.list("").keys) == ["d", "own", "new"])
            #expect(try Set(account.tree.list("d").keys) == ["one", "two"])
            #expect(account.text("own") == "changed" && account.text("d/one") == "d/one")
            #expect(cloud.bytes("own") == Array("sent".utf8) && cloud.bytes("three") != nil)
            cloud.answer(nil)
            account.engine.networkChanged()
            try account.waitUntil("what waited is sent") {
                cloud.bytes("own") == Array("changed".utf8) && cloud.bytes("new") != nil && cloud.bytes("three") == nil
            }
            #expect(account.text("d/two") == "d/two")
            #expect(account.engine.conflicts().isEmpty)
        }
    }

    @Test(
        arguments: ["DELETE", "MOVE"],
        [
            "204 No Content", "200 OK\r\nContent-Type: text/html\r\nContent-Length: 0",
            "404 Not Found\r\nContent-Length: 0",
        ]
    )
    func `a deletion that something else on the way takes for itself is sent again`(
        method: String,
        answer: String
    ) async throws {
        try await account { account in
            let cloud = account.cloud
            cloud.makeFolder("empty")
            for name in ["local", "far", "other"] { cloud.put(name, Array(name.utf8)) }
            #expect(account.text("local") == "local")
            #expect(try account.tree.list("").count == 4 && account.tree.list("empty").isEmpty)
            // One that was deleted before has made the trash there.
            try account.tree.unlink("other")
            try account.waitUntil("it is sent") { cloud.bytes("other") == nil }
            let answers = Atomic(0)
            cloud.answer { request in
                guard request.method == method, answers.add(1, ordering: .relaxed).newValue <= 3 else { return nil }
                return .bytes(Array("HTTP/1.1 \(answer)\r\n\r\n".utf8))
            }
            for name in ["local", "far"] { try account.tree.unlink(name) }
            try account.tree.removeDirectory("empty")
            try account.waitUntil("all is gone") {
                answers.load(ordering: .relaxed) > 0 && cloud.names().allSatisfy { $0.hasPrefix(".cove") }
            }
            #expect(answers.load(ordering: .relaxed) > 0)
            #expect(try account.tree.list("").isEmpty && account.engine.conflicts().isEmpty)
        }
    }

    @Test func `the network's return ends the pause that an attempt under way would begin`() async throws {
        try await account { account in
            let cloud = account.cloud
            cloud.put("file", Array("text".utf8))
            #expect(account.text("file") == "text")
            let attempts = Atomic(0)
            let isBack = Atomic(false)
            let isHeld = Atomic(false)
            let door = DispatchSemaphore(value: 0)
            // Each attempt fails, the fifth one only when the network is back: after it there would be 8 to 16 s of rest.
            cloud.answer { _ in
                if isBack.load(ordering: .acquiring) { return nil }
                if attempts.add(1, ordering: .relaxed).newValue == 5 {
                    isHeld.store(true, ordering: .releasing)
                    door.wait()
                }
                return ScriptedServer.answer(503, ["Retry-After: 60"])
            }
            try account.waitUntil("an attempt is under way") { isHeld.load(ordering: .acquiring) }
            account.engine.networkChanged()
            let start = ContinuousClock.now
            isBack.store(true, ordering: .releasing)
            door.signal()
            try account.waitUntil("it is connected") { account.engine.accountStatus().state != "offline" }
            #expect(ContinuousClock.now - start < .seconds(6))
        }
    }

    @Test func `a sleep is known by the clock that went on`() {
        var watch = SleepWatch()
        // Seconds awake, and of all time.
        let looks: [(Int64, Int64)] = [(5, 9), (6, 10), (7, 11), (8, 3600), (9, 3601), (10, 3604)]
        let slept = looks.map { awake, all in
            watch.hasSlept(awake: MonotonicTime(awake * 1_000_000_000), all: MonotonicTime(all * 1_000_000_000))
        }
        #expect(slept == [false, false, false, true, false, true])
    }
}
