internal import CoveCore
internal import Synchronization

/// The items in use now, open in a program or being fetched or sent: memory grows with these and with nothing else.
///
/// Lock order: an item's state, then the catalog's writer, then a shard of this table.
final class LiveTable: Sendable {
    /// What counting a handle out has led to.
    struct Closed {
        /// True when it was the last one.
        var isLast = false
        /// True when the item lost its name meanwhile.
        var isOrphan = false
        /// The number of the backing file that nothing has open any more.
        var backing: UInt32?
    }

    private struct Slot {
        let item: LiveItem
        var handles = 0
        /// How many of the handles are open for writing.
        var writers = 0
        var uses = 0
        /// The request that opened it last.
        var lastOpen: UInt64 = 0
        /// Decided on when it is opened, for all handles that it gets until the last one is closed.
        var mode: OpenMode?
        /// True while one of the handles and of the writers stands for a mapping that outlived its handle.
        var lingers = false
        /// Where that outlives the daemon.
        var record: LedgerRecord?
    }

    private struct Shard {
        var slots: [ItemID: Slot] = [:]
        /// Items whose rows are being deleted: they can't be opened any more.
        var dropping: Set<ItemID> = []
        /// Open items without a name: their rows go with their last handle.
        var orphans: Set<ItemID> = []
        /// Those of them that an earlier daemon left.
        var inheritedOrphans: Set<ItemID> = []
    }

    private final class Lock: Sendable {
        let shard = EngineMutex(.liveTable, Shard())
    }

    private let shards = (0..<16).map { _ in Lock() }
    private let openCount = Atomic<Int>(0)
    private let ledger: HandleLedger
    private let clock: EngineClock

    /// Begins with the handles that an earlier daemon of the mount left in the ledger.
    init(ledger: HandleLedger, clock: EngineClock = .system) {
        self.ledger = ledger
        self.clock = clock
        for record in ledger.records() {
            let item = lock(for: record.item).shard.withLock { shard in
                var slot = shard.slots[record.item] ?? Slot(item: LiveItem(id: record.item))
                slot.handles += record.handles
                slot.writers += record.writers
                slot.lastOpen = record.lastOpen
                slot.lingers = record.lingers
                if record.backing > 0 {
                    slot.mode = .passthrough(record.backing)
                } else if !record.lingers || record.handles > 1 {
                    slot.mode = .normal
                }
                slot.record = record
                slot.item.record.withLock { $0 = record }
                shard.slots[record.item] = slot
                return slot.item
            }
            item.state.withLock { state in
                // Whoever writes to it may just have done so.
                if record.writers > 0 { state.lastWrite = clock.monotonic() }
                state.seen = record.seen
            }
            openCount.add(record.handles, ordering: .relaxed)
        }
    }

    private static func write(_ slot: Slot) {
        slot.record?.set(
            slot.item.id,
            handles: slot.handles,
            writers: slot.writers,
            lastOpen: slot.lastOpen,
            backing: slot.mode?.backing ?? 0,
            lingers: slot.lingers
        )
    }

    private func lock(for id: ItemID) -> Lock { shards[Int(truncatingIfNeeded: id.rawValue) & 15] }

    /// How many handles are open.
    var handleCount: Int { openCount.load(ordering: .relaxed) }

    /// Counts a handle in; `ESTALE` when the item is on its way out.
    ///
    /// A request that is sent again after the death of a daemon which had counted it is not counted twice. What is being
    /// made, in a transaction that has not ended, comes with its row.
    func open(_ id: ItemID, writes: Bool, request: UInt64, made row: ItemRow? = nil) throws(Errno) -> LiveItem {
        let item: LiveItem? = lock(for: id).shard.withLock { shard in
            if shard.dropping.contains(id) { return nil }
            var slot = shard.slots[id] ?? Slot(item: LiveItem(id: id, made: row))
            if let row, let former = shard.slots[id] {
                // A daemon that died counted it before a commit that never was: nobody has that item open.
                slot = Slot(item: LiveItem(id: id, made: row), uses: former.uses, record: former.record)
                former.item.record.withLock { $0 = nil }
                slot.item.record.withLock { [record = slot.record] in $0 = record }
                openCount.subtract(former.handles, ordering: .relaxed)
            }
            if let row, row.linkCount <= 0 { shard.orphans.insert(id) }
            if request != 0, slot.handles > 0, slot.lastOpen == request { return slot.item }
            slot.handles += 1
            if writes { slot.writers += 1 }
            slot.lastOpen = request
            if slot.record == nil, let record = ledger.allocate() {
                slot.record = record
                slot.item.record.withLock { $0 = record }
            }
            Self.write(slot)
            shard.slots[id] = slot
            openCount.add(1, ordering: .relaxed)
            return slot.item
        }
        guard let item else { throw .stale }
        return item
    }

    /// Counts a handle out.
    func close(_ id: ItemID, writes: Bool) -> Closed {
        lock(for: id).shard.withLock { shard in
            guard var slot = shard.slots[id], slot.handles > 0 else { return Closed() }
            slot.handles -= 1
            if writes { slot.writers = max(0, slot.writers - 1) }
            openCount.subtract(1, ordering: .relaxed)
            return closed(&slot, &shard)
        }
    }

    private func closed(_ slot: inout Slot, _ shard: inout Shard) -> Closed {
        let id = slot.item.id
        guard slot.handles == 0 else {
            Self.write(slot)
            shard.slots[id] = slot
            return Closed()
        }
        let backing = slot.mode?.backing
        slot.mode = nil
        slot.lingers = false
        slot.item.record.withLock { $0 = nil }
        if let record = slot.record { ledger.free(record) }
        slot.record = nil
        slot.writers = 0
        slot.lastOpen = 0
        shard.slots[id] = slot.uses == 0 ? nil : slot
        return Closed(isLast: true, isOrphan: shard.orphans.remove(id) != nil, backing: backing)
    }

    /// The kernel has no more use for an item, which had no name already when this daemon took over.
    ///
    /// Nothing can have come back to such a one, so that handles of it which are still counted are none: their request was
    /// sent to two daemons. Of others a FORGET may come late, after a new look-up and a new handle.
    func forget(_ id: ItemID) -> Closed {
        lock(for: id).shard.withLock { shard in
            guard shard.inheritedOrphans.remove(id) != nil, var slot = shard.slots[id] else { return Closed() }
            openCount.subtract(slot.handles, ordering: .relaxed)
            slot.handles = 0
            return closed(&slot, &shard)
        }
    }

    /// How an open item is read and written; nil until that was decided.
    func mode(_ id: ItemID) -> OpenMode? { lock(for: id).shard.withLock { $0.slots[id]?.mode } }

    /// Decides how an open item is read and written.
    func decide(_ id: ItemID, _ mode: OpenMode) { change(id) { $0.mode = mode } }

    /// True when no more than one handle writes to an item.
    func isLastWriter(_ id: ItemID) -> Bool {
        lock(for: id).shard.withLock { shard in
            guard let slot = shard.slots[id] else { return false }
            return slot.writers - (slot.lingers ? 1 : 0) <= 1
        }
    }

    /// True while only a mapping that outlived its handle writes to an item.
    func isLingering(_ id: ItemID) -> Bool {
        lock(for: id).shard.withLock { shard in shard.slots[id].map { $0.lingers && $0.writers == 1 } ?? false }
    }

    /// Counts a mapping in that was there before the account was mounted.
    func addLinger(_ id: ItemID) -> LiveItem? {
        guard let item = try? open(id, writes: true, request: 0) else { return nil }
        linger(id)
        return item
    }

    /// Keeps a writer's handle counted for its mapping.
    func linger(_ id: ItemID) {
        change(id) { slot in
            if slot.lingers {
                slot.handles -= 1
                slot.writers -= 1
                openCount.subtract(1, ordering: .relaxed)
            }
            slot.lingers = true
        }
    }

    /// Counts a mapping out.
    func endLinger(_ id: ItemID) -> Closed {
        lock(for: id).shard.withLock { shard in
            guard var slot = shard.slots[id], slot.lingers else { return Closed() }
            slot.lingers = false
            slot.handles -= 1
            slot.writers -= 1
            openCount.subtract(1, ordering: .relaxed)
            return closed(&slot, &shard)
        }
    }

    private func change(_ id: ItemID, _ body: (inout Slot) -> Void) {
        lock(for: id).shard.withLock { shard in
            guard var slot = shard.slots[id] else { return }
            body(&slot)
            Self.write(slot)
            shard.slots[id] = slot
        }
    }

    /// Items without a name that an earlier daemon left open: their rows go with their last handle.
    func addOrphans(_ ids: [ItemID]) {
        for id in ids {
            lock(for: id).shard.withLock { shard in
                shard.orphans.insert(id)
                shard.inheritedOrphans.insert(id)
            }
        }
    }

    /// True while a program has the item open for writing.
    func isWritable(_ id: ItemID) -> Bool { lock(for: id).shard.withLock { ($0.slots[id]?.writers ?? 0) > 0 } }

    /// The items that programs have open for writing.
    func writableItems() -> [ItemID] {
        shards.flatMap { lock in lock.shard.withLock { $0.slots.filter { $0.value.writers > 0 }.map(\.key) } }
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
    func keep(_ id: ItemID) {
        lock(for: id).shard.withLock { shard in
            shard.orphans.remove(id)
            shard.inheritedOrphans.remove(id)
        }
    }

    /// All live items, for the clock's round.
    func all() -> [LiveItem] { shards.flatMap { $0.shard.withLock { $0.slots.values.map(\.item) } } }
}

/// How the kernel reads and writes an open file: the same for all its handles at a time.
enum OpenMode: Equatable {
    /// Through the daemon.
    case normal
    /// From and to the content file by itself, which it knows by a number.
    case passthrough(UInt32)

    var backing: UInt32? {
        guard case .passthrough(let number) = self else { return nil }
        return number
    }
}
