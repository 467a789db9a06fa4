internal import CoveCore
internal import Foundation

/// The daemon of an account: it coordinates all programs that use the mount.
final class DaemonAuthority: Authority {
    let name: String
    private let session: DaemonSession

    /// Talks to a daemon's socket for coordination; the next one is waited for so many seconds when it is gone.
    init(_ address: DaemonAddress, patience: TimeInterval = 10) {
        name = address.socket
        session = DaemonSession(address, patience: patience)
    }

    /// The same where so many claims may wait at the daemon at a time.
    init(_ address: DaemonAddress, waitingClaims: Int) {
        name = address.socket
        session = DaemonSession(address, patience: 10, waitingClaims: waitingClaims)
    }

    /// How many claims are not asked for yet.
    var queuedClaims: Int { session.turnstile.waiting }

    func claim(_ request: ClaimRequest) throws(CoveError) -> Grant {
        let reply = try inTurn(request) { request throws(CoveError) in
            try session.claim(request.cancellation) { wire(request, $0) }
        }
        return Grant(
            claim: reply.claim,
            paths: zip(request.intents, reply.items).map { intent, item in
                if let snapshot = item.snapshot { return snapshot }
                guard let remote = (try? item.path.remotePath()) ?? nil else { return intent.location.path }
                return intent.location.sibling(at: remote).path
            },
            openFiles: (reply.openFiles ?? []).flatMap { file in
                request.intents.prefix(1).map { FileCoordinator.OpenFile(file, in: $0.location) }
            }
        )
    }

    func prepare(_ request: ClaimRequest) throws(CoveError) -> String {
        try inTurn(request) { request throws(CoveError) in
            try session.prepare(request.cancellation) { wire(request, $0) }
        }
    }

    /// Asks for what may wait: of requests for which nobody is known to wait only so many at a time.
    private func inTurn<Value>(
        _ request: ClaimRequest,
        _ body: (ClaimRequest) throws(CoveError) -> Value
    ) throws(CoveError) -> Value {
        // Others may wait for what is asked for in an accessor or by a presenter; what has no time does not wait.
        let isUrgent = request.isNested || request.presenter != nil || request.timeout.map { $0 <= .zero } ?? false
        if isUrgent { return try body(request) }
        let deadline = request.timeout.map { ContinuousClock.now + $0 }
        let hasWaited = try session.turnstile.enter(until: deadline, request.cancellation)
        defer { session.turnstile.leave() }
        var request = request
        if hasWaited { request.timeout = deadline.map { max(.zero, $0 - .now) } }
        return try body(request)
    }

    func release(_ claim: String) throws(CoveError) {
        if !session.isLost(claim) {
            do throws(CoveError) { return try session.release(claim) } catch {
                // A daemon that is gone keeps no claim; whether it kept it so long nobody can tell.
                guard error.code == .stale || error.code == .noDaemon else { throw error }
            }
        }
        session.forget(claim)
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

    func movedOut(_ claim: String, from: Location, to path: String) throws(CoveError) {
        let _: VarlinkNothing = try session.call("MovedOut") { _ in
            CoordinationInterface.MovedOutRequest(claim: claim, path: PathParameter(from.remote), outside: path)
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

    func blockers(of coordinator: CoordinatorIdentity) -> Set<String> {
        let claims = session.listedClaims()
        let waits = Dictionary(claims.map { ($0.claim, $0.waitsFor) }) { first, _ in first }
        var next = claims.filter { $0.coordinator == coordinator.name && $0.state != "granted" }.flatMap(\.waitsFor)
        var found: Set<String> = []
        while let claim = next.popLast() {
            if found.insert(claim).inserted { next += waits[claim] ?? [] }
        }
        return found
    }

    private func wire(_ request: ClaimRequest, _ session: String) -> CoordinationInterface.ClaimRequest {
        let presenter = request.presenter.flatMap { self.session.token(of: $0) }
        return CoordinationInterface.ClaimRequest(
            session: session,
            coordinator: request.coordinator.name,
            // The daemon knows a presenter's.
            purpose: presenter == nil ? request.purpose : nil,
            presenter: presenter,
            intents: request.intents.map(\.wire),
            timeout: request.timeout.map { $0 / .seconds(1) },
            within: request.within,
            openFiles: request.openFiles == .wait ? nil : request.openFiles.rawValue,
            answering: presenter == nil || request.answering.isEmpty ? nil : request.answering
        )
    }
}
