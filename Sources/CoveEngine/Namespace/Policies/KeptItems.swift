internal import CoveCore
internal import Synchronization

/// Rounds of fetching what is to be kept here: one at a time, and one more where somebody asked for it meanwhile.
final class KeptItems: Sendable {
    /// Without any other occasion they are looked for so often.
    static let interval = TimeSpan.seconds(60)

    private struct State {
        var isRunning = false
        var isWanted = false
        var last = MonotonicTime.distantPast
    }

    private let state = EngineMutex(.keptItems, State())

    /// True for whoever has to begin a round now.
    func begin(_ now: MonotonicTime) -> Bool {
        state.withLock { state in
            state.last = now
            if state.isRunning {
                state.isWanted = true
                return false
            }
            state.isRunning = true
            return true
        }
    }

    /// Ends a round; true where another one has to follow.
    func end() -> Bool {
        state.withLock { state in
            if state.isWanted {
                state.isWanted = false
                return true
            }
            state.isRunning = false
            return false
        }
    }

    /// True once it is time to look again.
    func isDue(_ now: MonotonicTime) -> Bool { state.withLock { now - $0.last >= Self.interval } }
}
