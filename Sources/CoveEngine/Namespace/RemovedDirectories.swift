internal import CoveCore

/// Removed directories that the kernel still knows: a program may have one open or be in it, and asks what it is.
///
/// They outlive the daemon in the ledger of handles. Those of which the kernel's FORGET was lost with a daemon stay until the
/// mount ends.
struct RemovedDirectories: Sendable {
    private struct Removed: Sendable {
        let attributes: ItemAttributes
        /// Nil where there was no memory for one.
        let record: LedgerRecord?
    }

    /// Those that the kernel removes itself, and finds by no path any more.
    private let dead = RareTable<ItemID, Removed>()
    /// Those of which it hears afterwards.
    private let untold = RareTable<ItemID, Removed>()
    private let ledger: HandleLedger

    /// No more of these are kept, nor of any at a takeover: the kernel may have forgotten some before they were removed, and does not say so again.
    private static let mostUntold = 10_000

    /// Takes over those that an earlier daemon of this mount has noted.
    init(_ ledger: HandleLedger) {
        self.ledger = ledger
        for (number, record) in ledger.removedRecords().enumerated() {
            guard number < Self.mostUntold, let (attributes, isDead) = record.removed else {
                ledger.free(record)
                continue
            }
            (isDead ? dead : untold).insert(Removed(attributes: attributes, record: record), for: attributes.id)
        }
    }

    /// Keeps a directory until the kernel forgets it.
    func insert(_ row: ItemRow, at now: Timestamp, isDead: Bool) {
        var attributes = row.attributes
        attributes.linkCount = 0
        attributes.changeTime = now
        let noted = attributes
        (isDead ? dead : untold).update { table in
            if !isDead, table.count >= Self.mostUntold, let other = table.first {
                table[other.key] = nil
                if let record = other.value.record { ledger.free(record) }
            }
            let record = table[noted.id]?.record ?? ledger.allocate()
            record?.note(removed: noted, isDead: isDead)
            table[noted.id] = Removed(attributes: noted, record: record)
        }
    }

    /// The kernel has no more use for the item.
    func remove(_ id: ItemID) {
        if let record = dead.remove(id)?.record { ledger.free(record) }
        if let record = untold.remove(id)?.record { ledger.free(record) }
    }

    /// Forgets those that have a name still: a daemon died before it had removed them.
    func takeOver(_ database: Database) throws(Errno) {
        for id in Set(dead.contents().keys).union(untold.contents().keys)
        where try database.entry(ofDirectory: id) != nil { remove(id) }
    }

    func attributes(of id: ItemID) -> ItemAttributes? { (dead[id] ?? untold[id])?.attributes }

    /// True for one that a program can only come to which was in it already.
    func isDead(_ id: ItemID) -> Bool { dead[id] != nil }
}
