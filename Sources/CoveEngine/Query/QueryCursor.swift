internal import CoveCore

/// How far a way through the catalog has been gone.
struct QueryCursor {
    private enum Way {
        case name([UInt8])
        case prefix([UInt8], from: [UInt8])
        case waiting
        case all(containing: [UInt8]?)
    }

    private var way: Way
    /// The entry that was read last.
    private var last: Int64

    /// The ways that lead to all entries after one that an access may come to.
    static func all(_ access: QueryAccess, after last: Int64) -> [QueryCursor] {
        switch access {
        case .names(let names): names.map { QueryCursor(way: .name($0), last: last) }
        case .prefix(let prefix):
            [QueryCursor(way: last == 0 ? .prefix(prefix, from: prefix) : .all(containing: prefix), last: last)]
        case .waiting: [QueryCursor(way: .waiting, last: last)]
        case .all(let literal): [QueryCursor(way: .all(containing: literal), last: last)]
        }
    }

    /// Reads so many entries, none behind a certain one, with their items; returns where to go on, nil at the end.
    func read(
        _ database: Database,
        upTo end: Int64,
        limit: Int,
        _ body: (EntryRow, ItemRow) -> Void
    ) throws(Errno) -> QueryCursor? {
        var (count, last, name) = (0, self.last, [UInt8]())
        func take(_ row: Row) -> Bool {
            let entry = EntryRow(row)
            body(entry, ItemRow(row, from: 13))
            (count, last, name) = (count + 1, entry.id, entry.name)
            return true
        }
        let most = Database.Value.int(Int64(limit))
        var next = self
        switch way {
        case .name(let name):
            try database.each(
                """
                SELECT e.*, i.id, i.kind, i.mode, i.uid, i.gid, i.rdev, i.nlink, i.size, i.atime, i.mtime, i.ctime, i.state,
                    i.generation, i.version, i.resident, i.synced, i.used, i.target, i.home
                FROM entries e JOIN items i ON i.id = e.item WHERE e.name = ? AND e.id > ? AND e.id <= ? ORDER BY e.id LIMIT ?
                """,
                .blob(name),
                .int(self.last),
                .int(end),
                most,
                body: take
            )
        case .prefix(let prefix, let from):
            // The first name that does not begin so any more: one with a higher last byte, which ASCII always leaves room for.
            let behind = prefix.dropLast() + [(prefix.last ?? 0x7F) + 1]
            try database.each(
                """
                SELECT e.*, i.id, i.kind, i.mode, i.uid, i.gid, i.rdev, i.nlink, i.size, i.atime, i.mtime, i.ctime, i.state,
                    i.generation, i.version, i.resident, i.synced, i.used, i.target, i.home
                FROM entries e JOIN items i ON i.id = e.item
                WHERE e.name >= ?1 AND e.name < ?2 AND (e.name > ?1 OR e.id > ?3) AND e.id <= ?4
                ORDER BY e.name, e.id LIMIT ?5
                """,
                .blob(from),
                .blob(Array(behind)),
                .int(self.last),
                .int(end),
                most,
                body: take
            )
            next.way = .prefix(prefix, from: name)
        case .waiting:
            try database.each(
                """
                SELECT e.*, i.id, i.kind, i.mode, i.uid, i.gid, i.rdev, i.nlink, i.size, i.atime, i.mtime, i.ctime, i.state,
                    i.generation, i.version, i.resident, i.synced, i.used, i.target, i.home
                FROM journal j JOIN entries e ON e.id = j.entry JOIN items i ON i.id = e.item
                WHERE j.entry > ? AND j.entry <= ? ORDER BY j.entry LIMIT ?
                """,
                .int(self.last),
                .int(end),
                most,
                body: take
            )
        case .all(let literal):
            try database.each(
                """
                SELECT e.*, i.id, i.kind, i.mode, i.uid, i.gid, i.rdev, i.nlink, i.size, i.atime, i.mtime, i.ctime, i.state,
                    i.generation, i.version, i.resident, i.synced, i.used, i.target, i.home
                FROM entries e JOIN items i ON i.id = e.item
                WHERE e.id > ? AND e.id <= ? AND instr(e.name, ?) > 0 ORDER BY e.id LIMIT ?
                """,
                .int(self.last),
                .int(end),
                .blob(literal ?? []),
                most,
                body: take
            )
        }
        next.last = last
        return count < limit ? nil : next
    }
}
