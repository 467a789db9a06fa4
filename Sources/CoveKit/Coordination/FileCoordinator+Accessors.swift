public import Foundation

extension FileCoordinator {
    /// Runs the accessor, on a thread where it may block, once all intents are granted as one; use the intents' `url` in it.
    ///
    /// Throws without having run it when a claim fails, and what it throws as `cause`. With a timeout it throws ETIMEDOUT.
    public func coordinate<Value: Sendable>(
        with intents: [FileAccessIntent],
        timeout: Duration? = nil,
        byAccessor accessor: @escaping @Sendable () throws -> Value
    ) async throws(CoveError) -> Value {
        let outcome: Result<Value, CoveError> = await withTaskCancellationHandler {
            await FileThreads.run { [self] in
                do throws(CoveError) {
                    return .success(try perform(intents, timeout: timeout, accessor))
                } catch {
                    return .failure(error)
                }
            }
        } onCancel: {
            cancel()
        }
        return try outcome.get()
    }

    /// Runs the accessor once, on the queue: without an error when all intents are granted as one, else with one.
    ///
    /// Returns at once. The claim lasts until the accessor returns.
    public func coordinate(
        with intents: [FileAccessIntent],
        queue: OperationQueue,
        byAccessor accessor: @escaping @Sendable (CoveError?) -> Void
    ) {
        FileThreads.start { [self] in
            var hasRun = false
            do throws(CoveError) {
                try perform(intents) {
                    hasRun = true
                    queue.addOperations([BlockOperation { accessor(nil) }], waitUntilFinished: true)
                }
            } catch {
                // What comes after the accessor, such as the claim's loss, can't be told to it any more.
                if !hasRun { queue.addOperation { accessor(error) } }
            }
        }
    }

    /// Reads an item: the accessor gets its URL.
    public func coordinate<Value: Sendable>(
        readingItemAt url: URL,
        options: ReadingOptions = [],
        byAccessor accessor: @escaping @Sendable (URL) throws -> Value
    ) async throws(CoveError) -> Value {
        let intent = FileAccessIntent.readingIntent(with: url, options: options)
        return try await coordinate(with: [intent]) { try accessor(intent.url) }
    }

    /// Changes, makes, moves or deletes an item: the accessor gets its URL.
    public func coordinate<Value: Sendable>(
        writingItemAt url: URL,
        options: WritingOptions = [],
        byAccessor accessor: @escaping @Sendable (URL) throws -> Value
    ) async throws(CoveError) -> Value {
        let intent = FileAccessIntent.writingIntent(with: url, options: options)
        return try await coordinate(with: [intent]) { try accessor(intent.url) }
    }

    /// Reads one item and writes another.
    public func coordinate<Value: Sendable>(
        readingItemAt readingURL: URL,
        options readingOptions: ReadingOptions = [],
        writingItemAt writingURL: URL,
        options writingOptions: WritingOptions = [],
        byAccessor accessor: @escaping @Sendable (_ reading: URL, _ writing: URL) throws -> Value
    ) async throws(CoveError) -> Value {
        let reading = FileAccessIntent.readingIntent(with: readingURL, options: readingOptions)
        let writing = FileAccessIntent.writingIntent(with: writingURL, options: writingOptions)
        return try await coordinate(with: [reading, writing]) { try accessor(reading.url, writing.url) }
    }

    /// Writes two items, such as the source (`forMoving`) and the destination (`forReplacing`) of a move.
    public func coordinate<Value: Sendable>(
        writingItemAt url1: URL,
        options options1: WritingOptions = [],
        writingItemAt url2: URL,
        options options2: WritingOptions = [],
        byAccessor accessor: @escaping @Sendable (URL, URL) throws -> Value
    ) async throws(CoveError) -> Value {
        let first = FileAccessIntent.writingIntent(with: url1, options: options1)
        let second = FileAccessIntent.writingIntent(with: url2, options: options2)
        return try await coordinate(with: [first, second]) { try accessor(first.url, second.url) }
    }

    /// Asks the presenters of many items once, then runs the accessor.
    ///
    /// It takes no claim: coordinate each item in the accessor, reading with `withoutChanges`.
    public func prepare<Value: Sendable>(
        forReadingItemsAt readingURLs: [URL],
        options readingOptions: ReadingOptions = [],
        writingItemsAt writingURLs: [URL],
        options writingOptions: WritingOptions = [],
        byAccessor accessor: @escaping @Sendable () throws -> Value
    ) async throws(CoveError) -> Value {
        let intents =
            readingURLs.map { FileAccessIntent.readingIntent(with: $0, options: readingOptions) }
            + writingURLs.map { FileAccessIntent.writingIntent(with: $0, options: writingOptions) }
        let outcome: Result<Value, CoveError> = await withTaskCancellationHandler {
            await FileThreads.run { [self] in
                do throws(CoveError) {
                    try prepare(intents)
                    return .success(try explaining { try accessor() })
                } catch {
                    return .failure(error)
                }
            }
        } onCancel: {
            cancel()
        }
        return try outcome.get()
    }
}

// The same for programs that have threads of their own, and inside accessors: they block, and run the accessor where they
// are called.
extension FileCoordinator {
    /// Runs the accessor once all intents are granted as one.
    ///
    /// Blocks.
    @available(*, noasync)
    public func coordinate<Value>(
        with intents: [FileAccessIntent],
        timeout: Duration? = nil,
        byAccessor accessor: () throws -> Value
    ) throws(CoveError) -> Value {
        try perform(intents, timeout: timeout, accessor)
    }

    /// Reads an item.
    ///
    /// Blocks.
    @available(*, noasync)
    public func coordinate<Value>(
        readingItemAt url: URL,
        options: ReadingOptions = [],
        byAccessor accessor: (URL) throws -> Value
    ) throws(CoveError) -> Value {
        let intent = FileAccessIntent.readingIntent(with: url, options: options)
        return try perform([intent]) { try accessor(intent.url) }
    }

    /// Changes, makes, moves or deletes an item.
    ///
    /// Blocks.
    @available(*, noasync)
    public func coordinate<Value>(
        writingItemAt url: URL,
        options: WritingOptions = [],
        byAccessor accessor: (URL) throws -> Value
    ) throws(CoveError) -> Value {
        let intent = FileAccessIntent.writingIntent(with: url, options: options)
        return try perform([intent]) { try accessor(intent.url) }
    }
}
