public import CoveCore
internal import Synchronization

/// A result that is there, or one that comes later.
public enum Outcome<Value: Sendable>: Sendable {
    /// The result.
    case now(Value)
    /// The result's place; the caller frees its thread and waits for it.
    case later(Pending<Value>)
}

/// A result that comes later, from any thread, exactly once.
public final class Pending<Value: Sendable>: Sendable {
    private enum State {
        case waiting((@Sendable (Result<Value, Errno>) -> Void)?)
        case done(Result<Value, Errno>)
        case delivered
    }

    private enum Step {
        case late
        case stored
        case call(@Sendable (Result<Value, Errno>) -> Void)
    }

    private let state = EngineMutex<State>(.pendingState, .waiting(nil))
    private let whenCancelled = EngineMutex<(@Sendable () -> Void)?>(.pendingCancel, nil)

    /// A place with nothing in it yet.
    public init() {}

    /// Calls the body with the result as soon as there is one; to be called once.
    public func whenDone(_ body: @escaping @Sendable (Result<Value, Errno>) -> Void) {
        let ready: Result<Value, Errno>? = state.withLock { state in
            if case .done(let result) = state {
                state = .delivered
                return result
            }
            state = .waiting(body)
            return nil
        }
        if let ready { body(ready) }
    }

    /// Gives the result; false when there was one already.
    @discardableResult
    func fulfill(_ result: Result<Value, Errno>) -> Bool {
        let step: Step = state.withLock { state in
            switch state {
            case .done, .delivered: return .late
            case .waiting(nil):
                state = .done(result)
                return .stored
            case .waiting(let body?):
                state = .delivered
                return .call(body)
            }
        }
        switch step {
        case .late: return false
        case .stored: return true
        case .call(let body):
            body(result)
            return true
        }
    }

    /// The program that waited was killed or gave up: the result is `EINTR`, and nobody works for it any more.
    public func cancel() {
        guard fulfill(.failure(.interrupted)) else { return }
        whenCancelled.withLock { body in
            defer { body = nil }
            return body
        }?()
    }

    func onCancel(_ body: @escaping @Sendable () -> Void) { whenCancelled.withLock { $0 = body } }

    /// True once the result is there.
    var isDone: Bool {
        state.withLock { state in
            if case .waiting = state { return false }
            return true
        }
    }

    /// Waits in a task.
    func value() async throws(Errno) -> Value {
        let result = await withCheckedContinuation { (continuation: CheckedContinuation<Result<Value, Errno>, Never>) in
            whenDone { continuation.resume(returning: $0) }
        }
        return try result.get()
    }
}
