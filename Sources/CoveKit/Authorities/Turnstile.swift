internal import CoveCore
internal import Dispatch
internal import Foundation
internal import Synchronization

/// Lets so many through at a time, and the others after them in the order in which they came.
///
/// Those who are through may wait for one who came later. So each second in which nobody leaves one more goes, the last who
/// came first, up to a number.
final class Turnstile: Sendable {
    private final class Waiter: Sendable {
        let semaphore = DispatchSemaphore(value: 0)
    }

    private struct State {
        var free: Int
        var waiting: [Waiter] = []
        /// How many more are through, and since when nobody has got or left a place.
        var extra = 0
        var still = ContinuousClock.now
    }

    private let state: Mutex<State>
    private let mostExtra: Int
    private let patience: Duration

    init(places: Int, extra: Int, patience: Duration = .seconds(1)) {
        state = Mutex(State(free: places))
        (mostExtra, self.patience) = (extra, patience)
    }

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
            var isWaiting = true
            while isWaiting, !cancellation.isCancelled, deadline.map({ $0 > .now }) ?? true {
                let left = deadline.map { max(.zero, min(patience, $0 - .now)) } ?? patience
                _ = waiter.semaphore.wait(timeout: .now() + left / .seconds(1))
                isWaiting = state.withLock { state in
                    guard state.waiting.contains(where: { $0 === waiter }) else { return false }
                    guard state.waiting.last === waiter, state.extra < mostExtra, .now - state.still >= patience else {
                        return true
                    }
                    state.waiting.removeLast()
                    state.extra += 1
                    state.still = .now
                    return false
                }
            }
            if isWaiting {
                isWaiting = state.withLock { state in
                    let index = state.waiting.firstIndex { $0 === waiter }
                    if let index { state.waiting.remove(at: index) }
                    return index != nil
                }
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
            state.still = .now
            if !state.waiting.isEmpty { return state.waiting.removeFirst() }
            if state.extra > 0 { state.extra -= 1 } else { state.free += 1 }
            return nil
        }
        next?.semaphore.signal()
    }
}
