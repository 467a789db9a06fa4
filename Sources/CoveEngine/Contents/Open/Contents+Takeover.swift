internal import CoveCore
internal import Synchronization

/// Going on where an earlier daemon of the same mount was killed.
extension Contents {
    /// Finds out what of the mount's open files needs more than its row.
    func takeOver() throws(Errno) {
        guard ledger.isInherited else {
            ledger.firstChange = try catalog.write { database throws(Errno) in
                try database.run("DELETE FROM departing")
                try database.run("DELETE FROM unnamed")
                return try database.lastChange()
            }
            try followUnsettled()
            return
        }
        let (orphans, departed) = try catalog.read { database throws(Errno) in
            (try database.orphans(), try database.departed())
        }
        live.addOrphans(orphans)
        for record in ledger.records() {
            guard let unsaved = record.unsaved, let item = live.find(record.item) else { continue }
            try item.state.withLock { state throws(Errno) in
                var row: ItemRow
                do throws(Errno) {
                    row = try load(item.id, &state)
                } catch .stale {
                    // It was being made or dropped: what is left is a handle too many, and no reason to lose the mount.
                    return
                }
                row.size = unsaved.size
                row.modificationTime = unsaved.modificationTime
                row.changeTime = unsaved.changeTime
                state.row = row
                state.hasUnsavedContent = true
            }
        }
        for (item, document) in departed where live.isOpen(item) { departing.add(item, of: document) }
        log.notice("took over a mount with \(live.handleCount) open handles")
    }

    /// The item that a request made or changed when an earlier daemon carried it out and died before it could answer.
    ///
    /// Such a request gets its first answer. Throws `EINTR` for what is left of such a daemon's own announcements: what they
    /// were to show is decided on again.
    func earlierResult(_ caller: Caller) throws(Errno) -> ItemID? {
        guard caller.isResent, ledger.isInherited else { return nil }
        let found = try catalog.read { database throws(Errno) -> ItemID? in
            let changed = try database.change(by: caller.request, after: self.ledger.firstChange)
            if let changed { return changed }
            return try database.unnamed(by: caller.request)
        }
        if found == nil, ledger.isFormerAnnouncer(caller.thread) { throw .interrupted }
        return found
    }
}

extension Database {
    /// The number of the last change in the feed.
    func lastChange() throws(Errno) -> Int64 {
        try first("SELECT coalesce(max(sequence), 0) FROM changes") { $0.int(0) } ?? 0
    }

    /// The item of the last change that a request made after a change.
    func change(by request: UInt64, after sequence: Int64) throws(Errno) -> ItemID? {
        try first(
            "SELECT item FROM changes WHERE sequence > ? AND request = ? ORDER BY sequence DESC LIMIT 1",
            .int(sequence),
            .int(Int64(bitPattern: request))
        ) { $0.item(0) }
    }

    /// The file without a name that a request made.
    func unnamed(by request: UInt64) throws(Errno) -> ItemID? {
        try first("SELECT item FROM unnamed WHERE request = ?", .int(Int64(bitPattern: request))) { $0.item(0) }
    }

    /// The items whose bytes only a document at the provider has.
    func departed() throws(Errno) -> [(ItemID, DocumentID)] {
        try all("SELECT item, document FROM departing") { ($0.item(0), $0.document(1)) }
    }
}
