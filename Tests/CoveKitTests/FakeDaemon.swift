import CoveTestSupport
import Foundation
import Synchronization

@testable import CoveCore
@testable import CoveKit

/// The other end of the wire: notes what it is asked, and answers and sends what a test says.
final class FakeDaemon: Sendable {
    typealias Wire = CoordinationInterface
    typealias Grant = @Sendable (Wire.ClaimRequest) async throws(VarlinkError) -> Wire.ClaimReply

    private struct State {
        var server: VarlinkServer?
        var sessions = 0
        var stream: AsyncStream<Wire.Message>.Continuation?
        var claims: [Wire.ClaimRequest] = []
        var presenters: [Wire.PresenterRequest] = []
        var answers: [Int: Wire.AnswerRequest] = [:]
        var listed: [Wire.ClaimStatus] = []
        var kept: [String] = []
        /// What it says of claims as it goes on with a session; an older daemon says nothing.
        var told: (claims: [String], letIn: [String])?
        /// How many releases it still refuses as a server does that has no room for their connections.
        var refusals = 0
    }

    let folder: TemporaryDirectory
    /// What it was asked, with the token that matters.
    let events = Events()
    private let state = Mutex(State())
    private let grant: Grant
    private let limits: VarlinkServer.Limits

    var socket: String { folder.appending("sock") }
    var address: DaemonAddress { DaemonAddress(socket: socket) }
    var claims: [Wire.ClaimRequest] { state.withLock { $0.claims } }
    var presenters: [Wire.PresenterRequest] { state.withLock { $0.presenters } }

    /// Makes a daemon that grants as the closure says, with room for so many connections.
    init(connections: Int = 1024, _ grant: @escaping Grant) throws {
        var limits = VarlinkServer.Limits()
        limits.connections = connections
        self.limits = limits
        folder = try TemporaryDirectory("kd")
        self.grant = grant
        try start()
    }

    deinit { stop() }

    /// A place on a mount of this daemon's.
    func location(_ name: String) -> Location {
        let mount = Mount(
            id: 1,
            majorDevice: 0,
            minorDevice: 9,
            root: "/",
            path: folder.path,
            type: "fuse.cove",
            source: "cove:test",
            owner: geteuid()
        )
        let remote = RemotePath(unchecked: Array(name.utf8))
        return Location(path: folder.appending(name), mount: mount, remote: remote)
    }

    func start() throws {
        let interface = VarlinkInterface(name: Wire.name, definition: Wire.definition, methods: methods)
        let server = VarlinkServer(product: "Fake", version: "1", interfaces: [interface], limits: limits)
        try server.start(at: socket)
        state.withLock { $0.server = server }
    }

    /// Ends at once, with all connections.
    func stop() {
        let (server, stream) = state.withLock { state in
            defer { (state.server, state.stream) = (nil, nil) }
            return (state.server, state.stream)
        }
        stream?.finish()
        server?.stop(grace: .zero)
    }

    func send(_ message: Wire.Message) { _ = state.withLock { $0.stream?.yield(message) } }

    /// Waits for the reply to a message.
    func answer(to number: Int) throws -> Wire.AnswerRequest {
        try waitUntil("message \(number) is answered") { state.withLock { $0.answers[number] } != nil }
        return state.withLock { $0.answers[number] } ?? Wire.AnswerRequest(session: "", message: 0)
    }

    /// Which presenters it still has when it goes on with a session.
    func keep(_ presenters: [String]) { state.withLock { $0.kept = presenters } }

    /// What it says of claims when it goes on with a session; it refuses to list any then, as it does to apps.
    func tell(claims: [String], letIn: [String]) { state.withLock { $0.told = (claims, letIn) } }

    /// Refuses so many releases.
    func refuseReleases(_ count: Int) { state.withLock { $0.refusals = count } }

    func list(_ claim: Wire.ClaimStatus) { state.withLock { $0.listed.append(claim) } }

    private var methods: [String: VarlinkMethod] {
        [
            "Attend": VarlinkMethod { [weak self] (request: Wire.AttendRequest, call) async throws(VarlinkError) in
                let (stream, continuation) = AsyncStream.makeStream(of: Wire.Message.self)
                let token = self?.begin(request.resume, continuation)
                let kept = request.resume == nil ? nil : self?.state.withLock { $0.kept }
                let told = request.resume == nil ? nil : self?.state.withLock { $0.told }
                try await call.send(
                    Wire.AttendReply(session: token, presenters: kept, claims: told?.claims, letIn: told?.letIn)
                )
                for await message in stream { try await call.send(Wire.AttendReply(message: message)) }
                return Wire.AttendReply()
            },
            "Claim": VarlinkMethod { [weak self] (request: Wire.ClaimRequest, _) async throws(VarlinkError) in
                guard let self else { throw VarlinkError(name: "test.Gone") }
                self.note("claim \(request.session ?? "-")") { $0.claims.append(request) }
                return try await self.grant(request)
            },
            "Prepare": VarlinkMethod { [weak self] (request: Wire.ClaimRequest, _) async throws(VarlinkError) in
                self?.note("prepare") { $0.claims.append(request) }
                return Wire.PrepareReply(claim: "c0")
            },
            "Release": VarlinkMethod { [weak self] (request: Wire.ReleaseRequest, _) async throws(VarlinkError) in
                let isRefused = self?.state.withLock { state in
                    state.refusals -= 1
                    return state.refusals >= 0
                }
                if isRefused == true { throw VarlinkError(name: VarlinkError.tooManyConnections) }
                self?.note("release \(request.claim)")
                return VarlinkNothing()
            },
            "Moved": nothing { (request: Wire.MovedRequest, daemon) in
                daemon.note("moved \(request.claim) \(request.path.path ?? "-") \(request.newPath.path ?? "-")")
            },
            "Cancel": nothing { (request: Wire.CancelRequest, daemon) in daemon.note("cancel \(request.coordinator)") },
            "AddPresenter": VarlinkMethod {
                [weak self] (request: Wire.PresenterRequest, _) async throws(VarlinkError) in
                let count = self?.add(request) ?? 0
                return Wire.PresenterReply(presenter: "p\(count)")
            },
            "MovePresenter": nothing { (request: Wire.PresenterRequest, daemon) in
                daemon.note("move \(request.presenter ?? "-") \(request.path.path ?? "-")")
            },
            "RemovePresenter": nothing { (request: Wire.PresenterRequest, daemon) in
                daemon.note("remove \(request.presenter ?? "-")")
            },
            "Reply": nothing { (request: Wire.AnswerRequest, daemon) in
                daemon.note("reply \(request.message)") { $0.answers[request.message] = request }
            },
            "List": VarlinkMethod { [weak self] (_: VarlinkNothing, _) async throws(VarlinkError) in
                if self?.state.withLock({ $0.told }) != nil { throw .permissionDenied }
                return Wire.ListReply(claims: self?.state.withLock { $0.listed } ?? [], presenters: [])
            },
        ]
    }

    private func nothing<Request: Decodable & SendableMetatype>(
        _ body: @escaping @Sendable (Request, FakeDaemon) -> Void
    ) -> VarlinkMethod {
        VarlinkMethod { [weak self] (request: Request, _) async throws(VarlinkError) in
            if let self { body(request, self) }
            return VarlinkNothing()
        }
    }

    private func note(_ event: String, _ change: (inout State) -> Void = { _ in }) {
        state.withLock { change(&$0) }
        events.add(event)
    }

    private func begin(_ resumed: String?, _ stream: AsyncStream<Wire.Message>.Continuation) -> String {
        let token = state.withLock { state in
            state.sessions += 1
            state.stream = stream
            return resumed ?? "s\(state.sessions)"
        }
        events.add("attend \(resumed ?? "-")")
        return token
    }

    private func add(_ request: Wire.PresenterRequest) -> Int {
        let count = state.withLock { state in
            state.presenters.append(request)
            return state.presenters.count
        }
        events.add("add \(request.path.path ?? "-")")
        return count
    }
}
