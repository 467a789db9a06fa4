internal import Synchronization

/// One request that can be given up while it waits: by its coordinator's `cancel`, or with the task that waits.
final class Cancellation: Sendable {
    private let flag = Atomic(false)
    /// What the request fails with, where it is not ECANCELED.
    private let cause = Mutex<CoveError?>(nil)
    /// Ends the wait under way.
    ///
    /// Held while it runs, so that none runs once the wait is over.
    private let waker = Mutex<(@Sendable () -> Void)?>(nil)

    /// True once `cancel` was called; takes no lock.
    var isCancelled: Bool { flag.load(ordering: .sequentiallyConsistent) }

    /// What is thrown, where it was not cancelled by the caller.
    var reason: CoveError? { cause.withLock { $0 } }

    /// Ends the wait, and refuses later ones.
    func cancel(because reason: CoveError? = nil) {
        if let reason { cause.withLock { $0 = reason } }
        flag.store(true, ordering: .sequentiallyConsistent)
        waker.withLock { $0?() }
    }

    /// Throws the reason or ECANCELED once `cancel` was called.
    func check() throws(CoveError) {
        if isCancelled { throw reason ?? CoveError(.cancelled) }
    }

    /// Runs a body that waits; a cancellation calls the waker, also one that came before.
    func whileWaking<Value, Failure: Error>(
        by wake: @escaping @Sendable () -> Void,
        _ body: () throws(Failure) -> Value
    ) throws(Failure) -> Value {
        waker.withLock { $0 = wake }
        if isCancelled { wake() }
        defer { waker.withLock { $0 = nil } }
        return try body()
    }
}
