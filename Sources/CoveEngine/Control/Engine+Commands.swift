public import CoveCore
internal import Dispatch
internal import Synchronization

/// What people ask the account to do.
extension Engine {
    /// Keeps a document, or all below a directory, on this disk; or no longer does.
    public func setPinned(_ path: RemotePath, _ pinned: Bool) throws(Errno) {
        try namespace.setPinned(try item(of: path), pinned)
    }

    /// Gives a document, or a directory and all below it that has no other, a policy.
    public func setPolicy(_ path: RemotePath, _ policy: ContentPolicy) throws(Errno) {
        try namespace.setPolicy(try item(of: path), policy, clearing: false)
    }

    private func item(of path: RemotePath) throws(Errno) -> ItemID {
        try catalog.read { database throws(Errno) in try database.entry(atPath: path)?.item ?? .root }
    }

    /// Sends what waits without settling, and asks the provider for its changes.
    public func sync(_ path: RemotePath?, acceptDeletions: Bool, acceptLocalDeletions: Bool) async {
        for item in contents.live.all() { try? contents.save(item, closing: false) }
        await syncEngine?.sync(acceptDeletions: acceptDeletions, acceptLocalDeletions: acceptLocalDeletions)
    }

    /// Waits until all is sent and fetched that can be, something waits for a person, or time is up.
    ///
    /// What has failed is told at the end, and keeps nothing else from being waited for; nor is what the process that asks, or
    /// one above it, claims itself.
    public func waitUntilSettled(
        _ path: RemotePath?,
        timeout: TimeSpan?,
        for process: Int32? = nil
    ) async -> SyncReport {
        let deadline = timeout.map { clock.monotonic() + $0 } ?? .distantFuture
        while true {
            let status = accountStatus()
            let isBusy = syncEngine?.shared.withLock { $0.isBusy } ?? false
            let remaining = status.queuedOperations
            let isSettled = remaining == 0 && !isBusy && status.state == "idle"
            let isOffline = status.state == "offline" && status.reason != nil && timeout == nil
            // A look at the source that is going on may find that nothing waits any more.
            let isWaiting = status.state == "waiting-for-approval" && !isBusy
            let isPaused = ["paused", "paused-not-migrated"].contains(status.state)
            let isStuck = isWaiting || isPaused || isOffline || status.standstill != nil
            let hasFailed = !isBusy && remaining > 0 && !canSendMore() && hasFailures()
            let isHeld =
                process.map { remaining > 0 && !isBusy && ((try? coordinator.isAllHeld(by: $0)) ?? false) } ?? false
            if isSettled || isStuck || hasFailed || isHeld || clock.monotonic() >= deadline {
                var errors = status.errors.filter { $0.retryInSeconds != nil }
                if let reason = status.reason {
                    errors.append(ItemError(path: "/", message: reason, retryInSeconds: nil))
                }
                if isHeld {
                    let message = "what waits is claimed by the program that asks: it is sent when the claim ends"
                    errors.append(ItemError(path: "/", message: message, retryInSeconds: nil))
                }
                if let still = status.standstill, !errors.contains(where: { $0.path == still.path }) {
                    errors.append(ItemError(path: still.path, message: still.reason, retryInSeconds: nil))
                }
                return SyncReport(isSettled: isSettled, remaining: remaining, errors: errors)
            }
            try? await Task.sleep(for: .milliseconds(20))
        }
    }

    /// True while something waits that neither failed nor waits for what did.
    private func canSendMore() -> Bool {
        let found = try? catalog.read { database throws(Errno) in try database.canSendMore() }
        return found ?? false
    }

    private func hasFailures() -> Bool {
        let found = try? catalog.read { database throws(Errno) in try database.hasFailures() }
        return found ?? false
    }

    /// Stops sending; the tree goes on to work.
    public func pause() async { await syncEngine?.setPaused(true) }

    /// Goes on to send.
    public func resume() async { await syncEngine?.setPaused(false) }

    /// Deleted documents that can be restored, newest first.
    public func trash() -> [TrashEntry] {
        let rows = (try? catalog.read { database throws(Errno) in try database.trash(pending: nil) }) ?? []
        return rows.reversed().compactMap { row in
            guard row.kind != .directory else { return nil }
            return TrashEntry(
                documentID: row.document.description,
                path: row.path.description,
                time: row.deleted.secondsSinceEpoch,
                size: row.size,
                location: row.item != nil ? "local" : "remote"
            )
        }
    }

    /// Puts a deleted document back where it was, or beside what has taken its name; returns its path.
    public func restore(_ documentID: String) async throws(Errno) -> RemotePath {
        guard let document = DocumentID(documentID) else { throw .invalidArgument }
        let rows = try catalog.read { database throws(Errno) in try database.trash(pending: nil) }
        guard let row = rows.last(where: { $0.document == document && $0.kind != .directory }) else {
            throw .noSuchEntry
        }
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
        if row.isPending || row.item != nil {
            restored = try restoreLocally(row, directory, last)
        } else {
            restored = try await restoreRemotely(row, directory, last)
        }
        kernel?.invalidateEntry(directory, restored.name)
        wakeSync()
        return restored.path
    }

    private func freeName(_ parent: ItemID, _ name: FileName, _ database: Database) throws(Errno) -> [UInt8] {
        var candidate = name
        var number = 1
        // What is excluded keeps its name for itself.
        func isTaken() throws(Errno) -> Bool {
            if try database.isExcluded(Place(parent, candidate.bytes)) { return true }
            return try database.entry(parent, candidate.bytes) != nil
        }
        while try isTaken() {
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
            // Its bytes are only in the cloud, which has nothing of that folder.
            if trashed.item == nil, try self.namespace.keepsOut(parent, database) { throw .crossDevice }
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
            try database.touch(parent, modified: true, at: clock.now())
            try database.note(.created, entry: id, item: item, parent: parent)
            let directory = try database.path(ofDirectory: parent) ?? .root
            return (name, directory.appending(FileName(unchecked: name)))
        }
    }

    private func restoreRemotely(
        _ row: TrashRow,
        _ parent: ItemID,
        _ last: FileName
    ) async throws(Errno) -> (name: [UInt8], path: RemotePath) {
        guard let sync = syncEngine, let place = row.place else { throw .noSuchEntry }
        let (directory, name) = try catalog.read { database throws(Errno) -> (RemoteReference?, [UInt8]) in
            if try namespace.keepsOut(parent, database) { throw .crossDevice }
            return (try database.remoteReference(ofDirectory: parent), try self.freeName(parent, last, database))
        }
        guard let directory else { throw .busy }
        let remote: RemoteItem
        do throws(ProviderError) {
            remote = try await sync.move(
                sync.trashReference(place),
                nil,
                directory,
                FileName(unchecked: name)
            )
        } catch {
            throw error.errno
        }
        return try catalog.write { database throws(Errno) in
            try database.deleteTrash(row.id)
            // The change feed may have been quicker.
            if try database.entry(parent, name) == nil {
                var entry = try self.namespace.insertRemote(remote, into: parent, name: name, database)
                // It may have left the cloud, and go on here.
                if try database.entry(document: row.document) == nil { entry.document = row.document }
                try database.update(entry)
            }
            let path = try database.path(ofDirectory: parent) ?? .root
            return (name, path.appending(FileName(unchecked: name)))
        }
    }

    /// Deletes trashed documents for good; returns how many.
    public func emptyTrash(olderThan age: TimeSpan?) async -> Int {
        await syncEngine?.expireTrash(olderThan: age ?? .zero) ?? 0
    }
}
