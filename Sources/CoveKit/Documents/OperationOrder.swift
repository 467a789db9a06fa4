internal import Synchronization

/// Lets one operation on a document run at a time, in the order of their coming.
final class OperationOrder: Sendable {
    private struct Waiter {
        var continuation: CheckedContinuation<Bool, Never>
        /// It saves for others, who may be waited for by an operation that gives up what is unsaved.
        var isForOthers: Bool
    }

    private struct State {
        var isTaken = false
        /// The running operation gives up what is unsaved.
        var isGivingUp = false
        var waiting: [Waiter] = []
    }

    private let state = Mutex(State())

    /// How many wait for the running one.
    var waitingCount: Int { state.withLock { $0.waiting.count } }

    /// Waits for the operations before; `end` is to be called.
    func begin() async { _ = await begin(isForOthers: false) }

    /// The same for a save that others wait for: false, and `end` is not to be called, when there is nothing to save any more.
    func beginForOthers() async -> Bool { await begin(isForOthers: true) }

    private func begin(isForOthers: Bool) async -> Bool {
        await withCheckedContinuation { continuation in
            let isFree: Bool? = state.withLock { state in
                if isForOthers, state.isGivingUp { return false }
                if state.isTaken {
                    state.waiting.append(Waiter(continuation: continuation, isForOthers: isForOthers))
                    return nil
                }
                state.isTaken = true
                return true
            }
            if let isFree { continuation.resume(returning: isFree) }
        }
    }

    /// The running operation gives up what is unsaved: who came to save it for others goes on without.
    ///
    /// Those others may be what the operation waits for.
    func giveUp() {
        let others = state.withLock { state in
            state.isGivingUp = true
            defer { state.waiting.removeAll(where: \.isForOthers) }
            return state.waiting.filter(\.isForOthers)
        }
        for other in others { other.continuation.resume(returning: false) }
    }

    /// The running operation has given it up: what is unsaved from now on is saved for others after it.
    func hasGivenUp() { state.withLock { $0.isGivingUp = false } }

    /// Lets the next one run.
    func end() {
        let next = state.withLock { state in
            state.isGivingUp = false
            if state.waiting.isEmpty {
                state.isTaken = false
                return nil as Waiter?
            }
            return state.waiting.removeFirst()
        }
        next?.continuation.resume(returning: true)
    }
}
