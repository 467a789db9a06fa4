internal import CoveClaims
public import CoveCore

/// Putting deleted documents back.
extension Engine {
    /// Puts a deleted document back where it was, or beside what has taken its name; returns its path.
    ///
    /// Throws `EBUSY` while its deletion is on its way and the source does not answer, and what the source answers where its
    /// bytes are only there and the deletion may have arrived.
    public func restore(_ documentID: String) async throws(Errno) -> RemotePath {
        guard let document = DocumentID(documentID) else { throw .invalidArgument }
        guard let syncEngine else { return try await restore(trashed(document)) }
        return try await syncEngine.whileIdle(document) { () async throws(Errno) in
            var row = try self.trashed(document)
            let isHere = try self.catalog.read { database throws(Errno) in try database.keepsAllBytes(of: row) }
            let mayHaveArrived = row.isPending && !isHere && row.wasSent
            if mayHaveArrived {
                // Before the source was reached nobody knows whether it keeps what is deleted.
                await self.connected.pass(limit: .seconds(5))
                if !self.provider.capabilities.trash, !syncEngine.isConnected { throw .hostUnreachable }
            }
            if mayHaveArrived, self.provider.capabilities.trash {
                // The deletion may have arrived, and would take what is put back: it is brought to its end before. Where the
                // source keeps nothing that would destroy what may still be there.
                do throws(ProviderError) {
                    guard try await syncEngine.sendDeletion(row.id, mayDestroy: false) else { throw ProviderError.busy }
                } catch {
                    throw error.errno
                }
                row = try self.trashed(document)
            }
            return try await self.restore(row)
        }
    }

    private func trashed(_ document: DocumentID) throws(Errno) -> TrashRow {
        let rows = try catalog.read { database throws(Errno) in try database.trash(pending: nil) }
        guard let row = rows.last(where: { $0.document == document && $0.kind != .directory }) else {
            throw .noSuchEntry
        }
        return row
    }

    private func restore(_ row: TrashRow) async throws(Errno) -> RemotePath {
        let names = row.path.names
        guard let last = names.last else { throw .invalidArgument }
        var parent = ItemID.root
        let caller = Caller(thread: 0, user: configuration.user, group: configuration.group)
        for name in names.dropLast() {
            let entry = try catalog.read { database throws(Errno) in try database.entry(parent, name.bytes) }
            if let entry {
                parent = entry.item
            } else {
                let above = parent
                parent = try namespace.makeDirectory(parent, name.bytes, mode: 0o755, caller).id
                kernel?.invalidateEntry(above, name.bytes)
            }
        }
        let directory = parent
        let restored: (name: [UInt8], path: RemotePath)
        if row.isPending || row.place == nil {
            restored = try restoreLocally(row, directory, last)
        } else {
            restored = try await restoreRemotely(row, directory, last)
        }
        kernel?.invalidateEntry(directory, restored.name)
        wakeSync()
        return restored.path
    }

    /// What is excluded keeps its name for itself.
    private func isFree(_ parent: ItemID, _ name: [UInt8], _ database: Database) throws(Errno) -> Bool {
        if try database.isExcluded(Place(parent, name)) { return false }
        return try database.entry(parent, name) == nil
    }

    private func freeName(_ parent: ItemID, _ name: FileName, _ database: Database) throws(Errno) -> [UInt8] {
        var candidate = name
        var number = 1
        while try !isFree(parent, candidate.bytes, database) {
            number += 1
            candidate = name.inserting(" (restored \(number))")
        }
        return candidate.bytes
    }

    private func restoreLocally(
        _ row: TrashRow,
        _ parent: ItemID,
        _ last: FileName
    ) throws(Errno) -> (name: [UInt8], path: RemotePath) {
        try catalog.write { database throws(Errno) in
            guard let trashed = try database.trash(id: row.id) else { throw .noSuchEntry }
            let name = try self.freeName(parent, last, database)
            let item: ItemID
            // Its bytes, or the rest of them, are only in the cloud, which has nothing of that folder.
            if trashed.isPending || trashed.item == nil, try self.namespace.keepsOut(parent, database),
                try !database.keepsAllBytes(of: trashed)
            {
                throw .crossDevice
            }
            if let kept = trashed.item {
                item = kept
                try database.run("UPDATE items SET nlink = nlink + 1, home = NULL WHERE id = ?", .item(kept))
            } else {
                // Not sent yet and without bytes here: as if it had never been deleted.
                var made = ItemRow(
                    kind: trashed.kind,
                    permissions: 0o644,
                    user: self.configuration.user,
                    group: self.configuration.group,
                    now: clock.now()
                )
                made.size = trashed.size
                made.version = trashed.remoteVersion
                made.residency = trashed.size > 0 ? .dataless : .whole
                item = try database.insert(made)
            }
            var entry = EntryRow(parent: parent, name: name, item: item, document: trashed.document)
            // It may have left the cloud, and go on here.
            if try database.entry(document: trashed.document) != nil { entry.document = .random() }
            let staysHere = try self.namespace.keepsOut(parent, database)
            if staysHere || !trashed.isPending {
                entry.flags = try self.namespace.localFlags(trashed.kind, entry.place, database)
            }
            if trashed.isPending, !staysHere {
                entry.remoteID = trashed.remoteID
                entry.remoteVersion = trashed.remoteVersion
                let isSame = trashed.remoteParent == parent && trashed.remoteName == name
                entry.remoteParent = isSame ? nil : trashed.remoteParent
                entry.remoteName = isSame ? nil : trashed.remoteName
                if trashed.item == nil {
                    entry.remoteItem = item
                    entry.remoteGeneration = 1
                }
                entry.flags.insert(.metadataChanged)
            }
            let id = try database.insert(entry)
            if trashed.isPending, staysHere {
                // It goes from the cloud all the same.
                var deleted = trashed
                deleted.item = nil
                try database.update(deleted)
            } else {
                try database.deleteTrash(trashed.id)
            }
            if !entry.flags.contains(.localOnly) { try database.enqueue(id, at: self.journalTime()) }
            try database.touchListing(parent, at: clock.now())
            try database.note(.created, entry: id, item: item, parent: parent)
            let directory = try database.path(ofDirectory: parent) ?? .root
            return (name, directory.appending(FileName(unchecked: name)))
        }
    }

    /// So many names are tried where those that are free here are taken at the source.
    private static let mostNames = 4

    private func restoreRemotely(
        _ row: TrashRow,
        _ parent: ItemID,
        _ last: FileName
    ) async throws(Errno) -> (name: [UInt8], path: RemotePath) {
        guard let sync = syncEngine, let place = row.place else { throw .noSuchEntry }
        let names = try catalog.read { database throws(Errno) -> [FileName] in
            if try namespace.keepsOut(parent, database) { throw .crossDevice }
            var names: [FileName] = []
            for number in 0..<Self.mostNames {
                let name = number == 0 ? last : last.inserting(" (restored \(number + 1))")
                if try self.isFree(parent, name.bytes, database) { names.append(name) }
            }
            return names.isEmpty ? [FileName(unchecked: try self.freeName(parent, last, database))] : names
        }
        let moved: (item: RemoteItem, name: FileName)?
        do throws(ProviderError) {
            moved = try await sync.whileInPlace(parent) { directory throws(ProviderError) in
                try await self.moveBack(row, sync.trashReference(place), directory, names)
            }
        } catch {
            if error == .noSuchItem, let back = try takeBack(row, parent) { return back }
            throw error.errno
        }
        guard let (remote, there) = moved else { throw .busy }
        return try finishRestoring(row) { database throws(Errno) in
            // The change feed may have been quicker, or a program has taken the name.
            var known = try database.entry(parent, there.bytes)
            if let entry = known, !entry.isUploaded || !sync.isSame(remote, entry.remoteID, entry.remoteVersion) {
                known = nil
            }
            var entry: EntryRow
            if let known {
                entry = known
            } else {
                let name = try self.freeName(parent, there, database)
                entry = try self.namespace.insertRemote(remote, into: parent, name: name, database)
                if name != there.bytes {
                    (entry.remoteParent, entry.remoteName) = (parent, there.bytes)
                    try database.enqueue(entry.id, at: self.journalTime())
                }
            }
            return entry
        }
    }

    /// Moves a document out of the source's trash to the first of some names that is free there.
    private func moveBack(
        _ row: TrashRow,
        _ trashed: RemoteReference,
        _ directory: RemoteReference,
        _ names: [FileName]
    ) async throws(ProviderError) -> (item: RemoteItem, name: FileName) {
        guard let sync = syncEngine else { throw .noSuchItem }
        var last = ProviderError.noSuchItem
        for name in names {
            do throws(ProviderError) {
                return (try await sync.move(trashed, nil, directory, name), name)
            } catch {
                last = error
                switch error {
                case .noSuchItem: break
                // Of what is still in the trash another item of its version says nothing.
                case .filenameCollision where provider.capabilities.stableIDs: break
                case .filenameCollision: continue
                default: throw error
                }
            }
            // An earlier attempt may have arrived without its answer.
            do throws(ProviderError) {
                let there = try await provider.lookup(name, in: directory)
                if sync.isSame(there, row.remoteID, row.remoteVersion) { return (there, name) }
            } catch {
                guard error == .noSuchItem else { throw error }
            }
        }
        throw last
    }

    /// Finds what an earlier attempt has put back, and a look at the source has shown since; nil where it is not in the folder.
    private func takeBack(_ row: TrashRow, _ parent: ItemID) throws(Errno) -> (name: [UInt8], path: RemotePath)? {
        guard provider.capabilities.stableIDs, let id = row.remoteID else { return nil }
        let found = try catalog.read { database throws(Errno) in try database.entry(remoteID: id) }
        guard let found, found.parent == parent else { return nil }
        return try finishRestoring(row) { database throws(Errno) in
            guard let entry = try database.entry(id: found.id), entry.remoteID == id else { throw .noSuchEntry }
            return entry
        }
    }

    /// Records what is back: it goes on as the document that it was, with what was changed of it before it was deleted.
    private func finishRestoring(
        _ row: TrashRow,
        _ find: (Database) throws(Errno) -> EntryRow
    ) throws(Errno) -> (name: [UInt8], path: RemotePath) {
        var bases: (old: ContentVersion, new: ContentVersion)?
        var orphan: ItemID?
        let restored = try catalog.write { database throws(Errno) -> (name: [UInt8], path: RemotePath) in
            var entry = try find(database)
            try database.deleteTrash(row.id)
            // It may have left the cloud, and go on here; and what is being sent has its document for the answer.
            let isPushing = self.syncEngine?.isPushing(entry.document) == true
            let isUnanswered = try database.underway(entry.document) != nil
            if !isPushing, !isUnanswered, try database.entry(document: row.document) == nil {
                entry.document = row.document
            }
            if let kept = row.item, let version = entry.remoteVersion, try database.item(kept) != nil {
                // A program may have been quicker with what had come back already: its bytes stay.
                let shown = try database.existingItem(entry.item)
                let isChanged = entry.hasUnsentContent(generation: shown.generation)
                if isChanged || self.contents.live.isWritable(shown.id) { throw .busy }
                orphan = entry.item
                entry.item = kept
                (entry.remoteItem, entry.remoteGeneration) = (nil, nil)
                try database.run("UPDATE items SET nlink = nlink + 1, home = NULL WHERE id = ?", .item(kept))
                try database.run("UPDATE items SET version = ? WHERE id = ?", .blob(version.bytes), .item(kept))
                try database.addLinks(-1, to: orphan ?? kept)
                try database.enqueue(entry.id, at: self.journalTime())
                if let old = row.remoteVersion { bases = (old, version) }
            }
            try database.update(entry)
            return (entry.name, try database.path(of: entry))
        }
        if let kept = row.item, let bases { try contents.rebase(kept, from: bases.old, to: bases.new) }
        if let orphan { contents.dropOrphan(orphan) }
        return restored
    }
}
