internal import CoveCore
internal import Synchronization

/// Following what the provider tells of changes.
extension SyncEngine {
    /// More parts of changes are not taken in at one time; the next poll goes on after them.
    private static let mostParts = 10_000

    /// Asks for the changes after the last known place, and takes them in.
    func poll() async {
        let host = host
        heedPutOff()
        let stored = try? host.catalog.read { database throws(Errno) in try database.meta("anchor") }
        var anchor = stored.map { Anchor($0) }
        if mustListAgain { anchor = nil }
        mustListAgain = false
        do throws(ProviderError) {
            var isListed = false
            do throws(ProviderError) { isListed = try await takeChanges(since: anchor) } catch {
                // One that tells what can't be, or nothing, is listed all the same.
                guard case .failed = error else { throw error }
                host.log.info("\(host.configuration.source): changes: \(error)")
            }
            if mustPoll {
                let everywhere = pollsEverywhere
                pollsEverywhere = false
                if !isListed { try await pollDirectories(everywhere: everywhere) }
            } else if mustLookAround {
                mustLookAround = false
                if !isListed { try await pollDirectories(everywhere: false) }
            }
        } catch {
            if error.parksAccount { disconnect(error) } else { host.log.info("polling failed: \(error)") }
        }
    }

    /// Takes in what the provider tells; true where an anchor had expired, and everything was listed again instead.
    private func takeChanges(since known: Anchor?) async throws(ProviderError) -> Bool {
        let host = host
        var isListed = known == nil
        var (hasExpired, hasNews) = (false, false)
        var trail = Trail(limit: Self.mostParts)
        var anchor: Anchor
        if let known { anchor = known } else { anchor = try await startAnchor() }
        var more = true
        while more, !Task.isCancelled {
            host.counters.providerRequests.add(1, ordering: .relaxed)
            let seen = clock.monotonic()
            let changes: Changes
            do throws(ProviderError) {
                changes = try await host.provider.changes(since: anchor)
            } catch .anchorExpired {
                hasExpired = true
                // A source may have no use for any anchor: the next poll asks after the new one.
                if isListed { break }
                anchor = try await startAnchor()
                isListed = true
                continue
            }
            await take(changes.events.map { Seen(change: $0, time: seen) })
            if !changes.events.isEmpty { hasNews = true }
            anchor = changes.anchor
            more = changes.moreComing
            try await save(changes.anchor)
            if more, !trail.goOn(to: anchor.bytes, hasNew: !changes.events.isEmpty) {
                host.log.notice("\(host.configuration.source): changes: they have no end; some directories are listed")
                // Nobody knows what it has not told.
                mustLookAround = true
                // It may only be long.
                if hasNews { requestPoll() }
                break
            }
        }
        return hasExpired
    }

    /// A new place to follow changes from: taken first, then everything listed is listed again.
    private func startAnchor() async throws(ProviderError) -> Anchor {
        let host = host
        host.counters.providerRequests.add(1, ordering: .relaxed)
        let anchor = try await host.provider.changes(since: nil).anchor
        let listed = try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in
                // Also those that were never listed, where single names were asked for, or a recovery left documents of no
                // version.
                try database.all(
                    """
                    SELECT id FROM items WHERE kind = 1 AND nlink > 0 AND (state = 0 OR EXISTS (
                        SELECT 1 FROM entries WHERE parent = items.id AND remote_id IS NOT NULL))
                    UNION SELECT parent FROM entries WHERE remote_version = x'' AND remote_parent IS NULL
                    UNION SELECT remote_parent FROM entries WHERE remote_version = x'' AND remote_parent IS NOT NULL
                    ORDER BY 1
                    """
                ) { $0.item(0) }
            }
        }
        shared.withLock { $0.heldRemovals = 0 }
        let failures = failedListings
        try await relist(all: listed)
        // What was not seen is looked for again; who is polled is listed again in any case.
        if mustPoll || failedListings == failures { try await save(anchor) }
        return anchor
    }

    private func save(_ anchor: Anchor) async throws(ProviderError) {
        // What was held back must be found missing again, after a restart too.
        if mustListAgain { return }
        let host = host
        // Nobody tells again of what was told before it.
        let isBehind = putOff.isAny || shared.withLock { !$0.inbox.isEmpty }
        let mark: [UInt8]? = isBehind ? [1] : nil
        try await host.onContentQueue { () throws(Errno) in
            let known = try host.catalog.read { database throws(Errno) in
                (try database.meta("anchor"), try database.meta(Self.putOffMark))
            }
            guard known.0 != anchor.bytes || known.1 != mark else { return }
            try host.catalog.write { database throws(Errno) in
                try database.setMeta("anchor", anchor.bytes)
                try database.setMeta(Self.putOffMark, mark)
            }
        }
    }

    /// In the catalog's table `meta` while changes from before the anchor wait in memory.
    private static let putOffMark = "put-off"

    /// Has everything listed again where an earlier daemon died with changes that it had put off.
    private func heedPutOff() {
        guard !hasAskedForPutOff else { return }
        do throws(Errno) {
            let mark = try host.catalog.read { database throws(Errno) in try database.meta(Self.putOffMark) }
            if mark != nil {
                try host.catalog.write { database throws(Errno) in
                    try database.setMeta("anchor", nil)
                    try database.setMeta(Self.putOffMark, nil)
                }
            }
            hasAskedForPutOff = true
        } catch {
            host.log.error("whether changes were put off can't be read: \(error)")
        }
    }
}
