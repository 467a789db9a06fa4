/// Lets asynchronous code wait for work that blocks, without blocking Swift's cooperative pool.
public enum OffPool {
    /// Runs the body on a thread of its own.
    public static func run<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in
            do throws(Errno) {
                try BlockingThread.start { continuation.resume(returning: body()) }
            } catch {
                continuation.resume(returning: body())
            }
        }
    }
}
