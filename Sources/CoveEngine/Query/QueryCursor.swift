internal import CoveCore

/// How far a way through the catalog has been gone: a page is read at a time, and no entry twice, whatever changes meanwhile.
struct QueryCursor {
    private enum Way {
        /// Entries that an index has told, and how many of them have been read.
        case entries([Int64], read: Int)
        /// All entries behind one, without those that a filter does not hold of.
        case all(after: Int64, QueryFilter?, window: Int64)
    }

    /// So many entries are looked at in one go, however few of them are wanted; fewer where each is much work.
    private static let window: Int64 = 20_000
    /// With more work than this for each, an index's entries are looked at page by page.
    private static let mostWeight = 100

    private var way: Way
    /// No entry behind this one is read.
    private let end: Int64

    /// The way to these entries.
    init(_ entries: [Int64]) {
        way = .entries(entries, read: 0)
        end = .max
    }

    /// The way to all entries, behind one and up to another, that an access may come to; `weight` is how much work each is.
    init(
        _ access: QueryAccess,
        _ filter: QueryFilter?,
        weight: Int,
        after last: Int64,
        upTo end: Int64,
        _ database: Database
    ) throws(Errno) {
        self.end = end
        // Others wait for the same threads, and nothing ends a statement on its way.
        let window = max(1, min(Self.window, Self.window * 10 / Int64(max(weight, 1))))
        // What has come since the first look is little.
        guard last == 0 else {
            way = .all(after: last, filter, window: window)
            return
        }
        let filter = access == .all || weight <= Self.mostWeight ? filter : nil
        switch access {
        case .all:
            way = .all(after: last, filter, window: window)
        case .names(let names):
            // In one statement, which sees one moment.
            let list = Array(repeating: "?", count: names.count).joined(separator: ",")
            let condition = "e.name IN (\(list))"
            way = .entries(try Self.entries(condition, names.map { .blob($0) }, upTo: end, filter, database), read: 0)
        case .prefix(let prefix):
            // The first name that does not begin so any more: one with a higher last byte, which ASCII always leaves room for.
            let behind = prefix.dropLast() + [(prefix.last ?? 0x7F) + 1]
            let range: [Database.Value] = [.blob(prefix), .blob(Array(behind))]
            way = .entries(try Self.entries("e.name >= ? AND e.name < ?", range, upTo: end, filter, database), read: 0)
        case .waiting:
            let waiting = "e.id IN (SELECT entry FROM journal)"
            way = .entries(try Self.entries(waiting, [], upTo: end, filter, database), read: 0)
        }
    }

    /// The entries that an index tells, without those that a filter does not hold of.
    private static func entries(
        _ condition: String,
        _ values: [Database.Value],
        upTo end: Int64,
        _ filter: QueryFilter?,
        _ database: Database
    ) throws(Errno) -> [Int64] {
        var found: [Int64] = []
        try database.visit(
            """
            SELECT e.id FROM entries e CROSS JOIN items i ON i.id = e.item
            WHERE \(condition) AND e.id <= ? AND (\(filter?.sql ?? "1"))
            """,
            values + [.int(end)] + (filter?.values ?? [])
        ) { found.append($0.int(0)) }
        return found
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
                        i.state, i.generation, i.version, i.resident, i.synced, i.used, i.target, i.home, i.born
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
        case .all(let last, let filter, let window):
            let behind = min(end, last.addingReportingOverflow(window).partialValue)
            var (count, reached) = (0, behind)
            // The order of the tables is that of the entries' numbers, so that a page is a part of the way.
            try database.visit(
                """
                SELECT e.*, i.id, i.kind, i.mode, i.uid, i.gid, i.rdev, i.nlink, i.size, i.atime, i.mtime, i.ctime,
                    i.state, i.generation, i.version, i.resident, i.synced, i.used, i.target, i.home, i.born
                FROM entries e CROSS JOIN items i ON i.id = e.item
                WHERE e.id > ? AND e.id <= ? AND (\(filter?.sql ?? "1")) ORDER BY e.id LIMIT ?
                """,
                [.int(last), .int(behind)] + (filter?.values ?? []) + [.int(Int64(limit))]
            ) { row in
                let entry = EntryRow(row)
                body(entry, ItemRow(row, from: 13))
                count += 1
                if count == limit { reached = entry.id }
            }
            next.way = .all(after: reached, filter, window: window)
            return reached < end ? next : nil
        }
    }
}
