internal import CLinux
public import CoveCore
internal import Dispatch
internal import Synchronization

/// Why an item's bytes can't be dropped, with the item it is about.
public struct EvictionError: Error, Sendable {
    /// The item, relative to the mount point.
    public let path: RemotePath
    /// `EBUSY` open or unsent, `EPERM` pinned, `ENOENT` missing.
    public let errno: Errno
    /// What happened and what to do.
    public let message: String
}

/// Dropping bytes that the provider has too.
extension Contents {
    private enum Refusal: Error {
        case errno(Errno, String)
    }

    /// Drops local bytes of a document, or of all below a directory until one refuses; returns how many.
    func evict(_ path: RemotePath) throws(EvictionError) -> Int64 {
        var freed: Int64 = 0
        var pending: [(RemotePath, ItemID)] = []
        do throws(Errno) {
            let entry = try catalog.read { database throws(Errno) in try database.entry(atPath: path) }
            pending = [(path, entry?.item ?? .root)]
        } catch {
            throw EvictionError(path: path, errno: error, message: "it is not there")
        }
        while let (path, id) = pending.popLast() {
            do throws(Refusal) {
                if let bytes = try evictItem(id) {
                    freed += bytes
                } else {
                    let children = try? catalog.read { database throws(Errno) in
                        var found: [(RemotePath, ItemID)] = []
                        try database.eachEntry(of: id, after: 0) { entry in
                            found.append((path.appending(FileName(unchecked: entry.name)), entry.item))
                            return true
                        }
                        return found
                    }
                    pending.append(contentsOf: (children ?? []).reversed())
                }
            } catch {
                guard case .errno(let errno, let message) = error else { continue }
                throw EvictionError(path: path, errno: errno, message: message)
            }
        }
        return freed
    }

    /// Drops one item's bytes, if whoever presents it agrees; nil for a directory.
    private func evictItem(_ id: ItemID) throws(Refusal) -> Int64? {
        guard (try? owner())?.askForEviction(id) == true else {
            throw Refusal.errno(.busy, "a program presents it and needs its bytes; close it there first")
        }
        let item = live.retain(id)
        defer { live.release(id) }
        let outcome: Result<Int64?, Refusal> = item.state.withLock { state in
            do {
                return .success(try evict(id, &state))
            } catch let refusal as Refusal {
                return .failure(refusal)
            } catch {
                return .failure(.errno(error as? Errno ?? .inputOutput, "\(error)"))
            }
        }
        let freed = try outcome.get()
        if let freed, freed > 0 {
            kernel?.invalidateContent(of: id)
            catalog.whenDurable { [self] in contentQueue.async { self.removeEvicted(id) } }
        }
        return freed
    }

    private func evict(_ id: ItemID, _ state: inout LiveItem.State) throws -> Int64? {
        let row = try load(id, &state)
        guard row.kind == .file else { return row.kind == .directory ? nil : 0 }
        guard row.residency != .dataless, row.size > 0 else {
            if try catalog.read({ database throws(Errno) in try database.hasWanted() }) {
                try catalog.write { database throws(Errno) in try database.endWanted(id) }
            }
            return 0
        }
        guard !live.isOpen(id) else { throw Refusal.errno(.busy, "a program has it open; close it first") }
        state.fetching.dropAbandoned()
        let isIdle = state.fetching.isIdle && state.fetching.waiters.isEmpty
        guard !state.hasUnsavedContent, state.writesInFlight == 0, isIdle else {
            throw Refusal.errno(.busy, "it is being transferred; try again when that is done")
        }
        let entries = try catalog.read { database throws(Errno) in try database.entries(of: id) }
        guard let first = entries.first else { throw Refusal.errno(.busy, "it has no name any more") }
        guard entries.count == 1 else { throw Refusal.errno(.busy, "it has several names, which share its bytes here") }
        let policy = try catalog.read { database throws(Errno) in try database.policy(of: first) }
        if policy == .eagerly {
            throw Refusal.errno(.notPermitted, "it is pinned; run `cove unpin` first")
        }
        if entries.contains(where: { $0.flags.contains(.localOnly) }) {
            throw Refusal.errno(.busy, "it stays on this device, excluded or by its name")
        }
        if entries.contains(where: { !$0.isUploaded }) {
            throw Refusal.errno(.busy, "it is only on this device; run `cove sync --wait` first")
        }
        if entries.contains(where: { $0.hasUnsentContent(generation: row.generation) }) {
            throw Refusal.errno(.busy, "its changes are not uploaded yet; run `cove sync --wait` first")
        }
        let isReplaced = try catalog.read { database throws(Errno) in try database.isReplacedUnderway(entries) }
        if isReplaced {
            throw Refusal.errno(.busy, "other bytes of it are being uploaded; run `cove sync --wait` first")
        }
        let freed: Int64
        do throws(Errno) {
            freed = try forgetBytes(id, &state, of: entries, isWanted: false)
        } catch {
            if error == .busy { throw Refusal.errno(.busy, "it is being changed; run `cove sync --wait` first") }
            throw error
        }
        if freed > 0 { leavings.evicted.withLock { _ = $0.insert(id) } }
        _ = state.fetching.reset()
        return freed
    }

    /// Unlinks the content file of an evicted item, unless its bytes have come back meanwhile.
    func removeEvicted(_ id: ItemID) {
        leavings.evicted.withLock { _ = $0.remove(id) }
        try? live.use(id) { item throws(Errno) in
            try item.state.withLock { state throws(Errno) in
                let row = try load(id, &state)
                guard row.residency == .dataless, state.ranges.isEmpty, state.fetching.isIdle else { return }
                if state.descriptor >= 0 {
                    System.close(state.descriptor)
                    state.descriptor = -1
                }
                store.remove(id)
            }
        }
    }

    /// Evicts the least recently used clean content in the background when the cache is over its limit.
    func makeRoom(for bytes: Int64) {
        if cache.withLock({ $0.expect(bytes) }) { contentQueue.async { [self] in evictLeastRecentlyUsed() } }
    }

    /// While the disk is full, clean content goes until the reserve fits again.
    func makeRoomOnDisk() {
        let bytes = max(disk.reserve.size, 16 << 20)
        if cache.withLock({ $0.shrink(by: bytes) }) { contentQueue.async { [self] in evictLeastRecentlyUsed() } }
    }

    /// Bytes are gone with their item.
    func noteDropped(_ bytes: Int64) { cache.withLock { $0.change(by: -bytes) } }

    /// The bytes of content on this disk, and how many there may be.
    var usage: (resident: Int64, limit: Int64) { cache.withLock { ($0.resident, $0.limit) } }

    /// True while what makes room has to go on.
    var isCacheOver: Bool { cache.withLock { $0.isOver } }

    /// Drops what can go, versions first, until there is room enough.
    private func evictLeastRecentlyUsed() {
        defer { cache.withLock { $0.end() } }
        dropVersions()
        // Whatever is kept need not be asked one by one.
        let kept = (try? catalog.read { database throws(Errno) in try database.keptFiles() }) ?? []
        var cursor = (used: Int64(-1), id: ItemID(0))
        while isCacheOver {
            let start = cursor
            let found = try? catalog.read { database throws(Errno) in
                try database.all(
                    """
                    SELECT i.id, i.used FROM items i
                        WHERE i.resident > 0 AND (i.used, i.id) > (?, ?) AND i.kind = 0 AND i.nlink > 0
                        AND NOT EXISTS (SELECT 1 FROM entries e LEFT JOIN journal j ON j.entry = e.id
                            WHERE e.item = i.id AND (j.entry IS NOT NULL OR e.flags & 3 <> 0 OR e.remote_id IS NULL))
                    ORDER BY i.used, i.id LIMIT 64
                    """,
                    .int(start.used),
                    .item(start.id),
                    read: { (id: $0.item(0), used: $0.int(1)) }
                )
            }
            guard let candidates = found, let last = candidates.last else { return }
            cursor = (last.used, last.id)
            for (id, _) in candidates where !kept.contains(id) {
                // What a program presents stays: nobody asked for this.
                if (try? owner())?.isPresented(id) == false { _ = try? evictItem(id) }
                if !isCacheOver { return }
            }
        }
    }
}
