internal import CoveCore
internal import Dispatch
internal import Synchronization

/// One listing of a directory and all who wait for it.
final class PendingListing: Sendable {
    private struct State {
        var waiters: [ObjectIdentifier: (pending: Pending<Void>, whenGone: @Sendable () -> Errno)] = [:]
        /// How often somebody came.
        var joined = 0
        /// When the provider told something last.
        var progress = System.monotonic()
        var work: Task<Void, Never>?
    }

    private let state = EngineMutex(.listing, State())

    /// One more who waits, and what that one is told when the directory goes away meanwhile.
    func join(whenGone: @escaping @Sendable () -> Errno) -> Pending<Void> {
        let pending = Pending<Void>()
        state.withLock { state in
            state.waiters[ObjectIdentifier(pending)] = (pending, whenGone)
            state.joined += 1
        }
        return pending
    }

    /// The provider has told something.
    func noteProgress() { state.withLock { $0.progress = System.monotonic() } }

    /// For how long the provider has told nothing.
    var silence: TimeSpan { System.monotonic() - state.withLock { $0.progress } }

    /// What is ended when nobody comes back for it.
    func carriedOut(by work: Task<Void, Never>) { state.withLock { $0.work = work } }

    /// Somebody waits no more; the listing goes on for a while, for whoever comes next.
    func leave(_ pending: Pending<Void>, _ patience: TimeSpan) {
        let joined = state.withLock { state -> Int? in
            state.waiters[ObjectIdentifier(pending)] = nil
            return state.waiters.isEmpty ? state.joined : nil
        }
        guard let joined else { return }
        Task { [weak self] in
            try? await Task.sleep(for: patience)
            let work = self?.state.withLock { state in
                state.waiters.isEmpty && state.joined == joined ? state.work : nil
            }
            work?.cancel()
        }
    }

    func finish(_ result: Result<Void, Errno>) {
        let waiting = state.withLock { state in
            defer { state.waiters = [:] }
            return state.waiters.values
        }
        for (pending, whenGone) in waiting {
            if case .failure(.stale) = result {
                pending.fulfill(.failure(whenGone()))
            } else {
                pending.fulfill(result)
            }
        }
    }
}

/// Listing directories for the first time.
extension Namespace {
    /// True while a directory's names come in that was not listed before.
    func isBeingListed(_ id: ItemID) -> Bool { listings.withLock { $0[id] != nil } }

    /// Waits for a directory's names; many who ask share one listing.
    func listing(
        of id: ItemID,
        whenGone: @escaping @Sendable () -> Errno = { .stale }
    ) -> Pending<Void> {
        let (listing, isNew) = listings.withLock { listings -> (PendingListing, Bool) in
            if let found = listings[id] { return (found, false) }
            let made = PendingListing()
            listings[id] = made
            return (made, true)
        }
        let pending = listing.join(whenGone: whenGone)
        let limit = configuration.stallLimit
        // Each waiter has its own limit, which is one of silence; the listing itself goes on for the next one, but not for ever.
        let deadline = Task {
            let end = System.monotonic() + limit * Self.longestTelling
            var rest = limit
            while rest > .zero {
                guard (try? await Task.sleep(for: rest)) != nil else { return }
                rest = min(limit - listing.silence, end - System.monotonic())
            }
            if pending.fulfill(.failure(.timedOut)) { listing.leave(pending, limit * 10) }
        }
        pending.onCancel {
            deadline.cancel()
            listing.leave(pending, limit * 10)
        }
        if isNew {
            let work = Task { [self] in
                let result: Result<Void, Errno>
                do throws(ProviderError) {
                    try await list(id) { listing.noteProgress() }
                    result = .success(())
                } catch {
                    log.info("directory \(id): listing failed: \(error)")
                    result = .failure(error.errno)
                }
                listings.withLock { $0[id] = nil }
                listing.finish(result)
                deadline.cancel()
            }
            listing.carriedOut(by: work)
        }
        return pending
    }

    /// How often the account's documents are read for one listing of the root, where not all of them can be had.
    private static let accountReadings = 3

    /// With more changes than these a directory is listed again, which takes them in a page at a time.
    private static let mostEvents = 10_000
    /// For so many limits a program waits for a listing that goes on: a source may tell page after page without an end.
    private static let longestTelling = 20

    /// Brings a directory's names into the catalog page by page and marks it as listed.
    private func list(_ id: ItemID, whenTold: @Sendable () -> Void) async throws(ProviderError) {
        await connected.pass()
        try context.generation.requireExchange()
        guard let sync else { throw .cancelled }
        let done: Void? = try await sync.inPlace(id) { [self] directory throws(ProviderError) in
            try await list(id, at: directory, whenTold: whenTold)
        }
        guard done != nil else { throw .noSuchItem }
    }

    private func list(
        _ id: ItemID,
        at directory: RemoteReference,
        attempt: Int = 0,
        whenTold: @Sendable () -> Void
    ) async throws(ProviderError) {
        let time = clock.monotonic()
        let changes = takenChanges.load(ordering: .acquiring)
        let known = try await onContentQueue { [self] () throws(Errno) in
            try catalog.read { database throws(Errno) -> Set<Int64> in
                var ids: Set<Int64> = []
                try database.eachEntry(of: id, after: 0) { entry in
                    if entry.isUploaded, !entry.isMoved { ids.insert(entry.id) }
                    return true
                }
                return ids
            }
        }
        var unseen = known
        var events: [RemoteChange] = []
        var isLong = false
        var told: Result<Listing, ProviderError>? = await page(nil, of: directory)
        var cost = 0
        let hasIDs = provider.capabilities.stableIDs
        var pages = ListedPages(of: directory.path, at: configuration.source, hasIDs: hasIDs)
        while let listing = try told?.get() {
            whenTold()
            cost += RequestBudget.cost(of: listing)
            _ = try pages.advance(listing)
            if id == .root, attempt < Self.accountReadings, try await heedAccount(listing, seen: time) {
                // From the start: now the folders of containers have the names that they are to have here.
                return try await list(id, at: directory, attempt: attempt + 1, whenTold: whenTold)
            }
            // The provider tells the next page while this one is written.
            async let next: Result<Listing, ProviderError>? = nextPage(after: listing, of: directory)
            let (items, twins) = pages.split(listing.items)
            let (seen, later) = try await onContentQueue { [self] () throws(Errno) in
                try recordTwins(twins, besides: items, in: directory.path)
                return try admit(items, into: id, directory.path, seen: time)
            }
            unseen.subtract(seen)
            events += later
            if events.count > Self.mostEvents { (events, isLong) = ([], true) }
            told = await next
        }
        let missing = unseen
        let removed = try await onContentQueue { [self] () throws(Errno) -> [RemoteChange] in
            try catalog.write { database throws(Errno) in
                try database.markListed(id)
                try self.noteConflicts(in: id, database)
                var gone: [RemoteChange] = []
                for entry in missing {
                    guard let row = try database.entry(id: entry), row.parent == id else { continue }
                    gone.append(.removed(directory.path.appending(FileName(unchecked: row.remoteName ?? row.name))))
                }
                return gone
            }
        }
        kernel?.invalidateAttributes(of: id)
        sync?.noteListed(id, pages: cost)
        events += removed
        // Changes in a directory not listed yet were let pass.
        let mustRepeat = isLong || takenChanges.load(ordering: .acquiring) != changes
        if mustRepeat { events.append(.directoryChanged(directory.path)) }
        if !events.isEmpty { sync?.enqueue(events, seen: time) }
        if known.isEmpty { fetchKept() }
    }

    private func page(_ page: Page?, of directory: RemoteReference) async -> Result<Listing, ProviderError> {
        counters.providerRequests.add(1, ordering: .relaxed)
        do throws(ProviderError) {
            return .success(try await provider.list(directory, page: page))
        } catch {
            return .failure(error)
        }
    }

    /// The page that follows another one; nil after the last.
    private func nextPage(
        after listing: Listing,
        of directory: RemoteReference
    ) async -> Result<Listing, ProviderError>? {
        guard let next = listing.next else { return nil }
        return await page(next, of: directory)
    }

    /// Has the account's own documents read where a listing of the root shows that there are some; true when they were.
    private func heedAccount(_ listing: Listing, seen time: MonotonicTime) async throws(ProviderError) -> Bool {
        guard let reader = context.accountReader.withLock({ $0 }), reader.isNew else { return false }
        let name = DriveFolder.name.bytes
        guard let folder = listing.items.first(where: { $0.name == name && $0.kind == .directory }) else {
            return false
        }
        _ = try await onContentQueue { [self] () throws(Errno) in
            try admit([folder], into: .root, .root, seen: time)
        }
        await reader.readForListing()
        return true
    }

    /// Inserts what is new of one page; what needs more thought comes back as events.
    private func admit(
        _ items: [RemoteItem],
        into id: ItemID,
        _ path: RemotePath,
        seen time: MonotonicTime
    ) throws(Errno) -> (seen: Set<Int64>, later: [RemoteChange]) {
        try catalog.write { database throws(Errno) in
            var seen: Set<Int64> = []
            var later: [RemoteChange] = []
            // Each name is looked for only where there can be something of it.
            let isPlain = try !database.hasElsewhere(id)
            var isFree = isPlain && Self.isAscending(items)
            if isFree { isFree = try !database.hasEntries(id, among: items) }
            let documents = UInt64.random(in: 0 ... .max)
            for remote in items {
                if FileName(unchecked: remote.name).isReserved {
                    later.append(.updated(remote, directory: path))
                    continue
                }
                if let problem = self.problem(with: remote) {
                    try self.recordProblem(path.appending(FileName(unchecked: remote.name)), problem, database)
                    continue
                }
                let here = isFree ? nil : try database.entry(id, remote.name)
                var entry = here
                if !isPlain {
                    entry = try database.entry(remoteParent: id, remoteName: remote.name)
                } else if here?.isUploaded != true || here?.isMoved == true {
                    entry = nil
                }
                if let entry {
                    seen.insert(entry.id)
                    if entry.remoteVersion != remote.contentVersion || entry.remoteMetadata != remote.metadataVersion {
                        later.append(.updated(remote, directory: path))
                    }
                } else if !isPlain, try database.pendingTrash(remoteParent: id, remoteName: remote.name) != nil {
                    continue
                } else if here != nil {
                    later.append(.updated(remote, directory: path))
                } else if try self.isKnown(remote, in: id, isPlain: isPlain, database)
                    || self.sync?.doubt(time, of: nil, at: Place(id, remote.name)) != nil
                {
                    later.append(.updated(remote, directory: path))
                } else {
                    try self.insertRemoteUnlinked(remote, as: .random(high: documents), into: id, database)
                }
            }
            return (seen, later)
        }
    }

    /// True where each name comes after the one before, as most servers have it: none is there twice.
    private static func isAscending(_ items: [RemoteItem]) -> Bool {
        zip(items, items.dropFirst()).allSatisfy { one, next in
            one.name.withUnsafeBytes { one in next.name.withUnsafeBytes { one.lexicographicallyPrecedes($0) } }
        }
    }

    /// True when the document is known at another place.
    private func isKnown(
        _ remote: RemoteItem,
        in id: ItemID,
        isPlain: Bool,
        _ database: Database
    ) throws(Errno) -> Bool {
        // What was sent there and never answered may have arrived, whatever became of the document since.
        if !isPlain, try database.underway(at: Place(id, remote.name)) != nil { return true }
        guard provider.capabilities.stableIDs else { return false }
        if try database.entry(remoteID: remote.id) != nil { return true }
        // Deleted here, and its directory moved there: the deletion follows it.
        return try database.pendingTrash(remoteID: remote.id) != nil
    }

    /// Inserts while a listing goes on: the directory's link count is set at its end.
    private func insertRemoteUnlinked(
        _ remote: RemoteItem,
        as document: DocumentID,
        into id: ItemID,
        _ database: Database
    ) throws(Errno) {
        try insertRemote(remote, as: document, into: id, isNews: false, database)
        if remote.kind == .directory { try database.addLinks(-1, to: id) }
    }

    /// Notes what is left out of a listing, since another item with its id came before.
    func recordTwins(_ twins: [RemoteItem], besides items: [RemoteItem], in directory: RemotePath) throws(Errno) {
        let former = try catalog.glance { database throws(Errno) in
            try database.all("SELECT path FROM problems WHERE message = ?", .text(ListedPages.twinProblem)) {
                $0.blob(0)
            }
        }
        if !former.isEmpty {
            let places = Set(former)
            let gone = items.map { directory.appending(FileName(unchecked: $0.name)).bytes }.filter {
                places.contains($0)
            }
            if !gone.isEmpty {
                try catalog.write { database throws(Errno) in for path in gone { try database.forgetProblem(at: path) }
                }
            }
        }
        if twins.isEmpty { return }
        try catalog.write { database throws(Errno) in
            for twin in twins {
                let path = directory.appending(FileName(unchecked: twin.name))
                try self.recordProblem(path, ListedPages.twinProblem, database)
            }
        }
    }

    func recordProblem(_ path: RemotePath, _ message: String, _ database: Database) throws(Errno) {
        try database.run("INSERT OR REPLACE INTO problems VALUES(?, ?)", .blob(path.bytes), .text(message))
        log.notice("\(path): \(message); it is left out")
    }
}
