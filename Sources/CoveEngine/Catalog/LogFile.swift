internal import CSQLite
internal import Glibc

/// An open write-ahead log, and the frames of a commit that are not in the file yet.
///
/// SQLite writes each page of a commit by two calls, and a new file changes some ten pages. Here they gather in memory
/// until the commit's last page, whose write answers for all: before that nobody else looks for them in the file.
struct LogFile {
    private typealias File = UnsafeMutablePointer<sqlite3_file>

    /// The bytes of a frame's header; its page comes next.
    private static let headerSize: Int32 = 24
    /// What is kept of a commit, less than the 128 KiB that SQLite's own write takes; a larger one is written in parts.
    private static let limit = 124 << 10

    /// What SQLite calls: the first member, so that a file's pointer to it finds the rest.
    private var methods: sqlite3_io_methods
    private let base: sqlite3_io_methods
    private let frames: UnsafeMutableRawPointer
    private var count = 0
    /// Where the last write ended; the frames kept are what lies before.
    private var end: sqlite3_int64 = -1
    /// The last write was a header, of a frame that ends a commit.
    private var isHeader = false
    private var isCommit = false

    /// Takes over an opened file; without memory for it, it stays SQLite's own.
    static func attach(to file: UnsafeMutablePointer<sqlite3_file>, at offset: Int) {
        guard let base = file.pointee.pMethods?.pointee, let frames = malloc(limit) else { return }
        let log = (UnsafeMutableRawPointer(file) + offset).bindMemory(to: LogFile.self, capacity: 1)
        log.initialize(to: LogFile(methods: base, base: base, frames: frames))
        log.pointee.methods.xWrite = { file, bytes, count, offset in
            guard let file, let bytes else { return SQLITE_MISUSE }
            return LogFile.of(file).pointee.write(file, UnsafeRawBufferPointer(start: bytes, count: Int(count)), offset)
        }
        log.pointee.methods.xRead = { file, bytes, count, offset in
            LogFile.afterWriting(file) { $0.xRead(file, bytes, count, offset) }
        }
        log.pointee.methods.xTruncate = { file, size in LogFile.afterWriting(file) { $0.xTruncate(file, size) } }
        log.pointee.methods.xSync = { file, flags in LogFile.afterWriting(file) { $0.xSync(file, flags) } }
        log.pointee.methods.xFileSize = { file, size in LogFile.afterWriting(file) { $0.xFileSize(file, size) } }
        log.pointee.methods.xClose = { file in
            guard let file else { return SQLITE_MISUSE }
            let log = LogFile.of(file)
            // What is left is of a transaction that was taken back.
            free(log.pointee.frames)
            return log.pointee.base.xClose(file)
        }
        file.pointee.pMethods = UnsafeRawPointer(log).assumingMemoryBound(to: sqlite3_io_methods.self)
    }

    private init(methods: sqlite3_io_methods, base: sqlite3_io_methods, frames: UnsafeMutableRawPointer) {
        self.methods = methods
        self.base = base
        self.frames = frames
    }

    private static func of(_ file: File) -> UnsafeMutablePointer<LogFile> {
        UnsafeMutableRawPointer(mutating: UnsafeRawPointer(file.pointee.pMethods)).assumingMemoryBound(to: LogFile.self)
    }

    /// Does something else with the file, which must see all that was written.
    private static func afterWriting(_ file: File?, _ body: (sqlite3_io_methods) -> Int32) -> Int32 {
        guard let file else { return SQLITE_MISUSE }
        let log = of(file)
        let code = log.pointee.flush(file)
        return code == SQLITE_OK ? body(log.pointee.base) : code
    }

    /// Keeps a frame that comes right after the last one, until the commit's last is there.
    private mutating func write(_ file: File, _ bytes: UnsafeRawBufferPointer, _ offset: sqlite3_int64) -> Int32 {
        let size = Int32(bytes.count)
        let isNext = offset == end && (isHeader || size == LogFile.headerSize) && count + bytes.count <= LogFile.limit
        if !isNext {
            let code = flush(file)
            if code != SQLITE_OK { return code }
        }
        let wasCommit = isHeader && isCommit
        isHeader = !(isNext && isHeader) && size == LogFile.headerSize
        end = offset + sqlite3_int64(size)
        guard isNext else {
            // A page that follows is written at once: this may be the header of a commit's last.
            isCommit = true
            return base.xWrite(file, bytes.baseAddress, size, offset)
        }
        UnsafeMutableRawBufferPointer(start: frames + count, count: bytes.count).copyMemory(from: bytes)
        count += bytes.count
        if isHeader {
            // The size of the database after the commit; 0 in all frames but its last.
            isCommit = bytes.loadUnaligned(fromByteOffset: 4, as: UInt32.self) != 0
            return SQLITE_OK
        }
        return wasCommit ? flush(file) : SQLITE_OK
    }

    /// Writes what is kept; where that fails so does the commit, and nothing is kept.
    private mutating func flush(_ file: File) -> Int32 {
        guard count > 0 else { return SQLITE_OK }
        let size = Int32(count)
        count = 0
        let code = base.xWrite(file, frames, size, end - sqlite3_int64(size))
        if code != SQLITE_OK { end = -1 }
        return code
    }
}
