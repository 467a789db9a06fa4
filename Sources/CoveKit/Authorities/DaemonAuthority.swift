internal import CoveCore
internal import Foundation

/// The daemon of an account: it coordinates all programs that use the mount.
final class DaemonAuthority: Authority {
    let name: String
    private let session: DaemonSession

    /// Talks to the daemon at a socket; the next one is waited for so many seconds when it is gone.
    init(socket: String, patience: TimeInterval = 10) {
        name = socket
        session = DaemonSession(socket: socket, patience: patience)
    }

    /// Calls a method of any interface, in no session.
    func call<Reply: Decodable>(
        _ method: String,
        _ parameters: some Encodable,
        as type: Reply.Type = Reply.self,
        for url: URL? = nil
    ) throws(CoveError) -> Reply {
        try use(for: url) { client throws(VarlinkClient.Failure) in try client.call(method, parameters, as: type) }
    }

    /// Calls a method with `more`; all its replies.
    func stream<Reply: Decodable>(
        _ method: String,
        _ parameters: some Encodable,
        as type: Reply.Type,
        for url: URL
    ) throws(CoveError) -> [Reply] {
        try use(for: url) { client throws(VarlinkClient.Failure) in
            var replies: [Reply] = []
            let last = try client.stream(method, parameters, as: type) { (reply: Reply) in replies.append(reply) }
            return replies + [last]
        }
    }

    /// Lends a connection to the body; a second time when the first one had been closed at the other end.
    private func use<Value>(
        for url: URL?,
        _ body: (VarlinkClient) throws(VarlinkClient.Failure) -> Value
    ) throws(CoveError) -> Value {
        do throws(VarlinkClient.Failure) {
            do throws(VarlinkClient.Failure) {
                return try session.connections.use(body)
            } catch .connection {
                session.connections.forget()
                return try session.connections.use(body)
            }
        } catch {
            throw CoveError(error, url: url)
        }
    }

    func claim(_ request: ClaimRequest) throws(CoveError) -> Grant {
        let check = { () throws(CoveError) in try request.coordinator.check() }
        let reply = try session.claim(check: check) { wire(request, $0) }
        return Grant(
            claim: reply.claim,
            paths: zip(request.intents, reply.items).map { intent, item in
                if let snapshot = item.snapshot { return snapshot }
                guard let remote = (try? item.path.remotePath()) ?? nil else { return intent.location.path }
                return intent.location.sibling(at: remote).path
            }
        )
    }

    func prepare(_ request: ClaimRequest) throws(CoveError) {
        let check = { () throws(CoveError) in try request.coordinator.check() }
        let _: VarlinkNothing = try session.call("Prepare", check: check) { wire(request, $0) }
    }

    func release(_ claim: String) throws(CoveError) {
        let isLost = session.forget(claim)
        if !isLost {
            do throws(CoveError) {
                let _: VarlinkNothing = try session.call("Release") { _ in
                    CoordinationInterface.ReleaseRequest(claim: claim)
                }
                return
            } catch {
                // A daemon that is gone keeps no claim; whether it kept it so long nobody can tell.
                guard error.code == .stale || error.code == .noDaemon else { throw error }
            }
        }
        throw CoveError(.stale, "the claim was lost before it was released: others may have used the item")
    }

    func moved(_ claim: String, from: Location, to: Location) throws(CoveError) {
        let _: VarlinkNothing = try session.call("Moved") { _ in
            CoordinationInterface.MovedRequest(
                claim: claim,
                path: PathParameter(from.remote),
                newPath: PathParameter(to.remote)
            )
        }
    }

    func cancel(_ coordinator: CoordinatorIdentity) {
        let _: VarlinkNothing? = try? session.call("Cancel") { session in
            CoordinationInterface.CancelRequest(session: session, coordinator: coordinator.name)
        }
    }

    func add(_ presenter: PresenterMailbox) throws(CoveError) { try session.add(presenter) }

    func move(_ presenter: PresenterMailbox) throws(CoveError) {
        guard let token = session.token(of: presenter) else { return }
        let _: VarlinkNothing = try session.call("MovePresenter") { session in
            CoordinationInterface.PresenterRequest(
                session: session,
                presenter: token,
                path: presenter.location.map { PathParameter($0.remote) }
            )
        }
    }

    func remove(_ presenter: PresenterMailbox) {
        if let token = session.remove(presenter) { session.dismiss(token) }
    }

    private func wire(_ request: ClaimRequest, _ session: String) -> CoordinationInterface.ClaimRequest {
        CoordinationInterface.ClaimRequest(
            session: session,
            coordinator: request.coordinator.name,
            purpose: request.purpose,
            presenter: request.presenter.flatMap { self.session.token(of: $0) },
            intents: request.intents.map { intent in
                let path = PathParameter(intent.location.remote)
                return switch intent.purpose {
                case .reading(let options): CoordinationInterface.Intent(reading: path, options.wire)
                case .writing(let options): CoordinationInterface.Intent(writing: path, options.wire.first)
                }
            },
            timeout: request.timeout.map { $0 / .seconds(1) }
        )
    }
}
