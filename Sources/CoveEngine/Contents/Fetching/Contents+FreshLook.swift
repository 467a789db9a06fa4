internal import CoveCore
internal import Glibc
internal import Synchronization

/// Opening a file of which nothing is here: what a program sees of it is what the provider has now.
extension Contents {
    /// How long an open waits for the provider; then it goes on with what is known.
    private static let freshLimit = TimeSpan.seconds(1)
    /// How long it waits for the first bytes of a large file; then the provider is asked for its word, which is quicker where
    /// much is transferred.
    private static let partLimit = TimeSpan.milliseconds(200)

    /// What is fetched before an open of a file of which nothing is here is answered; nil where that is nothing.
    ///
    /// A handle keeps its version. Where one request brings all of that, no handle is left without bytes by what another
    /// device does after the open; and a write at the end is one into a page that is half full.
    func rangeForOpen(_ row: ItemRow, flags: Int32) -> Range<Int64>? {
        if disk.isFull || flags & O_NONBLOCK != 0 { return nil }
        let isAppended = flags & O_APPEND != 0
        if row.size <= FetchPlan.firstWindow, flags & O_ACCMODE != O_WRONLY || isAppended { return 0..<row.size }
        // The first bytes of a large one tell too whether there is still such a version, and are what is read next mostly.
        if flags & O_ACCMODE == O_RDONLY { return 0..<4096 }
        let page = row.size & ~4095
        return isAppended && page < row.size ? page..<row.size : nil
    }

    /// Asks the provider for a file that was just opened, or for a part of it; nil where that can't be asked.
    ///
    /// The result is `ESTALE` when another version has taken the name meanwhile: the kernel walks the path again, and
    /// comes to that one. It walks only once more: `isWalking` says that it did. `isPart`: the range is not all that the open
    /// calls for, but tells as much as the provider's word.
    func lookAfresh(
        _ item: LiveItem,
        _ range: Range<Int64>?,
        isPart: Bool,
        writes: Bool,
        isWalking: Bool,
        _ caller: Caller
    ) -> Pending<Void>? {
        guard range != nil || !isWalking, let sync, sync.isConnected else { return nil }
        let pending = Pending<Void>()
        pending.onCancel { [self] in
            if range != nil { abandonFetches(of: item) }
            countOut(item, writes: writes)
        }
        let deadline = Task {
            // Once there is an answer, this one does not count.
            guard (try? await Task.sleep(for: Self.freshLimit)) != nil else { return }
            pending.fulfill(.success(()))
        }
        let answer = { @Sendable [self] (isCurrent: Bool) in
            deadline.cancel()
            if isCurrent || isWalking {
                pending.fulfill(.success(()))
                return
            }
            // One that was answered already walks no path again.
            if pending.isDone { return }
            noteWalker(caller.thread)
            guard pending.fulfill(.failure(.stale)) else { return }
            if range != nil { abandonFetches(of: item) }
            countOut(item, writes: writes)
        }
        if let range {
            fetchForOpen(item, range, pending, sync, answer)
            guard isPart, !isWalking else { return pending }
            Task {
                try? await Task.sleep(for: Self.partLimit)
                if !pending.isDone { answer(await sync.isCurrent(item.id)) }
            }
        } else {
            Task { answer(await sync.isCurrent(item.id)) }
        }
        return pending
    }

    /// Fetches what an open waits for; where the provider has no such version, its word is asked for.
    private func fetchForOpen(
        _ item: LiveItem,
        _ range: Range<Int64>,
        _ pending: Pending<Void>,
        _ sync: any Synchronizer,
        _ answer: @escaping @Sendable (Bool) -> Void
    ) {
        let waiter = Waiter(
            range: range,
            complete: { [self] result in
                // What was taken in meanwhile is what the name stands for.
                if case .success = result {
                    contentQueue.async { [self] in
                        let isReplaced = try? catalog.read { database throws(Errno) in try database.isReplaced(item.id)
                        }
                        answer(isReplaced != true)
                    }
                } else if case .failure(.stale) = result {
                    Task { answer(await sync.isCurrent(item.id)) }
                } else {
                    answer(true)
                }
            },
            isAbandoned: { pending.isDone },
            isMissed: { Task { if await !sync.isCurrent(item.id) { answer(false) } } }
        )
        let isHere = item.state.withLock { state in
            guard let row = state.row, row.residency != .whole, !state.ranges.contains(range) else { return true }
            counters.readMisses.add(1, ordering: .relaxed)
            state.fetching.add(waiter)
            request(item, &state, range.clamped(to: 0..<row.size))
            return false
        }
        if isHere { answer(true) }
    }
}

extension Database {
    /// True when another version has taken the item's name.
    func isReplaced(_ id: ItemID) throws(Errno) -> Bool {
        try first("SELECT nlink = 0 AND home IS NOT NULL FROM items WHERE id = ?", .item(id)) { $0.int(0) != 0 } ?? true
    }
}
