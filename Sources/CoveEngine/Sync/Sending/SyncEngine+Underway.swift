internal import CoveCore
internal import Synchronization

/// Operations that were sent and never answered: the daemon died, or the answer got lost.
///
/// They are looked for where they would have arrived, before anything is compared with the provider or sent again.
extension SyncEngine {
    /// Finds out what became of all of them.
    func takeUpUnderway() async throws(ProviderError) {
        let host = host
        let rows = try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in try database.underway() }
        }
        for row in rows where beginPush(row.document) {
            defer { endPush(row.document) }
            do throws(ProviderError) {
                try await takeUp(row)
            } catch {
                if error.parksAccount { throw error }
                takeUpAgain(row.document, after: error)
            }
        }
    }

    /// Finds out what became of one, whose document is reserved, for an operation of that document or of another one.
    func takeUp(_ row: UnderwayRow, for operation: DocumentID? = nil) async throws(ProviderError) {
        let host = host
        let operation = operation ?? row.document
        if operation != row.document { shared.withLock { $0.reservations.change(row.document) } }
        try await takeUpFolders(above: row.place.parent)
        let directory = try await host.onContentQueue { () throws(Errno) in
            try host.catalog.write { database throws(Errno) -> RemoteReference? in
                try self.rely(on: [row.place.parent], changing: [row.place], for: operation, database)
                return try database.remoteReference(ofDirectory: row.place.parent)
            }
        }
        var found: RemoteItem?
        if let directory {
            host.counters.providerRequests.add(1, ordering: .relaxed)
            do throws(ProviderError) {
                found = try await host.provider.lookup(FileName(unchecked: row.place.name), in: directory)
            } catch {
                guard error == .noSuchItem else { throw error }
            }
        }
        if let other = found, let directory { found = try await finishMove(row, other, in: directory) }
        let remote = found
        let isLeft = try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in
                guard let remote, row.isLike(remote) else { return false }
                return try database.isToBeCompared(row)
            }
        }
        // It may be elsewhere, or gone, before the next attempt: until then this says where its bytes are.
        if isLeft { return unansweredLooks.forget(row.document) }
        var hasArrived = false
        if let remote, let directory { hasArrived = try await isSent(row, remote, in: directory) }
        let isSent = hasArrived
        try await host.onContentQueue { () throws(Errno) in
            if let remote { try self.adoptVersion(of: row, remote) }
            try host.catalog.write { database throws(Errno) in
                // It is where it was again, meanwhile.
                if isSent, try database.isToBeCompared(row) { return }
                try database.endUnderway(row.document)
                if let remote { try self.record(row, arrivedAs: remote, isSent: isSent, database) }
            }
        }
        unansweredLooks.forget(row.document)
        if let directory, let remote, remote.kind == .directory {
            // Others may have put something into it since.
            enqueue(
                [.directoryChanged(directory.path.appending(FileName(unchecked: row.place.name)))],
                seen: .distantPast
            )
        }
    }

    /// Finds out first where the folders above a place are, if that was not answered: in a wrong one nothing would be found.
    func takeUpFolders(above directory: ItemID) async throws(ProviderError) {
        let host = host
        let rows = try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in try database.unansweredFolders(above: directory) }
        }
        for row in rows {
            guard beginPush(row.document) else { throw .failed("its folder is being sent", .wouldBlock) }
            defer { endPush(row.document) }
            try await takeUp(row)
        }
    }

    /// Documents that were removed while something of them was not answered.
    nonisolated func takeUpLater(_ document: DocumentID) {
        shared.withLock { _ = $0.unanswered.insert(document) }
        wake()
    }

    /// Finds out about them, but for those that a push is busy with.
    func takeUpRemoved() async {
        let documents = shared.withLock { $0.unanswered }
        for document in documents where beginPush(document) {
            defer { endPush(document) }
            shared.withLock { _ = $0.unanswered.remove(document) }
            do throws(ProviderError) {
                _ = try await whenNothingIsInTheWay { () async throws(ProviderError) in
                    try await self.takeUpUnanswered(document)
                }
            } catch {
                // The next connection takes it up.
                if error.parksAccount { return disconnect(error) }
                takeUpAgain(document, after: error)
            }
        }
    }

    /// A look failed, and another one may not: nobody else need ever come to the place.
    private func takeUpAgain(_ document: DocumentID, after error: ProviderError) {
        host.log.info("\(document): what became of it can't be told yet: \(error)")
        guard let pause = unansweredLooks.pause(of: document, after: error) else { return }
        executor.after(pause) { [weak self] in Task { await self?.lookAgain(at: document) } }
    }

    /// In one step: a look that came between the two would fail without another one after it.
    private func lookAgain(at document: DocumentID) {
        unansweredLooks.begin(document)
        takeUpLater(document)
    }

    /// Finds out what has arrived in a folder whose deletion is under way; false where somebody is busy with it.
    func takeUpAll(below trash: Int64, for deletion: DocumentID) async throws(ProviderError) -> Bool {
        let host = host
        let rows = try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) -> [UnderwayRow] in
                guard let row = try database.trash(id: trash), row.kind == .directory, let item = row.item else {
                    return []
                }
                return try database.underway(in: item)
            }
        }
        for row in rows {
            guard beginPush(row.document) else { return false }
            defer { endPush(row.document) }
            try await takeUp(row, for: deletion)
        }
        return true
    }

    /// True when what the provider has is what was sent, as far as that can be told.
    ///
    /// Its bytes tell, and its date alone never does: clocks go in ticks, and another program's file of the same size may
    /// have been written in the same one.
    private func isSent(
        _ row: UnderwayRow,
        _ remote: RemoteItem,
        in directory: RemoteReference
    ) async throws(ProviderError) -> Bool {
        guard row.isLike(remote) else { return false }
        if row.kind != .file { return true }
        guard let sum = row.sum else { return false }
        // Not all bytes tell: another device's version of another date is another one.
        if row.size == 0 || row.size > SentBytes.limit {
            guard row.modificationTime.wholeSecond == remote.metadata.modificationTime?.wholeSecond else {
                return false
            }
            if row.size == 0 { return true }
        }
        let sink = SummingSink(size: row.size)
        let there = RemoteReference(
            id: remote.id,
            path: directory.path.appending(FileName(unchecked: row.place.name))
        )
        if let item = row.item { await noteGiven(item, at: there) }
        defer { if let item = row.item { noteIdle(item) } }
        do throws(ProviderError) {
            for range in SentBytes.ranges(of: row.size) {
                host.counters.providerRequests.add(1, ordering: .relaxed)
                try await host.provider.fetch(
                    there,
                    version: remote.contentVersion,
                    range: range,
                    into: sink
                )
            }
        } catch {
            switch error {
            // Another one's by now, or one that is not to be read.
            case .noSuchItem, .versionNoLongerAvailable, .notPermitted, .unsupported: return false
            default:
                guard unansweredLooks.isUnreadable(row.document, after: error) else { throw error }
                host.log.info("\(row.document): what is where it was sent can't be read, and is taken for another's")
                return false
            }
        }
        return sink.sum == sum
    }

    /// Where a move takes steps, what is at its new place may be at the old one too.
    private func finishMove(
        _ row: UnderwayRow,
        _ found: RemoteItem,
        in directory: RemoteReference
    ) async throws(ProviderError) -> RemoteItem {
        let host = host
        guard host.provider.capabilities.movesInSteps, !row.isNew, row.item == nil, row.kind == .file else {
            return found
        }
        let old = try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) -> (RemoteReference, ContentVersion)? in
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

    /// Takes over what the source calls the bytes of a file since this device has set its date there; none of them were sent.
    ///
    /// Only where the item, its size and its date are exactly those that were sent: a change of the bytes has a date of its own.
    private nonisolated func adoptVersion(of row: UnderwayRow, _ remote: RemoteItem) throws(Errno) {
        let host = host
        guard row.item == nil, row.kind == .file, host.provider.capabilities.stableIDs, row.isLike(remote),
            remote.metadata.modificationTime == row.modificationTime
        else { return }
        let known = try host.catalog.read { database throws(Errno) -> (ItemID?, ContentVersion?)? in
            if let entry = try database.entry(document: row.document) {
                return entry.remoteID == remote.id ? (entry.item, entry.remoteVersion) : nil
            }
            let trashed = try database.pendingTrash(document: row.document)
            return trashed?.remoteID == remote.id ? (trashed?.item, trashed?.remoteVersion) : nil
        }
        guard let (item, base) = known else { return }
        if let item, let base, base != remote.contentVersion {
            try host.contents.rebase(item, from: base, to: remote.contentVersion)
        }
        try host.catalog.write { database throws(Errno) in
            let version = remote.contentVersion.bytes
            if let item {
                try database.run(
                    "UPDATE entries SET remote_version = ? WHERE item = ? AND document = ? AND remote_id = ?",
                    .blob(version),
                    .item(item),
                    .document(row.document),
                    .blob(remote.id.bytes)
                )
            }
            try database.run(
                "UPDATE trash SET remote_version = ? WHERE document = ? AND pending = 1 AND remote_id = ?",
                .blob(version),
                .document(row.document),
                .blob(remote.id.bytes)
            )
        }
    }

    private nonisolated func record(
        _ row: UnderwayRow,
        arrivedAs remote: RemoteItem,
        isSent hasArrived: Bool,
        _ database: Database
    ) throws(Errno) {
        if let entry = try database.entry(document: row.document), try !host.namespace.isKeptOut(entry, database) {
            return try record(row, of: entry, arrivedAs: remote, isSent: hasArrived, database)
        }
        if let trashed = try database.pendingTrash(document: row.document) {
            let isSent = row.item != nil && hasArrived
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
        guard row.isNew, hasArrived, try database.entry(remoteID: remote.id) == nil else { return }
        try trash(row.document, row.place, kind: row.kind, remote, database)
    }

    private nonisolated func record(
        _ row: UnderwayRow,
        of known: EntryRow,
        arrivedAs remote: RemoteItem,
        isSent: Bool,
        _ database: Database
    ) throws(Errno) {
        var entry = known
        let item = try database.existingItem(entry.item)
        let isHere = entry.place == row.place
        if entry.isUploaded, row.item == nil {
            guard isSame(remote, entry.remoteID, entry.remoteVersion) else { return }
            entry.remoteID = remote.id
        } else {
            guard isSent, item.kind == row.kind, entry.remoteVersion != remote.contentVersion else {
                return
            }
            if entry.isStandIn(item) {
                // No bytes are here: it waits for those of the provider, whatever they are.
                entry.remoteID = remote.id
                return try database.update(entry)
            }
            host.namespace.acknowledge(remote, &entry, item: row.item ?? entry.item, generation: row.generation)
            // Its mode and attributes may have been on their way still.
            entry.flags.insert(.metadataChanged)
            // What is at the provider is sent on, whatever its name has become.
            entry.flags.remove(.localOnly)
        }
        entry.remoteParent = isHere ? nil : row.place.parent
        entry.remoteName = isHere ? nil : row.place.name
        try database.update(entry)
        if try database.journalRow(entry.id) == nil { try database.enqueue(entry.id, at: .epoch) }
        try database.markSent(entry.id, false)
    }

    /// True when an item of the provider is the one that was acknowledged, wherever it is.
    nonisolated func isSame(_ remote: RemoteItem, _ id: RemoteID?, _ version: ContentVersion?) -> Bool {
        host.provider.capabilities.stableIDs ? remote.id == id : remote.contentVersion == version
    }
}

extension SyncEngine.Shared {
    /// True when something of a removed document is to be looked for, and no push is busy with it.
    var hasUnansweredToTakeUp: Bool { unanswered.contains { reservations.progress(of: $0) == nil } }

    /// True while what is known of the provider, or of what was sent, is about to change.
    var isBusy: Bool { isPolling || !inbox.isEmpty || !late.isEmpty || !reservations.isEmpty || !unanswered.isEmpty }
}
