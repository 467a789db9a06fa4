internal import CoveCore
internal import Synchronization

/// Recording what the provider has after a push.
extension SyncEngine {
    /// Records what the provider has now; the journal row goes unless something changed meanwhile.
    func acknowledge(
        _ plan: PushPlan,
        _ remote: RemoteItem,
        generation: Int64?,
        bytes: Int64?
    ) async throws(ProviderError) {
        let engine = engine
        if let bytes {
            engine.counters.contentUpdates.add(1, ordering: .relaxed)
            engine.counters.bytesUploaded.add(bytes, ordering: .relaxed)
        }
        let base = plan.entry.remoteVersion
        let hasChildren = try await engine.onContentQueue { () throws(Errno) -> Bool in
            // Bytes that are only there are the same, under another version.
            if generation == nil, let base { try engine.rebase(plan.row.id, from: base, to: remote.contentVersion) }
            return try engine.catalog.write { database throws(Errno) -> Bool in
                try database.endUnderway(plan.entry.document)
                guard var entry = try self.entry(of: plan.entry.document, first: plan.entry.id, database) else {
                    try self.acknowledgeDeparted(plan, remote, database)
                    return false
                }
                let isNewDirectory = plan.current == nil && plan.row.kind == .directory
                engine.acknowledge(
                    remote,
                    &entry,
                    item: generation == nil ? plan.entry.remoteItem ?? plan.row.id : plan.row.id,
                    generation: generation ?? plan.entry.remoteGeneration ?? plan.row.generation
                )
                let isMovedSince = entry.parent != plan.entry.parent || entry.name != plan.entry.name
                entry.remoteParent = isMovedSince ? plan.entry.parent : nil
                entry.remoteName = isMovedSince ? plan.entry.name : nil
                let journal = try database.journalRow(entry.id)
                let isUnchanged = entry.id == plan.entry.id && journal?.changed == plan.changed
                if isUnchanged { entry.flags.remove(.metadataChanged) }
                try database.update(entry)
                let current = try database.existingItem(entry.item)
                let hasContent = current.kind == .file && entry.hasUnsentContent(generation: current.generation)
                if isUnchanged, !isMovedSince, !hasContent { try database.dequeue(entry.id) }
                try database.markSent(entry.id, false)
                guard isNewDirectory, try database.hasUploadedEntries(entry.item) else { return false }
                // Nothing is in it but what will be found: it need not be listed before it is compared.
                try database.markListed(entry.item)
                return true
            }
        }
        // It was made again after it was deleted there, with all that was in it.
        if hasChildren {
            let path = plan.directory.path.appending(FileName(unchecked: plan.entry.name))
            enqueue([.directoryChanged(path)], seen: 0)
        }
    }

    /// The entry was removed while it was being sent: what arrived is deleted again, in its turn.
    private nonisolated func acknowledgeDeparted(
        _ plan: PushPlan,
        _ remote: RemoteItem,
        _ database: Database
    ) throws(Errno) {
        if let id = plan.entry.remoteID {
            try database.run(
                "UPDATE trash SET remote_version = ?, remote_id = ? WHERE remote_id = ? AND pending = 1",
                .blob(remote.contentVersion.bytes),
                .blob(remote.id.bytes),
                .blob(id.bytes)
            )
            return
        }
        let place = Place(plan.entry.parent, plan.entry.name)
        try trash(plan.entry.document, place, kind: plan.row.kind, remote, database)
    }

    /// Has the provider delete what nothing here stands for any more.
    nonisolated func trash(
        _ document: DocumentID,
        _ place: Place,
        kind: ItemKind,
        _ remote: RemoteItem,
        _ database: Database
    ) throws(Errno) {
        let directory = try database.path(ofDirectory: place.parent) ?? .root
        var trashed = TrashRow(
            document: document,
            path: directory.appending(FileName(unchecked: place.name)),
            kind: kind,
            item: nil,
            size: remote.size,
            deleted: engine.milliseconds(),
            isPending: true
        )
        trashed.remoteID = remote.id
        trashed.remoteParent = place.parent
        trashed.remoteName = place.name
        trashed.remoteVersion = remote.contentVersion
        try database.insert(trashed)
    }

    /// Records where the provider has a document after a move.
    func acknowledgeMove(
        of sent: EntryRow,
        isDirectory: Bool,
        _ remote: RemoteItem,
        to parent: ItemID,
        _ name: FileName,
        from old: RemotePath
    ) async throws(ProviderError) {
        let engine = engine
        let new = try await engine.onContentQueue { () throws(Errno) in
            try engine.catalog.write { database throws(Errno) -> RemotePath? in
                try database.endUnderway(sent.document)
                guard var entry = try self.entry(of: sent.document, first: sent.id, database) else {
                    // Deleted while it moved: the deletion must find it at its new place.
                    if let id = sent.remoteID {
                        try database.run(
                            """
                            UPDATE trash SET remote_parent = ?, remote_name = ?, remote_id = ?
                            WHERE remote_id = ? AND pending = 1
                            """,
                            .item(parent),
                            .blob(name.bytes),
                            .blob(remote.id.bytes),
                            .blob(id.bytes)
                        )
                    }
                    return nil
                }
                let isHere = entry.parent == parent && entry.name == name.bytes
                entry.remoteParent = isHere ? nil : parent
                entry.remoteName = isHere ? nil : name.bytes
                entry.remoteID = remote.id
                // The bytes may have changed there meanwhile: then their version stays the old one, and is noticed.
                if isDirectory || entry.remoteVersion == remote.contentVersion {
                    entry.remoteMetadata = remote.metadataVersion
                }
                try database.update(entry)
                if try database.journalRow(entry.id) == nil { try database.enqueue(entry.id, at: 0) }
                return isDirectory ? try database.remoteReference(of: entry)?.path : nil
            }
        }
        if let new { noteMove(old, new) }
    }

    /// Remembers that a directory was moved at the provider; a change told of its old place is about the new one.
    private func noteMove(_ old: RemotePath, _ new: RemotePath) {
        recentMoves.append((old, new))
        if recentMoves.count > 1000 { recentMoves.removeFirst(500) }
    }

    /// The document is not where it was at the provider: another device moved or deleted it, or an answer got lost.
    func recreate(_ plan: PushPlan) async throws(ProviderError) -> PushResult {
        let engine = engine
        let place = try await engine.onContentQueue { () throws(Errno) in
            try engine.catalog.read { database throws(Errno) -> RemoteReference? in
                try self.entry(of: plan.entry.document, first: plan.entry.id, database)
                    .flatMap { entry throws(Errno) in try database.remoteReference(of: entry) }
            }
        }
        guard let place, let name = place.path.name else { return .later(50) }
        if try await isThere(place, name) { return .retry(after: 50) }
        // The change feed may know where it went.
        requestPoll()
        if plan.attempts < 3 { return .retry(after: 200) }
        if plan.row.kind == .file, plan.row.residency != .whole {
            // Nothing of it is left here or there.
            let transition = Transition(kind: .remove(entry: plan.entry.id), remote: nil)
            let showing = try await show(transition, retry: { [weak self] in self?.wake() })
            return showing == .claimed ? .later(SyncEngine.claimedRest) : .done
        }
        // What was changed here is sent as a new document.
        try await engine.onContentQueue { () throws(Errno) in
            try engine.catalog.write { database throws(Errno) in
                guard var entry = try database.entry(id: plan.entry.id), entry.remoteID == plan.entry.remoteID
                else { return }
                engine.forgetRemote(&entry)
                try database.update(entry)
                try database.enqueue(entry.id, at: 0)
            }
        }
        // What has its old name there was taken for this document.
        enqueue([.directoryChanged(place.path.parent)], seen: 0)
        return .later(0)
    }

    private func isThere(_ place: RemoteReference, _ name: FileName) async throws(ProviderError) -> Bool {
        engine.counters.providerRequests.add(1, ordering: .relaxed)
        do throws(ProviderError) {
            let found = try await engine.provider.lookup(name, in: RemoteReference(id: nil, path: place.path.parent))
            return !engine.provider.capabilities.stableIDs || found.id == place.id
        } catch {
            guard error == .noSuchItem else { throw error }
            return false
        }
    }
}
