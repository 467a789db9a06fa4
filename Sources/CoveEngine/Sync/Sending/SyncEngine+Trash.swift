internal import CoveCore
internal import Synchronization

/// Sending deletions, and keeping what was deleted.
extension SyncEngine {
    /// Sends one deletion, whose document is reserved: by a move into the provider's trash where its bytes are only there.
    func deleteRemotely(_ id: Int64, _ queued: QueueRow) async {
        let host = host
        do throws(ProviderError) {
            if try await sendDeletion(id) { noteProgress(queued) }
        } catch .failed(_, .wouldBlock) {
            block(queued)
        } catch .throttled(let pause) {
            throttle(queued, pause)
        } catch {
            if error == .cancelled { return }
            if error.parksAccount { return disconnect(error) }
            host.log.info("trash \(id): deleting failed: \(error)")
            _ = try? host.catalog.write { database throws(Errno) in
                guard var row = try database.trash(id: id) else { return }
                row.attempts += 1
                row.retry = self.retryTime(row.attempts)
                // What somebody holds a lock on is free again soon.
                row.error = error == .busy && row.attempts < 8 ? nil : "\(error)"
                try database.update(row)
            }
        }
    }

    private nonisolated func retryTime(_ attempts: Int64) -> Timestamp {
        let delay = min(Self.longestPause, TimeSpan.seconds(1).doubled(min(attempts, 9)))
        return host.journalTime() + .random(in: delay / 2...delay)
    }

    /// Sends one deletion, whose document is reserved; false when it has to be tried again, for it is not where it was.
    ///
    /// `mayDestroy`: false for a document that is to be put back. Where the source does not take it into its trash it is left
    /// there, and the deletion goes on waiting.
    func sendDeletion(_ id: Int64, mayDestroy: Bool = true) async throws(ProviderError) -> Bool {
        let host = host
        let row = try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in try database.trash(id: id) }
        }
        if let row {
            let document = row.document
            if let parent = row.remoteParent { try await takeUpFolders(above: parent) }
            _ = try await takeUpUnanswered(document)
            // Nor is a folder deleted before it is known what has arrived in it.
            guard try await takeUpAll(below: id, for: document) else {
                try await rest(id, .milliseconds(200))
                return false
            }
        }
        let found = try await host.onContentQueue { () throws(Errno) in
            try host.catalog.write { database throws(Errno) -> (TrashRow, RemoteReference, keepsThere: Bool)? in
                guard let row = try database.trash(id: id), row.isPending, let parent = row.remoteParent,
                    let reference = try database.remoteReference(of: row)
                else { return nil }
                let directory = row.kind == .directory ? row.item : nil
                if let directory, try database.isOccupiedRemotely(directory) { throw .wouldBlock }
                if host.contents.departing.needs(row.document) { throw .wouldBlock }
                let place = Place(parent, row.remoteName ?? [])
                try self.rely(on: [parent], moving: directory, changing: [place], for: row.document, database)
                let isHere = try database.keepsAllBytes(of: row)
                return (row, reference, row.kind == .file && !isHere && self.host.provider.capabilities.trash)
            }
        }
        guard let (row, reference, keepsThere) = found else {
            try await endDeletion(id, place: nil)
            return true
        }
        try await host.onContentQueue { () throws(Errno) in
            // What has left the cloud, and stays, has the only bytes from here on; and that it stays is durable.
            let kept = try host.catalog.read { database throws(Errno) in
                try database.entry(document: row.document)?.item
            }
            if let kept {
                try host.contents.live.use(kept) { live throws(Errno) in try host.contents.syncContent(live) }
            }
            if !row.wasSent {
                try host.catalog.write { database throws(Errno) in try database.markTrashSent(row.id) }
            }
            try host.catalog.syncLog()
        }
        host.log.debug("deleting \(row.document) \(reference.path)")
        host.counters.providerRequests.add(1, ordering: .relaxed)
        do throws(ProviderError) {
            let base: ContentVersion? =
                switch row.kind {
                case .file: row.remoteVersion
                // Another device's file may have its name by now.
                case .directory: .directory
                default: nil
                }
            if keepsThere {
                // A document may be deleted, go on as the file that takes its name, and be deleted again.
                let token = "\(row.document)-\(row.deleted.millisecondsSinceEpoch)"
                if try await host.provider.trash(reference, base: base, as: token) != nil {
                    try await endDeletion(id, place: Array(token.utf8), of: row)
                    noteSent(deletion: row)
                    return true
                }
                // It has none for this one, and has done nothing.
                guard mayDestroy else { return true }
                host.counters.providerRequests.add(1, ordering: .relaxed)
            }
            if row.kind == .file, let item = row.item {
                // From here on these bytes are the only ones.
                try await host.onContentQueue { () throws(Errno) in
                    try host.contents.live.use(item) { live throws(Errno) in try host.contents.syncContent(live) }
                    try host.catalog.synchronize()
                }
            }
            try await host.provider.delete(reference, base: base)
            try await endDeletion(id, place: nil, of: row)
            noteSent(deletion: row)
            if row.kind == .directory { await lookAtSuccessor(of: reference) }
        } catch .noSuchItem {
            if let pause = try await restBeforeLook(for: row.document, at: reference, in: row.remoteParent) {
                try await rest(row.id, pause)
                return false
            }
            try await endDeletion(id, place: nil)
            await lookAtSuccessor(of: reference)
        } catch .conflict(let other) {
            // Changed there since: it comes back.
            if let hidden = reference.path.name, hidden.isPassing {
                let name = PassingName(hidden)?.original ?? row.path.name ?? Self.recoveredName(hidden)
                let there = RemoteReference(id: other?.id, path: reference.path)
                try await bringToLight(there, other?.kind ?? row.kind, as: name, isMerging: false)
            }
            // What was deleted here may have been edited before, or be gone there, too: these may be its only bytes.
            try await endDeletion(id, place: nil, forget: row.kind != .file, isSucceeded: true)
            if let other { enqueue([.updated(other, directory: reference.path.parent)], seen: .distantPast) }
            requestPoll()
        } catch .directoryNotEmpty {
            // It was hidden to make room for what has its name now: what came into it meanwhile is to be seen.
            if let hidden = reference.path.name, hidden.isPassing {
                let name = PassingName(hidden)?.original ?? row.path.name ?? Self.recoveredName(hidden)
                try await bringToLight(reference, .directory, as: name, isMerging: true)
            }
            try await endDeletion(id, place: nil, forget: true)
            enqueue([.directoryChanged(reference.path.parent)], seen: .distantPast)
        } catch .notPermitted(let why) {
            // Whoever stands between may have said so, and just now.
            let wasRefused = row.error?.hasPrefix("\(ProviderError.notPermitted(""))") == true
            guard row.attempts >= Self.refusals, wasRefused else { throw .notPermitted(why) }
            try await takeBack(row, reference, why)
        }
        return true
    }

    /// After so many refusals a deletion is given up.
    private static let refusals: Int64 = 3

    /// What may not be deleted comes back: what is here is what the provider has.
    private func takeBack(_ row: TrashRow, _ reference: RemoteReference, _ why: String) async throws(ProviderError) {
        if let hidden = reference.path.name, hidden.isPassing {
            let name = PassingName(hidden)?.original ?? row.path.name ?? Self.recoveredName(hidden)
            try await bringToLight(reference, row.kind, as: name, isMerging: row.kind == .directory)
        }
        host.log.notice("\(row.path): it comes back, for the source refused its deletion: \(why)")
        try await endDeletion(row.id, place: nil)
        enqueue([.directoryChanged(reference.path.parent)], seen: .distantPast)
    }

    /// Has a deletion tried again after so long.
    private func rest(_ id: Int64, _ pause: TimeSpan) async throws(ProviderError) {
        let host = host
        let retry = host.journalTime() + pause
        try await host.onContentQueue { () throws(Errno) in
            try host.catalog.write { database throws(Errno) in try database.postponeTrash(id, retry: retry) }
        }
    }

    /// Takes in what has the name of a deleted item by now: it was not shown while that was to be deleted.
    private func lookAtSuccessor(of reference: RemoteReference) async {
        guard host.provider.capabilities.stableIDs, let name = reference.path.name else { return }
        let parent = RemoteReference(id: nil, path: reference.path.parent)
        guard let other = try? await host.provider.lookup(name, in: parent) else { return }
        enqueue([.updated(other, directory: parent.path)], seen: .distantPast)
    }

    /// The provider knows: documents stay in the trash for a while, directories and refused deletions do not.
    func endDeletion(
        _ id: Int64,
        place: [UInt8]?,
        of sent: TrashRow? = nil,
        forget: Bool = false,
        isSucceeded: Bool = false
    ) async throws(ProviderError) {
        let host = host
        if !forget, place == nil { try await keepOwnBytes(of: id) }
        let orphan = try await host.onContentQueue { () throws(Errno) in
            try host.catalog.write { database throws(Errno) -> ItemID? in
                guard var row = try database.trash(id: id) else {
                    guard var sent else { return nil }
                    // A file took the name and goes on as the document meanwhile: that is made anew.
                    if var heir = try database.entry(document: sent.document), heir.isUploaded,
                        heir.remoteID == sent.remoteID, heir.remoteVersion == sent.remoteVersion,
                        let row = try database.item(heir.item), row.kind == .directory || row.residency == .whole
                    {
                        try self.forgetRemote(&heir, row, database)
                    }
                    guard let place else { return nil }
                    // What went is another one now.
                    sent.document = .random()
                    sent.isPending = false
                    sent.place = place
                    try database.insert(sent)
                    return nil
                }
                // Somebody else has brought it to its end.
                guard row.isPending else { return nil }
                // A part of a file is nothing without the rest.
                let isHere = try database.keepsAllBytes(of: row)
                if forget || row.kind == .directory || !isHere && place == nil {
                    try database.deleteTrash(id)
                    return row.item
                }
                // What comes back is the document.
                if isSucceeded { row.document = .random() }
                row.isPending = false
                row.place = place
                row.error = nil
                try database.update(row)
                return nil
            }
        }
        if let orphan { await dropOrphan(orphan) }
    }

    /// What a program has written into a deleted file may be nowhere else: it is kept, though the rest was only at the source.
    private func keepOwnBytes(of id: Int64) async throws(ProviderError) {
        let host = host
        try await host.onContentQueue { () throws(Errno) in
            // Its name tells what it lacks before zeros stand for it.
            let item = try host.catalog.write { database throws(Errno) -> ItemID? in
                guard let row = try database.trash(id: id), row.isPending, row.kind == .file, let item = row.item,
                    let content = try database.item(item), content.residency == .partial, content.linkCount == 0,
                    try host.contents.hasOwnBytes(content, database)
                else { return nil }
                if let name = row.path.name, !name.description.contains(" (incomplete from ") {
                    let marked = name.inserting(" (incomplete from \(host.configuration.hostName))")
                    let path = row.path.parent.appending(marked)
                    try database.run("UPDATE trash SET path = ? WHERE id = ?", .blob(path.bytes), .int(id))
                }
                return item
            }
            if let item { try host.contents.endWithoutBase(item) }
        }
    }

    private func dropOrphan(_ id: ItemID) async {
        let host = host
        _ = try? await host.onContentQueue { () throws(Errno) in host.contents.dropOrphan(id) }
    }

    /// Deletes for good what has been in the trash for so long; returns how many documents.
    @discardableResult
    func expireTrash(olderThan age: TimeSpan) async -> Int {
        let host = host
        let limit = host.journalTime() - age
        let rows = (try? host.catalog.read { database throws(Errno) in try database.trash(pending: false) }) ?? []
        var count = 0
        for row in rows where row.deleted <= limit {
            if let place = row.place {
                let reference = trashReference(place)
                do throws(ProviderError) {
                    try await host.provider.delete(reference, base: nil)
                } catch {
                    if error != .noSuchItem { continue }
                }
            }
            _ = try? host.catalog.write { database throws(Errno) in try database.deleteTrash(row.id) }
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

extension Database {
    /// True where the trash has all bytes of a document on this device.
    func keepsAllBytes(of row: TrashRow) throws(Errno) -> Bool {
        guard let item = row.item else { return false }
        return try self.item(item)?.residency == .whole
    }
}
