internal import CoveCore
internal import Dispatch
internal import Glibc
internal import Synchronization

/// Removing entries.
extension Namespace {
    /// Removes a name; an uploaded document goes to the trash.
    func unlink(_ parent: ItemID, _ name: [UInt8], _ caller: Caller) throws(Errno) {
        guard name.count <= FileName.maximumLength else { throw .nameTooLong }
        try requireWritable()
        try remove(parent, name, directory: false, caller)
    }

    /// Removes an empty directory.
    func removeDirectory(_ parent: ItemID, _ name: [UInt8], _ caller: Caller) throws(Errno) {
        guard name.count <= FileName.maximumLength else { throw .nameTooLong }
        try requireWritable()
        try remove(parent, name, directory: true, caller)
    }

    private func remove(_ parent: ItemID, _ name: [UInt8], directory: Bool, _ caller: Caller) throws(Errno) {
        if try contents.earlierResult(caller) != nil { return }
        let now = clock.now()
        let removal = try catalog.write(for: caller) { database throws(Errno) -> Removal in
            guard let entry = try database.entry(parent, name) else { throw .noSuchEntry }
            let row = try database.existingItem(entry.item)
            if directory {
                guard row.kind == .directory else { throw .notDirectory }
                try self.requireEmpty(row, database)
            } else if row.kind == .directory {
                throw .isDirectory
            }
            let removal = try self.detach(entry, row, at: now, database)
            try database.touch(parent, modified: true, at: now)
            return removal
        }
        finish(removal)
        wakeSync()
    }

    /// What is left to do after the commit that removed an entry.
    struct Removal {
        /// The item that lost its last name, unless the trash keeps it.
        var orphan: ItemID?
        /// True when its row is gone already.
        var isDropped = false
        /// The tombstone to set.
        var departed: (parent: ItemID, name: [UInt8], trash: Int64, policy: ContentPolicy)?
    }

    /// Takes an entry out of the tree inside a transaction: its document goes to the trash or away.
    func detach(
        _ entry: EntryRow,
        _ row: ItemRow,
        at now: Timestamp,
        _ database: Database
    ) throws(Errno) -> Removal {
        var removal = Removal()
        let entry = try passOn(entry, row, database)
        let isLast = row.kind == .directory || row.linkCount <= 1
        var trashKeepsItem = false
        if entry.isUploaded {
            // What was changed of a file that is here in part is nowhere else. The rest goes to the trash of the provider, if it
            // has one, which is not known before it was reached.
            let isChanged = row.kind == .file && entry.hasUnsentContent(generation: row.generation)
            trashKeepsItem = isLast && (row.kind == .directory || row.residency == .whole || isChanged)
            var trashed = TrashRow(
                document: entry.document,
                path: try database.path(of: entry),
                kind: row.kind,
                item: trashKeepsItem ? row.id : nil,
                size: row.size,
                deleted: journalTime(),
                isPending: true
            )
            trashed.remoteID = entry.remoteID
            trashed.remoteParent = entry.remoteParent ?? entry.parent
            trashed.remoteName = entry.remoteName ?? entry.name
            trashed.remoteVersion = entry.remoteVersion
            let trashID = try database.insert(trashed)
            if row.kind != .directory { removal.departed = (entry.parent, entry.name, trashID, entry.flags.policy) }
        } else {
            try takeUpUnanswered(entry.document, database)
        }
        try database.deleteEntry(entry.id)
        try database.note(.removed, entry: entry.id, item: row.id, parent: entry.parent, from: entry.place)
        try noteConflictEnd(of: entry.document, called: entry.name, database)
        if row.kind == .directory {
            noteRemoved(row, at: now)
            database.whenRolledBack { [removedDirectories] in removedDirectories.remove(row.id) }
            try database.run("UPDATE items SET nlink = 0, ctime = ? WHERE id = ?", .time(now), .item(row.id))
            try database.addLinks(-1, to: entry.parent)
        } else {
            try database.addLinks(-1, to: row.id)
            try database.touch(row.id, modified: false, at: now)
        }
        if isLast, row.residency != .whole { try keepFetchable(row, of: entry, database) }
        if isLast, !trashKeepsItem {
            removal.orphan = row.id
            removal.isDropped = try drop(row, database)
        }
        return removal
    }

    /// What was sent of a document that is not to be sent any more, and not answered, is looked for after the commit.
    func takeUpUnanswered(_ document: DocumentID, _ database: Database) throws(Errno) {
        guard try database.underway(document) != nil else { return }
        database.whenCommitted { [self] in sync?.takeUpLater(document) }
    }

    /// Deletes an item's rows unless something has it open or keeps its bytes.
    ///
    /// After the commit `endDrop` and `removeContent` follow.
    func drop(_ row: ItemRow, _ database: Database) throws(Errno) -> Bool {
        guard try !database.isKept(row.id), contents.live.beginDrop(row.id) else { return false }
        if row.kind == .directory, mayBeKnown(row.id), removedDirectories.attributes(of: row.id) == nil {
            // The kernel is told of it afterwards: who has it open may ask what it is until then and later.
            removedDirectories.insert(row, at: clock.now(), isDead: false)
            database.whenRolledBack { [removedDirectories] in removedDirectories.remove(row.id) }
        }
        database.whenRolledBack { [contents] in contents.live.endDrop(row.id) }
        database.whenCommitted { [self] in contents.noteDropped(row.resident) }
        try database.deleteItem(row.id)
        return true
    }

    /// Does what must wait for the commit of a removal.
    func finish(_ removal: Removal) {
        if let departed = removal.departed {
            tombstones.leave(
                departed.parent,
                departed.name,
                .deleted(trash: departed.trash, policy: departed.policy),
                until: clock.monotonic() + configuration.tombstoneTime
            )
        }
        if let orphan = removal.orphan, removal.isDropped {
            contents.live.endDrop(orphan)
            contents.removeContent(orphan)
        }
    }

    /// The listing of a directory that is to be removed, or replaced, where nobody has opened it yet; nil nearly always.
    ///
    /// The call holds up others of the directory above: it waits no longer than for a claim.
    func listingBeforeRemoval(_ parent: ItemID, _ name: [UInt8], _ caller: Caller) -> Pending<Void>? {
        let found = try? catalog.glance { database throws(Errno) -> ItemID? in
            guard let entry = try database.entry(parent, name), let row = try database.item(entry.item),
                row.kind == .directory, row.residency != .whole, try !database.hasEntries(row.id)
            else { return nil }
            return row.id
        }
        guard let id = found ?? nil, !isAnnouncer(caller) else { return nil }
        let pending = Pending<Void>()
        listing(of: id).whenDone { pending.fulfill($0) }
        Task {
            try? await Task.sleep(for: Self.namePatience)
            pending.fulfill(.failure(.timedOut))
        }
        return pending
    }

    /// True for a name that is known to be a directory's.
    func isDirectory(_ parent: ItemID, _ name: [UInt8]) -> Bool {
        let kind = try? catalog.glance { database throws(Errno) in
            try database.entry(parent, name).flatMap { entry throws(Errno) in try database.item(entry.item)?.kind }
        }
        return kind == .directory
    }

    /// Refuses a directory that holds something, or whose names are not known here yet.
    func requireEmpty(_ row: ItemRow, _ database: Database) throws(Errno) {
        if try database.hasEntries(row.id) { throw .notEmpty }
        guard row.residency == .whole else {
            // It may hold anything: it is listed now, and the next attempt knows.
            contentQueue.async { [self] in _ = listing(of: row.id) }
            throw .busy
        }
    }
}
