internal import CoveCore
internal import Synchronization

/// The items in use now, open in a program or being fetched or sent: memory grows with these and with nothing else.
///
/// Lock order: an item's state, then the catalog's writer, then a shard of this table.
final class LiveTable: Sendable {
    private struct Slot {
        let item: LiveItem
        var handles = 0
        var uses = 0
    }

    private struct Shard {
        var slots: [ItemID: Slot] = [:]
        /// Items whose rows are being deleted: they can't be opened any more.
        var dropping: Set<ItemID> = []
        /// Open items without a name: their rows go with their last handle.
        var orphans: Set<ItemID> = []
    }

    private final class Lock: Sendable {
        let shard = Mutex(Shard())
    }

    private let shards = (0..<16).map { _ in Lock() }
    private let openCount = Atomic<Int>(0)

    private func lock(for id: ItemID) -> Lock { shards[Int(truncatingIfNeeded: id.rawValue) & 15] }

    /// How many handles are open.
    var handleCount: Int { openCount.load(ordering: .relaxed) }

    /// Counts a handle in; `ESTALE` when the item is on its way out.
    func open(_ id: ItemID) throws(Errno) -> LiveItem {
        let item: LiveItem? = lock(for: id).shard.withLock { shard in
            if shard.dropping.contains(id) { return nil }
            let item = shard.slots[id]?.item ?? LiveItem(id: id)
            shard.slots[id, default: Slot(item: item)].handles += 1
            return item
        }
        guard let item else { throw .stale }
        openCount.add(1, ordering: .relaxed)
        return item
    }

    /// Counts a handle out; says whether it was the last one, and whether the item lost its name meanwhile.
    func close(_ id: ItemID) -> (last: Bool, isOrphan: Bool) {
        let (counted, last, isOrphan) = lock(for: id).shard.withLock { shard in
            guard var slot = shard.slots[id], slot.handles > 0 else { return (false, false, false) }
            slot.handles -= 1
            let isLast = slot.handles == 0
            shard.slots[id] = isLast && slot.uses == 0 ? nil : slot
            return (true, isLast, isLast && shard.orphans.remove(id) != nil)
        }
        if counted { openCount.subtract(1, ordering: .relaxed) }
        return (last, isOrphan)
    }

    /// Uses an item for a moment, without a handle.
    func use<T>(_ id: ItemID, _ body: (LiveItem) throws(Errno) -> T) throws(Errno) -> T {
        let item = retain(id)
        defer { release(id) }
        return try body(item)
    }

    /// Keeps an item live until `release`.
    func retain(_ id: ItemID) -> LiveItem {
        lock(for: id).shard.withLock { shard in
            let item = shard.slots[id]?.item ?? LiveItem(id: id)
            shard.slots[id, default: Slot(item: item)].uses += 1
            return item
        }
    }

    /// Ends a `retain`.
    func release(_ id: ItemID) {
        lock(for: id).shard.withLock { shard in
            guard var slot = shard.slots[id] else { return }
            slot.uses -= 1
            shard.slots[id] = slot.handles == 0 && slot.uses == 0 ? nil : slot
        }
    }

    /// The item if it is live.
    func find(_ id: ItemID) -> LiveItem? { lock(for: id).shard.withLock { $0.slots[id]?.item } }

    func handles(_ id: ItemID) -> Int { lock(for: id).shard.withLock { $0.slots[id]?.handles ?? 0 } }

    func isOpen(_ id: ItemID) -> Bool { lock(for: id).shard.withLock { ($0.slots[id]?.handles ?? 0) > 0 } }

    /// Bars an item that nothing has open from being opened.
    ///
    /// False when something has it open: the last `close` will say that it is an orphan.
    func beginDrop(_ id: ItemID) -> Bool {
        lock(for: id).shard.withLock { shard in
            if let slot = shard.slots[id], slot.handles > 0 {
                shard.orphans.insert(id)
                return false
            }
            shard.dropping.insert(id)
            return true
        }
    }

    /// Ends `beginDrop`, after the row is gone or after all stays.
    func endDrop(_ id: ItemID) { lock(for: id).shard.withLock { _ = $0.dropping.remove(id) } }

    /// An item without a name has one again.
    func keep(_ id: ItemID) { lock(for: id).shard.withLock { _ = $0.orphans.remove(id) } }

    /// All live items, for the clock's round.
    func all() -> [LiveItem] { shards.flatMap { $0.shard.withLock { $0.slots.values.map(\.item) } } }
}
