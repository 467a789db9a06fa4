internal import CoveCore
internal import Glibc
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
                do throws(Errno) {
                    let known = state.seen
                    var row = try load(item.id, &state)
                    // What was written since, past the daemon, is in the content file alone, and was just taken from there.
                    if state.seen == nil || state.seen == known {
                        if state.seen == nil {
                            try takeOver(size: unsaved.size, &row, &state)
                        } else {
                            row.size = unsaved.size
                        }
                        row.modificationTime = unsaved.modificationTime
                        row.changeTime = unsaved.changeTime
                    }
                    state.row = row
                    state.hasUnsavedContent = true
                } catch .stale {
                    // It was being made or dropped: what is left is a handle too many, and no reason to lose the mount.
                }
            }
        }
        for (item, document) in departed where live.isOpen(item) { departing.add(item, of: document) }
        log.notice("took over a mount with \(live.handleCount) open handles")
    }

    /// Gives an item the size that is newer than its row, and what follows for its bytes.
    ///
    /// Bytes are in the content file before their size is in the ledger, and that before the ranges are in the catalog. What
    /// lies behind the former end was never the provider's, and what was cut is not fetched.
    private func takeOver(size: Int64, _ row: inout ItemRow, _ state: inout LiveItem.State) throws(Errno) {
        let former = row.size
        row.size = size
        guard row.kind == .file else { return }
        if row.residency == .whole {
            // A cut is in the content file before anything else knows of it.
            if let content = try? System.lstat(store.path(row.id)) { row.size = min(size, Int64(content.st_size)) }
            return
        }
        guard size != former else { return }
        if size > former { state.ranges.insert(former..<size) } else { state.ranges.removeAll(from: size) }
        if let end = state.ranges.ranges.last?.upperBound {
            // A recovery has cut what the catalog does not know. The request that brought it comes again, or nobody waits for it.
            let content = try store.open(row.id)
            defer { System.close(content) }
            if Int64(try System.fstat(content).st_size) < end { try System.ftruncate(content, end) }
        }
        let isWhole = state.ranges.contains(0..<size)
        row.residency = isWhole ? .whole : .partial
        if isWhole { state.ranges = RangeSet() }
        state.hasUnsavedRanges = true
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
