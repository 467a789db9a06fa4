internal import Foundation

/// A value behind a lock whose changes threads wait for.
final class Monitor<State: ~Copyable>: @unchecked Sendable {
    private let condition = NSCondition()
    // Touched only while the condition is locked.
    private var state: State

    init(_ state: consuming sending State) { self.state = state }

    /// Reads or changes the value; those who wait look again.
    func withLock<Value, Failure: Error>(_ body: (inout State) throws(Failure) -> Value) throws(Failure) -> Value {
        condition.lock()
        defer {
            condition.broadcast()
            condition.unlock()
        }
        return try body(&state)
    }

    /// Reads the value, or changes it where the body says whether that is news to those who wait.
    func withLock<Value, Failure: Error>(
        ifNews body: (inout State, inout Bool) throws(Failure) -> Value
    ) throws(Failure) -> Value {
        condition.lock()
        var isNews = false
        defer {
            if isNews { condition.broadcast() }
            condition.unlock()
        }
        return try body(&state, &isNews)
    }

    /// Waits until the body returns a value, or throws ETIMEDOUT after a deadline.
    ///
    /// The body is asked again after each change of the value.
    @discardableResult
    func wait<Value>(
        until deadline: Date? = nil,
        _ body: (inout State) throws(CoveError) -> Value?
    ) throws(CoveError) -> Value {
        condition.lock()
        defer { condition.unlock() }
        while true {
            if let value = try body(&state) { return value }
            guard let deadline else {
                condition.wait()
                continue
            }
            guard condition.wait(until: deadline) else {
                if let value = try body(&state) { return value }
                throw CoveError(.timedOut)
            }
        }
    }
}
