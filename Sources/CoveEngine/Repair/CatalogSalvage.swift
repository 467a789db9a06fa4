internal import CoveCore
internal import Glibc

/// Copies what can be read of a damaged catalog into a new one, around the pages that can't be.
struct CatalogSalvage {
    private let old: String
    private let new: String
    private let log: Log
    /// Reads that may fail before a table is given up.
    private static let patience = 20_000

    init(from old: String, to new: String, log: Log) {
        self.old = old
        self.new = new
        self.log = log
    }

    /// What a new catalog has.
    struct Outcome {
        /// How many rows were copied of each table.
        var counts: [String: Int] = [:]
        /// How many names are excluded only because what has them stayed here; nil where all exclusions could be read.
        var guessedExclusions: Int?
    }

    /// Makes the new catalog.
    func run(content store: ContentStore) throws(Errno) -> Outcome {
        // Nothing that fails here says anything of the catalog that is used.
        let quiet = StateDisk(directory: "/dev/null", log: Log(path: nil, echoToStandardError: false))
        let target = try Database(path: new, disk: quiet, log: log)
        _ = try Schema.migrate(target)
        var outcome = Outcome()
        var hasExclusions = true
        if let source = try? Database(path: old, disk: quiet, log: Log(path: nil, echoToStandardError: false)) {
            try target.execute("BEGIN")
            let tables = try target.rows(
                "SELECT name, sql LIKE '%WITHOUT ROWID%' FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            ) { ($0.text(0), $0.int(1) != 0) }
            for (table, isPlain) in tables where table != "changes" {
                var copy = TableCopy(table: table, source: source, target: target, patience: CatalogSalvage.patience)
                let isComplete = try copy.run(byRowid: !isPlain)
                outcome.counts[table] = copy.count
                if table == "excluded_places" { hasExclusions = isComplete }
            }
            if !hasExclusions { outcome.guessedExclusions = try excludeLocal(target) }
            try target.execute("COMMIT")
        }
        try raiseIDs(target, store)
        _ = target.checkpointAll()
        return outcome
    }

    /// What stayed here may have been excluded: it is from now on, for what was sent by mistake can't be taken back.
    private func excludeLocal(_ target: Database) throws(Errno) -> Int {
        try target.change(
            """
            INSERT OR IGNORE INTO excluded_places
            SELECT parent, name, 1, NULL FROM entries WHERE flags & 1 AND remote_id IS NULL
            """,
            []
        )
    }

    /// An id that a lost row had is not given again: its content file may be there.
    private func raiseIDs(_ target: Database, _ store: ContentStore) throws(Errno) {
        try target.execute(
            "INSERT OR IGNORE INTO items VALUES(1, 1, 493, 0, 0, 0, 2, 0, 0, 0, 0, 1, 1, NULL, 0, 0, 0, NULL, NULL, 0)"
        )
        var highest: UInt64 = 0
        try store.forEach { id in highest = max(highest, id.rawValue) }
        try target.run(
            "UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'items'",
            .int(Int64(clamping: highest))
        )
    }
}

/// Copies one table.
private struct TableCopy {
    let table: String
    let source: Database
    let target: Database
    /// Reads that may still fail.
    var patience: Int
    var count = 0

    init(table: String, source: Database, target: Database, patience: Int) {
        self.table = table
        self.source = source
        self.target = target
        self.patience = patience
    }

    /// Copies all rows that can be read; true for a table without row numbers that could be read as a whole.
    mutating func run(byRowid: Bool) throws(Errno) -> Bool {
        guard byRowid else {
            // Its key has no numbers to try: from either end to the first page that can't be read.
            let key = try target.rows("SELECT name FROM pragma_table_info('\(table)') WHERE pk > 0 ORDER BY pk") {
                $0.text(0)
            }
            let isComplete = try copy("ORDER BY \(key.joined(separator: ", "))", []).isComplete
            if !isComplete {
                _ = try copy("ORDER BY \(key.map { $0 + " DESC" }.joined(separator: ", "))", [])
            }
            return isComplete
        }
        let sequence = try? source.rows("SELECT max(seq) FROM sqlite_sequence") { $0.int(0) }.first
        // What it says may be damaged too.
        try copy(between: 0, and: min(max(1, sequence ?? 1 << 32), 1 << 40) + 1)
        return false
    }

    /// Copies the rows with ids between two, ever smaller parts where some can't be read.
    private mutating func copy(between low: Int64, and high: Int64) throws(Errno) {
        guard high - low > 1, patience > 0 else { return }
        let limits: [Database.Value] = [.int(low), .int(high)]
        let up = try copy("WHERE rowid > ? AND rowid < ? ORDER BY rowid", limits)
        if up.isComplete { return }
        let first = max(low, up.last ?? low)
        let down = try copy("WHERE rowid > ? AND rowid < ? ORDER BY rowid DESC", [.int(first), .int(high)])
        let last = min(high, down.last ?? high)
        patience -= 2
        guard last - first > 2 else { return }
        let middle = first + (last - first) / 2
        try copy(between: first, and: middle + 1)
        try copy(between: middle, and: last)
    }

    /// Copies what a query gives before it fails; the last row's first column, which is the id where there is one.
    private mutating func copy(
        _ condition: String,
        _ values: [Database.Value]
    ) throws(Errno) -> (isComplete: Bool, last: Int64?) {
        var last: Int64?
        var rows: [[Database.Value]] = []
        var isComplete = true
        do throws(Errno) {
            try source.visit("SELECT * FROM \(table) \(condition)", values) { row in
                last = row.int(0)
                rows.append(row.values)
            }
        } catch {
            isComplete = false
        }
        // A table of an earlier version has fewer columns: new ones are only ever added behind the others.
        let columns = try target.rows("SELECT name FROM pragma_table_info('\(table)') ORDER BY cid") { $0.text(0) }
        for row in rows {
            let names = columns.prefix(row.count).joined(separator: ", ")
            let marks = Array(repeating: "?", count: row.count).joined(separator: ", ")
            // A row that can't be, as one of a page that was another table's, is left out.
            let inserted = try? target.change("INSERT OR IGNORE INTO \(table)(\(names)) VALUES(\(marks))", row)
            count += inserted ?? 0
        }
        return (isComplete, last)
    }
}
