internal import CoveCore
internal import Synchronization

/// Telling a provider which keeps something for files in use that nobody uses one any more.
///
/// What it gave bytes of is in the catalog until it has answered to that: a death here or there only delays it.
final class ReleaseNotices: Sendable {
    private struct State {
        var isTelling = false
        /// Something is to be told since those who tell have looked.
        var hasMore = false
    }

    private static let longestPause = TimeSpan.seconds(60)

    /// Items of which the catalog says that bytes of them were given.
    private let given = RareTable<ItemID, Void>()
    private let state = EngineMutex(.releases, State())

    /// True for the first bytes of an item since the provider was told of it last.
    func isFirst(_ id: ItemID) -> Bool { given.update { $0.updateValue((), forKey: id) == nil } }

    func isGiven(_ id: ItemID) -> Bool { given[id] != nil }

    /// The next bytes of an item are the first again.
    func forget(_ id: ItemID) { given.remove(id) }

    /// True for the one who is to tell.
    func begin() -> Bool {
        state.withLock { state in
            defer { (state.isTelling, state.hasMore) = (true, state.isTelling) }
            return !state.isTelling
        }
    }

    /// True when there is nothing more to tell; else one more look is due.
    func end() -> Bool {
        state.withLock { state in
            defer { state.hasMore = false }
            if !state.hasMore { state.isTelling = false }
            return !state.hasMore
        }
    }

    /// How long to rest after so many attempts in vain.
    static func pause(after attempts: Int) -> TimeSpan {
        let pause = min(longestPause, TimeSpan.milliseconds(250).doubled(min(attempts, 10)))
        return .random(in: pause / 2...pause)
    }
}

extension SyncEngine {
    /// An item of which the provider gave bytes.
    private struct Given: Sendable {
        let number: Int64
        /// Where it is at the provider, or was when it gave the bytes.
        let place: RemoteReference
    }

    nonisolated func noteGiven(_ id: ItemID, at place: RemoteReference) async {
        guard host.provider.capabilities.releases, releases.isFirst(id) else { return }
        let host = host
        do throws(ProviderError) {
            try await host.onContentQueue { () throws(Errno) in
                try host.catalog.write { database throws(Errno) in
                    try database.run(
                        """
                        INSERT INTO given(item, number, path) VALUES(?1, 1, ?2)
                            ON CONFLICT(item) DO UPDATE SET number = number + 1, path = ?2
                        """,
                        .item(id),
                        .blob(place.path.bytes)
                    )
                }
            }
        } catch {
            host.log.info("item \(id): that it is in use can't be kept: \(error)")
            releases.forget(id)
        }
    }

    nonisolated func noteIdle(_ id: ItemID) {
        guard releases.isGiven(id), !isInUse(id) else { return }
        tellReleases()
    }

    private nonisolated func isInUse(_ id: ItemID) -> Bool {
        let live = host.contents.live
        if live.isOpen(id) { return true }
        return live.find(id)?.state.withLock { !$0.fetching.fetches.isEmpty } ?? false
    }

    /// Tells the provider of all that nobody uses any more; also of what an earlier daemon left.
    nonisolated func tellReleases() {
        guard host.provider.capabilities.releases, releases.begin() else { return }
        Task { [weak self] in
            var attempts = 0
            while let isTold = await self?.tellRound() {
                if isTold {
                    attempts = 0
                } else {
                    attempts += 1
                    try? await Task.sleep(for: ReleaseNotices.pause(after: attempts))
                }
            }
        }
    }

    /// One look at everything; false when the provider did not take something, nil when there is nothing more to do.
    private func tellRound() async -> Bool? {
        await host.connected.pass()
        guard !isStopped else { return nil }
        var (last, isTaken) = (ItemID(0), true)
        while !isStopped {
            do throws(ProviderError) {
                guard let item = try await nextGiven(after: last) else { break }
                last = item
                guard let given = try await given(item) else { continue }
                // Bytes that it gives from here on are another use.
                releases.forget(item)
                if isInUse(item) {
                    _ = releases.isFirst(item)
                    // Whoever ended it just now found nothing to tell.
                    if !isInUse(item) { _ = releases.begin() }
                } else if try await tell(given.place) {
                    try await forget(item, given.number)
                } else {
                    isTaken = false
                }
            } catch {
                host.log.info("it can't be told that nobody uses a file: \(error)")
                return false
            }
        }
        guard isTaken else { return false }
        return releases.end() ? nil : true
    }

    private func nextGiven(after last: ItemID) async throws(ProviderError) -> ItemID? {
        let host = host
        return try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in
                try database.first("SELECT item FROM given WHERE item > ? ORDER BY item LIMIT 1", .item(last)) {
                    $0.item(0)
                }
            }
        }
    }

    private func given(_ item: ItemID) async throws(ProviderError) -> Given? {
        let host = host
        return try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) -> Given? in
                let found = try database.first("SELECT number, path FROM given WHERE item = ?", .item(item)) {
                    ($0.int(0), RemoteReference(id: nil, path: RemotePath(unchecked: $0.blob(1))))
                }
                guard let (number, former) = found else { return nil }
                for entry in try database.entries(of: item) {
                    if let place = try database.remoteReference(of: entry) {
                        return Given(number: number, place: place)
                    }
                }
                // It has lost its name, as by a save that put another file in its place.
                return Given(number: number, place: former)
            }
        }
    }

    /// False when it is to be told again; throws where nothing can be told now.
    private func tell(_ place: RemoteReference) async throws(ProviderError) -> Bool {
        host.counters.providerRequests.add(1, ordering: .relaxed)
        do throws(ProviderError) {
            try await host.provider.released(place)
            return true
        } catch {
            if error.parksAccount { throw error }
            switch error {
            // There is nothing that anything could be kept for.
            case .noSuchItem, .unsupported: return true
            default:
                host.log.info("\(place.path): the source was not told that nobody uses it: \(error)")
                return false
            }
        }
    }

    private func forget(_ item: ItemID, _ number: Int64) async throws(ProviderError) {
        let host = host
        try await host.onContentQueue { () throws(Errno) in
            try host.catalog.write { database throws(Errno) in
                try database.run("DELETE FROM given WHERE item = ? AND number = ?", .item(item), .int(number))
            }
        }
    }
}
