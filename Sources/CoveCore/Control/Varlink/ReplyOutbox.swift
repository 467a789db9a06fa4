internal import Glibc
internal import Synchronization

/// Carries replies from a handler, on whatever thread it runs, to the thread that owns the connection.
final class ReplyOutbox: Sendable {
    /// Replies that may wait before `offer` drops and `send` suspends.
    private static let room = 8

    private struct State {
        var messages: [[UInt8]] = []
        var isFinished = false
        var isClosed = false
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())
    /// Becomes readable when there is something to take.
    let wakeDescriptor: Int32
    private let signalDescriptor: Int32

    init() throws(Errno) {
        var pair: [Int32] = [-1, -1]
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        try System.retry { socketpair(AF_UNIX, type, 0, &pair) }
        wakeDescriptor = pair[0]
        signalDescriptor = pair[1]
    }

    deinit {
        System.close(wakeDescriptor)
        System.close(signalDescriptor)
    }

    /// Adds a reply unless too many wait already: for progress, of which the next report says more.
    func offer(_ message: [UInt8]) {
        let isAdded = state.withLock { state in
            guard !state.isClosed, state.messages.count < Self.room else { return false }
            state.messages.append(message)
            return true
        }
        if isAdded { wake() }
    }

    /// Adds a reply, after a wait when too many wait already.
    ///
    /// False when the peer has gone.
    func send(_ message: [UInt8]) async -> Bool {
        while true {
            let isAdded: Bool? = state.withLock { state in
                if state.isClosed { return false }
                guard state.messages.count < Self.room else { return nil }
                state.messages.append(message)
                return true
            }
            if let isAdded {
                if isAdded { wake() }
                return isAdded
            }
            await withCheckedContinuation { continuation in
                let mustWait = state.withLock { state in
                    guard !state.isClosed, state.messages.count >= Self.room else { return false }
                    state.waiters.append(continuation)
                    return true
                }
                if !mustWait { continuation.resume() }
            }
        }
    }

    /// Adds the last reply of a call, or none for a call that takes none.
    func finish(_ message: [UInt8]?) {
        state.withLock { state in
            if let message { state.messages.append(message) }
            state.isFinished = true
        }
        wake()
    }

    /// Takes what is there; the second part is true once the call is over, and the outbox is ready for the next one.
    func take() -> (messages: [[UInt8]], isFinished: Bool) {
        var drain = [UInt8](repeating: 0, count: 64)
        while recv(wakeDescriptor, &drain, drain.count, Int32(MSG_DONTWAIT)) > 0 {}
        let (messages, isFinished, waiters) = state.withLock { state in
            defer {
                state.messages = []
                state.waiters = []
                state.isFinished = false
            }
            return (state.messages, state.isFinished, state.waiters)
        }
        for waiter in waiters { waiter.resume() }
        return (messages, isFinished)
    }

    /// Drops all that comes from now on.
    func close() {
        let waiters = state.withLock { state in
            defer { state.waiters = [] }
            state.isClosed = true
            state.messages = []
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    private func wake() {
        var byte: UInt8 = 0
        _ = Glibc.send(signalDescriptor, &byte, 1, Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL))
    }
}
