internal import Synchronization

/// What belongs to one connection and ends with it.
public final class ConnectionScope: Sendable {
    private struct State {
        var isEnded = false
        var holds = 0
        var session: Int?
        var tokens: [String] = []
        var bodies: [@Sendable () -> Void] = []
        /// Undoes the last call.
        var undo: (@Sendable () -> Void)?
    }

    private let state = Mutex(State())

    init() {}

    /// Runs the body once the connection has ended, at once if it has already.
    public func whenEnded(_ body: @escaping @Sendable () -> Void) {
        let isEnded = state.withLock { state in
            if !state.isEnded { state.bodies.append(body) }
            return state.isEnded
        }
        if isEnded { body() }
    }

    /// Runs the body when the peer goes without having read the reply of the call being answered, at once if it has gone.
    public func whenUnread(_ body: @escaping @Sendable () -> Void) {
        let isEnded = state.withLock { state in
            if !state.isEnded { state.undo = body }
            return state.isEnded
        }
        if isEnded { body() }
    }

    /// The peer has the last reply.
    func noteRead() { state.withLock { $0.undo = nil } }

    /// A number that belongs to the connection, made when it is first asked for.
    public func session<Failure: Error>(_ make: () throws(Failure) -> Int) throws(Failure) -> Int {
        if let session = state.withLock({ $0.session }) { return session }
        let made = try make()
        state.withLock { $0.session = made }
        return made
    }

    /// What was given out over the connection last.
    public var tokens: [String] { state.withLock { $0.tokens } }

    /// Notes what is given out; as many as fit are kept.
    public func note(token: String) {
        state.withLock { state in
            if state.tokens.count >= 64 { state.tokens.removeFirst() }
            state.tokens.append(token)
        }
    }

    /// What was given out is over.
    public func drop(token: String) { state.withLock { $0.tokens.removeAll { $0 == token } } }

    /// While something is held the connection may rest for as long as it likes.
    public func hold(_ by: Int) { state.withLock { $0.holds += by } }

    var isHeld: Bool { state.withLock { $0.holds > 0 } }

    func end(isUnread: Bool) {
        let (undo, bodies) = state.withLock { state in
            defer { (state.undo, state.bodies) = (nil, []) }
            state.isEnded = true
            return (state.undo, state.bodies)
        }
        if isUnread { undo?() }
        for body in bodies { body() }
    }
}
