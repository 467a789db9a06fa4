internal import CoveCore
internal import Synchronization

/// Keeps what is in use at one time, bytes in memory or calls, below a limit: who comes when it is reached waits in line.
final class BufferGate: Sendable {
    private struct State {
        var free: Int
        var waiting: [(units: Int, go: CheckedContinuation<Void, Never>)] = []
    }

    private let limit: Int
    private let state: Mutex<State>

    /// Counts in units of any size.
    init(limit: Int) {
        self.limit = limit
        state = Mutex(State(free: limit))
    }

    /// Runs the body while so many units are its own; what is larger than all there is gets all.
    func holding<R: Sendable>(
        _ units: Int,
        _ body: () async throws(ProviderError) -> R
    ) async throws(ProviderError) -> R {
        let units = min(units, limit)
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state in
                guard state.waiting.isEmpty, state.free >= units else {
                    state.waiting.append((units, continuation))
                    return false
                }
                state.free -= units
                return true
            }
            if isFree { continuation.resume() }
        }
        defer { give(units) }
        if Task.isCancelled { throw .cancelled }
        return try await body()
    }

    private func give(_ units: Int) {
        let next = state.withLock { state in
            state.free += units
            var next: [CheckedContinuation<Void, Never>] = []
            while let first = state.waiting.first, first.units <= state.free {
                state.free -= first.units
                next.append(first.go)
                state.waiting.removeFirst()
            }
            return next
        }
        for continuation in next { continuation.resume() }
    }
}
