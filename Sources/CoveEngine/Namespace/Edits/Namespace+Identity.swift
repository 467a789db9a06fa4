internal import CoveCore
internal import Dispatch
internal import Synchronization

/// Passing a document's identity on to the file that takes its vacated name.
extension Namespace {
    /// At a close: entries of the item that stand at a vacated name take the departed document's identity over.
    func adoptIdentities(of id: ItemID, _ database: Database) throws(Errno) {
        guard !tombstones.isEmpty else { return }
        let entries = try database.entries(of: id)
        guard entries.contains(where: { !$0.isUploaded }), let row = try database.item(id), row.kind != .directory
        else { return }
        for entry in entries { try adoptIdentity(of: entry, row, database) }
    }

    /// Gives a never uploaded entry the identity of the document that left its name moments ago.
    func adoptIdentity(of entry: EntryRow, _ row: ItemRow, _ database: Database) throws(Errno) {
        guard !entry.isUploaded,
            let departed = tombstones.take(entry.place, now: clock.monotonic(), database)
        else { return }
        if try isKeptOut(entry, database) { return try adopt(entry, fromKept: departed, row, database) }
        switch departed {
        case .moved(let movedID): try adopt(entry, fromMoved: movedID, row, database)
        case .deleted(let trashID, let policy): try adopt(entry, fromTrash: trashID, policy, row, database)
        }
    }

    private func adopt(
        _ entry: EntryRow,
        fromMoved movedID: Int64,
        _ row: ItemRow,
        _ database: Database
    ) throws(Errno) {
        guard let departed = try database.entry(id: movedID), departed.isUploaded,
            let movedRow = try database.item(departed.item), movedRow.kind == row.kind
        else { return }
        // Its bytes are only at the provider: it keeps its identity, and the new file is a new document.
        if movedRow.residency != .whole { return }
        // What an app was given follows its name only from a backup beside it: any other rename took it along.
        let isBackup = departed.parent == entry.parent && departed.name.starts(with: entry.name)
        if !isBackup, try database.isGiven(departed.document) { return }
        var moved = departed
        var heir = entry
        try take(&heir, document: moved.document, id: moved.remoteID, version: moved.remoteVersion, database)
        heir.remoteMetadata = moved.remoteMetadata
        place(&heir, moved.remoteParent ?? moved.parent, moved.remoteName ?? moved.name)
        heir.remoteItem = moved.remoteItem
        heir.remoteGeneration = moved.remoteGeneration
        moved.document = .random()
        forgetRemote(&moved)
        // Who pinned the document meant the one that has its name.
        heir.flags.policy = moved.flags.policy
        moved.flags.policy = .inherited
        moved.flags.formUnion(try localFlags(movedRow.kind, moved.place, database))
        try contents.keepVersion(movedRow, of: departed, database)
        try database.inheritBirth(of: movedRow.id, by: row.id)
        try database.update(moved)
        if moved.flags.contains(.localOnly) {
            try database.dequeue(moved.id)
        } else {
            try database.enqueue(moved.id, at: journalTime())
        }
        try database.update(heir)
        try database.enqueue(heir.id, at: journalTime())
    }

    /// The backup of an excluded document is beside it: what is saved under its name is that document.
    private func adopt(
        _ entry: EntryRow,
        fromKept departed: Tombstones.Departed,
        _ row: ItemRow,
        _ database: Database
    ) throws(Errno) {
        guard case .moved(let id) = departed, var moved = try database.entry(id: id), !moved.isUploaded,
            moved.parent == entry.parent, moved.name.starts(with: entry.name), moved.flags.contains(.localOnly),
            try database.existingItem(moved.item).kind == row.kind
        else { return }
        try database.inheritBirth(of: moved.item, by: row.id)
        var heir = entry
        (heir.document, moved.document) = (moved.document, .random())
        (heir.flags.policy, moved.flags.policy) = (moved.flags.policy, .inherited)
        try takeUpUnanswered(entry.document, database)
        try database.update(moved)
        try database.update(heir)
    }

    private func adopt(
        _ entry: EntryRow,
        fromTrash trashID: Int64,
        _ policy: ContentPolicy,
        _ row: ItemRow,
        _ database: Database
    ) throws(Errno) {
        guard let trashed = try database.trash(id: trashID), trashed.isPending, trashed.kind == row.kind,
            let remoteParent = trashed.remoteParent, let remoteName = trashed.remoteName
        else { return }
        var heir = entry
        try take(&heir, document: trashed.document, id: trashed.remoteID, version: trashed.remoteVersion, database)
        heir.flags.policy = policy
        place(&heir, remoteParent, remoteName)
        try database.deleteTrash(trashID)
        if let item = trashed.item, let kept = try database.item(item), kept.linkCount <= 0 {
            try contents.keepVersion(kept, of: heir, database)
            try database.inheritBirth(of: item, by: row.id)
            database.whenCommitted { [self] in contentQueue.async { [self] in contents.dropOrphan(item) } }
        }
        try database.update(heir)
        try database.enqueue(heir.id, at: journalTime())
    }

    /// A name goes whose document's bytes are only at the provider, and another name of the item has no document there.
    ///
    /// That name takes the document over, as if it had been moved. Returns the entry as it is now.
    func passOn(_ entry: EntryRow, _ row: ItemRow, _ database: Database) throws(Errno) -> EntryRow {
        guard row.kind == .file, row.residency != .whole, row.linkCount > 1, entry.isUploaded else { return entry }
        var other: EntryRow?
        for name in try database.entries(of: row.id) where name.id != entry.id && !name.isUploaded && other == nil {
            // A name that stays on this device with its folder can't have the document.
            if try !keepsOut(name.parent, database) { other = name }
        }
        guard var heir = other else { return entry }
        try take(&heir, document: entry.document, id: entry.remoteID, version: entry.remoteVersion, database)
        heir.flags.policy = entry.flags.policy
        heir.remoteMetadata = entry.remoteMetadata
        heir.remoteItem = entry.remoteItem
        heir.remoteGeneration = entry.remoteGeneration
        place(&heir, entry.remoteParent ?? entry.parent, entry.remoteName ?? entry.name)
        var bare = entry
        bare.document = .random()
        forgetRemote(&bare)
        try database.update(bare)
        try database.update(heir)
        try database.enqueue(heir.id, at: journalTime())
        return bare
    }

    /// An open item loses its last name: its document stays at the provider as it is while bytes of it are needed.
    func keepFetchable(_ row: ItemRow, of document: EntryRow, _ database: Database) throws(Errno) {
        guard row.kind == .file, document.isUploaded, contents.live.isOpen(row.id),
            let item = contents.live.find(row.id)
        else { return }
        try database.depart(row.id, of: document.document)
        // Before the commit: whoever sees that finds that the bytes are needed.
        contents.departing.add(row.id, of: document.document)
        database.whenRolledBack { [contents] in contents.departing.remove(row.id) }
        database.whenCommitted { [self] in
            contentQueue.async { [self] in
                let isWhole = item.state.withLock { state in
                    let residency = (try? contents.load(row.id, &state))?.residency
                    if residency != .whole { contents.completeBase(item, &state) }
                    return residency == .whole
                }
                // It may have been closed before it was added.
                if isWhole || !contents.live.isOpen(row.id) { contents.departing.remove(row.id) }
            }
        }
    }

    private func take(
        _ heir: inout EntryRow,
        document: DocumentID,
        id: RemoteID?,
        version: ContentVersion?,
        _ database: Database
    ) throws(Errno) {
        // The heir's own document ends.
        try takeUpUnanswered(heir.document, database)
        heir.document = document
        heir.remoteID = id
        heir.remoteVersion = version
        heir.flags.remove(.localOnly)
        heir.flags.insert(.metadataChanged)
    }

    private func place(_ heir: inout EntryRow, _ remoteParent: ItemID, _ remoteName: [UInt8]) {
        let isSame = remoteParent == heir.parent && remoteName == heir.name
        heir.remoteParent = isSame ? nil : remoteParent
        heir.remoteName = isSame ? nil : remoteName
    }

    /// Makes an entry one that the provider has never seen.
    func forgetRemote(_ entry: inout EntryRow) {
        entry.remoteID = nil
        entry.remoteParent = nil
        entry.remoteName = nil
        entry.remoteVersion = nil
        entry.remoteMetadata = nil
        entry.remoteItem = nil
        entry.remoteGeneration = nil
    }
}
