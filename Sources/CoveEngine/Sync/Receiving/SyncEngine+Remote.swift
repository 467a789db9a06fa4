internal import CoveCore
internal import Synchronization

/// Taking the provider's changes in.
extension SyncEngine {
    /// What one change of the provider means here.
    enum Decision: Sendable {
        case nothing
        case show(Transition)
        /// Another directory has the name: what is in it is another's too.
        case showReplaced(Transition)
        /// A document is being sent: decide when that is over.
        case wait(DocumentID)
        /// It was sent since: what was seen before says nothing.
        case lookAgain
        /// It may be what was sent and never answered.
        case takeUp(UnderwayRow)
        case removeTree(Int64)
        /// It was deleted here and changed there: it comes back.
        case resurrect(TrashRow)
        /// It is the known version under the name that versions have now.
        case rebase(entry: Int64, item: ItemID, from: ContentVersion)
        /// It was told of a directory that the catalog does not have there.
        case elsewhere
        /// It has a hidden name, and nothing here stands for it.
        case stray
    }

    /// Lists directories again; one that can't be listed keeps no other one from it.
    ///
    /// `mayList`: asked before each; where it says no, the rest is left out.
    func relist(
        all directories: [ItemID],
        while mayList: (ItemID) -> Bool = { _ in true }
    ) async throws(ProviderError) {
        var removed: [RemoteChange] = []
        for directory in directories {
            guard mayList(directory) else { break }
            do throws(ProviderError) {
                removed += try await relist(directory)
            } catch {
                if error.parksAccount { throw error }
                failedListings += 1
                host.log.info("directory \(directory): listing failed: \(error)")
            }
        }
        // A file that left one directory may have come up in another: removals last.
        await take(removed.map { Seen(change: $0, time: .distantPast) })
    }

    static let withoutRoot = ProviderError.serverUnreachable("the folder that this account shows is not there")

    /// Compares a listed directory with the provider's; what is new or changed is taken in, what is gone is returned.
    func relist(_ directory: ItemID) async throws(ProviderError) -> [RemoteChange] {
        let gone = try await whileInPlace(directory) { reference throws(ProviderError) in
            try await self.relist(directory, at: reference)
        }
        return gone ?? []
    }

    private func relist(
        _ directory: ItemID,
        at reference: RemoteReference
    ) async throws(ProviderError) -> [RemoteChange] {
        let host = host
        var names = SeenNames()
        var below: [RemoteChange] = []
        var newcomers: [RemoteItem] = []
        let hasIDs = host.provider.capabilities.stableIDs
        var pages = ListedPages(of: reference.path, at: host.configuration.source, hasIDs: hasIDs)
        var listing: Listing
        let time = clock.monotonic()
        repeat {
            host.counters.providerRequests.add(1, ordering: .relaxed)
            listedPages += 1
            do throws(ProviderError) {
                listing = try await host.provider.list(reference, page: pages.next)
            } catch .noSuchItem {
                // Without a root nothing in it is gone: the disk behind the server may be, or another server answers.
                if reference.path.isRoot { throw Self.withoutRoot }
                return try await isGoneWithParent(reference.path) ? [] : [.removed(reference.path)]
            }
            listedPages += RequestBudget.cost(of: listing) - 1
            for item in listing.items { names.insert(item.name) }
            let (items, twins) = pages.split(listing.items)
            let room = Self.mostNewcomers - newcomers.count
            let (changed, new) = try await host.onContentQueue { () throws(Errno) in
                try host.namespace.recordTwins(twins, besides: items, in: reference.path)
                return try host.catalog.read { database throws(Errno) in
                    let different = try self.different(items, from: directory, database)
                    return try self.split(different, in: directory, upTo: room, database)
                }
            }
            newcomers += new
            var unseen: Set<RemotePath> = []
            for path in changedBelow(changed, in: reference.path) {
                let failures = failedListings
                below += await listAgain(path).map { .removed($0) }
                if failedListings != failures { unseen.insert(path) }
            }
            // What was a directory may have become one of those that are new.
            for remote in changed.filter({ $0.kind == .directory }) + changed.filter({ $0.kind != .directory }) {
                // The version of a directory is recorded when what is below it has been seen.
                if unseen.contains(reference.path.appending(FileName(unchecked: remote.name))) { continue }
                await take([Seen(change: .updated(remote, directory: reference.path), time: time)])
            }
        } while try pages.advance(listing)
        let seen = names
        try await forgetProblems(at: reference.path, except: seen)
        let gone = try await missing(seen, from: directory, at: reference.path)
        return below + (try await take(newcomers, into: directory, at: reference, gone, seen: time))
    }

    /// What the catalog has at a directory of the provider, and a listing has not.
    func missing(
        _ seen: SeenNames,
        from directory: ItemID,
        at path: RemotePath
    ) async throws(ProviderError) -> [RemoteChange] {
        let host = host
        return try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in
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
                        gone.append(.removed(path.appending(FileName(unchecked: name))))
                    }
                    return true
                }
                return gone
            }
        }
    }

    /// Takes changes in, new and moved ones before removals; many removals at once wait for a person.
    func take(_ events: [Seen]) async {
        var removals: [RemotePath] = []
        var listings: [RemotePath] = []
        if !events.isEmpty { host.namespace.noteTakenChanges() }
        for event in events {
            listings += placesNow(of: event)
            switch event.change {
            case .updated(let remote, let directory): await update(remote, directory, seen: event.time)
            case .removed(let path): removals.append(path)
            case .directoryChanged(let path): listings.append(path)
            }
        }
        var listed: Set<RemotePath> = []
        for path in listings where listed.insert(path).inserted {
            if await isKnown(path) { removals += await listAgain(path) } else { await seek(path) }
        }
        await remove(removals)
        if !events.isEmpty { host.namespace.fetchKept() }
    }

    func listAgain(_ path: RemotePath) async -> [RemotePath] {
        let host = host
        do throws(ProviderError) {
            let found = try await host.onContentQueue { () throws(Errno) in
                try host.catalog.read { database throws(Errno) -> ItemID? in
                    guard let id = try database.directory(atRemotePath: path) else { return nil }
                    if try database.item(id)?.residency == .whole { return id }
                    // Of this one only single names were ever asked for, if any.
                    return try database.hasUploadedEntries(id) ? id : nil
                }
            }
            guard let directory = found else { return [] }
            return try await relist(directory).compactMap { change in
                if case .removed(let path) = change { return path }
                return nil
            }
        } catch {
            failedListings += 1
            takeAgain(.directoryChanged(path))
            if error.parksAccount { disconnect(error) }
            return []
        }
    }

    func update(_ first: RemoteItem, _ path: RemotePath, seen firstTime: MonotonicTime) async {
        let host = host
        var remote = first
        var seen = firstTime
        for _ in 0..<20 {
            let (item, time) = (remote, seen)
            let decided = try? await host.onContentQueue { () throws(Errno) in
                try host.catalog.write { database throws(Errno) in
                    try self.decide(item, path, seen: time, database)
                }
            }
            guard let decision = decided else {
                failedListings += 1
                return takeAgain(.updated(remote, directory: path))
            }
            do throws(ProviderError) {
                switch decision {
                case .nothing: return
                case .elsewhere: return await seek(path)
                case .wait(let document):
                    guard await isIdleSoon(document) else {
                        return enqueueOnceIdle(.updated(remote, directory: path), after: document)
                    }
                case .removeTree(let entry):
                    switch await takeRenamed(entry, seen: seen) {
                    case .renamed: continue
                    case .later, .claimed: return
                    case .gone: break
                    }
                    if let document = await documentBeingSent(below: entry) {
                        return enqueueOnceIdle(.updated(remote, directory: path), after: document)
                    }
                    guard await mayRemove([entry]) else { return }
                    if let document = await removeTree(entry, seen: seen) {
                        return enqueueOnceIdle(.updated(remote, directory: path), after: document)
                    }
                case .resurrect(let row):
                    guard try await resurrect(row) else {
                        return enqueueOnceIdle(.updated(remote, directory: path), after: row.document)
                    }
                case .rebase(let entry, let id, let base):
                    let version = remote.contentVersion
                    try await host.onContentQueue { () throws(Errno) in
                        try host.contents.rebase(id, from: base, to: version)
                        try host.catalog.write { database throws(Errno) in
                            try database.run(
                                "UPDATE entries SET remote_version = ? WHERE id = ? AND remote_version = ?",
                                .blob(version.bytes),
                                .int(entry),
                                .blob(base.bytes)
                            )
                        }
                    }
                    continue
                case .stray: return try await takeStray(remote, path)
                case .takeUp(let row):
                    if beginPush(row.document) {
                        defer { endPush(row.document) }
                        try await takeUp(row)
                    } else if await !isIdleSoon(row.document) {
                        return enqueueOnceIdle(.updated(remote, directory: path), after: row.document)
                    }
                    guard let (found, time) = try await lookAgain(remote.name, path) else { return }
                    (remote, seen) = (found, time)
                case .show(let transition), .showReplaced(let transition):
                    let change = RemoteChange.updated(remote, directory: path)
                    let showing = try await show(transition) { [weak self, putOff = PutOff(putOff)] in
                        self?.enqueue([change], seen: .distantPast)
                        putOff.end()
                    }
                    // Others that come behind it don't wait.
                    if showing == .claimed { return }
                    if showing == .shown {
                        if case .showReplaced = decision {
                            await listMerged(remote.name, path)
                        } else if case .insert = transition.kind, remote.kind == .directory {
                            await listMerged(remote.name, path)
                        } else if case .move = transition.kind, remote.kind == .directory {
                            listMoved(remote.name, path)
                        }
                        // What had the name was of another kind: now this one can have it.
                        if case .remove = transition.kind { continue }
                        return
                    }
                    fallthrough
                case .lookAgain:
                    guard let (found, time) = try await lookAgain(remote.name, path) else { return }
                    remote = found
                    seen = time
                }
            } catch {
                // Its directory was not seen as it is.
                failedListings += 1
                takeAgain(.updated(remote, directory: path))
                if error.parksAccount { disconnect(error) }
                host.log.info("\(path)/\(String(decoding: remote.name, as: UTF8.self)): \(error)")
                return
            }
        }
        // Sent again and again meanwhile: later.
        enqueueLater(.updated(remote, directory: path))
    }

    /// What the provider has under a name now, and since when; nil when it has nothing.
    private func lookAgain(
        _ name: [UInt8],
        _ path: RemotePath
    ) async throws(ProviderError) -> (RemoteItem, MonotonicTime)? {
        let host = host
        let directory = try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in try database.directory(atRemotePath: path) }
        }
        guard let directory else {
            await seek(path)
            return nil
        }
        let seen = clock.monotonic()
        return try await look(for: name, in: directory).found.map { ($0, seen) }
    }

    func look(
        for name: [UInt8],
        in directory: ItemID
    ) async throws(ProviderError) -> (found: RemoteItem?, path: RemotePath?) {
        let host = host
        let answer = try await whileInPlace(directory) { place throws(ProviderError) in
            host.counters.providerRequests.add(1, ordering: .relaxed)
            do throws(ProviderError) {
                let found = try await host.provider.lookup(FileName(unchecked: name), in: place)
                return (found as RemoteItem?, place.path as RemotePath?)
            } catch .noSuchItem {
                return (nil, place.path)
            }
        }
        return answer ?? (nil, nil)
    }

    /// A directory made on both sides, or put in the place of another: what the provider has in it comes in.
    private func listMerged(_ name: [UInt8], _ path: RemotePath) async {
        await remove(await listAgain(path.appending(FileName(unchecked: name))))
    }

    /// Ends a deletion that another device's bytes have overtaken, unless that is being sent.
    ///
    /// What was deleted here may have been edited before: these may be its only bytes, and stay in the trash.
    /// False while that goes on.
    private func resurrect(_ row: TrashRow) async throws(ProviderError) -> Bool {
        guard beginPush(row.document) else { return await isIdleSoon(row.document) }
        defer { endPush(row.document) }
        try await endDeletion(row.id, place: nil, forget: row.kind != .file, isSucceeded: true)
        return true
    }
}
