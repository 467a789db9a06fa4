import CoveTestSupport
import Foundation
import Testing

@testable import CoveCore
@testable import CoveKit

/// What travels between a program and a daemon.
struct DaemonTests {
    private typealias Wire = CoordinationInterface

    /// A request for one item.
    private func request(
        _ location: Location,
        _ purpose: FileAccessIntent.Purpose = .reading([]),
        by coordinator: CoordinatorIdentity = CoordinatorIdentity(),
        presenter: PresenterMailbox? = nil
    ) -> ClaimRequest {
        ClaimRequest(
            coordinator: coordinator,
            purpose: "purpose",
            presenter: presenter,
            intents: [Intent(purpose: purpose, location: location)],
            timeout: .milliseconds(2500)
        )
    }

    private func grantAll() throws -> FakeDaemon {
        try FakeDaemon { request throws(VarlinkError) in
            Wire.ClaimReply(claim: "c1", items: request.intents.map { Wire.Granted(path: $0.path) })
        }
    }

    @Test func `a claim says all that it is for, and follows the item`() async throws {
        try await blocking {
            let fake = try FakeDaemon { _ throws(VarlinkError) in
                let moved = PathParameter(RemotePath(unchecked: Array("new/f".utf8)))
                return Wire.ClaimReply(
                    claim: "c7",
                    items: [Wire.Granted(path: moved), Wire.Granted(path: moved, snapshot: "/run/copy")]
                )
            }
            let daemon = DaemonAuthority(fake.address)
            let coordinator = CoordinatorIdentity()
            var wanted = request(fake.location("d/f"), .writing(.forMoving), by: coordinator)
            let reading: FileCoordinator.ReadingOptions = [.forUploading, .withoutChanges]
            wanted.intents.append(Intent(purpose: .reading(reading), location: fake.location("g")))
            let grant = try daemon.claim(wanted)
            #expect(grant.paths == [fake.folder.appending("new/f"), "/run/copy"])
            let sent = try #require(fake.claims.first)
            #expect(sent.session == "s1" && sent.coordinator == coordinator.name && sent.purpose == "purpose")
            #expect(sent.presenter == nil && sent.timeout == 2.5)
            #expect(sent.intents.map(\.kind) == [.writing, .reading])
            #expect(sent.intents.map(\.options) == [["forMoving"], ["withoutChanges", "forUploading"]])
            #expect(sent.intents.map(\.path.path) == ["d/f", "g"])
            try daemon.moved(grant.claim, from: fake.location("d/f"), to: fake.location("e"))
            _ = try daemon.prepare(wanted)
            try daemon.release(grant.claim)
            #expect(fake.events.all == ["attend -", "claim s1", "moved c7 d/f e", "prepare", "release c7"])
        }
    }

    @Test func `a refusal comes with its errno, and a cancelled claim leaves the queue and nothing else`() async throws
    {
        try await blocking {
            let (never, continuation) = AsyncStream.makeStream(of: Void.self)
            defer { continuation.finish() }
            let left = Events()
            let fake = try FakeDaemon { request throws(VarlinkError) in
                switch request.intents[0].path.path {
                case "slow":
                    for await _ in never {}
                    left.add("left")
                    throw .failed("cancelled", errno: .cancelled, interface: Wire.name)
                case "other": return Wire.ClaimReply(claim: "c1", items: [Wire.Granted(path: request.intents[0].path)])
                default: throw .failed("it burns; run", errno: .deadlock, interface: Wire.name)
                }
            }
            let daemon = DaemonAuthority(fake.address)
            let refusal = #expect(throws: CoveError.self) { try daemon.claim(request(fake.location("f"))) }
            #expect(refusal?.code == .deadlock && refusal?.message == "it burns; run")
            let slow = request(fake.location("slow"))
            let waiting = Task {
                await FileThreads.run {
                    do throws(CoveError) {
                        _ = try daemon.claim(slow)
                        return CoveError.Code?.none
                    } catch {
                        return error.code
                    }
                }
            }
            try waitUntil("it waits") { fake.claims.count == 2 }
            slow.cancellation.cancel()
            #expect(await waiting.value == .cancelled)
            // Its connection has ended, by which the daemon knows that nobody waits.
            try left.wait(for: "left")
            #expect(try daemon.claim(request(fake.location("other"), by: slow.coordinator)).claim == "c1")
            let late = #expect(throws: CoveError.self) { try daemon.claim(slow) }
            #expect(late?.code == .cancelled && fake.claims.count == 3)
        }
    }

    @Test func `a presenter is asked and told, and its answers travel`() async throws {
        try await blocking {
            let fake = try grantAll()
            let daemon = DaemonAuthority(fake.address)
            let presenter = NotingPresenter(
                URL(fileURLWithPath: fake.folder.appending("f")),
                onSave: { _ in throw CoveError(.noSpace, "full") }
            )
            let mailbox = PresenterMailbox(presenter, at: fake.location("f"))
            try daemon.add(mailbox)
            let added = try #require(fake.presenters.first)
            #expect(added.path.path == "f" && added.session == "s1")
            #expect(Set(added.messages ?? []).isSuperset(of: ["relinquishToReader", "reacquire", "didChange"]))
            _ = try daemon.claim(request(fake.location("f"), presenter: mailbox))
            #expect(fake.claims.first?.presenter == "p1")
            let path = PathParameter(RemotePath(unchecked: Array("f".utf8)))
            let new = PathParameter(RemotePath(unchecked: Array("d/g".utf8)))
            fake.send(Wire.Message(number: 1, presenter: "p1", kind: .relinquishToWriter, path: path, claim: "c9"))
            #expect(try fake.answer(to: 1).error == nil)
            fake.send(Wire.Message(number: 2, presenter: "p1", kind: .saveChanges, path: path, claim: "c9"))
            let failed = try fake.answer(to: 2)
            #expect(failed.error == "full" && failed.errno == ENOSPC)
            for message in [
                Wire.Message(number: 3, presenter: "p1", kind: .reacquire, path: path, claim: "c9"),
                Wire.Message(number: 4, presenter: "p1", kind: .didMove, path: path, newPath: new),
                // It does not say which version.
                Wire.Message(number: 5, presenter: "p1", kind: .didGainVersion, path: new),
                Wire.Message(number: 6, presenter: "p1", kind: .didChange, path: new),
            ] { fake.send(message) }
            try presenter.events.wait(for: "changed")
            #expect(presenter.events.all == ["writer", "save", "reacquired", "moved g", "gained -", "changed"])
            #expect(presenter.presentedItemURL?.path == fake.folder.appending("d/g"))
            #expect(mailbox.location == fake.location("d/g"))
            try daemon.move(mailbox)
            daemon.remove(mailbox)
            #expect(fake.events.all.suffix(2) == ["move p1 d/g", "remove p1"])
        }
    }

    @Test func `every question is answered, also by those who do not understand it`() async throws {
        try await blocking {
            let fake = try grantAll()
            let daemon = DaemonAuthority(fake.address)
            _ = try daemon.claim(request(fake.location("f")))
            var odd = Wire.Message(number: 3, presenter: nil, kind: .ping)
            odd.kind = "sing"
            for message in [
                Wire.Message(number: 1, presenter: nil, kind: .ping),
                Wire.Message(number: 2, presenter: "p99", kind: .saveChanges),
                odd,
            ] { fake.send(message) }
            for number in 1...3 { #expect(try fake.answer(to: number).error == nil) }
        }
    }

    @Test func `the next daemon goes on with claims and presenters, and a grant that was lost ends`() async throws {
        try await blocking {
            let fake = try grantAll()
            let daemon = DaemonAuthority(fake.address)
            let presenter = NotingPresenter(URL(fileURLWithPath: fake.folder.appending("f")))
            let mailbox = PresenterMailbox(presenter, at: fake.location("f"))
            try daemon.add(mailbox)
            let grant = try daemon.claim(request(fake.location("f")))
            for claim in ["c1", "lost"] { fake.list(Self.status(claim, "granted")) }
            fake.stop()
            try fake.start()
            try fake.events.wait(for: "release lost")
            try waitUntil("its presenter is back") { fake.presenters.count == 2 }
            fake.send(Wire.Message(number: 7, presenter: "p2", kind: .didChange, path: nil))
            try presenter.events.wait(for: "changed")
            try daemon.release(grant.claim)
            #expect(fake.events.all.contains("attend s1") && fake.events.all.last == "release c1")
        }
    }

    @Test func `a presenter that the next daemon has and nobody knows of is dismissed`() async throws {
        try await blocking {
            let fake = try grantAll()
            let daemon = DaemonAuthority(fake.address)
            let presenter = NotingPresenter(URL(fileURLWithPath: fake.folder.appending("f")))
            try daemon.add(PresenterMailbox(presenter, at: fake.location("f")))
            // The answer to its addition came to nobody, and it was asked for again.
            fake.keep(["p0", "p1"])
            fake.stop()
            try fake.start()
            try fake.events.wait(for: "remove p0")
            try presenter.events.wait(for: "changed")
            #expect(fake.presenters.count == 1 && !fake.events.all.contains("remove p1"))
        }
    }

    @Test func `a claim that is being released while the next daemon comes is released once`() async throws {
        try await blocking {
            let fake = try grantAll()
            let daemon = DaemonAuthority(fake.address)
            let grant = try daemon.claim(request(fake.location("f")))
            for claim in [grant.claim, "lost"] { fake.list(Self.status(claim, "granted")) }
            fake.stop()
            let begun = Events()
            let releasing = Task {
                await FileThreads.run {
                    begun.add("begun")
                    return Result { () throws(CoveError) in try daemon.release(grant.claim) }
                }
            }
            try begun.wait(for: "begun")
            try fake.start()
            try fake.events.wait(for: "release lost")
            let result = await releasing.value
            #expect(throws: Never.self) { try result.get() }
            #expect(fake.events.all.count { $0 == "release \(grant.claim)" } == 1)
        }
    }

    @Test func `a grant that was lost ends while others wait for it`() async throws {
        try await blocking {
            let (released, continuation) = AsyncStream.makeStream(of: Void.self)
            let fake = try FakeDaemon { request throws(VarlinkError) in
                for await _ in released { break }
                return Wire.ClaimReply(claim: "c2", items: [Wire.Granted(path: request.intents[0].path)])
            }
            let daemon = DaemonAuthority(fake.address)
            let claiming = Task { await FileThreads.run { (try? daemon.claim(request(fake.location("f"))))?.claim } }
            try waitUntil("it was asked") { fake.claims.count == 1 }
            for (claim, state) in [("lost", "granted"), ("later", "waiting")] {
                fake.list(Self.status(claim, state))
            }
            fake.stop()
            try fake.start()
            try fake.events.wait(for: "release lost")
            continuation.finish()
            #expect(await claiming.value == "c2")
            #expect(!fake.events.all.contains("release later"))
        }
    }

    private static func status(_ claim: String, _ state: String) -> Wire.ClaimStatus {
        Wire.ClaimStatus(
            claim: claim,
            state: state,
            holder: "session",
            process: getpid(),
            program: "test",
            coordinator: nil,
            purpose: nil,
            intents: [],
            waitsFor: [],
            seconds: 1
        )
    }

    @Test func `a call in the middle of a replacement is made again`() async throws {
        try await blocking {
            let (stopped, continuation) = AsyncStream.makeStream(of: Void.self)
            let fake = try FakeDaemon { request throws(VarlinkError) in
                if request.intents[0].path.path == "first" { for await _ in stopped { break } }
                return Wire.ClaimReply(claim: "c2", items: [Wire.Granted(path: request.intents[0].path)])
            }
            let daemon = DaemonAuthority(fake.address)
            let claiming = Task {
                await FileThreads.run { (try? daemon.claim(request(fake.location("first"))))?.claim }
            }
            try waitUntil("it was asked") { fake.claims.count == 1 }
            fake.stop()
            continuation.finish()
            try fake.start()
            #expect(await claiming.value == "c2")
        }
    }

    @Test func `a daemon that knows nothing of claims is no daemon to wait for`() async throws {
        try await blocking {
            let folder = try TemporaryDirectory("kd")
            let server = VarlinkServer(product: "Old", version: "1", interfaces: [])
            try server.start(at: folder.appending("sock"))
            defer { server.stop(grace: .zero) }
            let daemon = DaemonAuthority(DaemonAddress(socket: folder.appending("sock")), patience: 60)
            let error = #expect(throws: CoveError.self) { try daemon.claim(request(Location(outside: "/f"))) }
            #expect(error?.message.contains("InterfaceNotFound") == true)
        }
    }

    @Test func `a claim that others got says so when it ends`() async throws {
        try await blocking {
            let fake = try grantAll()
            let daemon = DaemonAuthority(fake.address)
            let grant = try daemon.claim(request(fake.location("f")))
            fake.send(Wire.Message(number: 1, presenter: nil, kind: .claimLost, claim: grant.claim))
            // Messages are read in order: once this one is answered, the one before it was heard.
            fake.send(Wire.Message(number: 2, presenter: nil, kind: .ping))
            _ = try fake.answer(to: 2)
            let error = #expect(throws: CoveError.self) { try daemon.release(grant.claim) }
            #expect(error?.code == .stale)
        }
    }

    @Test func `without a daemon calls fail after a while`() async throws {
        try await blocking {
            let fake = try grantAll()
            let daemon = DaemonAuthority(fake.address, patience: 0.2)
            let grant = try daemon.claim(request(fake.location("f")))
            fake.stop()
            let gone = #expect(throws: CoveError.self) { try daemon.release(grant.claim) }
            #expect(gone?.code == .stale)
            let error = #expect(throws: CoveError.self) { try daemon.claim(request(fake.location("f"))) }
            #expect(error?.code == .noDaemon)
            try fake.start()
            #expect(try daemon.claim(request(fake.location("f"))).claim == "c1")
        }
    }
}
