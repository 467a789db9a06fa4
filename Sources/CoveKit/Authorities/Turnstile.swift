internal import CoveCore
internal import Dispatch
internal import Foundation
internal import Synchronization

/// Lets so many through at a time, and the others after them in the order in which they came.
final class Turnstile: Sendable {
    private final class Waiter: Sendable {
        let semaphore = DispatchSemaphore(value: 0)
    }

    private struct State {
        var free: Int
        var waiting: [Waiter] = []
    }

    private let state: Mutex<State>

    init(places: Int) { state = Mutex(State(free: places)) }

    /// How many wait to be let through.
    var waiting: Int { state.withLock { $0.waiting.count } }

    /// Waits for a place, which `leave` gives back; true where it had to.
    ///
    /// Blocks. Throws ETIMEDOUT when there is none in time, and what the cancellation says.
    func enter(until deadline: ContinuousClock.Instant?, _ cancellation: Cancellation) throws(CoveError) -> Bool {
        let waiter: Waiter? = state.withLock { state in
            if state.free > 0 {
                state.free -= 1
                return nil
            }
            let waiter = Waiter()
            state.waiting.append(waiter)
            return waiter
        }
        guard let waiter else { return false }
        return try cancellation.whileWaking(by: { waiter.semaphore.signal() }) { () throws(CoveError) in
            let left = deadline.map { max(.zero, $0 - .now) / .seconds(1) }
            if let left { _ = waiter.semaphore.wait(timeout: .now() + left) } else { waiter.semaphore.wait() }
            let isWaiting = state.withLock { state in
                let index = state.waiting.firstIndex { $0 === waiter }
                if let index { state.waiting.remove(at: index) }
                return index != nil
            }
            // One that was called off as it got its place gives it back as any other.
            guard isWaiting else { return true }
            try cancellation.check()
            throw CoveError(.timedOut, "too many claims of this program wait")
        }
    }

    /// Gives a place to the next one.
    func leave() {
        let next: Waiter? = state.withLock { state in
            if state.waiting.isEmpty {
                state.free += 1
                return nil
            }
            return state.waiting.removeFirst()
        }
        next?.semaphore.signal()
    }
}
