internal import CoveCore

/// Threads for work that waits for files, claims and daemons, which Swift's cooperative pool must not.
enum FileThreads {
    private static let pool = ThreadPool(threads: 4096)

    /// Runs asynchronous functions of no actor on these threads, so that they may block between their suspensions.
    static let executor = Executor()

    /// Starts the body on one of the threads.
    static func start(_ body: @escaping @Sendable () -> Void) { pool.async(body) }

    /// Runs the body on one of the threads.
    static func run<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in pool.async { continuation.resume(returning: body()) } }
    }

    /// Runs a body that may fail on one of the threads.
    static func run<Value: Sendable>(
        _ body: @escaping @Sendable () throws(CoveError) -> Value
    ) async throws(CoveError) -> Value {
        let result: Result<Value, CoveError> = await run {
            do throws(CoveError) { return .success(try body()) } catch { return .failure(error) }
        }
        return try result.get()
    }

    final class Executor: TaskExecutor {
        func enqueue(_ job: consuming ExecutorJob) {
            let job = UnownedJob(job)
            FileThreads.start { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
        }
    }
}
