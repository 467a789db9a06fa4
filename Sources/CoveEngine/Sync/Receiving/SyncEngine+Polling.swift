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

    nonisolated var mustPoll: Bool { host.provider.mustBePolled }

    /// Looks for changes: everywhere when a person asked for it, else as far as the budget goes.
    func pollDirectories(everywhere: Bool) async throws(ProviderError) {
        let host = host
        let polled = RequestBudget.inUse
        // A person who wants it more often than usual wants it of a device that nobody uses, too.
        let isSaving = isIdle && host.configuration.pollInterval >= EngineConfiguration.usualPollInterval
        let hourly = hasNews ? RequestBudget.idleWithNews : RequestBudget.idle
        let interval = max(0.001, host.configuration.pollInterval.seconds)
        budget.fill(
            at: clock.monotonic(),
            rate: isSaving ? hourly / 3600 : Double(polled) / interval,
            limit: isSaving ? max(2, Int(hourly / 120)) : polled
        )
        // The root's listing tells which of its directories have changed below.
        if host.provider.capabilities.risingDirectoryVersions { return try await relist(all: [.root]) }
        if everywhere { return try await relist(all: try await directories(after: 0, atMost: .max)) }
        // Those in use come first, then all others in turn.
        let used = isSaving ? [] : host.namespace.lastUsedDirectories(polled / 2).filter { $0 != .root }
        let first = isSaving ? [] : Array(([ItemID.root] + used).prefix(polled * 3 / 4))
        let listed = try await directories(after: pollCursor, atMost: Int64(polled))
        let rest = listed.filter { !first.contains($0) }.prefix(polled - first.count)
        var pages = listedPages
        var isCutShort = false
        try await relist(all: first + rest) { directory in
            budget.spend(listedPages - pages)
            pages = listedPages
            isCutShort = !budget.isLeft
            if !isCutShort, rest.contains(directory) { pollCursor = Int64(bitPattern: directory.rawValue) }
            return !isCutShort
        }
        budget.spend(listedPages - pages)
        // Past the last one the next round begins again.
        if !isCutShort, rest.isEmpty || listed.count < polled && rest.last == listed.last { pollCursor = 0 }
    }

    /// The directories that were listed, and those of which only single names were ever asked for.
    private func directories(after last: Int64, atMost limit: Int64) async throws(ProviderError) -> [ItemID] {
        let host = host
        return try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in
                try database.all(
                    """
                    SELECT id FROM items WHERE kind = 1 AND nlink > 0 AND id > ? AND (state = 0 OR EXISTS (
                        SELECT 1 FROM entries WHERE parent = items.id AND remote_id IS NOT NULL)) ORDER BY id LIMIT ?
                    """,
                    .int(last),
                    .int(limit)
                ) { $0.item(0) }
            }
        }
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

    /// When any was opened last.
    var last: MonotonicTime? { used.withLock { $0.values.max() } }

    func latest(_ count: Int) -> [ItemID] {
        used.withLock { used in used.sorted { $0.value > $1.value }.prefix(count).map(\.key) }
    }
}
