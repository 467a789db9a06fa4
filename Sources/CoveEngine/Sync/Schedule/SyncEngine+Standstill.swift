internal import CoveCore
internal import Synchronization

/// Noticing that nothing is sent though the source answers, and saying why.
extension SyncEngine {
    /// What showed last that sending goes on.
    struct Progress: Sendable {
        var mark: [Int64] = []
        var since = MonotonicTime.distantPast
        var looked = MonotonicTime.distantPast
    }

    /// Looks now and then whether anything was sent; from the clock's round.
    nonisolated func watchProgress(_ now: MonotonicTime) {
        let limit = engine.configuration.standstillTime
        let isDue = shared.withLock { state in
            guard now - state.progress.looked >= min(.seconds(5), limit / 4) else { return false }
            state.progress.looked = now
            return true
        }
        guard isDue else { return }
        let counters = engine.counters
        let waits = try? engine.catalog.read { database throws(Errno) in try database.waitsToBeSent() }
        let isStill = shared.withLock { state in
            let isHeld = !state.isConnected || state.isPaused || state.heldRemovals > 0 || state.heldDeletions > 0
            let mark: [Int64] = [
                counters.bytesUploaded.load(ordering: .relaxed),
                Int64(counters.contentUpdates.load(ordering: .relaxed)),
                Int64(counters.moves.load(ordering: .relaxed)),
                Int64(counters.deletions.load(ordering: .relaxed)),
                Int64(state.sent),
                state.claims.transfers.reduce(0) { $0 &+ $1.progress.sent.load(ordering: .relaxed) },
            ]
            guard waits == true, !isHeld, mark == state.progress.mark else {
                state.progress.mark = mark
                state.progress.since = now
                state.standstill = nil
                return false
            }
            return now - state.progress.since >= limit
        }
        if isStill { Task { await self.explainStandstill() } }
    }

    /// Says which row waits longest, and for what.
    private func explainStandstill() {
        let now = engine.journalTime()
        let engine = engine
        let found = try? engine.catalog.read { database throws(Errno) -> (path: RemotePath, reason: String)? in
            guard let (key, held) = try database.firstWaiting() else { return nil }
            switch key {
            case .trash(let id):
                guard let row = try database.trash(id: id) else { return nil }
                return (row.path, self.reason(key, row.document, error: row.error, retry: row.retry, now))
            case .entry(let id):
                guard let entry = try database.entry(id: id), let row = try database.journalRow(id) else { return nil }
                let path = try database.path(of: entry)
                guard held else {
                    return (path, self.reason(key, row.document, error: row.error, retry: row.retry, now))
                }
                return (path, "its folder is not at the source yet")
            }
        }
        guard let (path, reason) = found ?? nil else { return }
        let isNew = shared.withLock { state in
            let isNew = state.standstill == nil
            let seconds = (System.monotonic() - state.progress.since).seconds
            state.standstill = Standstill(path: path.description, reason: reason, seconds: seconds)
            return isNew
        }
        if isNew { engine.log.notice("nothing was sent for a while though the source answers: \(path): \(reason)") }
    }

    private func reason(
        _ key: QueueKey,
        _ document: DocumentID,
        error: String?,
        retry: Timestamp,
        _ now: Timestamp
    ) -> String {
        if isPushing(document) { return "it is on its way, and the source does not take it" }
        if throttledUntil > now { return "the source is busy and asks for patience" }
        if let error { return error }
        if let rest = schedule.rests[key] { return rest.reason }
        if schedule.blocked[key] != nil { return "it waits for another change, which is on its way" }
        if retry > now { return "it is tried again soon" }
        return "it could go, and does not: `cove unmount` and `cove mount` may help"
    }
}

extension Database {
    /// True when something waits to be sent.
    func waitsToBeSent() throws(Errno) -> Bool {
        try first(
            """
            SELECT 1 WHERE EXISTS (SELECT 1 FROM journal WHERE held < 2)
                OR EXISTS (SELECT 1 FROM trash WHERE pending = 1)
            """,
            read: { _ in true }
        ) ?? false
    }

    /// The row that waits longest, what has failed before all others; true with one that its folder holds back.
    func firstWaiting() throws(Errno) -> (QueueKey, Bool)? {
        let failed = try first(
            "SELECT entry FROM journal WHERE error IS NOT NULL ORDER BY entry LIMIT 1",
            read: { (QueueKey.entry($0.int(0)), false) }
        )
        if let failed { return failed }
        let waiting = try first(
            "SELECT entry, held FROM journal WHERE held < 2 ORDER BY held, changed LIMIT 1",
            read: { (QueueKey.entry($0.int(0)), $0.int(1) != 0) }
        )
        if let waiting { return waiting }
        return try first(
            "SELECT id FROM trash WHERE pending = 1 ORDER BY id LIMIT 1",
            read: { (QueueKey.trash($0.int(0)), false) }
        )
    }
}
