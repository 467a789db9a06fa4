internal import CoveCore
internal import Synchronization

/// Directories that a listing shows for the first time, where another one has gone from it.
///
/// They wait for the listing's end: what became of a directory that was renamed is never shown beside it.
extension SyncEngine {
    /// As many directories of a listing wait for its end; those after them are taken in as they come.
    static let mostNewcomers = 1000

    /// Tells directories that nothing is known of here from all else, and what has taken the name of a directory.
    ///
    /// That one may have become one of the new ones, which come before.
    /// Where ids survive a rename, they tell it.
    nonisolated func split(
        _ items: [RemoteItem],
        in directory: ItemID,
        upTo count: Int,
        _ database: Database
    ) throws(Errno) -> (others: [RemoteItem], newcomers: [RemoteItem]) {
        guard !host.provider.capabilities.stableIDs else { return (items, []) }
        var (others, newcomers) = ([RemoteItem](), [RemoteItem]())
        for remote in items {
            var waits = newcomers.count < count ? try isUnknown(remote, in: directory, database) : false
            if remote.kind != .directory,
                let entry = try database.entry(remoteParent: directory, remoteName: remote.name)
            {
                waits = try database.item(entry.item)?.kind == .directory
            }
            if waits { newcomers.append(remote) } else { others.append(remote) }
        }
        return (others, newcomers)
    }

    /// True for a directory whose name is nothing's here, and of nothing that is to be sent.
    private nonisolated func isUnknown(
        _ remote: RemoteItem,
        in directory: ItemID,
        _ database: Database
    ) throws(Errno) -> Bool {
        guard remote.kind == .directory, !FileName(unchecked: remote.name).isReserved,
            host.namespace.problem(with: remote) == nil
        else { return false }
        if try database.entry(directory, remote.name) != nil { return false }
        if try database.entry(remoteParent: directory, remoteName: remote.name) != nil { return false }
        // It may be one of here that was moved there, which was not answered.
        if try database.underway(at: Place(directory, remote.name)) != nil { return false }
        return try database.pendingTrash(remoteParent: directory, remoteName: remote.name) == nil
    }

    /// Takes in the new directories of a listing: as what is gone from it, where they are that, else by themselves.
    ///
    /// Returns what is gone indeed and is not taken in yet.
    func take(
        _ appeared: [RemoteItem],
        into directory: ItemID,
        at reference: RemoteReference,
        _ missing: [RemoteChange],
        seen time: MonotonicTime
    ) async throws(ProviderError) -> [RemoteChange] {
        let path = reference.path
        var (newcomers, gone) = try await withoutMoves(appeared, missing, directory, reference)
        if !newcomers.isEmpty, !gone.isEmpty {
            var looks = Self.renameLooks
            for (id, name) in await directories(gone, in: directory) where !newcomers.isEmpty {
                guard let id else {
                    // Nobody has looked into it: nothing tells whether it is one of these. It goes before they come.
                    await remove([path.appending(FileName(unchecked: name))])
                    continue
                }
                let places = newcomers.filter { $0.kind == .directory }.map { Place(directory, $0.name) }
                let (whereabouts, place) = await takeRenamed(id, seen: nil, &looks, orAt: places)
                guard let place, whereabouts == .renamed || whereabouts == .claimed else { continue }
                // It is shown by its new name, or will be when the claim ends; not as another one before.
                if place.parent == directory { newcomers.removeAll { $0.name == place.name } }
                let old = path.appending(FileName(unchecked: name))
                gone.removeAll { if case .removed(old) = $0 { true } else { false } }
            }
        }
        let folders = newcomers.filter { $0.kind == .directory }
        for remote in folders + newcomers.filter({ $0.kind != .directory }) {
            await take([Seen(change: .updated(remote, directory: path), time: time)])
        }
        return gone
    }

    /// Leaves out what is a part of a move that goes on at the source, which is taken in when it has ended.
    private func withoutMoves(
        _ newcomers: [RemoteItem],
        _ gone: [RemoteChange],
        _ directory: ItemID,
        _ reference: RemoteReference
    ) async throws(ProviderError) -> (newcomers: [RemoteItem], gone: [RemoteChange]) {
        guard !newcomers.isEmpty || !gone.isEmpty, let moves = try await movesUnderway() else {
            return (newcomers, gone)
        }
        host.counters.providerRequests.add(1, ordering: .relaxed)
        let path = reference.path
        let places = moves.flatMap { [$0.from, $0.to] }
        if places.contains(where: { $0 == path || $0.parent == path || path.isInside($0) }) {
            enqueueLater(.directoryChanged(path))
            let isMoving = moves.contains { $0.from == path || path.isInside($0.from) }
            let arriving = Set(moves.map(\.to))
            let leaving = Set(moves.map(\.from))
            let others = newcomers.filter { !arriving.contains(path.appending(FileName(unchecked: $0.name))) }
            let lost = gone.filter { if case .removed(let path) = $0 { !leaving.contains(path) } else { true } }
            return (others, isMoving ? [] : lost)
        }
        // One that has ended since the listing began would be seen by halves.
        var names = SeenNames()
        var pages = ListedPages(of: path, at: host.configuration.source)
        var listing: Listing
        repeat {
            host.counters.providerRequests.add(1, ordering: .relaxed)
            do throws(ProviderError) {
                listing = try await host.provider.list(reference, page: pages.next)
            } catch .noSuchItem {
                if path.isRoot { throw Self.withoutRoot }
                return ([], [.removed(path)])
            }
            for item in listing.items { names.insert(item.name) }
        } while try pages.advance(listing)
        let seen = names
        return (newcomers.filter { seen.contains($0.name) }, try await missing(seen, from: directory, at: path))
    }

    /// The moves that go on; nil also where the source does not tell: then what it shows is taken as it is.
    private func movesUnderway() async throws(ProviderError) -> [DirectoryMove]? {
        do throws(ProviderError) { return try await host.provider.movesUnderway() } catch {
            if error.parksAccount { throw error }
            host.log.info("asking for moves that go on: \(error)")
            return nil
        }
    }

    /// The directories among what is gone from a listing; an entry where something of it would be kept if it was renamed.
    private func directories(
        _ gone: [RemoteChange],
        in directory: ItemID
    ) async -> [(renamable: Int64?, name: [UInt8])] {
        let host = host
        let names = gone.compactMap { change -> [UInt8]? in
            if case .removed(let path) = change { path.name?.bytes } else { nil }
        }
        let found = try? await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) -> [(renamable: Int64?, name: [UInt8])] in
                var found: [(renamable: Int64?, name: [UInt8])] = []
                for name in names where found.count < Self.renameLooks {
                    guard let entry = try database.entry(remoteParent: directory, remoteName: name), !entry.isMoved,
                        try database.item(entry.item)?.kind == .directory
                    else { continue }
                    found.append((try self.renamable(entry.id, database)?.id, name))
                }
                return found
            }
        }
        return found ?? []
    }
}
