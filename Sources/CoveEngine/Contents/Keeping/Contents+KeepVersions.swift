internal import CoveCore
internal import Dispatch
internal import Synchronization

/// What `keepBytes` found before an item's bytes change.
struct KeptBytes {
    /// The item as it was.
    var row: ItemRow
    /// An item of its own that has the same bytes; nil where a copy would cost too much.
    var copy: ItemID?
    /// The documents of which these bytes are the content that was sent.
    var documents: [EntryRow]
}

/// Keeping the content that a document had when it gets another one.
///
/// A version's bytes belong to an item, which needs no name. It may have one, as a backup that an editor leaves: then the
/// version gets a copy before they change.
extension Contents {
    /// What is copied at most, where the disk can't share blocks, while a write waits.
    private static let copiedBytes: Int64 = 1 << 20

    /// Inside the transaction that gives a document another item: the one it had keeps its bytes as a version.
    ///
    /// Returns false for what is empty, not all here, or can still be written to.
    @discardableResult
    func keepVersion(_ row: ItemRow, of entry: EntryRow, _ database: Database) throws(Errno) -> Bool {
        guard configuration.keptVersions > 0, !entry.flags.contains(.localOnly), row.kind == .file, row.size > 0,
            try isWhole(row, database), !live.isWritable(row.id)
        else { return false }
        try addVersion(row, in: row.id, of: entry, database)
        // Before the commit: from now on a change of these bytes waits for it, and then finds the version.
        freshVersions.add(row.id)
        contentQueue.async { [self] in verifyVersions(row) }
        return true
    }

    /// True when all bytes of a file are here; records it where that is known in memory only as yet.
    private func isWhole(_ row: ItemRow, _ database: Database) throws(Errno) -> Bool {
        guard row.residency != .whole else { return true }
        guard completedItems[row.id] == row.size else { return false }
        var whole = row
        whole.residency = .whole
        whole.resident = row.size
        whole.isSynced = false
        try database.saveContent(whole)
        try database.setRanges(RangeSet(), of: row.id)
        return true
    }

    /// After the commit that made an item a version: what was changing its bytes just then ends it, and later changes see it.
    private func verifyVersions(_ kept: ItemRow) {
        defer { freshVersions.remove(kept.id) }
        try? live.use(kept.id) { item throws(Errno) in
            try item.state.withLock { state throws(Errno) in
                let isChanging = state.writesInFlight > 0 || state.hasUnsavedContent
                try catalog.write { database throws(Errno) in
                    guard let row = try database.item(kept.id) else { return }
                    if isChanging || row.size != kept.size || row.modificationTime != kept.modificationTime {
                        try database.moveVersions(of: kept.id, to: nil)
                    }
                }
                state.isMarked = false
            }
        }
    }

    /// Under the item's lock, before its bytes change: puts them aside where they are a content that was sent or a version.
    func keepBytes(_ id: ItemID, _ state: inout LiveItem.State) throws(Errno) -> KeptBytes? {
        guard let row = state.row, row.kind == .file, row.size > 0 else { return nil }
        // The last bytes are here, and read, before the fetch that brought them has ended.
        guard row.residency == .whole || state.ranges.contains(0..<row.size) else { return nil }
        func look(_ database: Database) throws(Errno) -> ([EntryRow], Bool) {
            (try database.entries(of: id), try database.isVersion(id))
        }
        let isFresh = freshVersions.contains(id)
        let (entries, isVersion) = isFresh ? try catalog.write(look) : try catalog.glance(look)
        let isContent = state.isSettled && configuration.keptVersions > 0
        let documents = entries.filter { entry in
            isContent && !entry.flags.contains(.localOnly) && entry.isUploaded
                && !entry.hasUnsentContent(generation: row.generation)
        }
        guard isVersion || !documents.isEmpty else { return nil }
        let descriptor = try descriptor(id, &state)
        // What stands for bytes that the disk has lost is no version.
        let copy = state.isLost ? nil : copy(of: row, descriptor, limit: Self.copiedBytes)
        return KeptBytes(row: row, copy: copy, documents: documents)
    }

    /// Records what `keepBytes` put aside, in the transaction that says that the item changes.
    func keepVersions(_ kept: KeptBytes, _ database: Database) throws(Errno) {
        try database.moveVersions(of: kept.row.id, to: kept.copy)
        guard let copy = kept.copy else { return }
        for entry in kept.documents { try addVersion(kept.row, in: copy, of: entry, database) }
    }

    private func addVersion(
        _ row: ItemRow,
        in item: ItemID,
        of entry: EntryRow,
        _ database: Database
    ) throws(Errno) {
        let isSent = entry.isUploaded && !entry.hasUnsentContent(generation: row.generation)
        let isRemote = row.version != nil && row.generation == 1
        let version = VersionRow(
            document: entry.document,
            item: item,
            size: row.size,
            modificationTime: row.modificationTime,
            replaced: journalTime(),
            host: isRemote ? nil : configuration.hostName,
            version: isSent ? entry.remoteVersion : nil
        )
        try database.insert(version)
        for old in try database.versions(of: entry.document).dropFirst(configuration.keptVersions) {
            guard let item = try forget(old, database) else { continue }
            database.whenCommitted { [self] in contentQueue.async { [self] in dropOrphan(item) } }
        }
        makeRoom(for: 0)
    }

    /// Deletes a version's row; returns the item that may have to be dropped after the commit.
    private func forget(_ version: VersionRow, _ database: Database) throws(Errno) -> ItemID? {
        try database.deleteVersion(version.id)
        database.versionNotes.append(VersionNote(change: .lost, subject: .kept(version)))
        guard let item = version.item, let row = try database.item(item), row.linkCount <= 0 else { return nil }
        return item
    }

    /// An item without a name that has the bytes of another one; nil when it would be too large, or can't be made.
    private func copy(of row: ItemRow, _ descriptor: Int32, limit: Int64) -> ItemID? {
        do throws(Errno) {
            // A write that fits is not refused for this.
            guard disk.hasRoom(for: min(row.size, limit)) else { return nil }
            let file = try store.copy(descriptor, size: row.size, limit: limit)
            defer { System.close(file) }
            return try addItem(row, bytes: file)
        } catch {
            log.debug("item \(row.id): no version is kept of what it held: \(error)")
            return nil
        }
    }

    /// Gives a file without a name to a new item without a name: first the row, so that no other item can get its number.
    ///
    /// A death before something keeps the item leaves an orphan, which the next start drops.
    func addItem(_ row: ItemRow, bytes file: Int32) throws(Errno) -> ItemID {
        var added = row
        added.linkCount = 0
        added.generation = 1
        added.residency = .whole
        added.version = nil
        added.home = nil
        added.resident = row.size
        added.isSynced = false
        let saved = added
        let id = try catalog.write { database throws(Errno) in try database.insert(saved) }
        cache.withLock { $0.change(by: row.size) }
        do throws(Errno) {
            try store.name(file, id)
        } catch {
            dropOrphan(id)
            throw error
        }
        return id
    }

    /// Makes a copied version durable, after the write that it was made for.
    func settle(_ copy: ItemID) {
        contentQueue.async { [self] in
            try? live.use(copy) { item throws(Errno) in
                try syncContent(item)
                try catalog.write { database throws(Errno) in
                    try database.run("UPDATE items SET synced = 1 WHERE id = ? AND nlink = 0", .item(copy))
                }
            }
        }
    }

    /// Forgets versions until there is room enough, or none is left.
    func dropVersions() {
        while isCacheOver {
            let found = try? catalog.read { database throws(Errno) in try database.expendableVersions(limit: 64) }
            guard let found, !found.isEmpty else { return }
            for version in found where isCacheOver {
                do throws(Errno) { try drop(version) } catch { return }
            }
        }
    }

    /// Forgets the versions that have been kept long enough.
    func expireVersions() {
        let limit = journalTime() - configuration.versionTime
        let old = try? catalog.read { database throws(Errno) in try database.versions(before: limit) }
        for version in old ?? [] { try? drop(version) }
    }

    /// Forgets all versions.
    func dropAllVersions() {
        let all = try? catalog.read { database throws(Errno) in try database.versions(before: .distantFuture) }
        for version in all ?? [] { try? drop(version) }
    }

    /// Deletes a version, and its bytes where nothing else needs them.
    func drop(_ version: VersionRow) throws(Errno) {
        let item = try catalog.write { database throws(Errno) in try forget(version, database) }
        if let item { dropOrphan(item) }
    }
}
