internal import CoveCore
internal import Synchronization

/// Taking the provider's changes in.
extension SyncEngine {
    /// What one change of the provider means here.
    private enum Decision: Sendable {
        case nothing
        case show(Transition)
        case list(RemotePath)
        /// A document is being sent: decide when that is over.
        case wait(DocumentID)
        case removeTree(Int64)
        case resurrect(trash: Int64)
    }

    /// Asks for the changes after the last known place, and takes them in.
    func poll() async {
        let engine = engine
        let stored = try? engine.catalog.read { database throws(Errno) in try database.meta("anchor") }
        var anchor = stored.map { Anchor($0) }
        if mustListAgain { anchor = nil }
        mustListAgain = false
        do throws(ProviderError) {
            if anchor == nil { anchor = try await startAnchor() }
            var more = true
            while more, !Task.isCancelled {
                engine.counters.providerRequests.add(1, ordering: .relaxed)
                let changes: Changes
                do throws(ProviderError) {
                    changes = try await engine.provider.changes(since: anchor)
                } catch .anchorExpired {
                    anchor = try await startAnchor()
                    continue
                }
                await take(changes.events)
                anchor = changes.anchor
                more = changes.moreComing
                try await save(changes.anchor)
            }
        } catch {
            if error.parksAccount { disconnect(error) } else { engine.log.info("polling failed: \(error)") }
        }
    }

    /// A new place to follow changes from: taken first, then everything listed is listed again.
    private func startAnchor() async throws(ProviderError) -> Anchor {
        let engine = engine
        engine.counters.providerRequests.add(1, ordering: .relaxed)
        let anchor = try await engine.provider.changes(since: nil).anchor
        let listed = try await engine.onContentQueue { () throws(Errno) in
            try engine.catalog.read { database throws(Errno) in
                try database.all("SELECT id FROM items WHERE kind = 1 AND state = 0 AND nlink > 0 ORDER BY id") {
                    $0.item(0)
                }
            }
        }
        var removed: [RemoteChange] = []
        for directory in listed { removed += try await relist(directory) }
        // A file that left one directory may have come up in another: removals last.
        await take(removed)
        try await save(anchor)
        return anchor
    }

    private func save(_ anchor: Anchor) async throws(ProviderError) {
        // What was held back must be found missing again, after a restart too.
        if mustListAgain { return }
        let engine = engine
        try await engine.onContentQueue { () throws(Errno) in
            let known = try engine.catalog.read { database throws(Errno) in try database.meta("anchor") }
            guard known != anchor.bytes else { return }
            try engine.catalog.write { database throws(Errno) in try database.setMeta("anchor", anchor.bytes) }
        }
    }

    /// Compares a listed directory with the provider's; what is new or changed is taken in, what is gone is returned.
    private func relist(_ directory: ItemID) async throws(ProviderError) -> [RemoteChange] {
        let gone = try await whileInPlace(directory) { reference throws(ProviderError) in
            try await self.relist(directory, at: reference)
        }
        return gone ?? []
    }

    private func relist(
        _ directory: ItemID,
        at reference: RemoteReference
    ) async throws(ProviderError) -> [RemoteChange] {
        let engine = engine
        var names: Set<[UInt8]> = []
        var page: Page?
        repeat {
            engine.counters.providerRequests.add(1, ordering: .relaxed)
            let listing: Listing
            do throws(ProviderError) {
                listing = try await engine.provider.list(reference, page: page)
            } catch .noSuchItem {
                return reference.path.isRoot ? [] : [.removed(reference.path)]
            }
            names.formUnion(listing.items.map(\.name))
            let items = listing.items
            let changed = try await engine.onContentQueue { () throws(Errno) in
                try engine.catalog.read { database throws(Errno) in
                    try self.different(items, from: directory, database)
                }
            }
            await take(changed.map { .updated($0, directory: reference.path) })
            page = listing.next
        } while page != nil
        let seen = names
        return try await engine.onContentQueue { () throws(Errno) in
            try engine.catalog.read { database throws(Errno) in
                var gone: [RemoteChange] = []
                try database.each(
                    """
                    SELECT coalesce(remote_name, name) FROM entries WHERE remote_id IS NOT NULL
                        AND (remote_parent = ?1 OR remote_parent IS NULL AND parent = ?1)
                    """,
                    .item(directory)
                ) { row in
                    let name = row.blob(0)
                    if !seen.contains(name), !FileName(unchecked: name).isReserved {
                        gone.append(.removed(reference.path.appending(FileName(unchecked: name))))
                    }
                    return true
                }
                return gone
            }
        }
    }

    /// The items that the catalog does not know exactly so.
    private nonisolated func different(
        _ items: [RemoteItem],
        from directory: ItemID,
        _ database: Database
    ) throws(Errno) -> [RemoteItem] {
        var changed: [RemoteItem] = []
        for remote in items {
            let entry = try database.entry(remoteParent: directory, remoteName: remote.name)
            let isSame =
                entry?.remoteID == remote.id && entry?.remoteVersion == remote.contentVersion
                && entry?.remoteMetadata == remote.metadataVersion
            if !isSame { changed.append(remote) }
        }
        return changed
    }

    /// Takes changes in, new and moved ones before removals; many removals at once wait for a person.
    func take(_ events: [RemoteChange]) async {
        var removals: [RemotePath] = []
        var listings: [RemotePath] = []
        for event in events {
            if let place = movedPlace(of: event) {
                listings.append(place)
                continue
            }
            switch event {
            case .updated(let remote, let directory): await update(remote, directory)
            case .removed(let path): removals.append(path)
            case .directoryChanged(let path): listings.append(path)
            }
        }
        for path in listings { removals += await listAgain(path) }
        await remove(removals)
    }

    /// The directory to list instead, when a change was told of a place that was moved away by a push since.
    private func movedPlace(of event: RemoteChange) -> RemotePath? {
        guard !recentMoves.isEmpty else { return nil }
        let told: RemotePath
        switch event {
        case .updated(_, let directory): told = directory
        case .removed(let path): told = path.parent
        case .directoryChanged(let path): told = path
        }
        let isKnown = try? engine.catalog.read { database throws(Errno) in
            try database.directory(atRemotePath: told) != nil
        }
        if isKnown != false { return nil }
        var path = told
        for (old, new) in recentMoves where path == old || path.isInside(old) {
            path = RemotePath(new.names + path.names.dropFirst(old.names.count))
        }
        return path == told ? nil : path
    }

    private func listAgain(_ path: RemotePath) async -> [RemotePath] {
        let engine = engine
        let found = try? await engine.onContentQueue { () throws(Errno) in
            try engine.catalog.read { database throws(Errno) -> ItemID? in
                guard let id = try database.directory(atRemotePath: path),
                    try database.item(id)?.residency == .whole
                else { return nil }
                return id
            }
        }
        guard let directory = found else { return [] }
        do throws(ProviderError) {
            return try await relist(directory).compactMap { change in
                if case .removed(let path) = change { return path }
                return nil
            }
        } catch {
            if error.parksAccount { disconnect(error) }
            return []
        }
    }

    private func update(_ remote: RemoteItem, _ path: RemotePath) async {
        let engine = engine
        for _ in 0..<8 {
            let decided = try? await engine.onContentQueue { () throws(Errno) in
                try engine.catalog.write { database throws(Errno) in try self.decide(remote, path, database) }
            }
            guard let decision = decided else { return }
            do throws(ProviderError) {
                switch decision {
                case .nothing, .removeTree: return
                case .wait(let document): await waitUntilIdle(document)
                case .list(let path):
                    await remove(await listAgain(path))
                    return
                case .resurrect(let trash):
                    try await resurrect(trash)
                case .show(let transition):
                    try await show(transition)
                    if case .insert(let parent, let name) = transition.kind, remote.kind == .directory {
                        await listMerged(parent, name, path)
                    }
                    return
                }
            } catch {
                engine.log.info("\(path)/\(String(decoding: remote.name, as: UTF8.self)): \(error)")
                return
            }
        }
    }

    /// A directory made on both sides became one: what the provider has in it comes in.
    private func listMerged(_ parent: ItemID, _ name: [UInt8], _ path: RemotePath) async {
        await remove(await listAgain(path.appending(FileName(unchecked: name))))
    }

    private func resurrect(_ trash: Int64) async throws(ProviderError) {
        let engine = engine
        try await engine.onContentQueue { () throws(Errno) in
            try engine.catalog.write { database throws(Errno) in try database.deleteTrash(trash) }
        }
    }

    /// Compares what the provider has with the catalog; changes nothing but acknowledged places.
    private nonisolated func decide(
        _ remote: RemoteItem,
        _ path: RemotePath,
        _ database: Database
    ) throws(Errno) -> Decision {
        guard let directory = try database.directory(atRemotePath: path), let row = try database.item(directory),
            row.kind == .directory, !FileName(unchecked: remote.name).isReserved
        else { return .nothing }
        if let problem = engine.problem(with: remote) {
            try engine.recordProblem(path.appending(FileName(unchecked: remote.name)), problem, database)
            return .nothing
        }
        if let entry = try database.entry(remoteParent: directory, remoteName: remote.name) {
            return try decideKnown(entry, remote, database)
        }
        if engine.provider.capabilities.stableIDs, let entry = try database.entry(remoteID: remote.id) {
            return try decideMoved(entry, remote, to: directory, database)
        }
        if let trashed = try database.pendingTrash(remoteParent: directory, remoteName: remote.name) {
            if isPushing(trashed.document) { return .wait(trashed.document) }
            // Deleted here; only other bytes than the deleted ones bring it back.
            let isSame = remote.kind == trashed.kind && trashed.remoteVersion == remote.contentVersion
            return isSame || remote.kind == .directory ? .nothing : .resurrect(trash: trashed.id)
        }
        if engine.provider.capabilities.stableIDs, var trashed = try database.pendingTrash(remoteID: remote.id),
            trashed.kind == remote.kind, trashed.remoteVersion == remote.contentVersion
        {
            if isPushing(trashed.document) { return .wait(trashed.document) }
            // Deleted here, and moved there before: the deletion follows it.
            trashed.remoteParent = directory
            trashed.remoteName = remote.name
            try database.update(trashed)
            return .nothing
        }
        // A directory that was never listed is listed when something opens it.
        guard row.residency == .whole else { return .nothing }
        if let occupant = try database.entry(directory, remote.name) {
            if isPushing(occupant.document) { return .wait(occupant.document) }
            // An attempt to send it may have arrived: the push finds out whether this is it.
            if !occupant.isUploaded, try database.journalRow(occupant.id)?.wasSent == true { return .nothing }
            if !occupant.isUploaded, remote.kind == .file, try database.journalRow(occupant.id) != nil {
                // The push compares the two before it calls them a conflict.
                try database.run("UPDATE journal SET changed = 0, retry = 0 WHERE entry = ?", .int(occupant.id))
                engine.wakeSync()
                return .nothing
            }
        }
        return .show(Transition(kind: .insert(parent: directory, name: remote.name), remote: remote))
    }

    private nonisolated func decideKnown(
        _ entry: EntryRow,
        _ remote: RemoteItem,
        _ database: Database
    ) throws(Errno) -> Decision {
        let row = try database.existingItem(entry.item)
        if isPushing(entry.document) { return .wait(entry.document) }
        if row.kind != remote.kind {
            return row.kind == .directory
                ? .removeTree(entry.id) : .show(Transition(kind: .remove(entry: entry.id), remote: nil))
        }
        if row.kind == .directory {
            if entry.remoteMetadata == remote.metadataVersion, entry.remoteID == remote.id { return .nothing }
            return .show(Transition(kind: .metadata(entry: entry.id), remote: remote))
        }
        if entry.remoteVersion == remote.contentVersion {
            if entry.remoteMetadata == remote.metadataVersion { return .nothing }
            return .show(Transition(kind: .metadata(entry: entry.id), remote: remote))
        }
        if entry.hasUnsentContent(generation: row.generation),
            try database.journalRow(entry.id)?.wasSent == true
        {
            // An attempt to send it may have arrived: the push finds out whether this is it.
            try database.run("UPDATE journal SET changed = 0, retry = 0 WHERE entry = ?", .int(entry.id))
            engine.wakeSync()
            return .nothing
        }
        return .show(Transition(kind: .replace(entry: entry.id), remote: remote))
    }

    private nonisolated func decideMoved(
        _ entry: EntryRow,
        _ remote: RemoteItem,
        to directory: ItemID,
        _ database: Database
    ) throws(Errno) -> Decision {
        if isPushing(entry.document) { return .wait(entry.document) }
        let row = try database.existingItem(entry.item)
        guard row.kind == remote.kind else { return .nothing }
        if let occupant = try database.entry(directory, remote.name), occupant.id != entry.id, occupant.isUploaded,
            !occupant.isMoved, row.kind != .directory
        {
            // The place is another document's, which must have left it too: its bytes become these.
            return .show(Transition(kind: .replace(entry: occupant.id), remote: remote))
        }
        if try database.item(directory)?.residency != .whole, row.kind == .directory { return .nothing }
        guard !entry.isMoved else {
            // Moved on both sides: the place here stays and is sent.
            var moved = entry
            moved.remoteParent = directory
            moved.remoteName = remote.name
            if moved.parent == directory, moved.name == remote.name {
                moved.remoteParent = nil
                moved.remoteName = nil
            }
            try database.update(moved)
            return .nothing
        }
        return .show(
            Transition(kind: .move(entry: entry.id, parent: directory, name: remote.name), remote: remote)
        )
    }

    /// Removes documents that are gone at the provider.
    private func remove(_ paths: [RemotePath]) async {
        guard !paths.isEmpty else { return }
        let engine = engine
        let found = try? await engine.onContentQueue { () throws(Errno) in
            try engine.catalog.read { database throws(Errno) -> ([Int64], documents: Int, total: Int) in
                var entries: [Int64] = []
                var documents = 0
                for path in Set(paths) {
                    guard let name = path.name, let parent = try database.directory(atRemotePath: path.parent),
                        let entry = try database.entry(remoteParent: parent, remoteName: name.bytes)
                    else { continue }
                    entries.append(entry.id)
                    documents += try self.tree(below: entry, database).count
                }
                let total = try database.first("SELECT count(*) FROM entries WHERE remote_id IS NOT NULL") { $0.int(0) }
                return (entries, documents, Int(total ?? 0))
            }
        }
        guard let (entries, documents, total) = found, !entries.isEmpty else { return }
        if documents > SyncEngine.deletionBrake, documents * 2 > total, !acceptsDeletions {
            shared.withLock { $0.heldRemovals = documents }
            engine.log.notice("the source no longer has \(documents) of \(total) documents: waiting for approval")
            // The next poll lists again, and finds them missing again.
            mustListAgain = true
            _ = try? engine.catalog.write { database throws(Errno) in try database.setMeta("anchor", nil) }
            return
        }
        shared.withLock { $0.heldRemovals = 0 }
        acceptsDeletions = false
        for entry in entries where await isConfirmedGone(entry) { await removeTree(entry) }
    }

    /// Asks for the name once more: what was sent since the change was noticed is not gone.
    private func isConfirmedGone(_ id: Int64) async -> Bool {
        let engine = engine
        func entry() async -> EntryRow? {
            let found = try? await engine.onContentQueue { () throws(Errno) in
                try engine.catalog.read { database throws(Errno) in try database.entry(id: id) }
            }
            return found ?? nil
        }
        if let document = await entry()?.document { await waitUntilIdle(document) }
        guard let known = await entry(), known.isUploaded else { return false }
        // Moved here too: the push finds out what became of it.
        guard !known.isMoved else {
            wake()
            return false
        }
        let name = FileName(unchecked: known.name)
        do throws(ProviderError) {
            let found = try await whileInPlace(known.parent) { directory throws(ProviderError) in
                self.engine.counters.providerRequests.add(1, ordering: .relaxed)
                do throws(ProviderError) {
                    return (try await self.engine.provider.lookup(name, in: directory) as RemoteItem?, directory.path)
                } catch .noSuchItem {
                    return (nil, directory.path)
                }
            }
            guard let (remote, directory) = found else { return false }
            guard let remote else { return await entry()?.document == known.document }
            await update(remote, directory)
            return false
        } catch {
            if error.parksAccount { disconnect(error) }
            return false
        }
    }

    /// The entries of a tree, deepest first.
    private nonisolated func tree(below root: EntryRow, _ database: Database) throws(Errno) -> [EntryRow] {
        var result = [root]
        var index = 0
        while index < result.count {
            let entry = result[index]
            try database.eachEntry(of: entry.item, after: 0) { child in
                result.append(child)
                return true
            }
            index += 1
        }
        return result.reversed()
    }

    private func removeTree(_ id: Int64) async {
        let engine = engine
        let tree: [EntryRow]? = try? await engine.onContentQueue { () throws(Errno) in
            try engine.catalog.read { database throws(Errno) -> [EntryRow] in
                guard let entry = try database.entry(id: id) else { return [] }
                return try self.tree(below: entry, database)
            }
        }
        for entry in tree ?? [] {
            await waitUntilIdle(entry.document)
            // What was never sent stays, and keeps its directories.
            guard entry.isUploaded else { continue }
            do throws(ProviderError) {
                try await show(Transition(kind: .remove(entry: entry.id), remote: nil))
            } catch {
                engine.log.info("removing entry \(entry.id): \(error)")
            }
        }
    }
}
