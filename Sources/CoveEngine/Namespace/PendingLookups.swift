internal import CoveCore
internal import Synchronization

/// Names the provider was asked for: the clock's round ends those it does not answer.
///
/// A timer for each would be kept to its end, long after most answers.
final class PendingLookups: Sendable {
    private struct Entry {
        let pending: Pending<ItemAttributes?>
        let work: Task<Void, Never>
        let deadline: MonotonicTime
    }

    private let entries = EngineMutex<[ObjectIdentifier: Entry]>(.lookups, [:])

    /// Watches over a question until it is done, or the monotonic time comes.
    func insert(_ pending: Pending<ItemAttributes?>, _ work: Task<Void, Never>, until deadline: MonotonicTime) {
        entries.withLock { entries in
            guard !pending.isDone else { return }
            entries[ObjectIdentifier(pending)] = Entry(pending: pending, work: work, deadline: deadline)
        }
    }

    /// The question is done.
    func remove(_ pending: Pending<ItemAttributes?>) {
        entries.withLock { $0[ObjectIdentifier(pending)] = nil }
    }

    /// Answers `ETIMEDOUT` where the time has come.
    func expire(before now: MonotonicTime) {
        let expired = entries.withLock { entries in
            let expired = entries.filter { $0.value.deadline < now }
            for key in expired.keys { entries[key] = nil }
            return expired.values
        }
        for entry in expired where entry.pending.fulfill(.failure(.timedOut)) { entry.work.cancel() }
    }
}
