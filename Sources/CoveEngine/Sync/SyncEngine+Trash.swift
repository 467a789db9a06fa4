internal import CoveCore
internal import Synchronization

/// Sending deletions, and keeping what was deleted.
extension SyncEngine {
    /// Starts sending settled deletions, unless there are so many that a person is to be asked.
    func pushTrash(_ now: Int64, settle: Int64, held: [Int64: Place], _ earliest: inout Int64) {
        let catalog = engine.catalog
        let count = (try? catalog.read { database throws(Errno) in try database.pendingDeletions() }) ?? 0
        guard count > 0 else {
            shared.withLock { $0.heldDeletions = 0 }
            acceptsLocalDeletions = false
            return
        }
        if count > SyncEngine.deletionBrake, !acceptsLocalDeletions {
            let isMinority = try? catalog.read { database throws(Errno) in try database.hasUploaded(atLeast: count) }
            if isMinority == false {
                shared.withLock { $0.heldDeletions = count }
                return
            }
        }
        shared.withLock { $0.heldDeletions = 0 }
        let ready = try? catalog.read { database throws(Errno) in try database.readyTrash(now: now, limit: 64) }
        for row in ready ?? [] {
            guard activePushes < SyncEngine.parallelPushes else { return }
            let due = row.deleted < forcedBefore ? 0 : row.deleted + settle
            if due > now {
                earliest = min(earliest, due)
                continue
            }
            if let key = held[row.id], isBeingRewritten(key) {
                earliest = min(earliest, now + 200)
                continue
            }
            guard beginPush(row.document) else { continue }
            Task {
                await self.deleteRemotely(row.id)
                self.endPush(row.document)
            }
        }
        let next = try? catalog.read { database throws(Errno) in try database.nextTrashRetry(after: now) }
        if let next { earliest = min(earliest, next) }
    }

    /// Sends one deletion: by a move into the provider's trash where its bytes are only there.
    func deleteRemotely(_ id: Int64) async {
        let engine = engine
        do throws(ProviderError) {
            try await sendDeletion(id)
        } catch .failed(_, .wouldBlock) {
            let retry = engine.milliseconds() + Int64.random(in: 20...200)
            try? engine.catalog.write { database throws(Errno) in try database.postponeTrash(id, retry: retry) }
        } catch {
            if error == .cancelled { return }
            if error.parksAccount { return disconnect(error) }
            engine.log.info("trash \(id): deleting failed: \(error)")
            let due = try? engine.catalog.write { database throws(Errno) -> Int64 in
                guard var row = try database.trash(id: id) else { return 0 }
                row.attempts += 1
                row.retry = self.retryTime(row.attempts)
                // What somebody holds a lock on is free again soon.
                row.error = error == .busy && row.attempts < 8 ? nil : "\(error)"
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
        let unanswered = try await engine.onContentQueue { () throws(Errno) in
            try engine.catalog.read { database throws(Errno) in
                try database.trash(id: id).flatMap { row throws(Errno) in try database.underway(row.document) }
            }
        }
        if let unanswered { try await takeUp(unanswered) }
        let found = try await engine.onContentQueue { () throws(Errno) in
            try engine.catalog.write { database throws(Errno) -> (TrashRow, RemoteReference)? in
                guard let row = try database.trash(id: id), row.isPending, let parent = row.remoteParent,
                    let reference = try database.remoteReference(of: row)
                else { return nil }
                let directory = row.kind == .directory ? row.item : nil
                if let directory, try database.isOccupiedRemotely(directory) { throw .wouldBlock }
                if engine.departing.needs(row.document) { throw .wouldBlock }
                let place = Place(parent, row.remoteName ?? [])
                try self.rely(on: [parent], moving: directory, changing: [place], for: row.document, database)
                return (row, reference)
            }
        }
        guard let (row, reference) = found else { return try await endDeletion(id, place: nil) }
        engine.log.debug("deleting \(row.document) \(reference.path)")
        engine.counters.providerRequests.add(1, ordering: .relaxed)
        do throws(ProviderError) {
            let base = row.kind == .file ? row.remoteVersion : nil
            if row.kind == .file, row.item == nil, engine.provider.capabilities.trash {
                // A document may be deleted, go on as the file that takes its name, and be deleted again.
                let token = "\(row.document)-\(row.deleted)"
                let kept = try await engine.provider.trash(reference, base: base, as: token)
                engine.counters.deletions.add(1, ordering: .relaxed)
                guard kept != nil else { return try await endDeletion(id, place: nil) }
                return try await endDeletion(id, place: Array(token.utf8), of: row)
            }
            if row.kind == .file, let item = row.item {
                // From here on these bytes are the only ones.
                try await engine.onContentQueue { () throws(Errno) in
                    try engine.live.use(item) { live throws(Errno) in try engine.syncContent(live) }
                    try engine.catalog.synchronize()
                }
            }
            try await engine.provider.delete(reference, base: base)
            engine.counters.deletions.add(1, ordering: .relaxed)
            try await endDeletion(id, place: nil)
        } catch .noSuchItem {
            try await endDeletion(id, place: nil)
        } catch .conflict(let other) {
            // Changed there since: it comes back.
            try await endDeletion(id, place: nil, forget: true)
            if let other { enqueue([.updated(other, directory: reference.path.parent)], seen: 0) }
            requestPoll()
        } catch .directoryNotEmpty {
            try await endDeletion(id, place: nil, forget: true)
            enqueue([.directoryChanged(reference.path.parent)], seen: 0)
        }
    }

    /// The provider knows: documents stay in the trash for a while, directories and refused deletions do not.
    func endDeletion(
        _ id: Int64,
        place: [UInt8]?,
        of sent: TrashRow? = nil,
        forget: Bool = false
    ) async throws(ProviderError) {
        let engine = engine
        let orphan = try await engine.onContentQueue { () throws(Errno) in
            try engine.catalog.write { database throws(Errno) -> ItemID? in
                guard var row = try database.trash(id: id) else {
                    guard var sent, let place else { return nil }
                    // A file took the name and goes on as the document meanwhile: what went is another one now.
                    sent.document = .random()
                    sent.isPending = false
                    sent.place = place
                    try database.insert(sent)
                    return nil
                }
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
