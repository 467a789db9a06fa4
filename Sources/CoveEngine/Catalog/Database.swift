internal import CSQLite
internal import CoveCore
internal import Glibc

/// One SQLite connection with its prepared statements.
///
/// Unchecked because the compiler can't see what makes it safe: `Catalog` gives it to one thread at a time.
final class Database: @unchecked Sendable {
    /// A value bound to a statement.
    enum Value {
        case int(Int64)
        case blob([UInt8])
        case text(String)
        case null
    }

    let handle: OpaquePointer
    private var statements: [UnsafeRawPointer: Statement] = [:]
    private let disk: StateDisk
    private let log: Log
    /// What a transaction did outside the database, to be taken back if it fails.
    private var undo: [() -> Void] = []
    /// What follows from a transaction outside the database.
    private var effects: [() -> Void] = []
    /// The kernel's request that the transaction serves; its changes are noted with it.
    var request: Int64?
    /// What the transaction has put into the change feed.
    var changes: [CatalogChange] = []
    /// What it did to versions.
    var versionNotes: [VersionNote] = []
    /// What it has touched, while somebody follows that.
    var touched = Touched()
    var touches: Touches?

    /// Nobody asks SQLite how much memory it has: counting that takes a lock of all connections for each piece.
    private static let isUncounted = cove_sqlite_leave_memory_uncounted() == SQLITE_OK

    /// Opens a connection; the file is created when missing.
    init(path: String, disk: StateDisk, log: Log) throws(Errno) {
        _ = Database.isUncounted
        var opened: OpaquePointer?
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX
        let code = sqlite3_open_v2(path, &opened, flags, nil)
        guard code == SQLITE_OK, let opened else {
            let error = Database.errno(for: code, system: opened.map { sqlite3_system_errno($0) } ?? 0)
            if let opened { sqlite3_close_v2(opened) }
            throw error
        }
        handle = opened
        self.disk = disk
        self.log = log
        sqlite3_extended_result_codes(handle, 1)
        sqlite3_busy_timeout(handle, 10_000)
        try addNameMatch()
        try addTypeMatch()
    }

    /// Registers what takes something back that is done along with the transaction, in case it fails.
    func whenRolledBack(_ body: @escaping () -> Void) { undo.append(body) }

    /// Registers what is to be done outside the database once the transaction is committed, before the next one begins.
    func whenCommitted(_ body: @escaping () -> Void) { effects.append(body) }

    func endTransaction(failed: Bool) {
        let steps = failed ? undo.reversed() : effects
        undo = []
        effects = []
        request = nil
        changes.removeAll(keepingCapacity: true)
        versionNotes.removeAll(keepingCapacity: true)
        if !touched.isEmpty { touched = Touched() }
        for step in steps { step() }
    }

    deinit {
        statements.removeAll()
        sqlite3_close_v2(handle)
    }

    /// Gives the memory of pages back that it keeps in case they are asked for again.
    func releaseMemory() { sqlite3_db_release_memory(handle) }

    /// Runs statements that return nothing and take no values.
    func execute(_ sql: String) throws(Errno) {
        try check(sqlite3_exec(handle, sql, nil, nil, nil), sql)
    }

    /// Runs one prepared statement to its end.
    func run(_ sql: StaticString, _ values: Value...) throws(Errno) { try run(sql, values) }

    /// Runs a statement that returns no rows, with its values in an array.
    func run(_ sql: StaticString, _ values: [Value]) throws(Errno) {
        let statement = try prepared(sql)
        defer { statement.reset() }
        statement.bind(values)
        while try step(statement, sql) {}
    }

    /// The first row of a query, or nil.
    func first<T>(_ sql: StaticString, _ values: Value..., read: (Row) -> T) throws(Errno) -> T? {
        let statement = try prepared(sql)
        defer { statement.reset() }
        statement.bind(values)
        guard try step(statement, sql) else { return nil }
        return read(Row(statement.handle))
    }

    /// All rows of a query.
    func all<T>(_ sql: StaticString, _ values: Value..., read: (Row) -> T) throws(Errno) -> [T] {
        let statement = try prepared(sql)
        defer { statement.reset() }
        statement.bind(values)
        var rows: [T] = []
        while try step(statement, sql) { rows.append(read(Row(statement.handle))) }
        return rows
    }

    /// Visits rows until the body returns false.
    func each(_ sql: StaticString, _ values: Value..., body: (Row) -> Bool) throws(Errno) {
        let statement = try prepared(sql)
        defer { statement.reset() }
        statement.bind(values)
        while try step(statement, sql) {
            if !body(Row(statement.handle)) { return }
        }
    }

    /// Visits all rows of a query that is made once.
    func visit(_ sql: String, _ values: [Value] = [], _ body: (Row) -> Void) throws(Errno) {
        var handle: OpaquePointer?
        let code = sqlite3_prepare_v2(self.handle, sql, -1, &handle, nil)
        // A statement that SQLite can't take says nothing of the disk.
        if code == SQLITE_ERROR {
            log.error("catalog: \(String(cString: sqlite3_errmsg(self.handle))) in: \(sql.prefix(120))")
            throw .invalidArgument
        }
        try check(code, sql)
        guard let handle else { throw .invalidArgument }
        let statement = Statement(handle)
        statement.bind(values)
        while true {
            let code = sqlite3_step(handle)
            if code == SQLITE_DONE { return }
            guard code == SQLITE_ROW else { return try check(code, sql) }
            body(Row(handle))
        }
    }

    /// All rows of a query that is made once.
    func rows<T>(_ sql: String, read: (Row) -> T) throws(Errno) -> [T] {
        var rows: [T] = []
        try visit(sql) { rows.append(read($0)) }
        return rows
    }

    /// Runs a statement that is made once; how many rows it changed, without those that a trigger did.
    @discardableResult
    func change(_ sql: String, _ values: [Value]) throws(Errno) -> Int {
        try visit(sql, values) { _ in }
        return Int(sqlite3_changes(handle))
    }

    /// Copies the whole log into the database file.
    func checkpointAll() -> (log: Int32, copied: Int32) { checkpoint(mode: SQLITE_CHECKPOINT_TRUNCATE) }

    /// The rowid the last INSERT gave.
    var lastInsertID: Int64 { sqlite3_last_insert_rowid(handle) }

    /// How long to wait for locks of other connections; 10 s at first.
    func setPatience(milliseconds: Int32) { sqlite3_busy_timeout(handle, milliseconds) }

    /// Copies what it can of the log into the database file; returns the log's frames and those copied.
    func checkpoint(mode: Int32) -> (log: Int32, copied: Int32) {
        var frames: Int32 = 0
        var copied: Int32 = 0
        let code = sqlite3_wal_checkpoint_v2(handle, nil, mode, &frames, &copied)
        // The log grows on meanwhile; a reader or a writer in the way is no trouble.
        if code != SQLITE_OK, code & 0xFF != SQLITE_BUSY, code & 0xFF != SQLITE_LOCKED {
            try? check(code, "a checkpoint")
        }
        return (frames, copied)
    }

    private func prepared(_ sql: StaticString) throws(Errno) -> Statement {
        let key = UnsafeRawPointer(sql.utf8Start)
        if let found = statements[key] { return found }
        var statement: OpaquePointer?
        let text = sql.description
        let code = sqlite3_prepare_v3(handle, text, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &statement, nil)
        try check(code, text)
        guard let statement else { throw .invalidArgument }
        let made = Statement(statement)
        statements[key] = made
        return made
    }

    private func step(_ statement: Statement, _ sql: StaticString) throws(Errno) -> Bool {
        let code = sqlite3_step(statement.handle)
        if code == SQLITE_ROW { return true }
        if code == SQLITE_DONE { return false }
        try check(code, sql.description)
        return false
    }

    private func check(_ code: Int32, _ sql: String) throws(Errno) {
        guard code != SQLITE_OK else { return }
        log.error("catalog: \(String(cString: sqlite3_errmsg(handle))) (\(code)) in: \(sql.prefix(120))")
        throw disk.note(Database.errno(for: code, system: sqlite3_system_errno(handle)), "the catalog")
    }

    /// What a result code of SQLite says, with what the system had told it.
    static func errno(for code: Int32, system: Int32) -> Errno {
        switch code & 0xFF {
        case SQLITE_FULL: .noSpace
        case SQLITE_IOERR where system == ENOSPC || system == EDQUOT: .noSpace
        // SQLITE_IOERR_NOMEM, a macro that Swift can't import.
        case SQLITE_IOERR where code >> 8 == 12: Errno(ENOMEM)
        // What the process or the machine has no more of says nothing of the disk.
        case SQLITE_CANTOPEN where [EMFILE, ENFILE, ENOMEM].contains(system): Errno(system)
        case SQLITE_READONLY: .readOnly
        case SQLITE_NOMEM: Errno(ENOMEM)
        case SQLITE_BUSY, SQLITE_LOCKED: .busy
        case SQLITE_CONSTRAINT: .exists
        case SQLITE_CORRUPT, SQLITE_NOTADB: Errno(EUCLEAN)
        default: .inputOutput
        }
    }
}

/// A prepared statement; finalized with its last reference.
private final class Statement {
    let handle: OpaquePointer

    init(_ handle: OpaquePointer) { self.handle = handle }

    deinit { sqlite3_finalize(handle) }

    func reset() {
        sqlite3_reset(handle)
        sqlite3_clear_bindings(handle)
    }

    func bind(_ values: [Database.Value]) {
        for (index, value) in values.enumerated() {
            let position = Int32(index + 1)
            switch value {
            case .int(let number): sqlite3_bind_int64(handle, position, number)
            case .blob(let bytes):
                _ = bytes.withUnsafeBytes {
                    // An empty blob needs an address, or it would be bound as NULL.
                    $0.baseAddress == nil
                        ? sqlite3_bind_zeroblob(handle, position, 0)
                        : cove_sqlite_bind_blob_transient(handle, position, $0.baseAddress, Int32($0.count))
                }
            case .text(let text): cove_sqlite_bind_text_transient(handle, position, text, -1)
            case .null: sqlite3_bind_null(handle, position)
            }
        }
    }
}

/// The row a query stands on; valid until the next step.
struct Row {
    private let handle: OpaquePointer

    init(_ handle: OpaquePointer) { self.handle = handle }

    func isNull(_ column: Int32) -> Bool { sqlite3_column_type(handle, column) == SQLITE_NULL }
    /// A number that is never negative, and can be added to whatever a damaged catalog says.
    func count(_ column: Int32) -> Int64 { min(max(0, int(column)), 1 << 46) }

    func int(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column) }
    func time(_ column: Int32) -> Timestamp { Timestamp(int(column)) }
    func milliseconds(_ column: Int32) -> Timestamp { Timestamp(milliseconds: int(column)) }
    func item(_ column: Int32) -> ItemID { ItemID(UInt64(bitPattern: sqlite3_column_int64(handle, column))) }

    func blob(_ column: Int32) -> [UInt8] {
        guard let base = sqlite3_column_blob(handle, column) else { return [] }
        let count = Int(sqlite3_column_bytes(handle, column))
        return Array(UnsafeRawBufferPointer(start: base, count: count))
    }

    func optionalBlob(_ column: Int32) -> [UInt8]? { isNull(column) ? nil : blob(column) }
    func optionalInt(_ column: Int32) -> Int64? { isNull(column) ? nil : int(column) }

    func text(_ column: Int32) -> String {
        guard let base = sqlite3_column_text(handle, column) else { return "" }
        return String(cString: base)
    }

    /// All columns as they are.
    var values: [Database.Value] {
        (0..<sqlite3_column_count(handle)).map { column in
            switch sqlite3_column_type(handle, column) {
            case SQLITE_INTEGER: .int(int(column))
            case SQLITE_BLOB: .blob(blob(column))
            case SQLITE_NULL: .null
            default: .text(text(column))
            }
        }
    }

    func optionalText(_ column: Int32) -> String? { isNull(column) ? nil : text(column) }

    func document(_ column: Int32) -> DocumentID { DocumentID(bytes: blob(column)) }
}

extension DocumentID {
    /// Reads the sixteen bytes that `bytes` gives.
    init(bytes: [UInt8]) {
        func half(_ part: ArraySlice<UInt8>) -> UInt64 { part.reduce(0) { $0 << 8 | UInt64($1) } }
        self.init(high: half(bytes.prefix(8)), low: half(bytes.dropFirst(8).prefix(8)))
    }

    /// The id as sixteen bytes, most significant first.
    var bytes: [UInt8] {
        (0..<16).map { index in
            let word = index < 8 ? high : low
            return UInt8(truncatingIfNeeded: word >> UInt64(56 - 8 * (index % 8)))
        }
    }
}

extension Database.Value {
    static func item(_ id: ItemID) -> Database.Value { .int(Int64(bitPattern: id.rawValue)) }
    static func document(_ id: DocumentID) -> Database.Value { .blob(id.bytes) }
    static func optional(_ number: Int64?) -> Database.Value { number.map { .int($0) } ?? .null }
    static func optional(_ bytes: [UInt8]?) -> Database.Value { bytes.map { .blob($0) } ?? .null }
    static func optional(_ text: String?) -> Database.Value { text.map { .text($0) } ?? .null }
    static func time(_ time: Timestamp) -> Database.Value { .int(time.nanosecondsSinceEpoch) }
    static func milliseconds(_ time: Timestamp) -> Database.Value { .int(time.millisecondsSinceEpoch) }
    static func milliseconds(_ span: TimeSpan) -> Database.Value { .int(span.milliseconds) }
    static func flag(_ value: Bool) -> Database.Value { .int(value ? 1 : 0) }
}
