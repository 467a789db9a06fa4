public import Foundation

// Each form throws without having run the accessor when the claim fails: a `CoveError`, whose code is `timedOut` when a
// timeout was given and is over, and `cancelled` when `cancel` was called or the task was cancelled. What the accessor throws
// is thrown as it is.
extension FileCoordinator {
    /// Runs the accessor, on a thread where it may block, once all intents are granted as one; use the intents' `url` in it.
    ///
    /// The claim ends when the accessor returns or throws. Throws ESTALE after it when others got the claim meanwhile.
    public func coordinate<Value: Sendable>(
        with intents: [FileAccessIntent],
        timeout: Duration? = nil,
        byAccessor accessor: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        try await onFileThread { [self] cancellation in
            let holdings = try await whereClaimsWait { () throws(CoveError) in
                try self.begin(intents, timeout: timeout, cancellation)
            }
            let outcome: Result<Value, any Error>
            do {
                outcome = .success(
                    try await Holding.$enclosing.withValue(Holding.enclosing + holdings) { try await accessor() }
                )
            } catch {
                outcome = .failure(error)
            }
            return try ended(holdings, outcome)
        }
    }

    /// Runs the accessor once, on the queue: without an error when all intents are granted as one, else with one.
    ///
    /// Returns at once. The claim lasts until the accessor returns.
    public func coordinate(
        with intents: [FileAccessIntent],
        timeout: Duration? = nil,
        queue: OperationQueue,
        byAccessor accessor: @escaping @Sendable (CoveError?) -> Void
    ) {
        let (enclosing, answer) = (Holding.enclosing, PresenterMailbox.Answer.current)
        let start = enclosing.isEmpty && answer == nil ? FileThreads.startWaiting : FileThreads.start
        start { [self] in
            do throws(CoveError) {
                let begun: Result<[Holding], CoveError> = Holding.$enclosing.withValue(enclosing) {
                    PresenterMailbox.Answer.$current.withValue(answer) {
                        Result { () throws(CoveError) in try begin(intents, timeout: timeout) }
                    }
                }
                let holdings = try begun.get()
                let access = BlockOperation {
                    Holding.$enclosing.withValue(enclosing + holdings) { accessor(nil) }
                }
                queue.addOperations([access], waitUntilFinished: true)
                // What comes after the accessor, such as the claim's loss, can't be told to it any more.
                try? end(holdings)
            } catch {
                queue.addOperation { accessor(error) }
            }
        }
    }

    /// Reads an item: the accessor gets its URL.
    public func coordinate<Value: Sendable>(
        readingItemAt url: URL,
        options: ReadingOptions = [],
        timeout: Duration? = nil,
        byAccessor accessor: @escaping @Sendable (URL) async throws -> Value
    ) async throws -> Value {
        let intent = FileAccessIntent.readingIntent(with: url, options: options)
        return try await coordinate(with: [intent], timeout: timeout) { try await accessor(intent.url) }
    }

    /// Changes, makes, moves or deletes an item: the accessor gets its URL.
    public func coordinate<Value: Sendable>(
        writingItemAt url: URL,
        options: WritingOptions = [],
        timeout: Duration? = nil,
        byAccessor accessor: @escaping @Sendable (URL) async throws -> Value
    ) async throws -> Value {
        let intent = FileAccessIntent.writingIntent(with: url, options: options)
        return try await coordinate(with: [intent], timeout: timeout) { try await accessor(intent.url) }
    }

    /// Reads one item and writes another.
    public func coordinate<Value: Sendable>(
        readingItemAt readingURL: URL,
        options readingOptions: ReadingOptions = [],
        writingItemAt writingURL: URL,
        options writingOptions: WritingOptions = [],
        timeout: Duration? = nil,
        byAccessor accessor: @escaping @Sendable (_ reading: URL, _ writing: URL) async throws -> Value
    ) async throws -> Value {
        let reading = FileAccessIntent.readingIntent(with: readingURL, options: readingOptions)
        let writing = FileAccessIntent.writingIntent(with: writingURL, options: writingOptions)
        return try await coordinate(with: [reading, writing], timeout: timeout) {
            try await accessor(reading.url, writing.url)
        }
    }

    /// Writes two items, such as the source (`forMoving`) and the destination (`forReplacing`) of a move.
    public func coordinate<Value: Sendable>(
        writingItemAt url1: URL,
        options options1: WritingOptions = [],
        writingItemAt url2: URL,
        options options2: WritingOptions = [],
        timeout: Duration? = nil,
        byAccessor accessor: @escaping @Sendable (URL, URL) async throws -> Value
    ) async throws -> Value {
        let first = FileAccessIntent.writingIntent(with: url1, options: options1)
        let second = FileAccessIntent.writingIntent(with: url2, options: options2)
        return try await coordinate(with: [first, second], timeout: timeout) {
            try await accessor(first.url, second.url)
        }
    }

    /// Asks the presenters of many items once, then runs the accessor; presenters have their items again when it is done.
    ///
    /// It takes no claim: coordinate each item in the accessor, reading with `withoutChanges`.
    public func prepare<Value: Sendable>(
        forReadingItemsAt readingURLs: [URL],
        options readingOptions: ReadingOptions = [],
        writingItemsAt writingURLs: [URL],
        options writingOptions: WritingOptions = [],
        timeout: Duration? = nil,
        byAccessor accessor: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        let intents = Self.intents(readingURLs, readingOptions, writingURLs, writingOptions)
        return try await onFileThread { [self] cancellation in
            let prepared = try await whereClaimsWait { () throws(CoveError) in
                try self.prepare(intents, timeout: timeout, cancellation)
            }
            defer { release(prepared) }
            return try await accessor()
        }
    }

    /// Runs a body that waits for a claim.
    ///
    /// However many wait, accessors go on: they have other threads, and so has what they ask for themselves.
    private func whereClaimsWait<Value: Sendable>(
        _ body: @escaping @Sendable () throws(CoveError) -> Value
    ) async throws(CoveError) -> Value {
        if !Holding.enclosing.isEmpty || PresenterMailbox.Answer.current != nil { return try body() }
        let result = await withTaskExecutorPreference(FileThreads.waitingExecutor) {
            await Self.waiting { () throws(CoveError) in try body() }
        }
        return try result.get()
    }

    /// Of no actor, and asynchronous, so that it runs where its caller prefers.
    private nonisolated static func waiting<Value: Sendable>(
        _ body: @escaping @Sendable () throws(CoveError) -> Value
    ) async -> Result<Value, CoveError> {
        Result { () throws(CoveError) in try body() }
    }

    /// Runs the body, of no actor, where it may block; the cancellation is that of the task.
    private func onFileThread<Value: Sendable>(
        _ body: @escaping @Sendable (Cancellation) async throws -> Value
    ) async throws -> Value {
        let cancellation = Cancellation()
        return try await withTaskCancellationHandler {
            try await withTaskExecutorPreference(FileThreads.executor) { try await body(cancellation) }
        } onCancel: {
            cancellation.cancel()
        }
    }
}

// The same for programs that have threads of their own, and for what is called by accessors but is not asynchronous: they block,
// and run the accessor where they are called.
extension FileCoordinator {
    /// Runs the accessor once all intents are granted as one.
    ///
    /// Blocks.
    @available(*, noasync)
    public func coordinate<Value>(
        with intents: [FileAccessIntent],
        timeout: Duration? = nil,
        byAccessor accessor: () throws -> Value
    ) throws -> Value {
        try perform(intents, timeout: timeout, accessor)
    }

    /// Reads an item.
    ///
    /// Blocks.
    @available(*, noasync)
    public func coordinate<Value>(
        readingItemAt url: URL,
        options: ReadingOptions = [],
        timeout: Duration? = nil,
        byAccessor accessor: (URL) throws -> Value
    ) throws -> Value {
        let intent = FileAccessIntent.readingIntent(with: url, options: options)
        return try perform([intent], timeout: timeout) { try accessor(intent.url) }
    }

    /// Changes, makes, moves or deletes an item.
    ///
    /// Blocks.
    @available(*, noasync)
    public func coordinate<Value>(
        writingItemAt url: URL,
        options: WritingOptions = [],
        timeout: Duration? = nil,
        byAccessor accessor: (URL) throws -> Value
    ) throws -> Value {
        let intent = FileAccessIntent.writingIntent(with: url, options: options)
        return try perform([intent], timeout: timeout) { try accessor(intent.url) }
    }

    /// Reads one item and writes another.
    ///
    /// Blocks.
    @available(*, noasync)
    public func coordinate<Value>(
        readingItemAt readingURL: URL,
        options readingOptions: ReadingOptions = [],
        writingItemAt writingURL: URL,
        options writingOptions: WritingOptions = [],
        timeout: Duration? = nil,
        byAccessor accessor: (_ reading: URL, _ writing: URL) throws -> Value
    ) throws -> Value {
        let reading = FileAccessIntent.readingIntent(with: readingURL, options: readingOptions)
        let writing = FileAccessIntent.writingIntent(with: writingURL, options: writingOptions)
        return try perform([reading, writing], timeout: timeout) { try accessor(reading.url, writing.url) }
    }

    /// Writes two items, such as the source (`forMoving`) and the destination (`forReplacing`) of a move.
    ///
    /// Blocks.
    @available(*, noasync)
    public func coordinate<Value>(
        writingItemAt url1: URL,
        options options1: WritingOptions = [],
        writingItemAt url2: URL,
        options options2: WritingOptions = [],
        timeout: Duration? = nil,
        byAccessor accessor: (URL, URL) throws -> Value
    ) throws -> Value {
        let first = FileAccessIntent.writingIntent(with: url1, options: options1)
        let second = FileAccessIntent.writingIntent(with: url2, options: options2)
        return try perform([first, second], timeout: timeout) { try accessor(first.url, second.url) }
    }

    /// Asks the presenters of many items once, then runs the accessor; presenters have their items again when it is done.
    ///
    /// Blocks.
    @available(*, noasync)
    public func prepare<Value>(
        forReadingItemsAt readingURLs: [URL],
        options readingOptions: ReadingOptions = [],
        writingItemsAt writingURLs: [URL],
        options writingOptions: WritingOptions = [],
        timeout: Duration? = nil,
        byAccessor accessor: () throws -> Value
    ) throws -> Value {
        let intents = Self.intents(readingURLs, readingOptions, writingURLs, writingOptions)
        let prepared = try prepare(intents, timeout: timeout)
        defer { release(prepared) }
        return try accessor()
    }

    /// Runs the body once all intents are granted, whose URLs are then right.
    func perform<Value>(
        _ intents: [FileAccessIntent],
        timeout: Duration? = nil,
        _ body: () throws -> Value
    ) throws -> Value {
        let holdings = try begin(intents, timeout: timeout)
        return try ended(
            holdings,
            Result { try Holding.$enclosing.withValue(Holding.enclosing + holdings) { try body() } }
        )
    }

    /// Ends the claims; what went wrong in the accessor goes before what goes wrong here.
    private func ended<Value>(_ holdings: [Holding], _ outcome: Result<Value, any Error>) throws -> Value {
        var loss: CoveError?
        do throws(CoveError) { try end(holdings) } catch { loss = error }
        let value = try outcome.get()
        if let loss { throw loss }
        return value
    }

    private static func intents(
        _ readingURLs: [URL],
        _ readingOptions: ReadingOptions,
        _ writingURLs: [URL],
        _ writingOptions: WritingOptions
    ) -> [FileAccessIntent] {
        readingURLs.map { FileAccessIntent.readingIntent(with: $0, options: readingOptions) }
            + writingURLs.map { FileAccessIntent.writingIntent(with: $0, options: writingOptions) }
    }
}
