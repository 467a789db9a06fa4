internal import CoveCore

/// How far a way through the catalog has been gone: a page is read at a time, and no entry twice, whatever changes meanwhile.
struct QueryCursor {
    private enum Way {
        /// Entries that an index has told, and how many of them have been read.
        case entries([Int64], read: Int)
        /// All entries behind one, perhaps without those that have not these bytes in their names.
        case all(after: Int64, containing: [UInt8])
    }

    /// So many entries are looked at in one go, however few of them are wanted.
    private static let window: Int64 = 20_000

    private var way: Way
    /// No entry behind this one is read.
    private let end: Int64

    /// The way to these entries.
    init(_ entries: [Int64]) {
        way = .entries(entries, read: 0)
        end = .max
    }

    /// The way to all entries, behind one and up to another, that an access may come to.
    init(_ access: QueryAccess, after last: Int64, upTo end: Int64, _ database: Database) throws(Errno) {
        self.end = end
        // What has come since the first look is little.
        guard last == 0 else {
            way = .all(after: last, containing: [])
            return
        }
        switch access {
        case .all(let literal):
            way = .all(after: last, containing: literal ?? [])
        case .names(let names):
            var found: [Int64] = []
            for name in names {
                try database.each("SELECT id FROM entries WHERE name = ?", .blob(name)) { row in
                    found.append(row.int(0))
                    return true
                }
            }
            way = .entries(found, read: 0)
        case .prefix(let prefix):
            // The first name that does not begin so any more: one with a higher last byte, which ASCII always leaves room for.
            let behind = prefix.dropLast() + [(prefix.last ?? 0x7F) + 1]
            let found = try database.all(
                "SELECT id FROM entries WHERE name >= ? AND name < ?",
                .blob(prefix),
                .blob(Array(behind))
            ) { $0.int(0) }
            way = .entries(found, read: 0)
        case .waiting:
            way = .entries(try database.all("SELECT entry FROM journal") { $0.int(0) }, read: 0)
        }
    }

    /// Reads so many entries at most, with their items; returns where to go on, nil at the end.
    func read(
        _ database: Database,
        limit: Int,
        _ body: (EntryRow, ItemRow) -> Void
    ) throws(Errno) -> QueryCursor? {
        var next = self
        switch way {
        case .entries(let entries, let read):
            let page = entries[read..<min(read + limit, entries.count)]
            for id in page {
                try database.each(
                    """
                    SELECT e.*, i.id, i.kind, i.mode, i.uid, i.gid, i.rdev, i.nlink, i.size, i.atime, i.mtime, i.ctime,
                        i.state, i.generation, i.version, i.resident, i.synced, i.used, i.target, i.home
                    FROM entries e JOIN items i ON i.id = e.item WHERE e.id = ?
                    """,
                    .int(id)
                ) { row in
                    body(EntryRow(row), ItemRow(row, from: 13))
                    return true
                }
            }
            next.way = .entries(entries, read: page.endIndex)
            return page.endIndex < entries.count ? next : nil
        case .all(let last, let literal):
            let behind = min(end, last.addingReportingOverflow(Self.window).partialValue)
            var (count, reached) = (0, behind)
            try database.each(
                """
                SELECT e.*, i.id, i.kind, i.mode, i.uid, i.gid, i.rdev, i.nlink, i.size, i.atime, i.mtime, i.ctime,
                    i.state, i.generation, i.version, i.resident, i.synced, i.used, i.target, i.home
                FROM entries e JOIN items i ON i.id = e.item
                WHERE e.id > ?1 AND e.id <= ?2 AND (length(?3) = 0 OR instr(e.name, ?3) > 0) ORDER BY e.id LIMIT ?4
                """,
                .int(last),
                .int(behind),
                .blob(literal),
                .int(Int64(limit))
            ) { row in
                let entry = EntryRow(row)
                body(entry, ItemRow(row, from: 13))
                count += 1
                if count == limit { reached = entry.id }
                return true
            }
            next.way = .all(after: reached, containing: literal)
            return reached < end ? next : nil
        }
    }
}
