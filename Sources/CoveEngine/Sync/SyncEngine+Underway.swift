internal import CoveCore
internal import Synchronization

/// Operations that were sent and never answered: the daemon died, or the answer got lost.
///
/// They are looked for where they would have arrived, before anything is compared with the provider or sent again.
extension SyncEngine {
    /// Finds out what became of all of them.
    func takeUpUnderway() async throws(ProviderError) {
        let engine = engine
        let rows = try await engine.onContentQueue { () throws(Errno) in
            try engine.catalog.read { database throws(Errno) in try database.underway() }
        }
        for row in rows where beginPush(row.document) {
            defer { endPush(row.document) }
            do throws(ProviderError) {
                try await takeUp(row)
            } catch {
                if error.parksAccount { throw error }
                engine.log.info("\(row.document): what became of it can't be told yet: \(error)")
            }
        }
    }

    /// Finds out what became of one, whose document is claimed.
    func takeUp(_ row: UnderwayRow) async throws(ProviderError) {
        let engine = engine
        let directory = try await engine.onContentQueue { () throws(Errno) in
            try engine.catalog.write { database throws(Errno) -> RemoteReference? in
                try self.rely(on: [row.place.parent], changing: [row.place], for: row.document, database)
                return try database.remoteReference(ofDirectory: row.place.parent)
            }
        }
        var found: RemoteItem?
        if let directory {
            engine.counters.providerRequests.add(1, ordering: .relaxed)
            do throws(ProviderError) {
                found = try await engine.provider.lookup(FileName(unchecked: row.place.name), in: directory)
            } catch {
                guard error == .noSuchItem else { throw error }
            }
        }
        if let other = found, let directory { found = try await finishMove(row, other, in: directory) }
        let remote = found
        try await engine.onContentQueue { () throws(Errno) in
            try engine.catalog.write { database throws(Errno) in
                try database.endUnderway(row.document)
                if let remote { try self.record(row, arrivedAs: remote, database) }
            }
        }
        if let directory, let remote, remote.kind == .directory {
            // Others may have put something into it since.
            enqueue(
                [.directoryChanged(directory.path.appending(FileName(unchecked: row.place.name)))],
                seen: .distantPast
            )
        }
    }

    /// Where a move takes steps, what is at its new place may be at the old one too.
    private func finishMove(
        _ row: UnderwayRow,
        _ found: RemoteItem,
        in directory: RemoteReference
    ) async throws(ProviderError) -> RemoteItem {
        let engine = engine
        guard engine.provider.capabilities.movesInSteps, !row.isNew, row.item == nil, row.kind == .file else {
            return found
        }
        let old = try await engine.onContentQueue { () throws(Errno) in
            try engine.catalog.read { database throws(Errno) -> (RemoteReference, ContentVersion)? in
                if let entry = try database.entry(document: row.document) {
                    guard let version = entry.remoteVersion else { return nil }
                    return try database.remoteReference(of: entry).map { ($0, version) }
                }
                guard let trashed = try database.pendingTrash(document: row.document),
                    let version = trashed.remoteVersion
                else { return nil }
                return try database.remoteReference(of: trashed).map { ($0, version) }
            }
        }
        let name = FileName(unchecked: row.place.name)
        guard let (reference, version) = old, reference.path != directory.path.appending(name) else { return found }
        do throws(ProviderError) {
            return try await move(reference, version, directory, name)
        } catch {
            switch error {
            // It is not at the old place any more, or something else is at one of them.
            case .noSuchItem, .conflict, .filenameCollision: return found
            default: throw error
            }
        }
    }

    private nonisolated func record(
        _ row: UnderwayRow,
        arrivedAs remote: RemoteItem,
        _ database: Database
    ) throws(Errno) {
        if let entry = try database.entry(document: row.document) {
            return try record(row, of: entry, arrivedAs: remote, database)
        }
        if let trashed = try database.pendingTrash(document: row.document) {
            let isSent = row.item != nil && row.isArrived(as: remote)
            guard isSent || isSame(remote, trashed.remoteID, trashed.remoteVersion) else { return }
            // Deleted since: the deletion must find it where it is, and as it is.
            return try database.run(
                "UPDATE trash SET remote_parent = ?, remote_name = ?, remote_id = ?, remote_version = ? WHERE id = ?",
                .item(row.place.parent),
                .blob(row.place.name),
                .blob(remote.id.bytes),
                .optional(isSent ? remote.contentVersion.bytes : trashed.remoteVersion?.bytes),
                .int(trashed.id)
            )
        }
        guard row.isNew, row.isArrived(as: remote), try database.entry(remoteID: remote.id) == nil else { return }
        try trash(row.document, row.place, kind: row.kind, remote, database)
    }

    private nonisolated func record(
        _ row: UnderwayRow,
        of known: EntryRow,
        arrivedAs remote: RemoteItem,
        _ database: Database
    ) throws(Errno) {
        var entry = known
        let item = try database.existingItem(entry.item)
        let isHere = entry.place == row.place
        if entry.isUploaded, row.item == nil {
            guard isSame(remote, entry.remoteID, entry.remoteVersion) else { return }
            entry.remoteID = remote.id
        } else {
            guard row.isArrived(as: remote), item.kind == row.kind, entry.remoteVersion != remote.contentVersion else {
                return
            }
            // The bytes that were sent are still here: the next attempt compares them with what is there. Unless they may have
            // changed unseen: what follows is then seen as a change.
            if isHere, row.item == item.id, row.generation == item.generation, try !database.isUnsettled(item.id) {
                return
            }
            if entry.isStandIn(item) {
                // No bytes are here: it waits for those of the provider, whatever they are.
                entry.remoteID = remote.id
                return try database.update(entry)
            }
            engine.acknowledge(remote, &entry, item: row.item ?? entry.item, generation: row.generation)
            // Its mode and attributes may have been on their way still.
            entry.flags.insert(.metadataChanged)
        }
        entry.remoteParent = isHere ? nil : row.place.parent
        entry.remoteName = isHere ? nil : row.place.name
        try database.update(entry)
        if try database.journalRow(entry.id) == nil { try database.enqueue(entry.id, at: .epoch) }
        try database.markSent(entry.id, false)
    }

    /// True when an item of the provider is the one that was acknowledged, wherever it is.
    private nonisolated func isSame(_ remote: RemoteItem, _ id: RemoteID?, _ version: ContentVersion?) -> Bool {
        engine.provider.capabilities.stableIDs ? remote.id == id : remote.contentVersion == version
    }
}
