internal import CoveCore
internal import Synchronization

/// Sending deletions, and keeping what was deleted.
extension SyncEngine {
    /// Starts sending settled deletions, unless there are so many that a person is to be asked.
    func pushTrash(_ now: Int64, settle: Int64, held: [Int64: Tombstones.Key], _ earliest: inout Int64) {
        let catalog = engine.catalog
        guard
            let pending = try? catalog.read({ database throws(Errno) in try database.trash(pending: true) }),
            !pending.isEmpty
        else {
            shared.withLock { $0.heldDeletions = 0 }
            acceptsLocalDeletions = false
            return
        }
        if pending.count > SyncEngine.deletionBrake, !acceptsLocalDeletions {
            let remaining = try? catalog.read { database throws(Errno) in
                try database.first("SELECT count(*) FROM entries WHERE remote_id IS NOT NULL") { $0.int(0) }
            }
            if pending.count > Int(remaining ?? 0) {
                shared.withLock { $0.heldDeletions = pending.count }
                return
            }
        }
        shared.withLock { $0.heldDeletions = 0 }
        let directories = Set(pending.compactMap { $0.kind == .directory ? $0.item : nil })
        // A directory waits for what is still to be deleted in it.
        let busy = Set(pending.compactMap(\.remoteParent)).intersection(directories)
        for row in pending {
            guard activePushes < SyncEngine.parallelPushes else { return }
            guard !activeTrash.contains(row.id), row.retry <= now else {
                if row.retry > now { earliest = min(earliest, row.retry) }
                continue
            }
            if row.kind == .directory, let item = row.item, busy.contains(item) { continue }
            let due = row.deleted < forcedBefore ? 0 : row.deleted + settle
            if due > now {
                earliest = min(earliest, due)
                continue
            }
            if let key = held[row.id], isBeingRewritten(key) {
                earliest = min(earliest, now + 200)
                continue
            }
            guard beginDeletion(row.id, row.document) else { continue }
            Task { await self.deleteRemotely(row.id, row.document) }
        }
    }

    /// Claims a deletion; false while the document is still being sent.
    func beginDeletion(_ id: Int64, _ document: DocumentID) -> Bool {
        let isFree = shared.withLock { state in
            guard state.pushing[document] == nil else { return false }
            state.pushing[document] = PushProgress()
            return true
        }
        guard isFree else { return false }
        activeTrash.insert(id)
        activePushes += 1
        return true
    }

    /// Sends one deletion: by a move into the provider's trash where its bytes are only there.
    func deleteRemotely(_ id: Int64, _ document: DocumentID) async {
        defer {
            activeTrash.remove(id)
            endPush(document)
        }
        do throws(ProviderError) {
            try await sendDeletion(id)
        } catch {
            if error == .cancelled { return }
            if error.parksAccount { return disconnect(error) }
            let engine = engine
            engine.log.info("trash \(id): deleting failed: \(error)")
            let due = try? engine.catalog.write { database throws(Errno) -> Int64 in
                guard var row = try database.trash(id: id) else { return 0 }
                row.attempts += 1
                row.retry = self.retryTime(row.attempts)
                row.error = "\(error)"
                try database.update(row)
                return row.retry
            }
            if let due, due > 0 { alarm(at: due, now: engine.milliseconds()) }
        }
    }

    private nonisolated func retryTime(_ attempts: Int64) -> Int64 {
        let delay: Int64 = min(300_000, 1000 << min(attempts, 9))
        return engine.milliseconds() + Int64.random(in: delay / 2...delay)
    }

    private func sendDeletion(_ id: Int64) async throws(ProviderError) {
        let engine = engine
        let found = try await engine.onContentQueue { () throws(Errno) in
            try engine.catalog.read { database throws(Errno) -> (TrashRow, RemoteReference)? in
                guard let row = try database.trash(id: id), row.isPending, let parent = row.remoteParent,
                    let name = row.remoteName, let directory = try database.remoteReference(ofDirectory: parent)
                else { return nil }
                return (
                    row, RemoteReference(id: row.remoteID, path: directory.path.appending(FileName(unchecked: name)))
                )
            }
        }
        guard let (row, reference) = found else { return try await endDeletion(id, place: nil) }
        engine.counters.providerRequests.add(1, ordering: .relaxed)
        do throws(ProviderError) {
            let base = row.kind == .file ? row.remoteVersion : nil
            if row.kind == .file, row.item == nil, engine.provider.capabilities.trash {
                let kept = try await engine.provider.trash(reference, base: base, as: row.document.description)
                engine.counters.deletions.add(1, ordering: .relaxed)
                return try await endDeletion(id, place: kept.map { _ in Array(row.document.description.utf8) })
            }
            try await engine.provider.delete(reference, base: base)
            engine.counters.deletions.add(1, ordering: .relaxed)
            try await endDeletion(id, place: nil)
        } catch .noSuchItem {
            try await endDeletion(id, place: nil)
        } catch .conflict(let other) {
            // Changed there since: it comes back.
            try await endDeletion(id, place: nil, forget: true)
            if let other { enqueue([.updated(other, directory: reference.path.parent)]) }
            requestPoll()
        } catch .directoryNotEmpty {
            try await endDeletion(id, place: nil, forget: true)
            enqueue([.directoryChanged(reference.path.parent)])
        }
    }

    /// The provider knows: documents stay in the trash for a while, directories and refused deletions do not.
    private func endDeletion(_ id: Int64, place: [UInt8]?, forget: Bool = false) async throws(ProviderError) {
        let engine = engine
        let orphan = try await engine.onContentQueue { () throws(Errno) in
            try engine.catalog.write { database throws(Errno) -> ItemID? in
                guard var row = try database.trash(id: id) else { return nil }
                if forget || row.kind == .directory || row.item == nil && place == nil {
                    try database.deleteTrash(id)
                    return row.item
                }
                row.isPending = false
                row.place = place
                row.error = nil
                try database.update(row)
                return nil
            }
        }
        if let orphan { await dropOrphan(orphan) }
    }

    private func dropOrphan(_ id: ItemID) async {
        let engine = engine
        _ = try? await engine.onContentQueue { () throws(Errno) in engine.dropOrphan(id) }
    }

    /// Deletes for good what has been in the trash for so long; returns how many documents.
    @discardableResult
    func expireTrash(olderThan milliseconds: Int64) async -> Int {
        let engine = engine
        let limit = engine.milliseconds() - milliseconds
        let rows = (try? engine.catalog.read { database throws(Errno) in try database.trash(pending: false) }) ?? []
        var count = 0
        for row in rows where row.deleted <= limit {
            if let place = row.place {
                let reference = trashReference(place)
                do throws(ProviderError) {
                    try await engine.provider.delete(reference, base: nil)
                } catch {
                    if error != .noSuchItem { continue }
                }
            }
            _ = try? engine.catalog.write { database throws(Errno) in try database.deleteTrash(row.id) }
            if let item = row.item { await dropOrphan(item) }
            count += 1
        }
        return count
    }

    /// Where a provider keeps a trashed document.
    nonisolated func trashReference(_ place: [UInt8]) -> RemoteReference {
        RemoteReference(id: nil, path: RemotePath(unchecked: Array(".cove/trash/".utf8) + place))
    }
}
