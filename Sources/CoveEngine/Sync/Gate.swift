internal import CoveCore
internal import Synchronization

/// Holds tasks back until the first attempt to connect is over, well or badly.
final class Gate: Sendable {
    private struct State {
        var isOpen = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = EngineMutex(.gate, State())

    func open() {
        let waiting = state.withLock { state in
            defer { state.waiting = [] }
            state.isOpen = true
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    func pass() async {
        await withCheckedContinuation { continuation in
            let isOpen = state.withLock { state in
                if !state.isOpen { state.waiting.append(continuation) }
                return state.isOpen
            }
            if isOpen { continuation.resume() }
        }
    }

    /// Passes when it is open, or when the limit is over.
    func pass(limit: TimeSpan) async {
        let either = Gate()
        Task {
            await pass()
            either.open()
        }
        let clock = Task {
            try? await Task.sleep(for: limit)
            either.open()
        }
        await either.pass()
        clock.cancel()
    }
}
