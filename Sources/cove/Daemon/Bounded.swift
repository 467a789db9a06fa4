internal import CoveCore

/// Work that may never end, as a system call on a source that hangs, which hears of no cancellation.
enum Bounded {
    /// What the work comes to, or something else after a while; it is cancelled then, and left alone.
    ///
    /// Blocks the calling thread, which must not be one of Swift's own; the work must not block those either.
    static func result<Value: Sendable>(
        within limit: TimeSpan,
        or other: Value,
        _ work: @escaping @Sendable () async -> Value
    ) -> Value {
        BlockingThread.wait {
            let (ends, end) = AsyncStream<Value>.makeStream()
            let working = Task { end.yield(await work()) }
            let waiting = Task {
                try? await Task.sleep(for: limit)
                end.yield(other)
            }
            defer {
                working.cancel()
                waiting.cancel()
            }
            var iterator = ends.makeAsyncIterator()
            return await iterator.next() ?? other
        }
    }
}
