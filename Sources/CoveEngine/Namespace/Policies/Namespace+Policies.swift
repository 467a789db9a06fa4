internal import CoveCore
internal import Synchronization

/// Content policies, and fetching what they want here.
extension Namespace {
    private static let page = 50_000
    private static let atOnce = 8

    /// Gives an item a policy; `clearing` takes away those below it.
    func setPolicy(_ id: ItemID, _ policy: ContentPolicy, clearing: Bool) throws(Errno) {
        try catalog.write { database throws(Errno) in
            if clearing { try database.clearPolicies(below: id) } else { try database.endWanted(below: id) }
            try database.endWanted(id)
            database.touchTree(id)
            if id == .root { return try database.setRootPolicy(policy) }
            let entries = try database.entries(of: id)
            if entries.isEmpty { throw .stale }
            for var entry in entries {
                entry.flags.policy = policy
                entry.flags.remove(.wanted)
                try database.update(entry)
            }
        }
        fetchKept(afresh: true)
    }

    /// Keeps an item here, or does so no longer, whatever is said above it.
    func setPinned(_ id: ItemID, _ pinned: Bool) throws(Errno) {
        try setPolicy(id, pinned ? .eagerly : .inherited, clearing: true)
        guard !pinned, try policy(of: id) == .eagerly else { return }
        try setPolicy(id, .lazilyAndEvict, clearing: false)
    }

    /// What holds for an item, of several names the one that keeps it here.
    func policy(of id: ItemID) throws(Errno) -> ContentPolicy {
        try catalog.read { database throws(Errno) in
            if id == .root { return try database.rootPolicy() }
            let entries = try database.entries(of: id)
            var found: [ContentPolicy] = []
            for entry in entries { found.append(try database.policy(of: entry)) }
            return found.contains(.eagerly) ? .eagerly : found.first ?? .lazilyAndEvict
        }
    }

    /// Begins to fetch what is to be kept here and is not; what can't be had is tried again later, and at once after an
    /// occasion to.
    func fetchKept(afresh: Bool = false) {
        if afresh { kept.forgetFailures() }
        guard sync?.mayFetch == true, kept.begin() else { return }
        Task { [self] in
            repeat {
                // What has come into a directory that was just listed may be one to list.
                while await fetchMissing() {}
                // Many occasions, one round.
                try? await Task.sleep(for: .seconds(1))
            } while kept.end(clock.monotonic())
        }
    }

    /// The clock's round.
    func lookForKept(_ now: MonotonicTime) { if kept.isDue(now) { fetchKept() } }

    /// Fetches what is missing now; true when a directory was listed.
    private func fetchMissing() async -> Bool {
        var last = ItemID(0)
        var hasListed = false
        while sync?.mayFetch == true, !disk.isFull {
            let after = last
            let found = try? await onContentQueue { [self] () throws(Errno) in
                try catalog.read { database throws(Errno) in
                    try database.missingKept(after: after, limit: Self.page)
                }
            }
            guard let missing = found, let end = missing.last else { break }
            last = end.item
            await withTaskGroup(of: Bool.self) { group in
                for (index, (id, kind)) in missing.enumerated() {
                    if index >= Self.atOnce, await group.next() == true { hasListed = true }
                    group.addTask { [self] in await fetch(id, kind) }
                }
                for await isListed in group where isListed { hasListed = true }
            }
        }
        _ = try? await onContentQueue { [self] () throws(Errno) in
            guard try catalog.read({ database throws(Errno) in try database.hasWanted() }) else { return }
            try catalog.write { database throws(Errno) in try database.endWantedHere() }
        }
        return hasListed
    }

    /// Fetches a file, or lists a directory; true for one that is listed now.
    private func fetch(_ id: ItemID, _ kind: ItemKind) async -> Bool {
        guard sync?.mayFetch == true, !disk.isFull, kept.mayTry(id, clock.monotonic()) else { return false }
        var hasFailed = false
        do throws(Errno) {
            if kind == .directory {
                try await listing(of: id).value()
            } else {
                try await contents.materialize(id)
            }
        } catch {
            hasFailed = true
        }
        kept.note(id, hasFailed: hasFailed, clock.monotonic())
        return kind == .directory && !hasFailed
    }
}
