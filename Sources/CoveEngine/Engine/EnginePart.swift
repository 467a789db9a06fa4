internal import CoveCore
internal import Synchronization

/// A part of an engine, which reaches what all share as if it were its own.
protocol EnginePart: Sendable {
    var context: EngineContext { get }
}

extension EnginePart {
    var configuration: EngineConfiguration { context.configuration }
    var clock: EngineClock { context.clock }
    var provider: any Provider { context.provider }
    var log: Log { context.log }
    var disk: StateDisk { context.disk }
    var catalog: Catalog { context.catalog }
    var counters: Counters { context.counters }
    var connected: Gate { context.connected }
    var contentQueue: ThreadPool { context.contentQueue }

    /// Who tells the kernel what has changed; nil before the mount is there.
    var kernel: (any KernelNotifier)? { context.kernel.withLock { $0 } }

    /// Who makes changes visible to programs; nil before the mount is there.
    var announcer: (any Announcer)? { context.announcer.withLock { $0 } }

    /// Who sends and receives; nil before the start and after the stop.
    var sync: (any Synchronizer)? { context.syncSlot.withLock { $0 } }

    /// Refuses changes to a read-only account.
    func requireWritable() throws(Errno) {
        if configuration.isReadOnly { throw .readOnly }
    }

    /// The wall clock without parts of a millisecond, as the journal keeps it.
    func journalTime() -> Timestamp { clock.now().inMilliseconds }

    /// Tells sync that something changed here.
    func wakeSync() {
        context.localChanges.add(1, ordering: .relaxed)
        sync?.wakeSoon()
    }

    /// True for the announcing process; nobody knows a caller without a thread, as one of another PID namespace.
    func isAnnouncer(_ caller: Caller) -> Bool {
        caller.thread > 0 && announcer?.isAnnouncer(caller.thread) == true
    }

    /// Runs blocking work on the content queue for a task.
    func onContentQueue<T: Sendable>(
        _ body: @escaping @Sendable () throws(Errno) -> T
    ) async throws(ProviderError) -> T {
        switch await contentResult(body) {
        case .success(let value): return value
        case .failure(let error): throw .failed("the catalog can't be used: \(error)", error)
        }
    }

    /// The same for who knows the errors of files.
    func onQueue<T: Sendable>(_ body: @escaping @Sendable () throws(Errno) -> T) async throws(Errno) -> T {
        try await contentResult(body).get()
    }

    private func contentResult<T: Sendable>(
        _ body: @escaping @Sendable () throws(Errno) -> T
    ) async -> Result<T, Errno> {
        await withCheckedContinuation { (continuation: CheckedContinuation<Result<T, Errno>, Never>) in
            contentQueue.async {
                do throws(Errno) {
                    continuation.resume(returning: .success(try body()))
                } catch {
                    continuation.resume(returning: .failure(error))
                }
            }
        }
    }
}
