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
        executor.after(.seconds(1)) { [weak self, putOff = PutOff(putOff)] in
            self?.enqueue([change], seen: .distantPast)
            putOff.end()
        }
    }

    /// Which change waits for the end of a push.
    struct LateChange: Sendable, Hashable {
        var path: RemotePath
        var isRemoval: Bool
    }

    /// The same where a document is being sent: it is taken up when that has ended, and until then not everything is taken in.
    ///
    /// It is told once, however often it is found meanwhile: it is looked at anew then.
    func enqueueOnceIdle(_ change: RemoteChange, after document: DocumentID) {
        let late: LateChange
        switch change {
        case .updated(let item, let directory):
            late = LateChange(path: directory.appending(FileName(unchecked: item.name)), isRemoval: false)
        case .removed(let path): late = LateChange(path: path, isRemoval: true)
        case .directoryChanged: return enqueueLater(change)
        }
        guard shared.withLock({ $0.late.insert(late).inserted }) else { return }
        awaitIdle(change, late, document, PutOff(putOff))
    }

    private func awaitIdle(_ change: RemoteChange, _ late: LateChange, _ document: DocumentID, _ putOff: PutOff) {
        executor.after(.seconds(1)) { [weak self] in
            Task { await self?.takeUp(change, late, document, putOff) }
        }
    }

    private func takeUp(_ change: RemoteChange, _ late: LateChange, _ document: DocumentID, _ putOff: PutOff) {
        guard !isPushing(document) else { return awaitIdle(change, late, document, putOff) }
        shared.withLock { state in
            state.late.remove(late)
            state.inbox.append(Seen(change: change, time: .distantPast))
        }
        wake()
        putOff.end()
    }

    nonisolated var mustPoll: Bool { host.provider.mustBePolled }

    /// Looks for changes: everywhere when a person asked for it, else as far as the budget goes.
    func pollDirectories(everywhere: Bool) async throws(ProviderError) {
        fillBudget()
        // The root's listing tells which of its directories have changed below.
        if host.provider.capabilities.risingDirectoryVersions { return try await relist(all: [.root]) }
        if everywhere { return try await relist(all: try await directories(after: 0, atMost: .max)) }
        // Those in use come first, then all others in turn.
        let room = budget.share(RequestBudget.inUse)
        let used = isSaving ? [] : host.namespace.lastUsedDirectories(room / 2).filter { $0 != .root }
        // What is just being listed is looked at as it is.
        let namespace = host.namespace
        let isLeftOut = { [budget] id in budget.large.contains(id) || namespace.isBeingListed(id) }
        let first = isSaving ? [] : ([ItemID.root] + used).filter { !isLeftOut($0) }.prefix(room * 3 / 4)
        let listed = try await directories(after: pollCursor, atMost: Int64(room))
        let rest = listed.filter { !first.contains($0) && !isLeftOut($0) }.prefix(room - first.count)
        var looks = Looks(pages: listedPages)
        try await relist(all: Array(first) + rest) { directory in
            looks.end(at: listedPages, &budget)
            guard budget.isLeft else { return false }
            looks.last = directory
            if rest.contains(directory) { pollCursor = Int64(bitPattern: directory.rawValue) }
            return true
        }
        looks.end(at: listedPages, &budget)
        if rest.isEmpty { pollCursor = listed.last.map { Int64(bitPattern: $0.rawValue) } ?? 0 }
        // Past the last one the next round begins again.
        if listed.count < room, rest.last.map({ pollCursor == Int64(bitPattern: $0.rawValue) }) ?? true {
            pollCursor = 0
        }
        // What has many pages has its own share, so that it waits for itself alone.
        try await relist(all: Array(budget.large.prefix(room))) { directory in
            looks.end(at: listedPages, &budget)
            guard budget.isLeftForLarge else { return false }
            looks.last = directory
            return true
        }
        looks.end(at: listedPages, &budget)
    }

    /// What many requests have just told need not be asked for again at once.
    nonisolated func noteListed(_ directory: ItemID, pages: Int) {
        guard mustPoll, pages > 1 else { return }
        Task { await self.spare(directory, pages) }
    }

    private func spare(_ directory: ItemID, _ pages: Int) { budget.spare(directory, pages) }

    /// Counts what looks at directories cost.
    private struct Looks {
        var pages: Int
        var last: ItemID?

        mutating func end(at now: Int, _ budget: inout RequestBudget) {
            if let last { budget.spend(now - pages, on: last) }
            (pages, last) = (now, nil)
        }
    }

    /// True where this device saves requests: nobody uses it, and nobody wants it to look more often than usual.
    private var isSaving: Bool { isIdle && host.configuration.pollInterval >= EngineConfiguration.usualPollInterval }

    /// Allows what has become due for looking at the source since the last time.
    func fillBudget() {
        let hourly = hasNews ? RequestBudget.idleWithNews : RequestBudget.idle
        let interval = max(0.001, host.configuration.pollInterval.seconds)
        budget.fill(
            at: clock.monotonic(),
            rate: isSaving ? hourly / 3600 : Double(RequestBudget.inUse) / interval,
            limit: isSaving ? max(2, Int(hourly / 120)) : RequestBudget.inUse
        )
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
