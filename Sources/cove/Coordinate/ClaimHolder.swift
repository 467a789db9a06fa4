internal import CoveCore
internal import Glibc
internal import Synchronization

/// A session with the daemon, kept alive by a thread that answers for this process, also to the daemon's successor.
final class ClaimHolder: Sendable {
    private typealias Interface = CoordinationInterface

    private struct State {
        var token: String
        /// Rises with each daemon.
        var generation = 0
        /// True while a command relies on the claims.
        var isHolding = false
        /// True once others may have got what was claimed.
        var isLost = false
    }

    private let state: Mutex<State>
    let daemon: DaemonAddress
    let name: String

    /// The session's token, and which daemon it is of.
    var session: (token: String, generation: Int) { state.withLock { ($0.token, $0.generation) } }

    private init(token: String, daemon: DaemonAddress, name: String) {
        state = Mutex(State(token: token))
        self.daemon = daemon
        self.name = name
    }

    /// From now on a command relies on what the session was granted; false when that was lost meanwhile and is to be asked
    /// for again.
    func hold(_ token: String) -> Bool {
        state.withLock { state in
            guard state.token == token, !state.isLost else {
                state.isLost = false
                return false
            }
            state.isHolding = true
            return true
        }
    }

    /// The command has ended; false when others may have got what it relied on before.
    func endHold() -> Bool {
        state.withLock { state in
            state.isHolding = false
            return !state.isLost
        }
    }

    /// Begins a session.
    static func begin(_ daemon: DaemonAddress, name: String) throws(Failure) -> ClaimHolder {
        let slot = Slot()
        do throws(Errno) {
            try BlockingThread.start {
                do throws(Failure) {
                    let connection = try AccountConnection(daemon, name: name)
                    var holder: ClaimHolder?
                    let _: Interface.AttendReply = try connection.stream(
                        "\(Interface.name).Attend",
                        Interface.AttendRequest()
                    ) { (reply: Interface.AttendReply) in
                        if let token = reply.session {
                            let made = ClaimHolder(token: token, daemon: daemon, name: name)
                            holder = made
                            slot.put(.success(made))
                        } else if let message = reply.message {
                            holder?.take(message)
                        }
                    }
                    holder?.goOn()
                } catch {
                    slot.put(.failure(error))
                    slot.value?.goOn()
                }
            }
        } catch {
            throw Failure(nil, "no thread can be started: \(error)", "check the limit of processes")
        }
        return try slot.wait()
    }

    /// The daemon has gone: its successor is asked for the session.
    private func goOn() {
        let deadline = System.monotonic() + .seconds(10)
        let token = session.token
        while System.monotonic() < deadline {
            guard let connection = try? AccountConnection(daemon, name: name) else {
                _ = poll(nil, 0, 50)
                continue
            }
            var isOurs: Bool?
            _ = try? connection.stream("\(Interface.name).Attend", Interface.AttendRequest(resume: token)) {
                (reply: Interface.AttendReply) in
                if let session = reply.session {
                    // What holds nothing yet can as well begin anew.
                    let goesOn = state.withLock { state in
                        let goesOn = session == token || !state.isHolding
                        if goesOn { state.token = session }
                        state.generation += 1
                        return goesOn
                    }
                    isOurs = goesOn
                    // The stream of a session that is of no use goes on none the less.
                    if !goesOn { warn() }
                } else if let message = reply.message {
                    take(message)
                }
            }
            // The one that is dying may still take connections.
            guard let isOurs else {
                _ = poll(nil, 0, 50)
                continue
            }
            if isOurs { goOn() }
            return
        }
        warn()
    }

    private func take(_ message: CoordinationInterface.Message) {
        if message.kind == CoordinationInterface.MessageKind.claimLost.rawValue { warn() }
        guard message.wantsReply, let connection = try? AccountConnection(daemon, name: name) else { return }
        let answer = CoordinationInterface.AnswerRequest(session: session.token, message: message.number)
        let _: VarlinkNothing? = try? connection.call("\(CoordinationInterface.name).Reply", answer)
    }

    private func warn() {
        let isHolding = state.withLock { state in
            state.isLost = true
            return state.isHolding
        }
        guard isHolding else { return }
        Tool.report(Failure(name, "the claim is lost: others may use it now", "end the command"))
    }

    /// The session, once there is one, or why there is none.
    private final class Slot: Sendable {
        private let result = Mutex<Result<ClaimHolder, Failure>?>(nil)

        var value: ClaimHolder? { result.withLock { try? $0?.get() } }

        func put(_ new: Result<ClaimHolder, Failure>) { result.withLock { $0 = $0 ?? new } }

        func wait() throws(Failure) -> ClaimHolder {
            while true {
                if let result = result.withLock({ $0 }) { return try result.get() }
                _ = poll(nil, 0, 1)
            }
        }
    }
}
