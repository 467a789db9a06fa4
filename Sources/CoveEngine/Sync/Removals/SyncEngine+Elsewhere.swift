internal import CoveCore
internal import Synchronization

/// Finding what is not where this device left it, since another one has moved or replaced the directory that it is in.
extension SyncEngine {
    /// For so long one document is looked for.
    private static let search = TimeSpan.seconds(12)
    /// For so long one is that has a hidden name: nobody but this device moves it, or others with its directory, which takes
    /// them many steps in a bucket.
    private static let searchForHidden = TimeSpan.seconds(60)
    /// So often it is looked for at least.
    private static let leastLooks = 6
    /// For so long the directory is that one is to be made in.
    private static let searchForDirectory = TimeSpan.seconds(6)
    /// Directories that are listed for it at once, of those that nobody has opened yet.
    private static let mostListings = 64

    /// How long to rest before a document that was not there is looked for again; nil when it is gone.
    ///
    /// Another device may have moved its directory: then that is found before anything else is taken for granted. An item
    /// under a hidden name was put there by this device alone, so that its directory is another one or has moved.
    func restBeforeLook(
        for document: DocumentID,
        at reference: RemoteReference,
        in parent: ItemID?
    ) async throws(ProviderError) -> TimeSpan? {
        if reference.path.name?.isPassing == true {
            return try await restBeforeLook(forHidden: document, at: reference, in: parent)
        }
        guard let count = noteLook(for: document, within: Self.search), let parent,
            try await mayBeElsewhere(reference, parent)
        else {
            looks[document] = nil
            return nil
        }
        enqueue([.directoryChanged(reference.path.parent.parent)], seen: .distantPast)
        requestPoll()
        return .milliseconds(200).doubled(min(count, 4))
    }

    /// The same for an item that this device has hidden, whose directory may not be known here any more: once that is
    /// listed where it is now, the item is followed there.
    ///
    /// Where that directory is in its place, the item is gone, unless others may have brought it back to light.
    func restBeforeLook(
        forHidden document: DocumentID,
        at reference: RemoteReference?,
        in parent: ItemID?,
        mayBeGone: Bool = true
    ) async throws(ProviderError) -> TimeSpan? {
        if mayBeGone, let reference, try await isInPlace(reference.path.parent, parent) {
            looks[document] = nil
            return nil
        }
        guard let count = noteLook(for: document, within: Self.searchForHidden) else {
            looks[document] = nil
            return nil
        }
        if let reference { enqueue([.directoryChanged(reference.path.parent.parent)], seen: .distantPast) }
        requestPoll()
        if count > 0 { Task { await lookInsideUnlisted() } }
        return .milliseconds(200).doubled(min(count, 4))
    }

    /// True when a directory is the one that the catalog has there, as far as that can be told: what was hidden in it and is not
    /// there is gone.
    private func isInPlace(_ path: RemotePath, _ directory: ItemID?) async throws(ProviderError) -> Bool {
        guard let name = path.name else { return true }
        let host = host
        guard host.provider.capabilities.stableIDs, let directory else { return false }
        let known = try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in
                try database.remoteReference(ofDirectory: directory)?.id
            }
        }
        host.counters.providerRequests.add(1, ordering: .relaxed)
        do throws(ProviderError) {
            return try await host.provider.lookup(name, in: RemoteReference(id: nil, path: path.parent)).id == known
        } catch .noSuchItem {
            return false
        }
    }

    /// Notes that a document is looked for once more; how often it was before, or nil when that goes on for too long.
    ///
    /// Others' events make a look come early: what counts is the time.
    private func noteLook(for document: DocumentID, within limit: TimeSpan) -> Int? {
        let now = clock.monotonic()
        if looks.count > looksLimit {
            looks = looks.filter { now - $0.value.first < Self.searchForHidden + Self.searchForHidden }
            looksLimit = max(1000, 2 * looks.count)
        }
        let look = looks[document] ?? (first: now, count: 0)
        // While the source was away nobody looked.
        guard now - look.first < limit || look.count < Self.leastLooks else { return nil }
        looks[document] = (look.first, look.count + 1)
        return look.count
    }

    /// How long to rest before a document is sent again whose directory was not there; nil when that goes on.
    ///
    /// The directory has moved or is gone there: the change feed tells more, or has told it in vain. What that leads to
    /// takes a while, and nothing has failed meanwhile.
    func restBeforeDirectory(of document: DocumentID, at path: RemotePath) -> TimeSpan? {
        let count = noteLook(for: document, within: Self.searchForDirectory)
        requestPoll()
        if count ?? .max > 1, !path.isRoot { enqueue([.removed(path)], seen: .distantPast) }
        return count.map { .milliseconds(200).doubled(min($0, 4)) }
    }

    /// True when a directory is not the one at the provider that the catalog has there, or was not a moment ago.
    private func mayBeElsewhere(
        _ reference: RemoteReference,
        _ parent: ItemID
    ) async throws(ProviderError) -> Bool {
        let path = reference.path.parent
        guard let name = path.name else { return false }
        let host = host
        let known = try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in try database.remoteReference(ofDirectory: parent)?.id }
        }
        host.counters.providerRequests.add(2, ordering: .relaxed)
        if let last = reference.path.name, try await isThere(last, in: RemoteReference(id: known, path: path)) {
            return true
        }
        do throws(ProviderError) {
            let there = try await host.provider.lookup(name, in: RemoteReference(id: nil, path: path.parent))
            return there.kind != .directory || host.provider.capabilities.stableIDs && there.id != known
        } catch .noSuchItem {
            return true
        }
    }

    /// Lists the youngest directories that nobody has opened yet: what is hidden in them is found by that.
    private func lookInsideUnlisted() async {
        let host = host
        let found = try? await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in
                try self.appeared(after: 0, areListed: false, like: nil, database).prefix(Self.mostListings).map(\.item)
            }
        }
        for directory in found ?? [] {
            do throws(ProviderError) {
                try await list(directory)
            } catch {
                host.log.info("directory \(directory): listing failed: \(error)")
                if error.parksAccount { return }
            }
        }
    }

    private func isThere(_ name: FileName, in directory: RemoteReference) async throws(ProviderError) -> Bool {
        do throws(ProviderError) {
            _ = try await host.provider.lookup(name, in: directory)
            return true
        } catch .noSuchItem {
            return false
        }
    }

    /// What an item under a hidden name means here: one that this device hid is followed into the directory it is in now.
    nonisolated func decideHidden(
        _ name: FileName,
        _ remote: RemoteItem,
        in directory: ItemID,
        seen: MonotonicTime,
        _ database: Database
    ) throws(Errno) -> Decision {
        guard try isStray(name, in: directory, database) else { return .nothing }
        guard let document = PassingName(name)?.document else { return .stray }
        let place = Place(directory, name.bytes)
        if let answer = answer(seen, document, place) { return answer }
        if var underway = try database.underway(document), underway.place.name == name.bytes {
            underway.place = place
            try database.beginUnderway(underway)
            return .takeUp(underway)
        }
        if var entry = try database.entry(document: document) {
            guard entry.isUploaded, entry.remoteName == name.bytes,
                try database.existingItem(entry.item).kind == remote.kind
            else { return .stray }
            entry.remoteParent = directory
            entry.remoteID = remote.id
            try database.update(entry)
            try database.enqueue(entry.id, at: .epoch)
            host.wakeSync()
            return .nothing
        }
        guard var trashed = try database.trash(document: document), trashed.kind == remote.kind, trashed.place == nil,
            trashed.isPending || trashed.remoteVersion == remote.contentVersion, trashed.remoteName == name.bytes
        else { return .stray }
        trashed.isPending = true
        trashed.remoteParent = directory
        trashed.retry = .epoch
        try database.update(trashed)
        host.wakeSync()
        return .nothing
    }
}

extension ProviderError {
    /// True when nothing, or something else, is where an item was.
    var meansElsewhere: Bool {
        switch self {
        case .noSuchItem, .conflict: true
        default: false
        }
    }
}
