internal import CoveCore
internal import Glibc

/// Making rows and content files agree after a death.
extension Recovery {
    /// Files that the kernel may have written to by itself: what is not as it was when last looked at was changed.
    ///
    /// Programs of an earlier mount may still have some of them mapped: these are followed on.
    func recoverUnsettled(_ database: Database, isUnclean: Bool) throws(Errno) {
        let now = configuration.clock.now().inMilliseconds
        for (id, stamp) in try database.unsettled() {
            try database.endUnsettled(id)
            guard var row = try database.item(id), let status = try? System.lstat(store.path(id)) else { continue }
            let found = ContentStamp(status)
            // What a program synced since it was sent keeps its name, as on any disk.
            if found != stamp, row.residency == .whole, !(isUnclean && row.isSynced) {
                found.apply(to: &row)
                row.resident = row.size
                row.generation += 1
                row.isSynced = false
                try database.saveContent(row)
                if let home = row.home {
                    _ = try Namespace.rescue(id, home: home, host: configuration.hostName, at: now, database)
                }
                for entry in try database.entries(of: id) where !entry.flags.contains(.localOnly) {
                    try database.enqueue(entry.id, at: now)
                }
                log.notice("item \(id): programs wrote to it before the end; it has \(row.size) bytes")
            }
            if store.isOpenForWriting(id), try database.existingItem(id).linkCount > 0 {
                try database.setUnsettled(id, found)
            }
        }
    }

    /// Bytes of changed items reached their files before the catalog heard of their size.
    ///
    /// After an unclean end a file may also lack bytes that the catalog heard of, and what is behind a synced end is cut.
    /// Returns the items that the disk has lost: no death removes a content file that holds anything.
    func recoverSizes(_ database: Database, isUnclean: Bool) throws(Errno) -> Set<ItemID> {
        var lost: Set<ItemID> = []
        let rows = try database.all(
            """
            SELECT i.id, i.size, i.mtime, i.synced FROM items i WHERE i.kind = 0 AND i.state = 0 AND i.id IN
                (SELECT e.item FROM journal j JOIN entries e ON e.id = j.entry
                UNION SELECT item FROM entries WHERE flags & 1 UNION SELECT item FROM trash WHERE item IS NOT NULL
                UNION SELECT id FROM items WHERE nlink = 0)
            """,
            read: { ($0.item(0), $0.int(1), $0.time(2), $0.int(3) != 0) }
        )
        for (id, size, mtime, isSynced) in rows {
            let status: stat?
            // Of what can't be looked at nothing new is known.
            do throws(Errno) { status = try content(of: id) } catch { continue }
            let actual = Int64(status?.st_size ?? 0)
            if isUnclean, isSynced, actual > size {
                try store.cut(id, to: size)
                continue
            }
            guard actual != size else { continue }
            if status == nil, isSynced || !isUnclean {
                lost.insert(id)
                try database.moveVersions(of: id, to: nil)
                continue
            }
            if actual < size, try isSent(id, database) { continue }
            let written = status.map { Timestamp($0.st_mtim) } ?? mtime
            try database.run(
                "UPDATE items SET size = ?, resident = ?, mtime = max(mtime, ?) WHERE id = ?",
                .int(actual),
                .int(actual),
                .time(written),
                .item(id)
            )
            log.notice("item \(id): recovered at \(actual) of \(size) bytes")
        }
        return lost
    }

    /// An item's content file as it lies on the disk; nil where it is gone.
    private func content(of id: ItemID) throws(Errno) -> stat? {
        do throws(Errno) { return try System.lstat(store.path(id)) } catch {
            if error == .noSuchEntry { return nil }
            throw error
        }
    }

    /// True where the provider has an item's bytes under each of its names: whoever cuts it says first that it differs.
    ///
    /// What such an item lacks was lost. It is found to be lost, and fetched again, where it is used.
    private func isSent(_ id: ItemID, _ database: Database) throws(Errno) -> Bool {
        let row = try database.existingItem(id)
        let entries = try database.entries(of: id)
        return !entries.isEmpty
            && entries.allSatisfy { $0.isUploaded && !$0.hasUnsentContent(generation: row.generation) }
    }

    /// Files of which a repair found bytes missing.
    func takeLacking(_ database: Database) throws(Errno) -> Set<ItemID> {
        guard let kept = try database.meta(Self.lackingKey) else { return [] }
        try database.setMeta(Self.lackingKey, nil)
        return Set(
            kept.split(separator: 0x20).compactMap { UInt64(String(decoding: $0, as: UTF8.self)).map { ItemID($0) } }
        )
    }

    static let lackingKey = "lacking"

    /// A file of which a part is here was cut or grown, and the catalog had not heard.
    ///
    /// A cut that took known bytes is completed; anything else is as before. After an unclean end this can be said of
    /// those alone that were synced. Returns the items that the disk has lost.
    func recoverRanges(_ database: Database, isUnclean: Bool) throws(Errno) -> Set<ItemID> {
        var lost: Set<ItemID> = []
        let rows = try database.all(
            """
            SELECT i.id, i.size FROM items i WHERE i.kind = 0 AND i.state = 2 AND i.synced >= ? AND i.id IN
                (SELECT e.item FROM journal j JOIN entries e ON e.id = j.entry
                UNION SELECT item FROM entries WHERE flags & 1 UNION SELECT item FROM trash WHERE item IS NOT NULL
                UNION SELECT id FROM items WHERE nlink = 0)
            """,
            .flag(isUnclean),
            read: { ($0.item(0), $0.int(1)) }
        )
        for (id, size) in rows {
            let status: stat?
            do throws(Errno) { status = try content(of: id) } catch { continue }
            let actual = Int64(status?.st_size ?? 0)
            if actual > size {
                try store.cut(id, to: size)
                continue
            }
            var ranges = try database.ranges(of: id)
            let known = ranges.count
            ranges.removeAll(from: actual)
            guard ranges.count < known else { continue }
            if status == nil {
                lost.insert(id)
                continue
            }
            if try isSent(id, database) { continue }
            let isWhole = ranges.contains(0..<actual)
            try database.setRanges(isWhole ? RangeSet() : ranges, of: id)
            try database.run(
                "UPDATE items SET size = ?, resident = ?, state = ? WHERE id = ?",
                .int(actual),
                .int(ranges.count),
                .int((isWhole ? Residency.whole : .partial).rawValue),
                .item(id)
            )
            log.notice("item \(id): recovered at \(actual) of \(size) bytes")
        }
        return lost
    }

    /// After an unclean end: changed bytes that were not durable may be anything, so they replace nothing.
    ///
    /// So may those which the provider had, but has no more if what was sent of their document has arrived.
    /// They stay as a conflict copy. Where parts of their base version were never here, or nothing arrived, they are no
    /// document: what there is goes to the content without items. The document's bytes are the provider's again.
    ///
    /// `lost`: files whose bytes are gone, which is all that is looked for after a clean end.
    func setAsideUnsynced(_ database: Database, isUnclean: Bool, lost: Set<ItemID>) throws(Errno) {
        if !isUnclean, lost.isEmpty { return }
        for id in lost { try database.run("UPDATE items SET synced = 0 WHERE id = ?", .item(id)) }
        let now = configuration.clock.now().inMilliseconds
        let ids = try database.all(
            """
            SELECT e.id FROM entries e JOIN items i ON i.id = e.item JOIN journal j ON j.entry = e.id
            WHERE i.kind = 0 AND i.synced = 0 AND i.state <> 1 AND e.remote_id IS NOT NULL
                AND (e.remote_item IS NOT i.id OR e.remote_generation IS NOT i.generation
                    OR EXISTS (SELECT 1 FROM underway u WHERE u.document = e.document AND u.item <> i.id))
            """,
            read: { $0.int(0) }
        )
        for id in ids {
            guard var entry = try database.entry(id: id) else { continue }
            guard isUnclean || lost.contains(entry.item) else { continue }
            let item = try database.existingItem(entry.item)
            try standIn(for: item, &entry, database)
            if item.residency == .partial || !store.hasBytes(item.id) {
                try database.addLinks(-1, to: item.id)
                if item.linkCount <= 1 { try database.deleteItem(item.id) }
                log.notice("entry \(id): what was written to it is incomplete; it comes back from the source")
                continue
            }
            let name = try Namespace.conflictName(
                entry.parent,
                entry.name,
                host: configuration.hostName,
                at: configuration.clock.now(),
                database
            )
            let copy = EntryRow(parent: entry.parent, name: name, item: item.id)
            let made = try database.insert(copy)
            try database.enqueue(made, at: now)
            try database.recordConflict(
                copy: copy.document,
                of: entry.document,
                host: configuration.hostName,
                at: now
            )
            log.notice("entry \(id): its last changes may not have reached the disk; they are kept beside it")
        }
        if !ids.isEmpty { try database.setMeta("anchor", nil) }
        guard isUnclean else { return }
        // A new document that was sent and then changed: what arrived is no base for bytes that may be anything.
        try database.run(
            """
            DELETE FROM underway WHERE item IS NOT NULL AND document IN
                (SELECT e.document FROM entries e JOIN items i ON i.id = e.item WHERE e.remote_id IS NULL AND i.synced = 0
                    AND (i.id <> underway.item OR i.generation <> underway.generation))
            """
        )
    }

    /// Gives a document an item without bytes, of a version that the provider never has: a look there replaces it.
    ///
    /// The entry stays, for the provider may have the document under a name that only a push of it looks for.
    private func standIn(for item: ItemRow, _ entry: inout EntryRow, _ database: Database) throws(Errno) {
        var row = item
        row.residency = .dataless
        row.resident = 0
        row.version = ContentVersion([])
        row.linkCount = 1
        row.home = nil
        row.size = max(1, item.size)
        entry.item = try database.insert(row)
        entry.remoteVersion = row.version
        entry.remoteItem = entry.item
        entry.remoteGeneration = row.generation
        try database.update(entry)
        // Nothing of it is to be sent but a move or new dates, and a push would be in the way of that look.
        if !entry.isMoved, !entry.flags.contains(.metadataChanged) { try database.dequeue(entry.id) }
    }

    /// After an unclean end: what was not durable of a deleted file may be anything, and the provider has a version of it still.
    ///
    /// That may have another size, so that it comes back from there alone.
    func dropUnsyncedDeleted(_ database: Database) throws(Errno) {
        try database.run(
            """
            UPDATE trash SET item = NULL, sent = 1 WHERE (pending = 1 OR place IS NOT NULL)
                AND item IN (SELECT id FROM items WHERE kind = 0 AND size > 0 AND synced = 0)
            """
        )
    }

    /// After an unclean end: clean bytes that were not durable are fetched again.
    func dropUnsynced(_ database: Database) throws(Errno) {
        try database.run(
            """
            UPDATE items SET state = 1, resident = 0, version =
                (SELECT e.remote_version FROM entries e WHERE e.item = items.id LIMIT 1)
            WHERE kind = 0 AND state <> 1 AND synced = 0 AND size > 0 AND EXISTS
                (SELECT 1 FROM entries e WHERE e.item = items.id AND e.remote_id IS NOT NULL
                    AND e.remote_item = items.id AND e.remote_generation = items.generation
                    AND NOT EXISTS (SELECT 1 FROM underway u WHERE u.document = e.document AND u.item <> items.id))
            """
        )
        try database.run("DELETE FROM ranges WHERE item IN (SELECT id FROM items WHERE state = 1)")
    }

    /// After an unclean end: content whose rows were lost is kept where a person finds it; the ids are given again.
    func setAsideUnknown(_ catalog: Catalog) throws(Errno) {
        var unknown: [ItemID] = []
        try catalog.read { database throws(Errno) in
            try store.forEach { id throws(Errno) in if try database.item(id) == nil { unknown.append(id) } }
        }
        for id in unknown { _ = try store.setAside(id) }
        guard !unknown.isEmpty else { return }
        log.notice("\(unknown.count) content files without an item are in \(ContentStore.foundFolder)")
    }
}
