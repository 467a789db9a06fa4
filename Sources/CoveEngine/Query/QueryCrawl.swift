internal import CoveCore
internal import Synchronization

/// Listing folders that nobody has opened, for queries.
extension Engine {
    /// So many folders are listed at a time for a query.
    private static let crawlers = 4
    /// A query lists so many folders by itself: a source may tell of a tree without an end.
    static let mostListed = 100_000

    /// Lists folders, some at a time; why some could not be.
    func list(_ directories: [ItemID]) async -> [ItemID: Errno] {
        await withTaskGroup(of: (ItemID, Errno?).self) { group in
            var failures: [ItemID: Errno] = [:]
            var rest = directories[...]
            func begin() {
                guard !Task.isCancelled, let directory = rest.popFirst() else { return }
                group.addTask { [namespace] in
                    let pending = namespace.listing(of: directory, whenGone: { .noSuchEntry })
                    return await withTaskCancellationHandler {
                        do throws(Errno) {
                            try await pending.value()
                            return (directory, nil)
                        } catch {
                            return (directory, error == .noSuchEntry ? nil : error)
                        }
                    } onCancel: {
                        pending.cancel()
                    }
                }
            }
            for _ in 0..<Self.crawlers { begin() }
            for await (directory, failure) in group {
                if let failure { failures[directory] = failure }
                begin()
            }
            return failures
        }
    }

    /// The folder at a path, for which those above it are listed where they never were; nil where there is none, as far as that
    /// can be known.
    func opened(_ path: RemotePath, mayList: Bool) async throws(Errno) -> (folder: ItemID?, isKnown: Bool) {
        var folder = ItemID.root
        for name in path.names {
            let (parent, catalog) = (folder, catalog)
            let look = { @Sendable () throws(Errno) -> (found: ItemID?, isListed: Bool) in
                try catalog.read { database throws(Errno) in
                    (try database.entry(parent, name.bytes)?.item, try database.item(parent)?.residency == .whole)
                }
            }
            var (found, isListed) = try await onQueue(look)
            if found == nil, !isListed, mayList {
                _ = await list([parent])
                (found, isListed) = try await onQueue(look)
            }
            guard let found else { return (nil, isListed) }
            folder = found
        }
        return (folder, true)
    }

    /// Folders that were never listed, of those behind an item; `last` is nil when there are no more behind them.
    func unlistedDirectories(
        below top: ItemID,
        after last: ItemID
    ) async throws(Errno) -> (found: [ItemID], last: ItemID?) {
        try await onQueue { [catalog] () throws(Errno) in
            try catalog.read { database throws(Errno) in
                let found = try database.all(
                    """
                    SELECT id FROM items WHERE kind = 1 AND state = 1 AND nlink > 0 AND id > ? ORDER BY id LIMIT 64
                    """,
                    .item(last)
                ) { $0.item(0) }
                guard top != .root else { return (found, found.last) }
                var below: [ItemID] = []
                for id in found {
                    if id == top {
                        below.append(id)
                    } else if try database.directory(id, isInside: top) {
                        below.append(id)
                    }
                }
                return (below, found.last)
            }
        }
    }

    /// True where what does not answer one request would be waited for in vain by the next.
    static func isOutOfReach(_ failures: some Sequence<Errno>) -> Bool {
        failures.contains { [.timedOut, .hostUnreachable].contains($0) }
    }
}

/// Lists the folders that come to be known while a query goes on, beside it: what is in them comes to it as other changes do.
actor LiveCrawler {
    /// What could not be listed is tried again after so long, later each time, and where there is no connection all is.
    private static let (patience, shortPatience) = (TimeSpan.seconds(30), TimeSpan.seconds(3))

    /// A folder that could not be listed.
    private struct Failure {
        var attempts: Int64 = 0
        var retry = MonotonicTime.distantPast
    }

    private let engine: Engine
    private let folder: RemotePath
    private var task: Task<Void, Never>?
    private var isAsked = false
    private var failed: [ItemID: Failure] = [:]
    private var listed = 0
    private var nextTry = MonotonicTime.distantPast
    /// Is told that folders could not be listed, so that it comes again.
    private let follower: Touches.Follower

    /// For all below a folder.
    init(_ engine: Engine, below folder: RemotePath, for follower: Touches.Follower) {
        self.engine = engine
        self.folder = folder
        self.follower = follower
    }

    /// There is news of folders, or it may be time to try again.
    func wake(isNews: Bool) {
        guard isNews || task == nil && engine.clock.monotonic() >= nextTry else { return }
        isAsked = true
        guard task == nil else { return }
        task = Task {
            while isAsked, !Task.isCancelled {
                isAsked = false
                await crawl()
            }
            task = nil
        }
    }

    /// Nobody wants any more.
    func stop() { task?.cancel() }

    private func crawl() async {
        let isConnected = { [engine] in engine.syncEngine?.isConnected == true }
        var misses = !isConnected()
        defer {
            let patience = isConnected() ? Self.patience : Self.shortPatience
            nextTry = misses ? engine.clock.monotonic() + patience : .distantPast
            follower.missesFolders.store(misses, ordering: .relaxed)
        }
        guard !misses else { return }
        // Where it can't be known, the way to it is tried again; where it is not there, its coming is news.
        let way = try? await engine.opened(folder, mayList: isConnected())
        if way?.isKnown != true { misses = true }
        guard let top = way?.folder else { return }
        let now = engine.clock.monotonic()
        // What was not asked for again was listed, or has gone.
        failed = failed.filter { now - $0.value.retry < Self.patience.doubled(6) }
        var last = ItemID(0)
        while !Task.isCancelled, let next = try? await engine.unlistedDirectories(below: top, after: last) {
            guard listed < Engine.mostListed else { break }
            let wanted = next.found.filter { failed[$0].map { $0.retry <= now } ?? true }
            listed += wanted.count
            if wanted.count < next.found.count { misses = true }
            if !wanted.isEmpty {
                guard isConnected() else {
                    misses = true
                    break
                }
                let failures = await engine.list(wanted)
                let now = engine.clock.monotonic()
                for directory in failures.keys {
                    var failure = failed[directory] ?? Failure()
                    failure.retry = now + Self.patience.doubled(min(failure.attempts, 6))
                    failure.attempts += 1
                    failed[directory] = failure
                }
                if !failures.isEmpty { misses = true }
                if Engine.isOutOfReach(failures.values) { break }
            }
            guard let behind = next.last else { break }
            last = behind
        }
    }
}
