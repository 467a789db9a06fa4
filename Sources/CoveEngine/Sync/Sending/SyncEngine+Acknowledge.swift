internal import CoveCore
internal import Synchronization

/// Recording what the provider has after a push.
extension SyncEngine {
    /// Records what the provider has now; the journal row goes unless something changed meanwhile, or was left out.
    func acknowledge(
        _ plan: PushPlan,
        _ remote: RemoteItem,
        generation: Int64?,
        bytes: Int64?
    ) async throws(ProviderError) -> PushResult {
        let host = host
        if let bytes {
            host.counters.contentUpdates.add(1, ordering: .relaxed)
            host.counters.bytesUploaded.add(bytes, ordering: .relaxed)
        }
        let base = plan.entry.remoteVersion
        let leftOut = leftOut(of: plan, remote)
        let (hasChildren, isComplete, sent) = try await host.onContentQueue {
            () throws(Errno) -> (Bool, Bool, EntryRow?) in
            // Bytes that are only there are the same, under another version.
            if generation == nil, let base {
                try host.contents.rebase(plan.row.id, from: base, to: remote.contentVersion)
            }
            return try host.catalog.write { database throws(Errno) in
                // Where it has arrived: its folder may have left the cloud since, and another item stands for that.
                let place = try database.underway(plan.entry.document)?.place
                try database.endUnderway(plan.entry.document)
                guard var entry = try self.entry(of: plan.entry.document, first: plan.entry.id, database),
                    try !self.hasLeft(entry, sent: plan.entry, database)
                else {
                    try self.acknowledgeDeparted(plan, remote, at: place ?? plan.entry.place, database)
                    return (false, true, nil)
                }
                let isNewDirectory = plan.current == nil && plan.row.kind == .directory
                host.namespace.acknowledge(
                    remote,
                    &entry,
                    item: generation == nil ? plan.entry.remoteItem ?? plan.row.id : plan.row.id,
                    generation: generation ?? plan.entry.remoteGeneration ?? plan.row.generation
                )
                try host.namespace.storeTold(remote, of: entry.item, hasNewContent: generation != nil, database)
                // What was there before is where it is known to be, whatever has come to stand for its folder since.
                if plan.current == nil {
                    let there = plan.entry.isUploaded ? plan.entry.place : place ?? plan.entry.place
                    entry.remoteParent = entry.place == there ? nil : there.parent
                    entry.remoteName = entry.place == there ? nil : there.name
                }
                let isMovedSince = entry.isMoved
                if entry.flags.contains(.localOnly) {
                    // What is at the provider is sent on, whatever its name has become since.
                    entry.flags.remove(.localOnly)
                    try database.enqueue(entry.id, at: host.journalTime())
                }
                let journal = try database.journalRow(entry.id)
                let isUnchanged = entry.id == plan.entry.id && journal?.changed == plan.changed
                let isComplete = !isUnchanged || leftOut == nil
                if isUnchanged { entry.flags.remove(.fromSource) }
                if isUnchanged, isComplete { entry.flags.remove(.metadataChanged) }
                if !isComplete { entry.flags.insert(.metadataChanged) }
                try database.update(entry)
                let current = try database.existingItem(entry.item)
                let hasContent = current.kind == .file && entry.hasUnsentContent(generation: current.generation)
                if isUnchanged, isComplete, !isMovedSince, !hasContent { try database.dequeue(entry.id) }
                try database.markSent(entry.id, false)
                if current.kind == .file {
                    let hasPicture = try database.noteThumbnailSent(entry, current)
                    if !hasPicture, bytes != nil, host.thumbnails.isWanted(entry) {
                        try database.wantThumbnail(entry.document)
                    }
                    return (false, isComplete, entry)
                }
                guard isNewDirectory, try database.hasUploadedEntries(entry.item) else {
                    return (false, isComplete, nil)
                }
                // Nothing is in it but what will be found: it need not be listed before it is compared.
                try database.markListed(entry.item)
                return (true, isComplete, nil)
            }
        }
        if let sent { host.thumbnails.noteSent(sent) }
        // It was made again after it was deleted there, with all that was in it.
        if hasChildren {
            let path = plan.directory.path.appending(FileName(unchecked: plan.entry.name))
            enqueue([.directoryChanged(path)], seen: .distantPast)
        }
        guard let leftOut, !isComplete else { return .done }
        // It is sent by itself from now on, until the source takes it.
        let name = String(decoding: leftOut, as: UTF8.self)
        return .failed(.failed("the source does not take its attribute \(name); all else is there", nil))
    }

    /// An attribute that was sent and that the provider says it has not; one that can't have any says nothing.
    private nonisolated func leftOut(of plan: PushPlan, _ remote: RemoteItem) -> [UInt8]? {
        guard let sent = plan.metadata.extendedAttributes, let kept = remote.metadata.extendedAttributes else {
            return nil
        }
        return sent.first { kept[$0.key] != $0.value }?.key
    }

    /// True for an entry that has left the cloud, and stays, since something of it was sent.
    private nonisolated func hasLeft(
        _ entry: EntryRow,
        sent: EntryRow,
        _ database: Database
    ) throws(Errno) -> Bool {
        if entry.isUploaded || sent.isUploaded { return !entry.isUploaded }
        return try host.namespace.isKeptOut(entry, database)
    }

    /// The entry was removed, or left the cloud, while it was being sent: what arrived is deleted again, in its turn.
    private nonisolated func acknowledgeDeparted(
        _ plan: PushPlan,
        _ remote: RemoteItem,
        at place: Place,
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
            deleted: host.journalTime(),
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
        let host = host
        let new = try await host.onContentQueue { () throws(Errno) in
            try host.catalog.write { database throws(Errno) -> RemotePath? in
                let parent = try database.underway(sent.document)?.place.parent ?? parent
                try database.endUnderway(sent.document)
                guard var entry = try self.entry(of: sent.document, first: sent.id, database), entry.isUploaded else {
                    // Deleted, or out of the cloud, while it moved: the deletion must find it at its new place.
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
                // Others would take it for what had its name before: its bytes get a version of their own.
                if !isDirectory, try self.isAmbiguous(entry, database) { entry.remoteItem = nil }
                try database.update(entry)
                if try database.journalRow(entry.id) == nil { try database.enqueue(entry.id, at: .epoch) }
                if isDirectory {
                    try database.noteThumbnailsMoved(below: old)
                } else if let row = try database.item(entry.item) {
                    _ = try database.noteThumbnailSent(entry, row)
                }
                return isDirectory ? try database.remoteReference(of: entry)?.path : nil
            }
        }
        looks[sent.document] = nil
        if let new { noteMove(old, new) }
    }

    /// True for a whole file whose version another one has or had, where versions of different bytes may be the same.
    private nonisolated func isAmbiguous(_ entry: EntryRow, _ database: Database) throws(Errno) -> Bool {
        guard host.provider.capabilities.coarseVersions, let version = entry.remoteVersion,
            let row = try database.item(entry.item), row.kind == .file, row.residency == .whole, row.size > 0
        else { return false }
        let other = try database.first(
            """
            SELECT 1 FROM entries WHERE remote_version = ?1 AND id <> ?2
            UNION ALL SELECT 1 FROM trash WHERE remote_version = ?1 LIMIT 1
            """,
            .blob(version.bytes),
            .int(entry.id),
            read: { _ in true }
        )
        return other != nil
    }

    /// For so long no other device touches what this one has hidden.
    private static let hiddenForSure = TimeSpan.seconds(300)

    /// The document is not where it was at the provider: another device moved or deleted it, or an answer got lost.
    func recreate(_ plan: PushPlan) async throws(ProviderError) -> PushResult {
        let host = host
        let place = try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) -> RemoteReference? in
                try self.entry(of: plan.entry.document, first: plan.entry.id, database)
                    .flatMap { entry throws(Errno) in try database.remoteReference(of: entry) }
            }
        }
        if let place, let name = place.path.name {
            if try await isThere(place, name, plan.row.kind) { return try await restBeside(plan) }
        } else if plan.current != nil {
            return .later(.milliseconds(50))
        }
        // The change feed may know where it went.
        requestPoll()
        if plan.attempts < 3 { return .retry(after: .milliseconds(200)) }
        if plan.entry.isHiddenThere {
            let (document, parent) = (plan.entry.document, plan.entry.remoteParent)
            // What was hidden long ago another device may have brought back to light.
            let since = place?.path.name.flatMap { PassingName($0) }?.since
            let isFresh = since.map { host.journalTime() - $0 < Self.hiddenForSure } ?? false
            let pause = try await restBeforeLook(forHidden: document, at: place, in: parent, mayBeGone: isFresh)
            if let pause { return .later(pause, because: .sought) }
        }
        let result = try await makeAnew(entry: plan.entry.id, plan.entry.document)
        // What has its old name there was taken for this document.
        if let place { enqueue([.directoryChanged(place.path.parent)], seen: .distantPast) }
        return result
    }

    /// How a push goes on that did not find a document which is where it was.
    ///
    /// Where it was to be moved, the folder it goes to may be gone.
    private func restBeside(_ plan: PushPlan) async throws(ProviderError) -> PushResult {
        let folder = plan.directory
        if plan.entry.isMoved, let name = folder.path.name, try await !isThere(folder, name, .directory) {
            return try restBeforeFolder(of: plan)
        }
        guard plan.attempts < Self.mostMisses else {
            throw .failed("the source has it and does not find it; it is tried again", nil)
        }
        return .retry(after: .milliseconds(50).doubled(plan.attempts))
    }

    /// How often something is sent soon again that is there, and was not found.
    private static let mostMisses: Int64 = 8

    /// How a push goes on whose folder is not there.
    func restBeforeFolder(of plan: PushPlan) throws(ProviderError) -> PushResult {
        if let pause = restBeforeDirectory(of: plan.entry.document, at: plan.directory.path) {
            return .later(pause, because: .lostFolder)
        }
        throw .failed("its folder is no longer at the source; it is looked for again", nil)
    }

    /// The provider has a document no more: what was changed here of it is sent as a new one.
    func makeAnew(entry id: Int64, _ document: DocumentID) async throws(ProviderError) -> PushResult {
        let host = host
        let isLeft = try await host.onContentQueue { () throws(Errno) in
            try host.catalog.write { database throws(Errno) -> Bool? in
                guard var entry = try database.entry(id: id), entry.document == document, entry.isUploaded,
                    let row = try database.item(entry.item)
                else { return nil }
                if row.kind == .file, row.residency != .whole { return false }
                try self.forgetRemote(&entry, row, database)
                return true
            }
        }
        guard isLeft == false else { return .later(.zero) }
        // Nothing of it is left here or there.
        let transition = Transition(kind: .remove(entry: id), remote: nil, sent: document)
        let showing = try await show(transition, retry: { [weak self] in self?.wake() })
        return showing == .claimed ? .later(SyncEngine.claimedRest) : .done
    }

    /// Has an entry that the provider has no more be sent as a new one.
    nonisolated func forgetRemote(_ entry: inout EntryRow, _ row: ItemRow, _ database: Database) throws(Errno) {
        host.namespace.forgetRemote(&entry)
        try database.update(entry)
        try database.enqueue(entry.id, at: .epoch)
        if row.kind == .directory { try database.markListed(row.id) }
    }

    private func isThere(
        _ place: RemoteReference,
        _ name: FileName,
        _ kind: ItemKind
    ) async throws(ProviderError) -> Bool {
        host.counters.providerRequests.add(1, ordering: .relaxed)
        do throws(ProviderError) {
            let found = try await host.provider.lookup(name, in: RemoteReference(id: nil, path: place.path.parent))
            if host.provider.capabilities.stableIDs { return found.id == place.id }
            return (found.kind == .directory) == (kind == .directory)
        } catch {
            guard error == .noSuchItem else { throw error }
            return false
        }
    }
}
