internal import CoveCore

/// Lets one task at a time do something, in the order in which they ask.
final class Turns: Sendable {
    private struct State {
        var isTaken = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = EngineMutex(.turns, State())

    /// Waits for its turn, and carries the work out.
    ///
    /// The work may not ask for another turn.
    func take<Value: Sendable>(_ work: () async throws(Errno) -> Value) async throws(Errno) -> Value {
        await withCheckedContinuation { continuation in
            let isMine = state.withLock { state in
                if state.isTaken { state.waiting.append(continuation) }
                defer { state.isTaken = true }
                return !state.isTaken
            }
            if isMine { continuation.resume() }
        }
        defer {
            let next = state.withLock { state -> CheckedContinuation<Void, Never>? in
                if state.waiting.isEmpty {
                    state.isTaken = false
                    return nil
                }
                return state.waiting.removeFirst()
            }
            next?.resume()
        }
        return try await work()
    }
}
