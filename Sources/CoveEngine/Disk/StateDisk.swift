internal import CoveCore
internal import Glibc
internal import Synchronization

/// What the disk of the state directory refused, and what follows from it.
///
/// A disk that fails loses bytes that it had accepted, and says so once: a second fdatasync(2) would succeed. So nothing
/// more is written or sent then, and the next start takes it for an unclean end.
final class StateDisk: Sendable {
    /// What is wrong, the least first.
    enum Trouble: Int, Comparable {
        /// No room is left; ends by itself.
        case full
        /// It can't be written to; ends by itself.
        case readOnly
        /// The catalog has a page that can't be right.
        case damaged
        /// It reported an error of its own.
        case failing

        static func < (one: Trouble, other: Trouble) -> Bool { one.rawValue < other.rawValue }
    }

    private struct State {
        var trouble: Trouble?
        var what = ""
    }

    let directory: String
    let reserve: Reserve
    private let log: Log
    private let state = EngineMutex(.stateDisk, State())
    /// True while writes and uploads are barred.
    private let isBarred = Atomic<Bool>(false)
    private let isOutOfRoom = Atomic<Bool>(false)
    /// Content leaves the catalog this much room.
    private let margin: Int64
    /// With less room than this the reserve is given back.
    private let low: Int64

    /// `reserve`: how large that is to be; nil for as large as the kernel's cache of a mount.
    init(directory: String, reserve size: Int64? = nil, log: Log) {
        self.directory = directory
        self.log = log
        let room = DiskRoom(directory)
        reserve = Reserve(directory: directory, size: size, disk: room)
        margin = min(4 << 20, (room?.total ?? 0) / 32)
        low = max(margin + 1 << 20, min(16 << 20, reserve.size / 2))
    }

    private var available: Int64 { DiskRoom(directory)?.available ?? .max }

    private var marker: String { directory + "/damaged" }

    /// The worst of what is wrong now.
    var trouble: Trouble? { state.withLock { $0.trouble } }

    /// Throws while nothing more may be written: `EIO`.
    func requireSound() throws(Errno) {
        if isBarred.load(ordering: .acquiring) { throw .inputOutput }
    }

    /// True while nothing is downloaded and no file is opened for writing.
    var isFull: Bool { isOutOfRoom.load(ordering: .acquiring) }

    /// True while nothing can be sent: the catalog can't take what becomes of it.
    var isStuck: Bool { trouble.map { $0 == .readOnly || $0 == .failing } ?? false }

    /// Gives the reserve back when little room is left for what comes; throws when `keeps` and not even that is enough.
    ///
    /// Content is refused before its bytes change, while there is still room for the rows of what was accepted.
    func makeRoom(for count: Int, keeps: Bool) throws(Errno) {
        // A microsecond; whatever else writes to the disk may fill it between any two writes.
        var free = available
        guard free - Int64(count) < low else { return }
        if reserve.give() {
            note(.noSpace, "\(free >> 20) MiB are left")
            free = available
        }
        guard keeps, free - Int64(count) < margin else { return }
        note(.noSpace, "bytes of a file")
        throw .noSpace
    }

    /// Throws where a copy of bytes that are elsewhere too would take room that what programs write may need.
    func requireRoom(forCopy count: Int) throws(Errno) {
        if hasRoom(for: Int64(count)) { return }
        note(.noSpace, "a download or a copy for an upload")
        throw .noSpace
    }

    /// True when so much can be taken without any need.
    func hasRoom(for count: Int64) -> Bool { !isFull && available - count >= low }

    /// Takes the reserve at a start.
    func holdReserve() {
        if !reserve.take(available: available) { note(.noSpace, "no reserve can be held") }
    }

    /// Looks, each second, whether trouble that ends by itself has ended: true when some has.
    func look() -> Bool {
        switch trouble {
        case .full:
            let free = available
            guard free > low * 2, reserve.take(available: free - low) else { return false }
            recovered(from: .full)
            return true
        case .readOnly:
            if isReadOnly { return false }
            recovered(from: .readOnly)
            return true
        case .damaged, .failing: return false
        case nil:
            let free = available
            if free < low { note(.noSpace, "\(free >> 20) MiB are left") }
            return false
        }
    }

    /// Takes an error that a write, or the catalog, met; what the disk is not to blame for is passed over.
    ///
    /// Returns what it was: SQLite does not always tell one failed write from another.
    @discardableResult
    func note(_ error: Errno, _ what: String) -> Errno {
        let error = error == .inputOutput && becomesReadOnly ? .readOnly : error
        let found: Trouble
        switch error {
        case .noSpace, .quotaExceeded: found = .full
        case .readOnly: found = .readOnly
        case Errno(EUCLEAN): found = .damaged
        case .inputOutput: found = .failing
        default: return error
        }
        let isNews = state.withLock { state in
            if let known = state.trouble, known >= found { return false }
            state = State(trouble: found, what: "\(what): \(error)")
            return true
        }
        if found == .full { isOutOfRoom.store(true, ordering: .releasing) }
        if found == .failing { isBarred.store(true, ordering: .releasing) }
        guard isNews else { return error }
        log.error("state disk: \(what): \(error)")
        if found >= .damaged { mark("\(what): \(error)\n") }
        return error
    }

    /// True for a disk that is read-only, or is so a moment later: before a file system that met an error is made so, its
    /// log takes no more writes.
    private var becomesReadOnly: Bool {
        if trouble == .failing { return false }
        for _ in 0..<10 {
            if isReadOnly { return true }
            usleep(5000)
        }
        return isReadOnly
    }

    private var isReadOnly: Bool {
        do throws(Errno) {
            System.close(try System.open(directory + "/catalog.db", O_WRONLY))
            return false
        } catch {
            return error == .readOnly
        }
    }

    /// Runs what writes to the disk; notes why it can't.
    func writing<T>(_ what: String, _ body: () throws(Errno) -> T) throws(Errno) -> T {
        try requireSound()
        do throws(Errno) {
            return try body()
        } catch {
            note(error, what)
            throw error
        }
    }

    /// The disk takes writes again.
    func recovered(from trouble: Trouble) {
        let ended = state.withLock { state in
            guard state.trouble == trouble else { return false }
            state = State()
            return true
        }
        if ended, trouble == .full { isOutOfRoom.store(false, ordering: .releasing) }
        if ended { log.notice("state disk: it takes writes again") }
    }

    /// Tells the next start; where not even that can be written, the disk must be mounted again, which tells it too.
    private func mark(_ text: String) {
        guard let file = try? System.open(marker, O_WRONLY | O_CREAT | O_TRUNC) else { return }
        defer { System.close(file) }
        Array(text.utf8).withUnsafeBytes { try? System.writeAll(file, $0) }
        try? System.fsync(file)
        try? System.syncDirectory(directory)
    }

    /// True when an earlier run met damage, or an error of the disk.
    var isMarked: Bool { (try? System.lstat(marker)) != nil }

    /// Forgets what an earlier run met: it was dealt with.
    func unmark() throws(Errno) {
        guard isMarked else { return }
        try System.unlink(marker)
        try System.syncDirectory(directory)
    }

    /// What happened and what to do, for a person; nil while all is well.
    var notice: (problem: String, remedy: String)? {
        let (trouble, what) = state.withLock { ($0.trouble, $0.what) }
        switch trouble {
        case nil: return nil
        case .full:
            return (
                "the disk of \(directory) is full (\(what)): nothing is downloaded and no file is opened for writing",
                "free some room there; it goes on by itself"
            )
        case .readOnly:
            return (
                "the disk of \(directory) can't be written to (\(what)): nothing can be changed or downloaded",
                "see `dmesg` for the reason, and mount it writable; it goes on by itself"
            )
        case .damaged:
            return (
                "the catalog in \(directory) is damaged (\(what))",
                "unmount, run `cove doctor --repair`, and mount again"
            )
        case .failing:
            return (
                "the disk of \(directory) fails (\(what)): what is here can be read, nothing is changed or sent any more",
                "see `dmesg`, mend or replace the disk, then unmount and mount again"
            )
        }
    }
}
