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
        /// True while the connection's thread waits to be woken.
        var isAwaited = false
        var waiters: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())
    /// Becomes readable when there is something to take, after a `take` that found nothing.
    let wakeDescriptor: Int32

    init() throws(Errno) { wakeDescriptor = try System.eventDescriptor() }

    deinit { System.close(wakeDescriptor) }

    /// Adds a reply unless too many wait already: for progress, of which the next report says more.
    func offer(_ message: [UInt8]) {
        state.withLock { state in
            guard !state.isClosed, state.messages.count < Self.room else { return }
            state.messages.append(message)
            wake(&state)
        }
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
                wake(&state)
                return true
            }
            if let isAdded { return isAdded }
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
            wake(&state)
        }
    }

    /// Takes what is there; the second part is true once the call is over, and the outbox is ready for the next one.
    func take() -> (messages: [[UInt8]], isFinished: Bool) {
        let (messages, isFinished, waiters) = state.withLock { state in
            defer {
                state.isAwaited = state.messages.isEmpty && !state.isFinished
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

    /// Makes the descriptor unreadable again.
    func rest() {
        var count: UInt64 = 0
        _ = read(wakeDescriptor, &count, 8)
    }

    /// No system call while the connection's thread is at work.
    private func wake(_ state: inout State) {
        guard state.isAwaited else { return }
        state.isAwaited = false
        var one: UInt64 = 1
        _ = write(wakeDescriptor, &one, 8)
    }
}
