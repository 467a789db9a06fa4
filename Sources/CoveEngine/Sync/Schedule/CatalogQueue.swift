internal import CoveClaims
internal import CoveCore

/// The queue as the catalog has it.
struct CatalogQueue: QueueView {
    let host: SyncHost
    let database: Database
    /// Entries changed up to this moment have settled.
    let settled: Timestamp
    /// New folders and whole new files changed up to this moment have settled; not before `settled`.
    let newSettled: Timestamp
    /// New bytes of files that were sent before, changed up to this moment, have settled.
    let contentSettled: Timestamp
    /// Deletions wait for a person.
    let holdsDeletions: Bool
    /// Whose document may still be taken over by who takes the name.
    let departed: (entries: [Int64: Place], trash: [Int64: Place])
    /// What is changed under claims, and names that are kept for who left them.
    let held: HeldNames

    func eachDue(_ stream: QueueStream, at now: Timestamp, _ body: (QueueRow) -> Bool) throws(Errno) {
        func visit(_ key: QueueKey, _ row: Row, _ size: Int64) -> Bool {
            let weight = PushLimit.weight(size)
            return body(
                QueueRow(key: key, document: row.document(1), stamp: row.milliseconds(2), weight: weight)
            )
        }
        func entry(_ row: Row) -> Bool { visit(.entry(row.int(0)), row, row.count(3)) }
        func trash(_ row: Row) -> Bool { visit(.trash(row.int(0)), row, 0) }
        switch stream {
        case .folders:
            try database.each(
                """
                SELECT j.entry, e.document, j.changed, 0 FROM journal j INDEXED BY journal_folders CROSS JOIN entries e ON e.id = j.entry
                WHERE j.retry = 0 AND j.held = 0 AND j.folder = 1 AND j.changed <= ?1
                    AND (j.changed <= ?2 OR e.remote_id IS NULL) ORDER BY j.changed, j.entry
                """,
                .milliseconds(newSettled),
                .milliseconds(settled),
                body: entry
            )
        case .changes:
            try database.each(
                """
                SELECT j.entry, e.document, j.changed, (SELECT CASE
                    WHEN e.remote_item = i.id AND e.remote_generation = i.generation THEN 0 ELSE i.size END
                    FROM items i WHERE i.id = e.item)
                FROM journal j INDEXED BY journal_due CROSS JOIN entries e ON e.id = j.entry
                WHERE j.retry = 0 AND j.held = 0 AND j.changed <= ?1
                    AND (j.changed <= ?2 OR e.remote_id IS NULL AND (j.folder = 1
                        OR EXISTS (SELECT 1 FROM items i WHERE i.id = e.item AND i.kind = 0 AND i.size > 0))
                        OR j.changed <= ?3 AND j.folder = 0 AND e.remote_id IS NOT NULL AND e.remote_parent IS NULL
                            AND e.remote_name IS NULL)
                ORDER BY j.changed, j.entry
                """,
                .milliseconds(newSettled),
                .milliseconds(settled),
                .milliseconds(contentSettled),
                body: entry
            )
        case .changeRetries:
            try database.each(
                """
                SELECT j.entry, e.document, j.changed, (SELECT CASE
                    WHEN e.remote_item = i.id AND e.remote_generation = i.generation THEN 0 ELSE i.size END
                    FROM items i WHERE i.id = e.item)
                FROM journal j INDEXED BY journal_retry CROSS JOIN entries e ON e.id = j.entry
                WHERE j.retry > 0 AND j.held = 0 AND j.retry <= ? ORDER BY j.retry
                """,
                .milliseconds(now),
                body: entry
            )
        case .deletions:
            guard !holdsDeletions else { return }
            // A directory's only after all that is in it at the provider.
            try database.each(
                """
                SELECT t.id, t.document, t.deleted FROM trash t INDEXED BY trash_due
                WHERE t.pending = 1 AND t.retry = 0 AND t.deleted <= ? AND NOT (t.kind = 1 AND (
                    EXISTS (SELECT 1 FROM trash c WHERE c.pending = 1 AND c.remote_parent = t.item)
                    OR EXISTS (SELECT 1 FROM entries WHERE remote_parent = t.item))) ORDER BY t.id
                """,
                .milliseconds(settled),
                body: trash
            )
        case .deletionRetries:
            guard !holdsDeletions else { return }
            try database.each(
                """
                SELECT t.id, t.document, t.deleted FROM trash t INDEXED BY trash_retry
                WHERE t.pending = 1 AND t.retry > 0 AND t.retry <= ? AND NOT (t.kind = 1 AND (
                    EXISTS (SELECT 1 FROM trash c WHERE c.pending = 1 AND c.remote_parent = t.item)
                    OR EXISTS (SELECT 1 FROM entries WHERE remote_parent = t.item))) ORDER BY t.retry
                """,
                .milliseconds(now),
                body: trash
            )
        }
    }

    func look(at row: QueueRow, now: Timestamp) throws(Errno) -> QueueFinding {
        switch row.key {
        case .entry(let id): try look(atEntry: id, row, now)
        case .trash(let id): try look(atTrash: id, row.document)
        }
    }

    private func look(atEntry id: Int64, _ row: QueueRow, _ now: Timestamp) throws(Errno) -> QueueFinding {
        let document = row.document
        // What differs no more, or is another document's now, is found out by the push.
        guard let entry = try database.entry(id: id), let item = try database.item(entry.item),
            entry.document == document, item.kind.isSynced, !entry.flags.contains(.localOnly)
        else { return .ready(QueueNeeds()) }
        if let place = departed.entries[id] {
            if try isBeingRewritten(place) { return rewritten }
            if try host.coordinator.isHeld(place, by: held, database) { return claimed }
        }
        if try host.coordinator.isHeld(entry.place, by: held, database) { return claimed }
        if row.stamp > settled, host.contents.live.isWritable(item.id) {
            return .rest(row.stamp - settled, .openForWriting)
        }
        let target = try database.remoteChain(of: entry.parent)
        if let missing = target.missing { return try wait(forFolder: missing, now) }
        if let sent = try database.underway(document), try !database.isToBeCompared(sent) {
            let path = Set(try database.remoteAncestry(of: sent.place.parent))
            return .ready(QueueNeeds(path: path, places: [sent.place]))
        }
        let moves = item.kind == .directory && entry.isMoved
        if !entry.isUploaded || entry.isMoved, let found = try occupant(of: entry, now) { return found }
        if moves, let index = target.ancestors.firstIndex(of: item.id) {
            // Into what is still below it at the provider: that leaves first.
            for inner in target.ancestors[..<index] {
                guard let other = try database.entry(ofDirectory: inner), other.isMoved else { continue }
                return try wait(for: other, .folder, now)
            }
        }
        var path = Set(target.ancestors)
        if let old = entry.remoteParent { path.formUnion(try database.remoteAncestry(of: old)) }
        return .ready(
            QueueNeeds(path: path, moving: moves ? item.id : nil, places: [entry.place, entry.remotePlace])
        )
    }

    /// What stands at the provider where an entry is to go.
    private func occupant(of entry: EntryRow, _ now: Timestamp) throws(Errno) -> QueueFinding? {
        if let other = try database.entry(remoteParent: entry.parent, remoteName: entry.name) {
            return other.id == entry.id ? nil : try wait(for: other, .name, now)
        }
        guard let trashed = try database.pendingTrash(remoteParent: entry.parent, remoteName: entry.name) else {
            return nil
        }
        var isOccupied = false
        if trashed.kind == .directory, let item = trashed.item { isOccupied = try database.isOccupiedRemotely(item) }
        let isDue = trashed.retry > .epoch ? trashed.retry <= now : trashed.deleted <= settled
        let row = QueueRow(key: .trash(trashed.id), document: trashed.document, stamp: trashed.deleted)
        return .after(row, isDue && !holdsDeletions && !isOccupied ? .now : .unknown, .name)
    }

    private func wait(
        for other: EntryRow,
        _ obstacle: QueueObstacle,
        _ now: Timestamp
    ) throws(Errno) -> QueueFinding {
        var row = QueueRow(key: .entry(other.id), document: other.document, stamp: .epoch)
        guard let journal = try database.journalRow(other.id) else { return .after(row, .unknown, obstacle) }
        row.stamp = journal.changed
        if let item = try database.item(other.item), item.kind == .file,
            other.hasUnsentContent(generation: item.generation)
        {
            row.weight = PushLimit.weight(item.size)
        }
        if journal.retry > now { return .after(row, .at(journal.retry), obstacle) }
        guard journal.retry == .epoch, journal.changed > settled else { return .after(row, .now, obstacle) }
        return .after(row, .at(now + (journal.changed - settled)), obstacle)
    }

    private func wait(forFolder folder: ItemID, _ now: Timestamp) throws(Errno) -> QueueFinding {
        guard let entry = try database.entry(ofDirectory: folder), try database.journalRow(entry.id) != nil else {
            return .rest(Schedule.doubtfulRest, .lostFolder)
        }
        return try wait(for: entry, .folder, now)
    }

    private func look(atTrash id: Int64, _ document: DocumentID) throws(Errno) -> QueueFinding {
        guard let row = try database.trash(id: id), row.isPending, row.document == document,
            let parent = row.remoteParent
        else { return .ready(QueueNeeds()) }
        if let place = departed.trash[id], try isBeingRewritten(place) { return rewritten }
        if held.contains(row.path) { return claimed }
        if host.contents.departing.needs(document) {
            return .rest(.milliseconds(500), .stillRead)
        }
        var needs = QueueNeeds(path: Set(try database.remoteAncestry(of: parent)))
        if let sent = try database.underway(document) {
            needs.path.formUnion(try database.remoteAncestry(of: sent.place.parent))
            needs.places.append(sent.place)
        }
        needs.moving = row.kind == .directory ? row.item : nil
        needs.places.append(Place(parent, row.remoteName ?? []))
        return .ready(needs)
    }

    private var rewritten: QueueFinding {
        .rest(.milliseconds(200), .successor)
    }

    private var claimed: QueueFinding { .rest(.milliseconds(200), .openOrClaimed) }

    /// True while a file that may take over a departed document's name is being written.
    private func isBeingRewritten(_ place: Place) throws(Errno) -> Bool {
        guard let found = try database.entry(place.parent, place.name), !found.isUploaded else { return false }
        return host.contents.live.isWritable(found.item)
    }

    /// When the next row may go by its own times, those that may go now left out.
    func nextTime(after now: Timestamp, _ configuration: EngineConfiguration) throws(Errno) -> Timestamp? {
        let settle = configuration.settleTime
        var times: [Timestamp] = []
        func add(_ time: Timestamp?) { if let time { times.append(time) } }
        for (moment, rest) in [(settled, settle), (newSettled, configuration.newSettleTime)] {
            add(
                try database.first(
                    "SELECT changed FROM journal WHERE retry = 0 AND held = 0 AND changed > ? ORDER BY changed LIMIT 1",
                    .milliseconds(moment),
                    read: { $0.milliseconds(0) + rest }
                )
            )
        }
        add(
            try database.first(
                "SELECT retry FROM journal WHERE retry > 0 AND held = 0 AND retry > ? ORDER BY retry LIMIT 1",
                .milliseconds(now),
                read: { $0.milliseconds(0) }
            )
        )
        guard !holdsDeletions else { return times.min() }
        add(
            try database.first(
                """
                SELECT deleted FROM trash INDEXED BY trash_due WHERE pending = 1 AND retry = 0 AND deleted > ?
                ORDER BY id LIMIT 1
                """,
                .milliseconds(settled),
                read: { $0.milliseconds(0) + settle }
            )
        )
        add(
            try database.first(
                "SELECT retry FROM trash WHERE pending = 1 AND retry > 0 AND retry > ? ORDER BY retry LIMIT 1",
                .milliseconds(now),
                read: { $0.milliseconds(0) }
            )
        )
        return times.min()
    }
}
