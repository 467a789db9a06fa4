internal import CSQLite
internal import CoveCore
internal import Dispatch
internal import Glibc
internal import Synchronization

/// The account's database: one writer, a pool of readers, and a thread of its own for checkpoints.
///
/// The writer's lock is taken inside an item's lock, never around one.
final class Catalog: Sendable {
    /// Commits after which the checkpointer looks at the write-ahead log.
    private static let checkpointCommits = 200
    /// Frames of a log that is to be written from its start again, 16 MiB: where a file grows, a commit takes longer.
    private static let fullLog: Int32 = 4000
    /// How long that may wait for readers, and commits for it, in milliseconds.
    private static let restartPatience: Int32 = 20
    /// What a commit adds to the log, at most nearly always.
    private static let commitSize = 64 << 10
    /// Readers kept open; more are made and dropped when all are busy.
    private static let pooledReaders = 8

    let path: String
    private let log: Log
    private let disk: StateDisk
    private let writer: EngineMutex<Database>
    private let readers = EngineMutex<[Database]>(.catalogReaders, [])
    private let checkpointer: EngineMutex<Database>
    /// The log, which is there as long as the catalog is open, -1 until it is first synced; how many commits are durable.
    private let logFile = EngineMutex<(descriptor: Int32, commits: Int)>(.catalogLogFile, (-1, 0))
    private let checkpointQueue = DispatchQueue(label: "cove.checkpoint")
    private let commits = Atomic<Int>(0)
    /// Hears of what was committed, on the writer's connection, in the order of the commits.
    let follower = EngineMutex<CatalogFollower?>(.catalogFollower, nil)
    /// Who follows what changes, committed or not.
    let touches = Touches()
    /// How many transactions were committed.
    var commitCount: Int { commits.load(ordering: .relaxed) }
    /// How many of these are known to be on the disk.
    var durableCount: Int { logFile.withLock { $0.commits } }
    private let afterSync = EngineMutex<[@Sendable () -> Void]>(.catalogAfterSync, [])

    /// Opens or makes the catalog and brings its schema up to date.
    ///
    /// `whenMigrating` is called before the schema of an existing one is changed.
    init(
        path: String,
        disk: StateDisk,
        log: Log,
        whenMigrating: () -> Void = {}
    ) throws(CatalogOpenError) {
        self.path = path
        self.disk = disk
        self.log = log
        let outcome: SchemaOutcome
        do throws(Errno) {
            let database = try Catalog.connect(path, disk, log)
            outcome = try Schema.migrate(database, whenMigrating: whenMigrating)
            database.watch(for: touches)
            writer = EngineMutex(.catalogWriter, database)
            let other = try Catalog.connect(path, disk, log)
            other.setPatience(milliseconds: Catalog.restartPatience)
            checkpointer = EngineMutex(.catalogCheckpointer, other)
        } catch {
            throw error == Errno(EUCLEAN) ? .corrupt("\(error)") : .failed(error)
        }
        if case .tooNew(let version) = outcome { throw .tooNew(version) }
    }

    deinit {
        let descriptor = logFile.withLock { $0.descriptor }
        if descriptor >= 0 { System.close(descriptor) }
    }

    /// What SQLite finds wrong with the file, all of which it reads; nil when it is sound.
    func damage() throws(Errno) -> String? {
        let verdict = try read { database throws(Errno) in
            try database.first("PRAGMA quick_check(1)", read: { $0.text(0) })
        }
        return verdict == "ok" ? nil : verdict ?? "no answer"
    }

    private static func connect(_ path: String, _ disk: StateDisk, _ log: Log) throws(Errno) -> Database {
        let database = try Database(path: path, disk: disk, log: log)
        try database.execute(
            """
            PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0;
            PRAGMA foreign_keys = OFF; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -4000
            """
        )
        return database
    }

    /// Runs the body in one transaction that is on its way to disk when this returns; throwing rolls it back.
    ///
    /// With `durable` it is on disk, and all before it, even where it changed nothing. What it does for a request of the
    /// kernel is noted with that, so that a request sent again after this daemon's death gets its first answer.
    func write<T: Sendable>(
        for caller: Caller? = nil,
        durable: Bool = false,
        _ body: (Database) throws(Errno) -> T
    ) throws(Errno) -> T {
        try disk.requireSound()
        try disk.makeRoom(for: Catalog.commitSize, keeps: false)
        let result: T = try writer.withLock { database throws(Errno) -> T in
            try database.run("BEGIN IMMEDIATE")
            database.request = caller.flatMap { $0.request == 0 ? nil : Int64(bitPattern: $0.request) }
            do throws(Errno) {
                let value = try body(database)
                try database.run("COMMIT")
                follower.withLock({ $0 })?.take(database.changes, database)
                database.tellTouched()
                database.endTransaction(failed: false)
                return value
            } catch {
                try? database.run("ROLLBACK")
                database.endTransaction(failed: true)
                throw error
            }
        }
        let count = commits.add(1, ordering: .acquiringAndReleasing).newValue
        if count % Catalog.checkpointCommits == 0 { scheduleCheckpoint() }
        if durable { try syncLog() }
        return result
    }

    /// Runs the body on a connection that sees the last commit.
    func read<T>(_ body: (Database) throws(Errno) -> T) throws(Errno) -> T {
        let pooled = readers.withLock { $0.popLast() }
        let reader: Database
        if let pooled { reader = pooled } else { reader = try Catalog.connect(path, disk, log) }
        defer { readers.withLock { if $0.count < Catalog.pooledReaders { $0.append(reader) } } }
        return try body(reader)
    }

    /// Runs the body, which asks for a few rows, on the writer's connection when that is free.
    ///
    /// Its pages are in memory, while a reader reads its own again after every commit. Not to be called inside `write`.
    func glance<T: Sendable>(_ body: (Database) throws(Errno) -> T) throws(Errno) -> T {
        let found = try writer.withLockIfAvailable { database throws(Errno) -> T in try body(database) }
        if let found { return found }
        return try read(body)
    }

    /// Waits for what is being committed now.
    func barrier() { writer.withLock { _ in } }

    /// Makes every commit so far durable; others go on to commit meanwhile.
    func syncLog() throws(Errno) {
        let wanted = commits.load(ordering: .acquiring)
        // One at a time: a descriptor tells of a write that failed only once.
        try logFile.withLock { log throws(Errno) in
            try disk.requireSound()
            // Who held the lock has synced for all who waited for it.
            guard log.commits < wanted || wanted == 0 else { return }
            let written = commits.load(ordering: .acquiring)
            do throws(Errno) {
                if log.descriptor < 0 { log.descriptor = try System.open(path + "-wal", O_RDONLY) }
                try System.fdatasync(log.descriptor)
                log.commits = written
            } catch {
                // Without a log everything is in the database file, which its last checkpoint synced.
                guard error != .noSuchEntry else { return }
                disk.note(error, "the catalog's log can't be synced")
                throw error
            }
        }
    }

    /// Runs the body once everything committed so far is durable, on the checkpoint queue.
    func whenDurable(_ body: @escaping @Sendable () -> Void) {
        let first = afterSync.withLock { waiting in
            waiting.append(body)
            return waiting.count == 1
        }
        guard first else { return }
        checkpointQueue.asyncAfter(deadline: .now() + .milliseconds(500)) { [self] in try? runDurable() }
    }

    /// Makes every commit so far durable and runs what waited for that.
    func synchronize() throws(Errno) {
        try checkpointQueue.sync { Result { () throws(Errno) in try runDurable() } }.get()
    }

    /// What waits goes on waiting when the log can't be synced.
    private func runDurable() throws(Errno) {
        let waiting = afterSync.withLock { list in
            defer { list = [] }
            return list
        }
        do throws(Errno) {
            try syncLog()
        } catch {
            afterSync.withLock { $0.insert(contentsOf: waiting, at: 0) }
            throw error
        }
        for body in waiting { body() }
    }

    private func scheduleCheckpoint() {
        checkpointQueue.async { [self] in
            checkpointer.withLock { database in
                let passive = database.checkpoint(mode: SQLITE_CHECKPOINT_PASSIVE)
                guard passive.log > Catalog.fullLog else { return }
                // Commits that went on meanwhile keep it from starting again: they wait while the little they added is copied.
                writer.withLock { _ in _ = database.checkpoint(mode: SQLITE_CHECKPOINT_RESTART) }
            }
        }
    }

    /// Runs the body while nothing is committed, and nothing moves from the log into the database file: for a copy of both.
    ///
    /// Content files change meanwhile, and what wants to commit waits; the body must not use the catalog.
    func whileStill<T: Sendable>(_ body: () throws -> T) throws -> T {
        try checkpointQueue.sync { try writer.withLock { _ throws in try body() } }
    }

    /// Gives memory back that only speeds up what comes next.
    func releaseMemory() {
        readers.withLock { $0 = [] }
        _ = writer.withLockIfAvailable { $0.releaseMemory() }
        _ = checkpointer.withLockIfAvailable { $0.releaseMemory() }
    }

    /// Copies the whole log into the database file.
    func close() {
        try? synchronize()
        checkpointQueue.sync {
            _ = checkpointer.withLock { $0.checkpoint(mode: SQLITE_CHECKPOINT_TRUNCATE) }
        }
    }
}

/// Why a catalog can't be used.
enum CatalogOpenError: Error {
    case tooNew(Int)
    case corrupt(String)
    case failed(Errno)
}

/// Who hears of commits.
///
/// In a struct: a function that is itself what a mutex holds is wrapped once more each time it is looked at.
struct CatalogFollower: Sendable {
    let take: @Sendable ([CatalogChange], Database) -> Void
}

/// What a row of the change feed tells.
enum ChangeKind: Int64 {
    case created = 1
    case removed = 2
    case moved = 3
    case content = 4
    case attributes = 5
}
