internal import CoveCore

/// Threads for work that waits for files, claims and daemons, which Swift's cooperative pool must not.
enum FileThreads {
    private static let pool = ThreadPool(threads: 4096)
    /// Those for claims that wait: they wait for accessors, which go on by the threads of the other pool.
    private static let waitingPool = ThreadPool(threads: waitingThreads)
    static let waitingThreads = 4096

    /// Runs asynchronous functions of no actor on these threads, so that they may block between their suspensions.
    static let executor = Executor { start($0) }

    /// Runs what waits until a claim is granted.
    static let waitingExecutor = Executor { startWaiting($0) }

    /// Starts the body on one of the threads.
    static func start(_ body: @escaping @Sendable () -> Void) { pool.async(body) }

    /// Starts a body that waits for a claim for which no accessor waits.
    static func startWaiting(_ body: @escaping @Sendable () -> Void) { waitingPool.async(body) }

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
        private let start: @Sendable (@escaping @Sendable () -> Void) -> Void

        init(_ start: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void) { self.start = start }

        func enqueue(_ job: consuming ExecutorJob) {
            let job = UnownedJob(job)
            start { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
        }
    }
}
