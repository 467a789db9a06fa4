internal import CoveCore
internal import Synchronization

/// Noticing that nothing is sent though the source answers, and saying why: the row and the reason.
extension SyncEngine {
    /// What showed last that sending goes on.
    struct Progress: Sendable {
        var mark: [Int64] = []
        var since = MonotonicTime.distantPast
        var looked = MonotonicTime.distantPast
    }

    /// Looks now and then whether anything was sent; from the clock's round.
    nonisolated func watchProgress(_ now: MonotonicTime) {
        let limit = host.configuration.standstillTime
        let isDue = shared.withLock { state in
            guard now - state.progress.looked >= min(.seconds(5), limit / 4) else { return false }
            state.progress.looked = now
            return true
        }
        guard isDue else { return }
        Task { await self.lookForStandstill(now) }
    }

    /// Notes what stands still, and what others go before.
    func lookForStandstill(_ now: MonotonicTime) {
        let counters = host.counters
        let holdsDeletions = shared.withLock { $0.heldDeletions > 0 }
        let waits = try? host.catalog.read { database throws(Errno) in
            try database.waitsToBeSent(withDeletions: !holdsDeletions)
        }
        let found = shared.withLock { state -> (isWaiting: Bool, isStill: Bool) in
            let mark: [Int64] = [
                counters.bytesUploaded.load(ordering: .relaxed),
                Int64(counters.contentUpdates.load(ordering: .relaxed)),
                Int64(counters.moves.load(ordering: .relaxed)),
                Int64(counters.deletions.load(ordering: .relaxed)),
                Int64(state.sent),
                state.reservations.transfers.reduce(0) { $0 &+ $1.progress.mark },
            ]
            let isWaiting = waits == true && state.isConnected && !state.isPaused
            if !isWaiting { state.heldUp = [] }
            guard isWaiting, mark == state.progress.mark else {
                state.progress.mark = mark
                state.progress.since = now
                state.standstill = nil
                return (isWaiting, false)
            }
            return (true, now - state.progress.since >= host.configuration.standstillTime)
        }
        guard found.isWaiting else { return watched = [:] }
        watchRows(now, holdsDeletions: holdsDeletions)
        if found.isStill { explainStandstill(now) }
    }

    /// Says which row waits longest, and for what.
    private func explainStandstill(_ now: MonotonicTime) {
        let time = host.journalTime()
        let host = host
        let found = try? host.catalog.read { database throws(Errno) -> (path: RemotePath, reason: String)? in
            guard let key = try database.firstWaiting() else { return nil }
            return try self.explain(key, time, database)
        }
        guard let (path, reason) = found ?? nil else { return }
        let isNew = shared.withLock { state in
            let isNew = state.standstill == nil
            let seconds = (now - state.progress.since).seconds
            state.standstill = Standstill(path: path.description, reason: reason, seconds: seconds)
            return isNew
        }
        if isNew { host.log.notice("nothing was sent for a while though the source answers: \(path): \(reason)") }
    }

    private func explain(
        _ key: QueueKey,
        _ time: Timestamp,
        _ database: Database
    ) throws(Errno) -> (path: RemotePath, reason: String)? {
        switch key {
        case .trash(let id):
            guard let row = try database.trash(id: id) else { return nil }
            let reason = try reason(ofTrash: row, time, database)
            return (row.path, isOver(reason) ? row.error ?? reason.text : reason.text)
        case .entry(let id):
            guard let entry = try database.entry(id: id), let row = try database.journalRow(id) else { return nil }
            let reason = try reason(of: row, time, database)
            return (try database.path(of: entry), isOver(reason) ? row.error ?? reason.text : reason.text)
        }
    }

    /// True for what says less than the error of the last attempt does.
    private func isOver(_ reason: WaitReason) -> Bool {
        switch reason {
        case .onItsWay, .readOnly, .diskFailed, .notPolled, .throttled: false
        default: true
        }
    }

    /// Why an entry is not sent.
    func reason(of row: JournalRow, _ now: Timestamp, _ database: Database) throws(Errno) -> WaitReason {
        if let reason = reason(.entry(row.entry), row.document, retry: row.retry, now) { return reason }
        if row.changed > settled(now) { return .settling }
        let held = try database.first(
            "SELECT held FROM journal WHERE entry = ?",
            .int(row.entry),
            read: { $0.int(0) != 0 }
        )
        if held == true { return try database.hasLostFolder(row.entry) ? .lostFolder : .folder }
        return activeWeight >= pushLimit.count ? .transfers : .unknown
    }

    /// Why a deletion is not sent.
    func reason(ofTrash row: TrashRow, _ now: Timestamp, _ database: Database) throws(Errno) -> WaitReason {
        if let reason = reason(.trash(row.id), row.document, retry: row.retry, now) { return reason }
        if shared.withLock({ $0.heldDeletions > 0 }) { return .approval }
        if row.deleted > settled(now) { return .settling }
        if row.kind == .directory, let item = row.item, try database.isOccupiedRemotely(item) { return .contents }
        return activeWeight >= pushLimit.count ? .transfers : .unknown
    }

    /// What is the same for both.
    private func reason(
        _ key: QueueKey,
        _ document: DocumentID,
        retry: Timestamp,
        _ now: Timestamp
    ) -> WaitReason? {
        if isPushing(document) { return .onItsWay }
        if host.configuration.isReadOnly { return .readOnly }
        if host.disk.isStuck { return .diskFailed }
        if !hasPolled { return .notPolled }
        if throttledUntil > now { return .throttled }
        if let rest = schedule.rests[key] { return rest.reason }
        if schedule.blocked[key] != nil { return .blocked }
        return retry > now ? .retry : nil
    }
}

extension Database {
    /// True when something waits to be sent.
    func waitsToBeSent(withDeletions: Bool) throws(Errno) -> Bool {
        try first(
            """
            SELECT 1 WHERE EXISTS (SELECT 1 FROM journal WHERE held < 2)
                OR ?1 AND EXISTS (SELECT 1 FROM trash WHERE pending = 1)
            """,
            .flag(withDeletions),
            read: { _ in true }
        ) ?? false
    }

    /// True for an entry whose folder is not at the source and does not wait to be sent.
    func hasLostFolder(_ entry: Int64) throws(Errno) -> Bool {
        try first(
            """
            SELECT 1 FROM entries e JOIN entries p ON p.item = e.parent
            WHERE e.id = ? AND p.remote_id IS NULL AND NOT EXISTS (SELECT 1 FROM journal WHERE entry = p.id)
            """,
            .int(entry),
            read: { _ in true }
        ) ?? false
    }

    /// The row that waits longest, what has failed before all others.
    func firstWaiting() throws(Errno) -> QueueKey? {
        let failed = try first(
            "SELECT entry FROM journal WHERE error IS NOT NULL ORDER BY entry LIMIT 1",
            read: { QueueKey.entry($0.int(0)) }
        )
        if let failed { return failed }
        let waiting = try first(
            "SELECT entry FROM journal WHERE held < 2 ORDER BY held, changed LIMIT 1",
            read: { QueueKey.entry($0.int(0)) }
        )
        if let waiting { return waiting }
        return try first(
            "SELECT id FROM trash WHERE pending = 1 ORDER BY id LIMIT 1",
            read: { QueueKey.trash($0.int(0)) }
        )
    }
}
