internal import CoveCore
internal import Synchronization

/// Lets many that want to know something of one place share an answer: all that come while it is looked at get the next one.
///
/// Whoever looks gets what was so after it came.
final class SharedLooks<Place: Hashable & Sendable, Name: Hashable & Sendable, View: Sendable>: Sendable {
    /// Looks at a place for some names.
    typealias Look = @Sendable (Set<Name>) async throws(ProviderError) -> View

    private struct Waiter {
        let names: [Name]
        let continuation: CheckedContinuation<Result<View, ProviderError>, Never>
    }

    private struct Round {
        /// Those whose answer is under way, and those who came since.
        var current: [Int: Waiter] = [:]
        var next: [Int: Waiter] = [:]
        var looking: Task<Result<View, ProviderError>, Never>?
    }

    private struct State {
        var rounds: [Place: Round] = [:]
        var count = 0
    }

    private let state = Mutex(State())

    /// What a place holds of some names; whoever calls it off leaves the others their answer.
    func look(at place: Place, for names: [Name], _ look: @escaping Look) async throws(ProviderError) -> View {
        if Task.isCancelled { throw .cancelled }
        let id = state.withLock { state in
            state.count += 1
            return state.count
        }
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isFirst = state.withLock { state in
                    let isFirst = state.rounds[place] == nil
                    state.rounds[place, default: Round()].next[id] = Waiter(names: names, continuation: continuation)
                    return isFirst
                }
                if isFirst { Task { await run(place, look) } }
            }
        } onCancel: {
            leave(place, id)
        }
        return try result.get()
    }

    private func run(_ place: Place, _ look: @escaping Look) async {
        while let names = begin(place) {
            let looking = Task { await Self.outcome { () throws(ProviderError) in try await look(names) } }
            let isWanted = state.withLock { state in
                state.rounds[place]?.looking = looking
                return state.rounds[place]?.current.isEmpty == false
            }
            if !isWanted { looking.cancel() }
            let result = await looking.value
            let waiters = state.withLock { state in
                defer { state.rounds[place]?.current = [:] }
                return state.rounds[place]?.current ?? [:]
            }
            for waiter in waiters.values { waiter.continuation.resume(returning: result) }
        }
    }

    /// Takes those who wait; nil when nobody does, and then the place is forgotten.
    private func begin(_ place: Place) -> Set<Name>? {
        state.withLock { state in
            guard var round = state.rounds[place], !round.next.isEmpty else {
                state.rounds[place] = nil
                return nil
            }
            round.current = round.next
            round.next = [:]
            round.looking = nil
            state.rounds[place] = round
            return Set(round.current.values.flatMap(\.names))
        }
    }

    /// Somebody waits no more; when nobody does, the look ends.
    private func leave(_ place: Place, _ id: Int) {
        let (waiter, unwanted) = state.withLock { state -> (Waiter?, Task<Result<View, ProviderError>, Never>?) in
            guard var round = state.rounds[place] else { return (nil, nil) }
            let waiter = round.current.removeValue(forKey: id) ?? round.next.removeValue(forKey: id)
            state.rounds[place] = round
            return (waiter, waiter != nil && round.current.isEmpty ? round.looking : nil)
        }
        unwanted?.cancel()
        waiter?.continuation.resume(returning: .failure(.cancelled))
    }

    private static func outcome(
        _ body: () async throws(ProviderError) -> View
    ) async -> Result<View, ProviderError> {
        do throws(ProviderError) { return .success(try await body()) } catch { return .failure(error) }
    }
}
