internal import CoveCore
internal import Dispatch
internal import Synchronization

/// Fetching bytes when something reads them. Functions that take a state run under its item's lock.
extension Contents {
    /// Parks a reader until its range is here, and starts what must be fetched for it.
    func waitForBytes(
        _ item: LiveItem,
        _ state: inout LiveItem.State,
        _ range: Range<Int64>,
        thread: Int32
    ) throws(Errno) -> Pending<ReadResult> {
        let pending = Pending<ReadResult>()
        let descriptor = try descriptor(item.id, &state)
        let count = Int(range.upperBound - range.lowerBound)
        state.fetching.add(
            Waiter(
                range: range,
                thread: thread,
                complete: { result in
                    pending.fulfill(result.map { ReadResult(descriptor: descriptor, count: count, owner: item) })
                },
                isAbandoned: { pending.isDone }
            )
        )
        pending.onCancel { [weak self] in self?.abandonFetches(of: item) }
        readAhead(item, &state, range)
        return pending
    }

    /// Starts the fetches that a read of a range calls for.
    func readAhead(_ item: LiveItem, _ state: inout LiveItem.State, _ range: Range<Int64>) {
        guard let bytes = state.bytes else { return }
        start(item, &state, state.fetching.plan.read(range, of: bytes, isOpen: live.isOpen(item.id)))
    }

    /// Starts fetches for what is missing of a range and not on its way.
    func request(_ item: LiveItem, _ state: inout LiveItem.State, _ wanted: Range<Int64>) {
        guard let bytes = state.bytes else { return }
        start(item, &state, state.fetching.plan.request(wanted, of: bytes))
    }

    /// Starts the next fetches in the background.
    private func continueFetching(_ item: LiveItem, _ state: inout LiveItem.State) {
        guard let bytes = state.bytes else { return }
        start(item, &state, state.fetching.plan.goOn(bytes, isOpen: live.isOpen(item.id)))
    }

    private func start(_ item: LiveItem, _ state: inout LiveItem.State, _ parts: [FetchPlan.Part]) {
        for part in parts { start(item, &state, part) }
    }

    private func start(_ item: LiveItem, _ state: inout LiveItem.State, _ part: FetchPlan.Part) {
        let range = part.range
        let fetch = Fetch(part, now: clock.monotonic())
        state.fetching.add(fetch)
        catalog.touches.add(item.id)
        if !state.fetching.isCounted {
            state.fetching.isCounted = true
            counters.downloadsStarted.add(1, ordering: .relaxed)
        }
        counters.providerRequests.add(1, ordering: .relaxed)
        _ = live.retain(item.id)
        makeRoom(for: range.upperBound - range.lowerBound)
        let sink = FetchSink(contents: self, item: item, fetch: fetch)
        fetch.run(
            Task { [self] in
                await connected.pass()
                let result = await fetchFromSource(item, range, into: sink)
                contentQueue.async { [self] in
                    finish(item, fetch, result)
                    live.release(item.id)
                }
            }
        )
    }

    /// Fetches a range, wherever and under whatever version the provider has the item by now: a push may change both.
    private func fetchFromSource(
        _ item: LiveItem,
        _ range: Range<Int64>,
        into sink: FetchSink
    ) async -> Result<Void, ProviderError> {
        var tried: (path: RemotePath, version: ContentVersion)?
        for attempt in 1...20 {
            let version = item.state.withLock { $0.row?.version }
            guard let place = await remotePlace(of: item.id), let version else { break }
            // The same a second time: it is moving just now, or another device has moved or changed it.
            if let tried, tried == (place.path, version) {
                if attempt == 2 { await sync?.requestPoll(listing: false) }
                try? await Task.sleep(for: .milliseconds(100))
            }
            tried = (place.path, version)
            do throws(ProviderError) {
                await noteProvide(item.id, range)
                await sync?.noteGiven(item.id, at: place)
                try await provider.fetch(place, version: version, range: range, into: sink)
                return .success(())
            } catch {
                let mayBeElsewhere = error == .noSuchItem || error == .versionNoLongerAvailable && attempt < 5
                guard mayBeElsewhere, !Task.isCancelled else { return .failure(error) }
                if attempt == 1 { item.state.withLock { $0.fetching.waiters.values.map(\.isMissed) }.forEach { $0?() } }
            }
        }
        return .failure(tried == nil ? .versionNoLongerAvailable : .noSuchItem)
    }

    /// Tells those who follow that the provider is asked for bytes.
    private func noteProvide(_ id: ItemID, _ range: Range<Int64>) async {
        guard context.trace.isFollowed else { return }
        try? await onContentQueue { [self] () throws(Errno) in
            context.note(.provide, id, nil, range.inWords)
        }
    }

    private func remotePlace(of id: ItemID) async -> RemoteReference? {
        let found = try? await onContentQueue { [self] () throws(Errno) in
            try catalog.read { database throws(Errno) -> RemoteReference? in
                for entry in try database.entries(of: id) {
                    if let reference = try database.remoteReference(of: entry) { return reference }
                }
                if let trashed = try database.pendingTrash(item: id) {
                    return try database.remoteReference(of: trashed)
                }
                guard let document = self.departing.document(of: id) else { return nil }
                if let entry = try database.entry(document: document) {
                    return try database.remoteReference(of: entry)
                }
                guard let trashed = try database.pendingTrash(document: document) else { return nil }
                return try database.remoteReference(of: trashed)
            }
        }
        return found ?? nil
    }

    /// Takes the waiters out whose bytes are here, and those who gave up; bytes beyond the end are not waited for.
    func satisfiedWaiters(_ state: inout LiveItem.State) -> [Waiter] {
        guard !state.fetching.waiters.isEmpty, let bytes = state.bytes else { return [] }
        state.fetching.dropAbandoned()
        return state.fetching.take(state.fetching.plan.answered(by: bytes))
    }

    /// After a local change: answers those whose wait it ended, outside the lock.
    func answerWaiters(_ state: inout LiveItem.State) {
        let finished = satisfiedWaiters(&state)
        guard !finished.isEmpty else { return }
        contentQueue.async { for waiter in finished { waiter.complete(.success(())) } }
    }

    private func finish(_ item: LiveItem, _ fetch: Fetch, _ result: Result<Void, ProviderError>) {
        var failed: [Waiter] = []
        var error = Errno.inputOutput
        let end = item.state.withLock { state in
            let isCurrent = !fetch.isEnded
            state.fetching.end(fetch.number)
            var outcome = result
            let bytes = state.bytes
            if case .success = result, isCurrent, let bytes, !bytes.missing(in: fetch.range).isEmpty {
                outcome = .failure(.failed("the source sent fewer bytes than asked for", .inputOutput))
            }
            if case .failure(let reason) = outcome, reason != .cancelled {
                // The file is there, only these bytes of it are no more.
                error = reason == .noSuchItem ? .stale : reason.errno
                // Whoever else still waits for these bytes would wait for nobody.
                if let bytes {
                    failed = state.fetching.take(state.fetching.plan.failed([fetch.range], of: bytes))
                } else {
                    state.fetching.plan.wantsAll = false
                }
                log.info("item \(item.id): fetch of \(fetch.range) failed: \(reason)")
                sync?.noteFetchFailure(item.id, [fetch.range], reason, isStandIn: state.isStandIn)
            } else {
                sync?.noteFetched(item.id, state)
            }
            completeMaterialization(item, &state)
            answerWaiters(&state)
            if case .success = outcome { continueFetching(item, &state) }
            if let bytes = state.bytes {
                start(item, &state, state.fetching.plan.requestWaiting(of: bytes))
            }
            return outcome
        }
        switch end {
        case .success:
            context.note(.provided, item.id, nil, fetch.range.inWords)
            noteEditor(of: item.id, fetch)
        case .failure(.cancelled): context.note(.stop, item.id)
        case .failure(let reason): context.note(.fail, item.id, nil, "\(reason)")
        }
        for waiter in failed { waiter.complete(.failure(error)) }
        if (try? save(item, closing: false)) == nil { log.error("item \(item.id): its ranges can't be saved") }
        completedItems.remove(item.id)
        sync?.noteIdle(item.id)
    }

    /// Keeps who made the version that was fetched, unless the provider has another one by now.
    private func noteEditor(of id: ItemID, _ fetch: Fetch) {
        guard let (name, version) = fetch.editor.withLock({ $0 }) else { return }
        // All ranges of a file tell the same.
        let known = try? catalog.read { database throws(Errno) in
            try database.extendedAttribute(CoveAttribute.editor, of: id)
        }
        if let known, known == CoveAttribute.value(editor: name) { return }
        try? catalog.write { database throws(Errno) in
            let isCurrent = try database.entries(of: id).contains { $0.remoteVersion?.isSame(as: version) == true }
            if isCurrent { try database.storeEditor(name, of: id) }
        }
    }

    /// Turns a partial item whose bytes are all here into a whole one.
    func completeMaterialization(_ item: LiveItem, _ state: inout LiveItem.State) {
        guard var row = state.row, row.residency != .whole, row.kind == .file else { return }
        if state.ranges.contains(0..<row.size) {
            row.residency = .whole
            state.ranges = RangeSet()
            state.fetching.plan.wantsAll = false
            departing.remove(item.id)
            // Not under the item's lock: where the kernel is far behind, this waits.
            contentQueue.async { [self] in kernel?.invalidateAttributes(of: item.id) }
        } else if row.residency == .dataless, !state.ranges.isEmpty {
            row.residency = .partial
        } else {
            return
        }
        state.row = row
        state.hasUnsavedRanges = true
    }

    /// Wants all bytes of an item; the body is called when they are here or can't come.
    func materialize(_ id: ItemID, _ body: @escaping @Sendable (Result<Void, Errno>) -> Void) {
        let item = live.retain(id)
        let outcome = Result { () throws(Errno) -> Bool in
            try item.state.withLock { state throws(Errno) in
                let row = try load(id, &state)
                guard row.kind == .file, row.residency != .whole else { return true }
                if row.size == 0 {
                    state.row?.residency = .whole
                    state.hasUnsavedRanges = true
                    return true
                }
                if disk.isFull { throw .noSpace }
                state.fetching.plan.wantsAll = true
                state.fetching.add(
                    Waiter(
                        range: 0..<row.size,
                        complete: { [weak self] result in
                            body(result)
                            self?.live.release(id)
                        },
                        isAbandoned: { false }
                    )
                )
                if state.fetching.isIdle { continueFetching(item, &state) }
                return false
            }
        }
        switch outcome {
        case .success(false): break
        case .success(true):
            try? save(item, closing: false)
            live.release(id)
            body(.success(()))
        case .failure(let error):
            live.release(id)
            body(.failure(error))
        }
    }

    /// Fetches all bytes of an item; for tasks.
    func materialize(_ id: ItemID) async throws(Errno) {
        let result = await withCheckedContinuation { (continuation: CheckedContinuation<Result<Void, Errno>, Never>) in
            contentQueue.async { [self] in materialize(id) { continuation.resume(returning: $0) } }
        }
        try result.get()
    }

    /// Wants the rest of a partial item that was written to, before its base version goes away.
    func completeBase(_ item: LiveItem, _ state: inout LiveItem.State) {
        completeMaterialization(item, &state)
        guard let row = state.row, row.residency != .whole else { return }
        state.fetching.plan.wantsAll = true
        if state.fetching.isIdle { continueFetching(item, &state) }
    }

    /// Ends fetches nobody needs any more after a reader gave up.
    func abandonFetches(of item: LiveItem) {
        item.state.withLock { state in
            state.fetching.dropAbandoned()
            if state.fetching.waiters.isEmpty { state.fetching.endUnneeded() }
        }
    }

    /// At the engine's end: no byte comes into a content file any more, and whoever waits for some gets `EINTR`.
    func endFetches(of item: LiveItem) {
        let waiters = item.state.withLock { state in
            // What came so far counts, and the row must say so.
            if !state.ranges.isEmpty { completeMaterialization(item, &state) }
            return state.fetching.reset()
        }
        for waiter in waiters { waiter.complete(.failure(.interrupted)) }
    }

    /// After a close: what is fetched only in the background, for nobody, ends.
    func stopBackgroundFetches(of item: LiveItem) {
        item.state.withLock { state in
            guard !state.fetching.isIdle, live.handles(item.id) <= 1 else { return }
            state.fetching.dropAbandoned()
            state.fetching.endUnneeded()
        }
    }

    /// Ends fetches that made no progress within the stall limit; those who wait get `ETIMEDOUT`.
    func expireFetches(of item: LiveItem, now: MonotonicTime) {
        let limit = configuration.stallLimit
        let (expired, lost, isStandIn) = item.state.withLock { state -> ([Waiter], [Range<Int64>], Bool) in
            let stalled = state.fetching.fetches.values.filter {
                now - $0.lastProgress.load(ordering: .relaxed) > limit
            }
            guard !stalled.isEmpty, let bytes = state.bytes else { return ([], [], false) }
            for fetch in stalled { state.fetching.end(fetch.number) }
            let ranges = stalled.map(\.range)
            return (state.fetching.take(state.fetching.plan.failed(ranges, of: bytes)), ranges, state.isStandIn)
        }
        if !expired.isEmpty { sync?.noteFetchFailure(item.id, lost, .timedOut, isStandIn: isStandIn) }
        for waiter in expired { waiter.complete(.failure(.timedOut)) }
    }

    /// Records bytes that a program wrote into an item that is not whole; the range that they are in then.
    func noteLocalBytes(_ item: LiveItem, _ state: inout LiveItem.State, _ range: Range<Int64>) -> Range<Int64>? {
        guard let row = state.row, !range.isEmpty else { return nil }
        if range.lowerBound > row.size { state.ranges.insert(row.size..<range.lowerBound) }
        let joined = state.ranges.insert(range)
        noteContentChange(item, &state) { row in
            row.size = max(row.size, range.upperBound)
            row.residency = .partial
        }
        answerWaiters(&state)
        return joined
    }

    /// Commits size and ranges of an item at once: a fetch after a restart must not cover what was written.
    ///
    /// Where only bytes were `added`, it commits the range that these are in, and none that a fetch has brought meanwhile:
    /// a file that is written to in a hundred thousand places has as many ranges.
    func commitContent(
        _ item: LiveItem,
        _ state: inout LiveItem.State,
        added: Range<Int64>? = nil
    ) throws(Errno) {
        guard var row = state.row else { return }
        let isBehind = state.hasUnsavedRanges
        var isCommitted = false
        defer { if !isCommitted { state.hasUnsavedRanges = true } }
        row.isSynced = try staysSynced(item.id, &state)
        let known = row
        let ranges = added == nil ? state.ranges : RangeSet()
        state.row = try catalog.write { database throws(Errno) -> ItemRow in
            var saved = known
            // What is said to be here is what is recorded.
            if let added {
                saved.resident += try database.addRange(added, to: item.id)
            } else {
                try database.setRanges(ranges, of: item.id)
                saved.resident = known.residency == .whole ? known.size : ranges.count
            }
            try database.saveContent(saved)
            try self.enqueueEntries(of: item.id, .content, database)
            let growth = saved.resident - known.resident
            database.whenCommitted { self.cache.withLock { $0.change(by: growth) } }
            return saved
        }
        isCommitted = true
        state.hasUnsavedRanges = added != nil && isBehind
        state.hasUnsavedContent = false
        item.noteUnsaved(state)
        wakeSync()
    }
}

extension Range<Int64> {
    /// The range for a person; no `count`, which traps where it is beyond Int.
    fileprivate var inWords: String { "\(upperBound - lowerBound) bytes from \(lowerBound)" }
}
