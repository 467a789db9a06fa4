internal import CoveCore
internal import Synchronization

/// Telling a directory that was renamed at the provider from one that was deleted there.
///
/// Where ids don't survive a rename, a renamed directory is one that is gone and one that appeared. It is taken for a
/// rename when most of what was in the one is in the other; then both are listed again, and what differs comes in.
extension SyncEngine {
    /// Listings that are spent on this at once.
    static let renameLooks = 64

    /// Entries are looked at that are among so many of the youngest.
    private static let renameWindow: Int64 = 20_000

    /// Entries that are compared with a directory that is gone.
    private static let mostCandidates = 16

    /// What is known of a directory that is not where it was.
    enum Whereabouts {
        case gone
        /// It was renamed, which is taken in.
        case renamed
        /// It was renamed, which is taken in when the claim on it ends.
        case claimed
        /// Whether it was renamed can't be said now, or can't be taken in: it is looked at again without being asked for.
        case later
    }

    /// Lists what is beside directories that are gone: a new name of theirs may not have been told of yet.
    ///
    /// Returns how many directories were listed; nil when one can't be now: what is gone is looked for again.
    func lookBeside(_ gone: Set<RemotePath>) async -> Int? {
        await lookAround { [self] database throws(Errno) in
            var parents: Set<ItemID> = []
            for path in gone where parents.count < Self.renameLooks {
                guard let parent = try database.directory(atRemotePath: path.parent), let name = path.name,
                    let entry = try database.entry(remoteParent: parent, remoteName: name.bytes),
                    try renamable(entry.id, database) != nil
                else { continue }
                parents.insert(parent)
            }
            return parents
        }
    }

    /// Lists the directories that have appeared since: what is gone may be in one of them.
    ///
    /// Returns as `lookBeside`.
    func lookInside(_ gone: [Int64]) async -> Int? {
        await lookAround { [self] database throws(Errno) in
            var appeared: Set<ItemID> = []
            for id in gone where appeared.count < Self.renameLooks {
                guard let entry = try renamable(id, database) else { continue }
                appeared.formUnion(try self.appeared(after: id, areListed: false, like: entry, database).map(\.item))
            }
            return appeared
        }
    }

    private func lookAround(
        _ find: @escaping @Sendable (Database) throws(Errno) -> Set<ItemID>
    ) async -> Int? {
        guard !isLookingAround else { return 0 }
        isLookingAround = true
        defer { isLookingAround = false }
        let host = host
        let found = try? await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) -> [ItemID: Bool] in
                var directories: [ItemID: Bool] = [:]
                for id in try find(database) { directories[id] = try database.item(id)?.residency == .whole }
                return directories
            }
        }
        var count = 0
        // Where changes are told, what is listed is known as it is.
        for (directory, isListed) in found ?? [:] where !isListed || mustPoll {
            count += 1
            do throws(ProviderError) {
                // Where only names that were made here are known, nothing new would be taken in.
                if !isListed { try await list(directory) }
                // What is missing there is told of by itself.
                _ = try await relist(directory)
            } catch .noSuchItem {
                // It is gone itself.
            } catch {
                host.log.info("directory \(directory): listing failed: \(error)")
                if error.parksAccount { disconnect(error) }
                mustFindMissingAgain()
                return nil
            }
        }
        return count
    }

    /// Lists a directory that never was.
    func list(_ directory: ItemID) async throws(ProviderError) {
        let pending = host.namespace.listing(of: directory)
        let result = await withCheckedContinuation { continuation in
            pending.whenDone { continuation.resume(returning: $0) }
        }
        if case .failure(let error) = result {
            if error == .noSuchEntry { throw .noSuchItem }
            throw .failed("directory \(directory) can't be listed: \(error)", error)
        }
    }

    /// Takes directories that are gone for those that have appeared with the same in them; returns what is gone indeed.
    func takeRenamed(_ entries: [Int64]) async -> [Int64] {
        var gone: [Int64] = []
        var looks = Self.renameLooks
        for id in entries where await takeRenamed(id, seen: nil, &looks).whereabouts == .gone { gone.append(id) }
        return gone
    }

    /// The same for one directory; something else was found in its place at that time.
    func takeRenamed(_ entry: Int64, seen: MonotonicTime) async -> Whereabouts {
        var looks = Self.renameLooks
        return await takeRenamed(entry, seen: seen, &looks).whereabouts
    }

    /// The same for one directory, which may also be one of those that are to be shown at some places, and are not yet.
    ///
    /// Tells the name that it has, where that was found out.
    func takeRenamed(
        _ id: Int64,
        seen: MonotonicTime?,
        _ looks: inout Int,
        orAt places: [Place] = []
    ) async -> (whereabouts: Whereabouts, place: Place?) {
        guard looks > 0 else { return (.gone, nil) }
        let host = host
        let found = try? await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in
                try self.successors(of: id, database)
            }
        }
        guard let (directory, old, appeared) = found ?? nil else { return (.gone, nil) }
        looks -= 1
        for candidate in places + appeared.map(\.place) where looks > 0 {
            looks -= 1
            do throws(ProviderError) {
                let (there, path) = try await look(for: candidate.name, in: candidate.parent)
                guard let there, let path, there.kind == .directory else { continue }
                let place = path.appending(FileName(unchecked: candidate.name))
                guard try await isSame(directory, RemoteReference(id: there.id, path: place)) else { continue }
                guard let seen = if let seen { seen } else { await confirmGone(id) } else { return (.later, candidate) }
                let transition = Transition(
                    kind: .move(entry: id, parent: candidate.parent, name: candidate.name),
                    remote: there,
                    seen: seen
                )
                let showing = try await show(transition) { [weak self, putOff = PutOff(putOff)] in
                    self?.enqueue([.removed(old)], seen: .distantPast)
                    putOff.end()
                }
                switch showing {
                case .claimed: return (.claimed, candidate)
                case .overtaken:
                    enqueueLater(.removed(old))
                    return (.later, candidate)
                case .shown:
                    host.log.debug("\(old) is \(place) now")
                    noteMove(old, place)
                    listMoved(candidate.name, path)
                    return (.renamed, candidate)
                }
            } catch {
                host.log.info("\(old): looking for where it went: \(error)")
                let mayBeThere = if case .throttled = error { true } else { error.parksAccount }
                guard mayBeThere else { continue }
                // Nothing is gone before it was seen that it is not there.
                if error.parksAccount { disconnect(error) }
                mustFindMissingAgain()
                return (.later, candidate)
            }
        }
        return (.gone, nil)
    }

    /// The directories that may be what became of one, the likeliest first; nil where nothing of it would be kept.
    private nonisolated func successors(
        of id: Int64,
        _ database: Database
    ) throws(Errno) -> (directory: ItemID, old: RemotePath, candidates: [EntryRow])? {
        guard let entry = try renamable(id, database), let old = try database.remoteReference(of: entry)?.path else {
            return nil
        }
        let candidates = try appeared(after: id, areListed: false, like: entry, database)
        return (entry.item, old, try outside(entry, candidates, database))
    }

    /// The entry of a directory of which something would be kept if it was only renamed.
    nonisolated func renamable(_ id: Int64, _ database: Database) throws(Errno) -> EntryRow? {
        guard let entry = try database.entry(id: id), entry.isUploaded, !entry.isMoved,
            try database.item(entry.item)?.kind == .directory, try database.hasUploadedEntries(entry.item)
        else { return nil }
        return entry
    }

    /// The directories that came after an entry, newest first; of those for one directory the likeliest few.
    nonisolated func appeared(
        after id: Int64,
        areListed: Bool,
        like entry: EntryRow?,
        _ database: Database
    ) throws(Errno) -> [EntryRow] {
        try database.all(
            """
            SELECT e.* FROM (SELECT * FROM entries WHERE id > ?1 ORDER BY id DESC LIMIT ?4) e
                JOIN items i ON i.id = e.item
            WHERE e.remote_id IS NOT NULL AND e.remote_parent IS NULL AND i.kind = 1 AND i.nlink > 0
                AND CASE WHEN ?5 THEN i.state = 0 ELSE i.state = 1
                    AND NOT EXISTS (SELECT 1 FROM entries c WHERE c.parent = e.item) END
            ORDER BY e.parent = ?2 OR e.name = ?3 DESC, e.id DESC LIMIT ?6
            """,
            .int(id),
            .item(entry?.parent ?? ItemID(0)),
            .blob(entry?.name ?? []),
            .int(Self.renameWindow),
            .flag(areListed),
            .int(entry == nil ? -1 : Int64(Self.mostCandidates)),
            read: { EntryRow($0) }
        )
    }

    /// Those of the candidates that are not in the directory's own tree.
    private nonisolated func outside(
        _ entry: EntryRow,
        _ candidates: [EntryRow],
        _ database: Database
    ) throws(Errno) -> [EntryRow] {
        var outside: [EntryRow] = []
        for candidate in candidates where try !database.directory(candidate.parent, isInside: entry.item) {
            outside.append(candidate)
        }
        return outside
    }

    /// True when most of what a directory has here is at a place of the provider.
    ///
    /// Where it has directories alone, the first of them is looked into.
    private func isSame(_ directory: ItemID, _ place: RemoteReference) async throws(ProviderError) -> Bool {
        let host = host
        var (directory, place) = (directory, place)
        for _ in 0..<16 {
            host.counters.providerRequests.add(1, ordering: .relaxed)
            let listing = try await host.provider.list(place, page: nil)
            let known = directory
            let below = try await host.onContentQueue { () throws(Errno) in
                try host.catalog.read { database throws(Errno) in
                    try self.compare(known, listing, database)
                }
            }
            guard below.isSame else { return false }
            guard let next = below.next else { return true }
            place = RemoteReference(id: next.id, path: place.path.appending(FileName(unchecked: next.name)))
            directory = next.directory
        }
        return true
    }

    /// Compares a directory with the first page of a listing; tells which directory says more, when no file does.
    private nonisolated func compare(
        _ directory: ItemID,
        _ listing: Listing,
        _ database: Database
    ) throws(Errno) -> (isSame: Bool, next: (directory: ItemID, id: RemoteID, name: [UInt8])?) {
        var (listed, same, files) = (0, 0, 0)
        var next: (directory: ItemID, id: RemoteID, name: [UInt8])?
        for remote in listing.items where !FileName(unchecked: remote.name).isReserved {
            listed += 1
            guard let entry = try database.entry(remoteParent: directory, remoteName: remote.name),
                let row = try database.item(entry.item), row.kind == remote.kind
            else { continue }
            if row.kind == .directory {
                same += 1
                if next == nil, try database.hasUploadedEntries(row.id) { next = (row.id, remote.id, remote.name) }
            } else if entry.remoteVersion == remote.contentVersion {
                same += 1
                files += 1
            }
        }
        let here = try database.uploadedEntries(of: directory)
        let all = listing.next == nil ? max(listed, here) : listed
        return (same > all / 2, files > 0 ? nil : next)
    }

    /// How many of directories that are gone, and of all below them, are also in ones that appeared and were listed since.
    ///
    /// Each of those accounts for one. No more are looked for once there are enough.
    nonisolated func accounted(_ gone: [Int64], enough: Int, _ database: Database) throws(Errno) -> Int {
        let ids = Set(gone)
        var appeared = try appeared(after: gone.min() ?? 0, areListed: true, like: nil, database)
        appeared.removeAll { ids.contains($0.id) }
        var sum = 0
        for id in gone where sum < enough && !appeared.isEmpty {
            guard let entry = try renamable(id, database) else { continue }
            var best: (count: Int, candidate: Int64)?
            for candidate in try outside(entry, likeliest(appeared, for: entry), database) {
                let count = try shared(entry.item, candidate.item, database)
                if count > best?.count ?? 0 { best = (count, candidate.id) }
            }
            guard let best else { continue }
            appeared.removeAll { $0.id == best.candidate }
            sum += best.count
        }
        return sum
    }

    /// Those few of the directories, newest first, that an entry which is gone is compared with.
    private nonisolated func likeliest(_ appeared: [EntryRow], for entry: EntryRow) -> [EntryRow] {
        var likely: [EntryRow] = []
        var others: [EntryRow] = []
        for other in appeared {
            if other.id <= entry.id || likely.count == Self.mostCandidates { break }
            if other.parent == entry.parent || other.name == entry.name {
                likely.append(other)
            } else if others.count < Self.mostCandidates {
                others.append(other)
            }
        }
        return likely + others.prefix(Self.mostCandidates - likely.count)
    }

    /// How many documents two directories have in common, themselves among them.
    private nonisolated func shared(_ first: ItemID, _ second: ItemID, _ database: Database) throws(Errno) -> Int {
        var pairs = [(first, second)]
        var count = 0
        while let (old, new) = pairs.popLast() {
            count += 1
            var children: [EntryRow] = []
            try database.eachEntry(of: old, after: 0) { child in
                children.append(child)
                return true
            }
            for child in children where child.isUploaded && !child.isMoved {
                guard let twin = try database.entry(remoteParent: new, remoteName: child.name),
                    let row = try database.item(child.item), let other = try database.item(twin.item),
                    row.kind == other.kind
                else { continue }
                if row.kind == .directory {
                    pairs.append((row.id, other.id))
                } else if child.remoteVersion == twin.remoteVersion {
                    count += 1
                }
            }
        }
        return count
    }

    /// A directory that was moved there: what was told of it under another path is looked for again.
    func listMoved(_ name: [UInt8], _ path: RemotePath) {
        let top = path.appending(FileName(unchecked: name))
        let found = try? host.catalog.read { database throws(Errno) -> [RemoteChange] in
            guard let id = try database.directory(atRemotePath: top) else { return [] }
            return try self.listings(below: id, database)
        }
        enqueue(found ?? [], seen: .distantPast)
    }

    /// The changes that have a directory and all below it there listed again, as far as somebody has listed them.
    ///
    /// What was moved away here and not there yet is among it, what was moved into it here is not.
    nonisolated func listings(below top: ItemID, _ database: Database) throws(Errno) -> [RemoteChange] {
        var directories = [top]
        var changes: [RemoteChange] = []
        // Places there and here together may form a ring for a while.
        var visited: Set<ItemID> = []
        while let directory = directories.popLast() {
            guard visited.insert(directory).inserted else { continue }
            guard try database.item(directory)?.residency == .whole else { continue }
            if let place = try database.remoteReference(ofDirectory: directory) {
                changes.append(.directoryChanged(place.path))
            }
            directories += try database.all(
                """
                SELECT e.item FROM entries e JOIN items i ON i.id = e.item
                WHERE (e.remote_parent = ?1 OR e.remote_parent IS NULL AND e.parent = ?1) AND i.kind = 1
                """,
                .item(directory)
            ) { $0.item(0) }
        }
        return changes
    }
}
