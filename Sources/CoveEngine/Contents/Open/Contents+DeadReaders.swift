internal import CoveCore
internal import Synchronization

/// Readers that were killed, of which the kernel tells nothing.
extension Contents {
    /// Ends the waits of readers whose threads have ended.
    ///
    /// A killed reader's read-ahead stays with its request and holds the handle open, for the kernel interrupts only
    /// requests that a thread waits for. Whoever else waits for the same pages reads them again when it fails.
    func endDeadReaders(of item: LiveItem) {
        let waiting = item.state.withLock { state in state.fetching.waiters.values.filter { $0.thread > 0 } }
        let dead = waiting.filter { CallerThread(id: $0.thread).hasEnded }
        guard !dead.isEmpty else { return }
        for waiter in dead { waiter.complete(.failure(.interrupted)) }
        abandonFetches(of: item)
    }
}
