internal import CoveCore
internal import Synchronization

/// A row that was seen waiting without an ordinary reason.
struct WatchedRow: Sendable {
    /// When it was changed or deleted: changed again, it waits anew.
    var stamp: Timestamp
    /// When it was seen so first.
    var since: MonotonicTime
    /// Rows that had come to an end by then.
    var sent: Int
    /// Bytes of its own that were sent.
    var bytes: Int64 = 0
    /// What was changed after it was started before it.
    var isOvertaken = false
}

/// Noticing that a row is not sent while others are, and saying why.
extension SyncEngine {
    /// As many rows are watched of each kind; they are the oldest.
    private static let mostWatched = 16
    /// Rows with an ordinary reason that are passed over: as many as the schedule knows reasons of, and some.
    private static let mostPassed = Schedule.capacity + 256

    /// Looks at what waits longest, and tells what has waited for a minute while others were sent.
    func watchRows(_ now: MonotonicTime, holdsDeletions: Bool) {
        let time = host.journalTime()
        let host = host
        let found = try? host.catalog.read { database throws(Errno) -> [Candidate] in
            var found = try self.waitingEntries(time, database)
            if !holdsDeletions { found += try self.waitingDeletions(time, database) }
            return found
        }
        guard let found else { return }
        let sent = shared.withLock { $0.sent }
        var next: [QueueKey: WatchedRow] = [:]
        var late: [(candidate: Candidate, seconds: Double)] = []
        for candidate in found {
            let new = WatchedRow(stamp: candidate.row.stamp, since: now, sent: sent, bytes: candidate.bytes)
            var row = watched[candidate.row.key] ?? new
            // What makes progress by itself is shown as a transfer.
            if row.stamp != new.stamp || row.bytes != new.bytes { row = new }
            next[candidate.row.key] = row
            guard now - row.since >= host.configuration.standstillTime else { continue }
            // Where a queue is long, who comes late waits long: that alone is nothing to tell.
            let othersWent = candidate.reason == .unknown ? row.isOvertaken : row.sent != sent
            if othersWent { late.append((candidate, (now - row.since).seconds)) }
        }
        watched = next
        let told = try? host.catalog.read { database throws(Errno) -> [Standstill] in
            var told: [Standstill] = []
            for (candidate, seconds) in late {
                guard let path = try self.path(of: candidate.row.key, database) else { continue }
                told.append(Standstill(path: path.description, reason: candidate.reason.text, seconds: seconds))
            }
            return told
        }
        let former = shared.withLock { state in
            defer { state.heldUp = told ?? [] }
            return state.heldUp
        }
        for row in told ?? [] where !former.contains(where: { LocalPath.isSame($0.path, row.path) }) {
            host.log.notice("\(row.path) waits while others are sent: \(row.reason)")
        }
    }

    /// A row is started: what was changed before it and waits has been overtaken.
    func noteOvertaken(by row: QueueRow) {
        for (key, other) in watched where other.stamp < row.stamp { watched[key]?.isOvertaken = true }
    }

    /// A row that waits without an ordinary reason.
    private struct Candidate: Sendable {
        var row: QueueRow
        var reason: WaitReason
        var bytes: Int64 = 0
    }

    private func candidate(_ row: QueueRow, _ reason: WaitReason) -> Candidate {
        let progress = shared.withLock { $0.reservations.progress(of: row.document) }
        return Candidate(row: row, reason: reason, bytes: progress?.mark ?? 0)
    }

    /// The oldest entries that neither failed nor have an ordinary reason to wait.
    private func waitingEntries(_ now: Timestamp, _ database: Database) throws(Errno) -> [Candidate] {
        var found: [Candidate] = []
        var (count, looks) = (0, 0)
        func add(_ row: Row) -> Bool {
            let row = JournalRow(row)
            looks += 1
            if let reason = try? reason(of: row, now, database), !reason.isOrdinary {
                let queued = QueueRow(key: .entry(row.entry), document: row.document, stamp: row.changed)
                found.append(candidate(queued, reason))
                count += 1
            }
            return count < SyncEngine.mostWatched && looks < SyncEngine.mostPassed
        }
        try database.each(
            """
            SELECT j.*, e.document FROM journal j INDEXED BY journal_due CROSS JOIN entries e ON e.id = j.entry
            WHERE j.retry = 0 AND j.held = 0 AND j.error IS NULL ORDER BY j.changed, j.entry
            """,
            body: add
        )
        (count, looks) = (0, 0)
        try database.each(
            """
            SELECT j.*, e.document FROM journal j INDEXED BY journal_retry CROSS JOIN entries e ON e.id = j.entry
            WHERE j.retry > 0 AND j.held = 0 AND j.error IS NULL ORDER BY j.retry
            """,
            body: add
        )
        (count, looks) = (0, 0)
        // What waits for its folder is told of by the folder, where that waits itself.
        try database.each(
            """
            SELECT j.*, e.document FROM (SELECT * FROM journal INDEXED BY journal_held WHERE held > 0 AND held = 1 LIMIT 1024) j
                JOIN entries e ON e.id = j.entry JOIN entries p ON p.item = e.parent
            WHERE p.remote_id IS NULL AND NOT EXISTS (SELECT 1 FROM journal WHERE entry = p.id)
            """,
            body: add
        )
        return found
    }

    /// The oldest deletions that neither failed nor have an ordinary reason to wait.
    private func waitingDeletions(_ now: Timestamp, _ database: Database) throws(Errno) -> [Candidate] {
        var found: [Candidate] = []
        var looks = 0
        try database.each("SELECT * FROM trash WHERE pending = 1 AND error IS NULL ORDER BY id") { row in
            let row = TrashRow(row)
            looks += 1
            if let reason = try? reason(ofTrash: row, now, database), !reason.isOrdinary,
                // What is in it waits by itself, and tells so.
                reason != .contents || (try? database.empties(row.item ?? .root)) == false
            {
                let queued = QueueRow(key: .trash(row.id), document: row.document, stamp: row.deleted)
                found.append(candidate(queued, reason))
            }
            return found.count < SyncEngine.mostWatched && looks < SyncEngine.mostPassed
        }
        return found
    }

    private func path(of key: QueueKey, _ database: Database) throws(Errno) -> RemotePath? {
        switch key {
        case .trash(let id): try database.trash(id: id)?.path
        case .entry(let id):
            try database.entry(id: id).map { entry throws(Errno) in try database.path(of: entry) }
        }
    }
}

extension Database {
    /// True while something waits to be sent that leaves a directory at the provider.
    func empties(_ directory: ItemID) throws(Errno) -> Bool {
        try first(
            """
            SELECT 1 WHERE EXISTS (SELECT 1 FROM trash WHERE pending = 1 AND remote_parent = ?1)
                OR EXISTS (SELECT 1 FROM entries e JOIN journal j ON j.entry = e.id WHERE e.remote_parent = ?1)
            """,
            .item(directory),
            read: { _ in true }
        ) ?? false
    }
}
