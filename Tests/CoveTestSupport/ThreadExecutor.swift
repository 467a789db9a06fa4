import CoveCore

/// Runs a test's tasks on threads of their own: they may block, as Swift's cooperative pool must not.
public final class ThreadExecutor: TaskExecutor {
    /// Makes an executor.
    public init() {}

    /// Starts a thread for the job.
    public func enqueue(_ job: consuming ExecutorJob) {
        let unowned = UnownedJob(job)
        let executor = asUnownedTaskExecutor()
        do throws(Errno) {
            try BlockingThread.start(stackSize: 4 << 20) { unowned.runSynchronously(on: executor) }
        } catch {
            fatalError("no thread for a test: \(error)")
        }
    }
}

/// Runs a test's body where it may block.
public func blocking<T: Sendable>(_ body: @Sendable () async throws -> T) async rethrows -> T {
    try await withTaskExecutorPreference(ThreadExecutor(), operation: body)
}
