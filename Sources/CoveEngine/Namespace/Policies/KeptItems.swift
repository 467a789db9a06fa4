internal import CoveCore
internal import Synchronization

/// Rounds of fetching what is to be kept here: one at a time, and one more where somebody asked for it meanwhile.
final class KeptItems: Sendable {
    /// How long after a round that left something, and after one that left nothing, there is another without any occasion.
    private static let soon = TimeSpan.seconds(60)
    private static let late = TimeSpan.seconds(600)
    /// Of more failures none is remembered.
    private static let mostFailures = 10_000

    private struct State {
        var isRunning = false
        var isWanted = false
        var next = MonotonicTime.distantPast
        /// What could not be had, how often, and when it is tried again.
        var failures: [ItemID: (count: Int64, next: MonotonicTime)] = [:]
    }

    private let state = EngineMutex(.keptItems, State())

    /// True for whoever has to begin a round now.
    func begin() -> Bool {
        state.withLock { state in
            if state.isRunning {
                state.isWanted = true
                return false
            }
            state.isRunning = true
            return true
        }
    }

    /// Ends a round; true where another one has to follow.
    func end(_ now: MonotonicTime) -> Bool {
        state.withLock { state in
            if state.isWanted {
                state.isWanted = false
                return true
            }
            state.isRunning = false
            state.next = now + (state.failures.isEmpty ? Self.late : Self.soon)
            return false
        }
    }

    /// True once it is time to look again.
    func isDue(_ now: MonotonicTime) -> Bool { state.withLock { !$0.isRunning && now >= $0.next } }

    /// False for what failed a moment ago; later and later.
    func mayTry(_ item: ItemID, _ now: MonotonicTime) -> Bool {
        state.withLock { state in state.failures[item].map { now >= $0.next } ?? true }
    }

    /// Notes how the attempt to have an item ended.
    func note(_ item: ItemID, hasFailed: Bool, _ now: MonotonicTime) {
        state.withLock { state in
            guard hasFailed else {
                state.failures[item] = nil
                return
            }
            if state.failures.count >= Self.mostFailures { state.failures = [:] }
            let count = (state.failures[item]?.count ?? 0) + 1
            state.failures[item] = (count, now + min(.seconds(3600), TimeSpan.seconds(30).doubled(min(count, 8))))
        }
    }

    /// Everything may be tried again.
    func forgetFailures() { state.withLock { $0.failures = [:] } }
}
