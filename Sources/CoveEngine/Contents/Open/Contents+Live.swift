internal import CoveCore
internal import Glibc
internal import Synchronization

/// Keeping a live item and its row in the catalog in step. All of these run under the item's lock.
extension Contents {
    /// Fills in the row when it was not needed before; `ESTALE` when the item is gone.
    func load(_ id: ItemID, _ state: inout LiveItem.State) throws(Errno) -> ItemRow {
        if state.row != nil { look(id, &state) }
        if let row = state.row { return row }
        var (row, ranges) = try catalog.glance { database throws(Errno) in
            let row = try database.existingItem(id)
            return (row, row.residency == .partial ? try database.ranges(of: id) : RangeSet())
        }
        if row.residency == .partial, ranges.contains(0..<row.size) {
            // Its last bytes came just before a death.
            row.residency = .whole
            ranges = RangeSet()
            state.hasUnsavedRanges = true
        }
        state.row = row
        state.ranges = ranges
        look(id, &state)
        return state.row ?? row
    }

    /// The descriptor of the content file, opened when first needed.
    ///
    /// Throws `EIO` where the disk has lost bytes that were here.
    func descriptor(_ id: ItemID, _ state: inout LiveItem.State) throws(Errno) -> Int32 {
        if state.descriptor < 0 {
            let row = try load(id, &state)
            let isEmpty = row.residency == .dataless && state.ranges.isEmpty
            // The catalog on the disk may still trust the bytes that an eviction left.
            if isEmpty, leavings.evicted.withLock({ $0.contains(id) }) { try catalog.syncLog() }
            let end = row.residency == .whole ? row.size : min(row.size, state.ranges.ranges.last?.upperBound ?? 0)
            if end > 0 {
                guard let found = try store.open(id, holding: end) else { throw noteLoss(id, &state) }
                state.descriptor = found
            } else {
                state.descriptor = try store.open(id, empty: isEmpty)
            }
            state.isLost = false
        }
        return state.descriptor
    }

    /// Makes the journal know, before a byte changes, that the item's bytes differ from what the provider has.
    ///
    /// A snapshot that streams now is ended. An item that a remote change replaced takes a conflict name. Where the
    /// catalog on the disk says that these very bytes are durable, it must not say so after the power fails.
    func mark(_ id: ItemID, _ state: inout LiveItem.State) throws(Errno) {
        if state.isMarked, !freshVersions.contains(id) { return }
        state.snapshot?.abort()
        state.snapshot = nil
        var row = try load(id, &state)
        // What the kernel may have changed by itself was put aside before.
        let kept = state.seen == nil ? try keepBytes(id, &state) : state.kept
        state.kept = nil
        let wasSynced = row.isSynced
        row.isSynced = try isSyncedInPart(id, state)
        row.generation += 1
        let rescued = try catalog.write(durable: wasSynced && !row.isSynced) {
            database throws(Errno) -> RescuedEntry? in
            let fresh = try database.existingItem(id)
            try database.saveContent(row)
            if let kept { try self.keepVersions(kept, database) }
            if let home = fresh.home { return try self.owner().rescue(id, home: home, database) }
            try self.enqueueEntries(of: id, .content, database)
            return nil
        }
        state.row = row
        state.isMarked = true
        if let rescued { (try? owner())?.showRescued(rescued) }
        if let copy = kept?.copy { settle(copy) }
        wakeSync()
    }

    /// Puts every entry of an item into the journal.
    func enqueueEntries(of id: ItemID, _ kind: ChangeKind, _ database: Database) throws(Errno) {
        let entries = try database.entries(of: id)
        // The top folder and open items without a name have none; the request is to be known all the same.
        if entries.isEmpty { try database.note(kind, entry: 0, item: id, parent: id) }
        for var entry in entries {
            if kind == .attributes, !entry.flags.contains(.metadataChanged) {
                entry.flags.insert(.metadataChanged)
                try database.update(entry)
            }
            if !entry.flags.contains(.localOnly) { try database.enqueue(entry.id, at: journalTime()) }
            try database.note(kind, entry: entry.id, item: id, parent: entry.parent)
        }
    }

    /// Commits what is newer here than in the catalog; `closing` says that a program closed a handle.
    func save(_ item: LiveItem, closing: Bool, durable: Bool = false) throws(Errno) {
        let changed = try item.state.withLock { state throws(Errno) in
            try save(item, &state, closing: closing, durable: durable)
        }
        if changed { wakeSync() }
    }

    /// The same under the item's lock; true when bytes have changed.
    func save(
        _ item: LiveItem,
        _ state: inout LiveItem.State,
        closing: Bool,
        durable: Bool = false
    ) throws(Errno) -> Bool {
        if closing { state.isSettled = true }
        if state.seen != nil {
            _ = try load(item.id, &state)
            if state.hasUnsavedContent { try mark(item.id, &state) }
        }
        guard state.hasUnsavedContent || state.hasUnsavedRanges || durable, var row = state.row else {
            if closing, try owner().mayAdoptIdentities { try adoptIdentities(of: item.id) }
            return false
        }
        let resident = row.residency == .whole ? (row.kind == .file ? row.size : 0) : state.ranges.count
        let added = resident - row.resident
        row.resident = resident
        row.used = journalTime().seconds
        let wasSynced = row.isSynced
        if durable {
            try syncContent(item.id, &state)
            row.isSynced = row.kind == .file && row.residency != .dataless
            // What the provider has, too, is not to be trusted where a change would not be seen.
            if state.seen != nil, !state.isMarked { row.isSynced = false }
        } else {
            row.isSynced = try staysSynced(item.id, &state)
        }
        let isContent = state.hasUnsavedContent
        var ranges: RangeSet?
        if state.hasUnsavedRanges {
            ranges = row.residency == .whole ? RangeSet() : state.ranges
        }
        // What is synced no more of fetched bytes, the disk must know before the next change.
        let isTakenBack = wasSynced && !row.isSynced && !isContent
        try catalog.write(durable: durable || isTakenBack) { database throws(Errno) in
            // Else a date that a remote change has given it meanwhile would be taken back.
            if isContent { try database.saveContent(row) } else { try database.saveResidency(row) }
            // Bytes may come in after the last name and the last handle went.
            if let ranges, try database.item(item.id) != nil { try database.setRanges(ranges, of: item.id) }
            if isContent { try self.enqueueEntries(of: item.id, .content, database) }
            if closing { try self.owner().adoptIdentities(of: item.id, database) }
            database.whenCommitted { self.cache.withLock { $0.change(by: added) } }
        }
        state.row = row
        state.hasUnsavedContent = false
        state.hasUnsavedRanges = false
        item.noteUnsaved(state)
        return isContent
    }

    /// Before new bytes of an item are recorded: whether what is recorded of it is durable, these included.
    ///
    /// What comes after an fsync is not covered by it. But where the rest of the base version is still to come, a loss of power
    /// would make all of the item useless, what was synced included: there the new bytes are synced too.
    func staysSynced(_ id: ItemID, _ state: inout LiveItem.State) throws(Errno) -> Bool {
        guard try isSyncedInPart(id, state) else { return false }
        try syncContent(id, &state)
        return true
    }

    /// True for a changed item of which only a part was here, as the catalog knows it, and is durable.
    private func isSyncedInPart(_ id: ItemID, _ state: borrowing LiveItem.State) throws(Errno) -> Bool {
        guard let row = state.row, row.isSynced, row.residency == .partial || state.hasUnsavedRanges else {
            return false
        }
        return try catalog.glance { database throws(Errno) in
            try database.entries(of: id).contains { $0.hasUnsentContent(generation: row.generation) }
        }
    }

    private func adoptIdentities(of id: ItemID) throws(Errno) {
        try catalog.write { database throws(Errno) in try self.owner().adoptIdentities(of: id, database) }
    }

    /// The provider calls the bytes of an item that is not all here by another version now.
    func rebase(_ id: ItemID, from base: ContentVersion, to version: ContentVersion) throws(Errno) {
        let item = live.retain(id)
        defer { live.release(id) }
        try item.state.withLock { state throws(Errno) in
            try catalog.write { database throws(Errno) in
                try database.run(
                    "UPDATE items SET version = ? WHERE id = ? AND version = ? AND state <> 0",
                    .blob(version.bytes),
                    .item(id),
                    .blob(base.bytes)
                )
            }
            if state.row?.version == base { state.row?.version = version }
        }
    }

    /// A remote change has given an item other attributes: what is in use of it has them too.
    ///
    /// Read again, for another such change may have come since.
    func takeAttributes(of id: ItemID) {
        live.find(id)?.state.withLock { state in
            guard state.row != nil, !state.hasUnsavedContent else { return }
            let found = try? catalog.read { database throws(Errno) in try database.item(id) }
            guard let row = found ?? nil else { return }
            state.row?.modificationTime = row.modificationTime
            state.row?.changeTime = row.changeTime
            state.row?.permissions = row.permissions
            state.row?.user = row.user
            state.row?.group = row.group
        }
    }

    /// Notes that bytes of a live item changed.
    func noteContentChange(
        _ item: LiveItem,
        _ state: inout LiveItem.State,
        _ change: (inout ItemRow) -> Void
    ) {
        guard var row = state.row else { return }
        // The kernel's date may be the one it has told already: one of our own would show once it has forgotten the file.
        if !context.kernelKeepsDates.load(ordering: .relaxed) {
            let now = clock.now()
            row.modificationTime = now
            row.changeTime = now
        }
        change(&row)
        if state.seen != nil, let stamp = try? ContentStamp(state.descriptor) {
            stamp.apply(to: &row)
            state.seen = stamp
        }
        state.row = row
        state.hasUnsavedContent = true
        state.isSettled = false
        item.noteUnsaved(state)
        state.lastWrite = clock.monotonic()
        catalog.touches.add(item.id)
    }

    /// Deletes the rows of an item that no entry, handle, trash row or version needs, and its content file after them.
    func dropOrphan(_ id: ItemID) {
        guard live.beginDrop(id) else { return }
        defer { live.endDrop(id) }
        let dropped = try? catalog.write { database throws(Errno) -> Bool in
            guard let row = try database.item(id), row.linkCount <= 0, try !database.isKept(id) else { return false }
            try database.deleteItem(id)
            database.whenCommitted { self.cache.withLock { $0.change(by: -row.resident) } }
            return true
        }
        if dropped == true { removeContent(id) }
    }

    /// Unlinks a content file once the commit that dropped it is durable.
    func removeContent(_ id: ItemID) {
        catalog.whenDurable { [store] in store.remove(id) }
    }
}
