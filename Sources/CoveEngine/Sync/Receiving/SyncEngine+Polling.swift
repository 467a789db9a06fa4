internal import CoveCore
internal import Synchronization

/// What the provider told of, and listing directories again where it does not tell of changes by itself.
extension SyncEngine {
    /// A remote change, and when the look at the provider that told of it began.
    struct Seen: Sendable {
        let change: RemoteChange
        let time: MonotonicTime
    }

    nonisolated func enqueue(_ events: [RemoteChange], seen time: MonotonicTime) {
        shared.withLock { $0.inbox += events.map { Seen(change: $0, time: time) } }
        wake()
    }

    /// Takes a change up again in a while: a push, or the mount, was in its way.
    func enqueueLater(_ change: RemoteChange) {
        executor.after(.seconds(1)) { [weak self] in self?.enqueue([change], seen: .distantPast) }
    }

    /// Directories listed in one round: those in use come first, then all others in turn.
    static let pollBudget = 30

    nonisolated var mustPoll: Bool { host.provider.mustBePolled }

    /// Looks for changes: everywhere when a person asked for it, else as far as the budget goes.
    func pollDirectories(everywhere: Bool) async throws(ProviderError) {
        let host = host
        // The root's listing tells which of its directories have changed below.
        let rises = host.provider.capabilities.risingDirectoryVersions
        let directories = rises ? [ItemID.root] : try await directoriesToPoll(everywhere: everywhere)
        try await relist(all: directories)
    }

    /// How often some directories are listed whose changes are told.
    static let lookInterval = TimeSpan.seconds(300)

    /// Has some directories listed, in turn, though the provider tells of changes: what it missed is not missed for ever.
    func requestLook(_ now: Timestamp) {
        if now - lastLook >= Self.lookInterval {
            // At the start all of them are listed.
            mustLookAround = lastLook != .epoch
            lastLook = now
            requestPoll()
        }
        alarm(at: lastLook + Self.lookInterval, now: now)
    }

    private func directoriesToPoll(everywhere: Bool) async throws(ProviderError) -> [ItemID] {
        let host = host
        let after = pollCursor
        let limit = everywhere ? Int64.max : Int64(Self.pollBudget)
        let listed = try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in
                try database.all(
                    // Also those of which only single names were ever asked for.
                    """
                    SELECT id FROM items WHERE kind = 1 AND nlink > 0 AND id > ? AND (state = 0 OR EXISTS (
                        SELECT 1 FROM entries WHERE parent = items.id AND remote_id IS NOT NULL)) ORDER BY id LIMIT ?
                    """,
                    .int(everywhere ? 0 : after),
                    .int(limit)
                ) { $0.item(0) }
            }
        }
        if everywhere { return listed }
        let used = host.namespace.lastUsedDirectories(Self.pollBudget / 2)
        let first = ([ItemID.root] + used.filter { $0 != .root }).prefix(Self.pollBudget * 3 / 4)
        let rest = listed.filter { !first.contains($0) }.prefix(Self.pollBudget - first.count)
        // Past the last one the next round begins again.
        let reachedEnd = listed.count < Self.pollBudget && rest.last == listed.last
        pollCursor = reachedEnd || rest.isEmpty ? 0 : rest.last.map { Int64(bitPattern: $0.rawValue) } ?? 0
        return Array(first) + rest
    }

    /// Directories whose version tells that something below them has changed, to be listed before that is recorded.
    func changedBelow(_ changed: [RemoteItem], in path: RemotePath) -> [RemotePath] {
        guard mustPoll, host.provider.capabilities.risingDirectoryVersions else { return [] }
        return changed.filter { $0.kind == .directory }.map { path.appending(FileName(unchecked: $0.name)) }
    }
}

/// The directories that programs opened lately, the latest first.
final class UsedDirectories: Sendable {
    private static let maximum = 256
    private let used = EngineMutex<[ItemID: MonotonicTime]>(.usedDirectories, [:])

    func note(_ id: ItemID, at now: MonotonicTime) {
        used.withLock { used in
            used[id] = now
            guard used.count > Self.maximum, let oldest = used.min(by: { $0.value < $1.value }) else { return }
            used[oldest.key] = nil
        }
    }

    func latest(_ count: Int) -> [ItemID] {
        used.withLock { used in used.sorted { $0.value > $1.value }.prefix(count).map(\.key) }
    }
}
