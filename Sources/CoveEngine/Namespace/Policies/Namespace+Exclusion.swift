internal import CoveCore
internal import Synchronization

/// What a person keeps out of the cloud: it is known by its place, so that whatever gets the name stays here too.
extension Namespace {
    /// How long a place that nobody asked for is kept once nothing has its name: a save may take that long.
    static let vacatedTime = TimeSpan.seconds(120)
    private static let sweepInterval = TimeSpan.seconds(60)

    // MARK: What stays here

    /// True for a place that is excluded itself, whatever is above it.
    func isExcluded(_ place: Place, _ database: Database) throws(Errno) -> Bool {
        guard excludesAny.load(ordering: .acquiring) else { return false }
        return try database.isExcluded(place)
    }

    /// True for a directory that stays on this device with all that is in it: an excluded one, one that a person's globs name, or
    /// one in such a one.
    ///
    /// A scratch directory is none: what is saved goes through it.
    func keepsOut(_ directory: ItemID, byExclusion: Bool = false, _ database: Database) throws(Errno) -> Bool {
        if byExclusion, !excludesAny.load(ordering: .acquiring) { return false }
        var current = directory
        for _ in 0..<4096 {
            guard let entry = try database.entry(ofDirectory: current), !entry.isUploaded else { return false }
            if entry.flags.contains(.localOnly) {
                if try isExcluded(entry.place, database) { return true }
                if !byExclusion, !localNames.isScratchDirectory(entry.name) { return true }
            }
            current = entry.parent
        }
        return false
    }

    /// True for what is excluded, and for what is in a directory that stays here.
    func isKeptOut(_ entry: EntryRow, _ database: Database) throws(Errno) -> Bool {
        guard !entry.isUploaded else { return false }
        if try isExcluded(entry.place, database) { return true }
        return try keepsOut(entry.parent, database)
    }

    /// True where an item is excluded itself, by each of its names.
    func isExcluded(_ id: ItemID) throws(Errno) -> Bool {
        guard excludesAny.load(ordering: .acquiring) else { return false }
        return try catalog.read { database throws(Errno) in
            let entries = try database.entries(of: id)
            for entry in entries where try !database.isExcluded(entry.place) { return false }
            return !entries.isEmpty
        }
    }

    // MARK: Excluding and including

    /// Keeps an item, with all that is in it, out of the cloud by all its names.
    ///
    /// What the provider has of it is deleted there once this is durable. Throws `EAGAIN` while bytes or names are not all here,
    /// and `EINVAL` for the account's root.
    func exclude(_ id: ItemID) throws(Errno) {
        try requireWritable()
        guard id != .root else { throw .invalidArgument }
        try noteArrived(below: id)
        excludesAny.store(true, ordering: .releasing)
        let files = try catalog.write(durable: true) { database throws(Errno) -> [ItemID] in
            let entries = try database.entries(of: id)
            if entries.isEmpty { throw .stale }
            // What the last look found may have been let go of since.
            guard try database.incomplete(below: id).isEmpty else { throw .wouldBlock }
            database.touchTree(id)
            var files: [ItemID] = []
            for entry in entries {
                try database.exclude(entry.place, isAsked: true)
                files += try self.withdraw(entry, database)
            }
            return files
        }
        // What is being sent of them ends; what has arrived of it goes again.
        for id in files { contents.live.find(id)?.state.withLock { $0.snapshot?.abort() } }
        wakeSync()
    }

    /// Has an item that was excluded sent again; throws `ENODATA` for one that stays here for another reason.
    func include(_ id: ItemID) throws(Errno) {
        try requireWritable()
        try catalog.write { database throws(Errno) in
            let entries = try database.entries(of: id)
            if entries.isEmpty { throw .stale }
            database.touchTree(id)
            var isIncluded = false
            for entry in entries where try database.isExcluded(entry.place) {
                isIncluded = true
                try self.include(entry, database)
            }
            try database.partDirectories()
            if !isIncluded, let first = entries.first, try self.isKeptOut(first, database) { throw .noData }
        }
        wakeSync()
    }

    /// Has whatever comes to a name that nothing has be sent; throws `ENOENT` for one that was not excluded.
    func include(_ place: Place) throws(Errno) {
        try catalog.write { database throws(Errno) in
            guard try database.isExcluded(place) else { throw .noSuchEntry }
            try database.include(place)
        }
    }

    private func include(_ entry: EntryRow, _ database: Database) throws(Errno) {
        try database.include(entry.place)
        guard !entry.isUploaded else { return }
        let row = try database.existingItem(entry.item)
        var included = entry
        included.flags.remove(.localOnly)
        included.flags.formUnion(try localFlags(row.kind, entry.place, database))
        try database.update(included)
        if !included.flags.contains(.localOnly) { try database.enqueue(entry.id, at: journalTime()) }
        if row.kind == .directory { try database.settleHeld(below: row.id) }
    }

    /// Notes bytes that have come and are not in the catalog yet.
    private func noteArrived(below id: ItemID) throws(Errno) {
        let missing = try catalog.read { database throws(Errno) in try database.incomplete(below: id) }
        for (id, kind) in missing where kind == .file {
            try contents.live.use(id) { item throws(Errno) in
                try item.state.withLock { state throws(Errno) in
                    _ = try contents.load(id, &state)
                    contents.completeMaterialization(item, &state)
                }
                try contents.save(item, closing: false)
            }
        }
    }

    // MARK: Leaving the cloud

    /// Takes an entry, with all that is in it, out of the cloud: it is as if it had been deleted and made anew, as the document
    /// that it was; the files that it is about.
    ///
    /// The deletion is sent once the commit is durable, and so are the bytes.
    @discardableResult
    func withdraw(_ top: EntryRow, _ database: Database) throws(Errno) -> [ItemID] {
        var files: [ItemID] = []
        var pending = [top.id]
        // What stands for each directory at the provider.
        var directories: [ItemID: ItemID] = [:]
        // A damaged catalog may have folders in each other.
        var seen: Set<Int64> = []
        while let id = pending.popLast() {
            guard seen.insert(id).inserted, let entry = try database.entry(id: id) else { continue }
            let row = try database.existingItem(entry.item)
            if row.kind == .file { files.append(row.id) }
            if entry.isUploaded {
                let parent = entry.remoteParent ?? directories[entry.parent] ?? entry.parent
                directories[row.id] = try plan(deletionOf: entry, row, in: parent, database)
            }
            var kept = entry
            forgetRemote(&kept)
            kept.flags.formUnion(try localFlags(row.kind, entry.place, database))
            try database.update(kept)
            try takeUpUnanswered(entry.document, database)
            if kept.flags.contains(.localOnly) {
                try database.dequeue(entry.id)
            } else {
                try database.enqueue(entry.id, at: journalTime())
            }
            guard row.kind == .directory else { continue }
            try database.eachEntry(of: row.id, after: 0) { child in
                pending.append(child.id)
                return true
            }
        }
        if try database.existingItem(top.item).kind == .directory { try database.settleHeld(below: top.item) }
        return files
    }

    /// Has the provider delete what it has of an entry that stays; of a directory an item of its own stands for the one there.
    private func plan(
        deletionOf entry: EntryRow,
        _ row: ItemRow,
        in parent: ItemID,
        _ database: Database
    ) throws(Errno) -> ItemID? {
        var trashed = TrashRow(
            document: entry.document,
            path: try database.path(of: entry),
            kind: row.kind,
            item: nil,
            size: row.size,
            deleted: journalTime(),
            isPending: true
        )
        trashed.remoteID = entry.remoteID
        trashed.remoteParent = parent
        trashed.remoteName = entry.remoteName ?? entry.name
        trashed.remoteVersion = entry.remoteVersion
        if row.kind == .directory {
            var there = row
            there.linkCount = 0
            there.residency = .whole
            let item = try database.insert(there)
            trashed.item = item
            try database.passOnRemote(row.id, to: item)
        }
        try database.insert(trashed)
        return trashed.item
    }

    /// Keeps an entry here that the provider has nothing of, whose place has just been excluded.
    func stay(_ entry: EntryRow, _ database: Database) throws(Errno) {
        var kept = entry
        kept.flags.insert(.localOnly)
        try database.update(kept)
        try database.dequeue(entry.id)
        try takeUpUnanswered(entry.document, database)
    }

    // MARK: Rounds and starts

    /// The clock's round: forgets names that an excluded item had for a while.
    func forgetVacated(_ now: MonotonicTime) {
        guard excludesAny.load(ordering: .acquiring), now - lastSweep.withLock({ $0 }) >= Self.sweepInterval else {
            return
        }
        lastSweep.withLock { $0 = now }
        let time = journalTime()
        _ = try? catalog.write { database throws(Errno) in
            try database.forgetVacated(now: time, since: time - Self.vacatedTime)
        }
    }

    /// At a start: earlier versions left documents in the cloud that were moved to where everything stays here.
    func takeBackStranded() throws(Errno) {
        let key = "stranded"
        // What is mounted read-only changes nothing at the source; a later start looks for it.
        guard !configuration.isReadOnly else { return }
        guard try catalog.read({ database throws(Errno) in try database.meta(key) }) == nil else { return }
        try catalog.write { database throws(Errno) in
            for entry in try self.stranded(database) {
                let path = try database.path(of: entry)
                guard try database.incomplete(below: entry.item).isEmpty else {
                    log.notice(
                        "\(path): it was moved to where everything stays on this device, and the source has it at its former place; "
                            + "move it out, and copy it there"
                    )
                    continue
                }
                log.notice("\(path): it was moved to where everything stays on this device, and leaves the cloud now")
                try self.withdraw(entry, database)
            }
            try database.setMeta(key, [1])
        }
    }

    private func stranded(_ database: Database) throws(Errno) -> [EntryRow] {
        let ids = try database.all(
            """
            WITH RECURSIVE below(item) AS (
                SELECT e.item FROM entries e JOIN items i ON i.id = e.item
                    WHERE e.flags & 1 AND e.remote_id IS NULL AND i.kind = 1
                UNION SELECT e.item FROM below b JOIN entries e ON e.parent = b.item JOIN items i ON i.id = e.item
                    WHERE i.kind = 1 AND e.remote_id IS NULL)
            SELECT e.id FROM below b JOIN entries e ON e.parent = b.item WHERE e.remote_id IS NOT NULL
            """,
            read: { $0.int(0) }
        )
        var found: [EntryRow] = []
        for id in ids {
            if let entry = try database.entry(id: id), try keepsOut(entry.parent, database) { found.append(entry) }
        }
        return found
    }
}
