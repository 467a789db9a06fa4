internal import CoveCore
internal import Foundation

/// This process's session with one daemon: a thread that hears its messages, and goes on with the next daemon.
///
/// Lock order: `state` is held over no call.
final class DaemonSession: Sendable {
    struct State {
        var isRunning = false
        /// The session's token while the daemon is there.
        var token: String?
        /// The token of the session, also while the daemon is away.
        var known: String?
        /// Rises with each daemon.
        var generation = 0
        var presenters: [ObjectIdentifier: (mailbox: PresenterMailbox, token: String?)] = [:]
        /// Claims that this process holds, and whether others got them since.
        var claims: [String: Bool] = [:]
        /// Calls of `Claim` under way, with the daemon they were made to.
        var asking: [UUID: Int] = [:]
        /// True when no daemon came for a while; presenters wait on.
        var isGone = false
        /// Why the daemon takes no session, when it says so.
        var refusal: CoveError?
        /// The time at which a daemon that went away counts as gone.
        var goneAt = Date.distantFuture
    }

    let state = Monitor(State())
    let connections: DaemonConnections
    /// How long an answer is tried to be given: a daemon gives away the claims of who has not answered it for so long.
    private static let answerTime = Duration.seconds(10)
    /// How many claims may wait at the daemon, for each takes a connection; those of accessors and presenters, for which others
    /// may wait, are not among them.
    static let waitingClaims = 200
    let turnstile: Turnstile
    /// How long the next daemon is waited for.
    private let patience: TimeInterval

    init(_ address: DaemonAddress, patience: TimeInterval, waitingClaims: Int = DaemonSession.waitingClaims) {
        turnstile = Turnstile(places: waitingClaims, extra: waitingClaims / 4)
        connections = DaemonConnections(address)
        self.patience = patience
    }

    /// Calls a method of the interface as part of the session; again, when the daemon was replaced in the middle.
    ///
    /// A cancellation ends the wait for the reply.
    func call<Reply: Decodable>(
        _ method: String,
        as type: Reply.Type = Reply.self,
        _ cancellation: Cancellation? = nil,
        isAtOnce: Bool = false,
        whenAgain: () -> Void = {},
        _ parameters: (_ session: String) -> some Encodable
    ) throws(CoveError) -> Reply {
        let name = "\(CoordinationInterface.name).\(method)"
        var failures = 0
        while true {
            try cancellation?.check()
            if failures > 0 { whenAgain() }
            let (token, generation) = try attach(cancellation)
            do throws(VarlinkClient.Failure) {
                if isAtOnce { return try connections.callAtOnce(name, parameters(token), as: type) }
                return try connections.call(name, parameters(token), as: type, cancellation)
            } catch .connection(let errno) {
                // It may have been a connection that rested for too long.
                connections.forget()
                failures += 1
                guard failures < 20 else { throw CoveError(VarlinkClient.Failure.connection(errno), url: nil) }
                if failures > 1 { awaitChange(after: generation) }
            } catch {
                throw CoveError(error, url: nil)
            }
        }
    }

    // MARK: Presenters

    /// The daemon's name of a presenter.
    func token(of mailbox: PresenterMailbox) -> String? {
        let key = ObjectIdentifier(mailbox)
        let (isKnown, token) = state.withLock { ($0.presenters[key] != nil, $0.presenters[key]?.token) }
        if let token { return token }
        guard isKnown else { return nil }
        try? announce(mailbox)
        return state.withLock { $0.presenters[key]?.token }
    }

    func add(_ mailbox: PresenterMailbox) throws(CoveError) {
        let key = ObjectIdentifier(mailbox)
        // A session that begins announces all presenters by itself: this one is to be announced once.
        _ = try attach()
        state.withLock { $0.presenters[key] = (mailbox, nil) }
        do throws(CoveError) { try announce(mailbox) } catch {
            state.withLock { _ = $0.presenters.removeValue(forKey: key) }
            throw error
        }
    }

    func remove(_ mailbox: PresenterMailbox) -> String? {
        state.withLock { $0.presenters.removeValue(forKey: ObjectIdentifier(mailbox)) }?.token
    }

    private func announce(_ mailbox: PresenterMailbox) throws(CoveError) {
        var generation = 0
        let reply: CoordinationInterface.PresenterReply = try call("AddPresenter") { session in
            generation = state.withLock { $0.generation }
            return CoordinationInterface.PresenterRequest(
                session: session,
                path: mailbox.location.map { PathParameter($0.remote) },
                messages: mailbox.wireMessages,
                observes: mailbox.observedAttributes,
                purpose: mailbox.purpose
            )
        }
        let isWanted = state.withLock { state in
            let key = ObjectIdentifier(mailbox)
            // A daemon that came meanwhile is told anew.
            guard state.generation == generation, let known = state.presenters[key], known.token == nil else {
                return false
            }
            state.presenters[key] = (mailbox, reply.presenter)
            return true
        }
        if !isWanted { dismiss(reply.presenter) }
    }

    /// Tells the daemon that a presenter is gone.
    func dismiss(_ token: String) {
        let _: VarlinkNothing? = try? call("RemovePresenter") { session in
            CoordinationInterface.PresenterRequest(session: session, presenter: token)
        }
    }

    // MARK: The stream

    /// Waits until the session is there, which the first call begins.
    private func attach(_ cancellation: Cancellation? = nil) throws(CoveError) -> (token: String, generation: Int) {
        guard let cancellation else { return try attached {} }
        return try cancellation.whileWaking(by: { [state] in state.withLock { _ in } }) { () throws(CoveError) in
            try attached { () throws(CoveError) in try cancellation.check() }
        }
    }

    private func attached(
        check: () throws(CoveError) -> Void
    ) throws(CoveError) -> (token: String, generation: Int) {
        let mustStart = state.withLock { state in
            defer { state.isRunning = true }
            guard !state.isRunning else { return false }
            state.goneAt = Date() + patience
            state.isGone = false
            state.refusal = nil
            return true
        }
        if mustStart { try startThread() }
        return try state.wait { state throws(CoveError) in
            try check()
            if let token = state.token { return (token, state.generation) }
            if let refusal = state.refusal { throw refusal }
            if !state.isRunning || state.isGone {
                throw CoveError(.noDaemon, "no daemon answers at \(connections.address.socket)")
            }
            return nil
        }
    }

    private func startThread() throws(CoveError) {
        do throws(Errno) {
            try BlockingThread.start { [self] in run() }
        } catch {
            state.withLock { $0.isRunning = false }
            throw CoveError(error)
        }
    }

    /// After a failed call: waits for the next daemon, or a moment for this one.
    private func awaitChange(after generation: Int) {
        _ = try? state.wait(until: Date() + 0.1) { $0.generation != generation && $0.token != nil ? true : nil }
    }

    /// Hears daemon after daemon until none comes for a while and nothing is left to hear for.
    private func run() {
        while true {
            hear()
            connections.forgetAll()
            let pause: Int32? = state.withLock { state in
                if state.token != nil {
                    state.token = nil
                    state.goneAt = Date() + patience
                }
                guard Date() >= state.goneAt else { return 20 }
                // Claims did not outlive their daemon; presenters wait for the next one for as long as it takes.
                for claim in state.claims.keys { state.claims[claim] = true }
                state.known = nil
                state.isGone = true
                state.isRunning = !state.presenters.isEmpty
                return state.isRunning ? 1000 : nil
            }
            guard let pause else { return }
            _ = poll(nil, 0, pause)
        }
    }

    /// Attends once, until the connection ends.
    private func hear() {
        let known = state.withLock { $0.known }
        do throws(VarlinkClient.Failure) {
            let client = try VarlinkClient(connections.address)
            let _: CoordinationInterface.AttendReply = try client.stream(
                "\(CoordinationInterface.name).Attend",
                CoordinationInterface.AttendRequest(resume: known, keepsPresenters: true)
            ) { (reply: CoordinationInterface.AttendReply) in
                if let token = reply.session {
                    connections.keepReserve(waits: true)
                    begin(token, isResumed: token == known, reply)
                }
                if let message = reply.message { receive(message) }
            }
        } catch .error(let error) where error.errno == .stale {
            // The session is not known any more: the next one is a new one.
            state.withLock { $0.known = nil }
        } catch .error(let error) {
            // Such as that of a daemon older than this library, or of one with too many connections.
            giveUp(.error(error))
        } catch .stranger(let user) {
            giveUp(.stranger(user))
        } catch {}
    }

    private func giveUp(_ failure: VarlinkClient.Failure) {
        let refusal = CoveError(failure, url: nil)
        state.withLock { state in
            state.refusal = refusal
            state.goneAt = Date()
        }
    }

    /// A daemon is there; the reply tells what it has of the daemon before it.
    private func begin(_ token: String, isResumed: Bool, _ reply: CoordinationInterface.AttendReply) {
        let kept = Set(reply.presenters ?? [])
        // Before this process asks the new daemon for anything; an older one does not tell by itself.
        let held = isResumed ? reply.claims ?? heldClaims() : []
        let (presenters, former, strange, unknown, isFirst) = state.withLock { state in
            state.generation += 1
            state.known = token
            state.token = token
            state.goneAt = .distantFuture
            state.isGone = false
            state.refusal = nil
            if !isResumed {
                for claim in state.claims.keys { state.claims[claim] = true }
            }
            // Those whose token was lost with the old daemon, or whose end was.
            let strange = kept.subtracting(state.presenters.values.compactMap(\.token))
            var former: Set<ObjectIdentifier> = []
            for (key, presenter) in state.presenters {
                if presenter.token.map(kept.contains) == true {
                    former.insert(key)
                } else {
                    state.presenters[key]?.token = nil
                }
            }
            let unknown = held.filter { state.claims[$0] == nil }
            return (state.presenters.values.map(\.mailbox), former, strange, unknown, state.generation == 1)
        }
        if !unknown.isEmpty { FileThreads.start { [self] in releaseUnknown(unknown) } }
        if !strange.isEmpty { FileThreads.start { [self] in for token in strange { dismiss(token) } } }
        guard !presenters.isEmpty else { return }
        // Of these claims nobody tells a presenter the end, unless the new daemon has both.
        let letIn = isFirst ? [] : presenters.map { ($0, $0.letIn) }
        FileThreads.start { [self] in
            for mailbox in presenters {
                if state.withLock({ $0.presenters[ObjectIdentifier(mailbox)]?.token == nil }) { try? announce(mailbox) }
                // What happened while no daemon knew of the presenter nobody tells it.
                if !isFirst, let place = mailbox.location { mailbox.post(.init(kind: .didChange, location: place)) }
            }
            guard letIn.contains(where: { !$0.1.isEmpty }) else { return }
            var live = Set(reply.letIn ?? [])
            if reply.letIn == nil, !former.isEmpty {
                guard let claims = allClaims() else { return }
                live = Set(claims.map(\.claim))
            }
            for (mailbox, letIn) in letIn {
                mailbox.reacquire(former.contains(ObjectIdentifier(mailbox)) ? letIn.subtracting(live) : letIn)
            }
        }
    }

    private func receive(_ message: CoordinationInterface.Message) {
        let kind = CoordinationInterface.MessageKind(rawValue: message.kind)
        if kind == .claimLost, let claim = message.claim {
            state.withLock { state in
                if state.claims[claim] != nil { state.claims[claim] = true }
            }
        }
        let mailbox = state.withLock { state in
            state.presenters.values.first { $0.token != nil && $0.token == message.presenter }?.mailbox
        }
        guard let mailbox, let kind, let delivery = PresenterMailbox.Delivery(message, kind, in: mailbox.location)
        else {
            if message.wantsReply { answer(message.number, nil) }
            return
        }
        mailbox.post(delivery) { [self] error in
            guard message.wantsReply else { return }
            FileThreads.start { self.answer(message.number, error) }
        }
    }

    private func answer(_ number: Int, _ error: CoveError?) {
        guard let token = state.withLock({ $0.token }) else { return }
        let request = CoordinationInterface.AnswerRequest(
            session: token,
            message: number,
            error: error?.message,
            errno: error?.code.rawValue
        )
        let deadline = ContinuousClock.now + Self.answerTime
        // When the daemon is gone, the question is.
        while state.withLock({ $0.token }) == token, .now < deadline {
            do throws(VarlinkClient.Failure) {
                let _: VarlinkNothing = try connections.callAtOnce("\(CoordinationInterface.name).Reply", request)
                return
            } catch {
                guard Self.hasNotArrived(CoveError(error, url: nil)) else { return }
                _ = poll(nil, 0, 100)
            }
        }
    }
}
