import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveCore
@testable import CoveKit

/// More claims at once than a daemon has connections for, and ends of claims that don't arrive.
struct DaemonCrowdTests {
    private typealias Wire = CoordinationInterface

    private func request(
        _ location: Location,
        isNested: Bool = false,
        timeout: Duration? = nil
    ) -> ClaimRequest {
        var request = ClaimRequest(
            coordinator: CoordinatorIdentity(),
            purpose: UUID().uuidString,
            intents: [Intent(purpose: .writing([]), location: location)],
            timeout: timeout
        )
        request.isNested = isNested
        return request
    }

    /// Grants all but what is called `slow`, which waits until the stream has an end.
    private func daemon(connections: Int = 1024, _ mayGoOn: AsyncStream<Void>) throws -> FakeDaemon {
        let count = Mutex(0)
        return try FakeDaemon(connections: connections) { request throws(VarlinkError) in
            if request.intents[0].path.path == "slow" { for await _ in mayGoOn {} }
            let number = count.withLock { count in
                count += 1
                return count
            }
            return Wire.ClaimReply(claim: "c\(number)", items: [Wire.Granted(path: request.intents[0].path)])
        }
    }

    @Test func `who came last goes where nobody leaves, as others may wait for it`() async throws {
        try await blocking {
            let turnstile = Turnstile(places: 1, extra: 1, patience: .seconds(2))
            let cancellation = Cancellation()
            #expect(try !turnstile.enter(until: nil, cancellation))
            let first = Mutex(false)
            FileThreads.start {
                _ = try? turnstile.enter(until: nil, cancellation)
                first.withLock { $0 = true }
            }
            try waitUntil("one waits") { turnstile.waiting == 1 }
            #expect(try turnstile.enter(until: nil, cancellation))
            #expect(!first.withLock { $0 } && turnstile.waiting == 1)
            // No more than that: the next one waits for its time, and the first one for a place.
            #expect(throws: CoveError.self) { try turnstile.enter(until: .now + .milliseconds(200), cancellation) }
            #expect(turnstile.waiting == 1)
            turnstile.leave()
            try waitUntil("the first has its place") { first.withLock { $0 } }
        }
    }

    @Test func `a holder answers and lets go though there is no room for one more connection`() async throws {
        try await blocking {
            let (mayGoOn, continuation) = AsyncStream.makeStream(of: Void.self)
            defer { continuation.finish() }
            let fake = try daemon(connections: 5, mayGoOn)
            let daemon = DaemonAuthority(fake.address)
            let held = try daemon.claim(request(fake.location("f")))
            let failures = Mutex<[CoveError]>([])
            // Each takes a connection, until there is none left.
            for _ in 0..<8 {
                FileThreads.start {
                    do throws(CoveError) { _ = try daemon.claim(request(fake.location("slow"))) } catch {
                        failures.withLock { $0.append(error) }
                    }
                }
            }
            try waitUntil("some find no connection") { failures.withLock { $0.count } == 5 }
            #expect(fake.claims.count == 4)
            fake.send(Wire.Message(number: 1, presenter: nil, kind: .ping))
            #expect(try fake.answer(to: 1).error == nil)
            try daemon.release(held.claim)
            #expect(fake.events.all.last == "release \(held.claim)")
        }
    }

    @Test func `only so many claims wait at the daemon, and those for which others wait go before`() async throws {
        try await blocking {
            let (mayGoOn, continuation) = AsyncStream.makeStream(of: Void.self)
            defer { continuation.finish() }
            let fake = try daemon(mayGoOn)
            let daemon = DaemonAuthority(fake.address, waitingClaims: 2)
            let count = Counter()
            for _ in 0..<5 {
                FileThreads.start { if (try? daemon.claim(request(fake.location("slow")))) != nil { count.add() } }
            }
            try waitUntil("three are not asked for yet") { fake.claims.count == 2 && daemon.queuedClaims == 3 }
            // One in an accessor, one that has no time, and one that has a little.
            _ = try daemon.claim(request(fake.location("f"), isNested: true))
            _ = try daemon.claim(request(fake.location("f"), timeout: .zero))
            let late = #expect(throws: CoveError.self) {
                try daemon.claim(request(fake.location("f"), timeout: .milliseconds(10)))
            }
            #expect(late?.code == .timedOut && fake.claims.count == 4)
            let given = request(fake.location("f"))
            let outcome = Mutex<CoveError.Code?>(nil)
            FileThreads.start {
                do throws(CoveError) { _ = try daemon.claim(given) } catch { outcome.withLock { $0 = error.code } }
            }
            try waitUntil("it is not asked for") { daemon.queuedClaims == 4 }
            given.cancellation.cancel()
            try waitUntil("it is given up") { outcome.withLock { $0 } == .cancelled }
            #expect(daemon.queuedClaims == 3)
            continuation.finish()
            try waitUntil("all are granted") { count.value == 5 }
            #expect(daemon.queuedClaims == 0)
        }
    }

    @Test func `a claim whose end does not arrive is ended as soon as that can be told`() async throws {
        try await blocking {
            let (mayGoOn, continuation) = AsyncStream.makeStream(of: Void.self)
            continuation.finish()
            let fake = try daemon(mayGoOn)
            let daemon = DaemonAuthority(fake.address)
            let grant = try daemon.claim(request(fake.location("f")))
            fake.refuseReleases(2)
            try daemon.release(grant.claim)
            try fake.events.wait(for: "release \(grant.claim)")
        }
    }

    @Test func `an app, which is told no other claims, goes on with its own under the next daemon`() async throws {
        try await blocking {
            let (mayGoOn, continuation) = AsyncStream.makeStream(of: Void.self)
            continuation.finish()
            let fake = try daemon(mayGoOn)
            let daemon = DaemonAuthority(fake.address)
            let presenter = NotingPresenter(URL(fileURLWithPath: fake.folder.appending("f")))
            try daemon.add(PresenterMailbox(presenter, at: fake.location("f")))
            let grant = try daemon.claim(request(fake.location("g")))
            let path = PathParameter(RemotePath(unchecked: Array("f".utf8)))
            for (number, claim) in ["ended", "goes on"].enumerated() {
                fake.send(
                    Wire.Message(number: number, presenter: "p1", kind: .relinquishToWriter, path: path, claim: claim)
                )
                _ = try fake.answer(to: number)
            }
            fake.keep(["p1"])
            fake.tell(claims: [grant.claim, "lost"], letIn: ["goes on"])
            fake.stop()
            try fake.start()
            try fake.events.wait(for: "release lost")
            try presenter.events.wait(for: "reacquired")
            // Messages come in order: this is the one of the other claim.
            fake.send(Wire.Message(number: 9, presenter: "p1", kind: .reacquire, path: path, claim: "goes on"))
            try waitUntil("both have ended") { presenter.events.all.count { $0 == "reacquired" } == 2 }
            try daemon.release(grant.claim)
            #expect(fake.events.all.last == "release \(grant.claim)")
        }
    }

    private final class Counter: Sendable {
        private let count = Mutex(0)
        var value: Int { count.withLock { $0 } }
        func add() { count.withLock { $0 += 1 } }
    }
}
