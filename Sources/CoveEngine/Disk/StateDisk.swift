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
    private let log: Log
    private let state = Mutex(State())
    /// True while writes and uploads are barred.
    private let isBarred = Atomic<Bool>(false)

    init(directory: String, log: Log) {
        self.directory = directory
        self.log = log
    }

    private var marker: String { directory + "/damaged" }

    /// The worst of what is wrong now.
    var trouble: Trouble? { state.withLock { $0.trouble } }

    /// Throws while nothing more may be written: `EIO`.
    func requireSound() throws(Errno) {
        if isBarred.load(ordering: .acquiring) { throw .inputOutput }
    }

    /// Takes an error that a write, or the catalog, met; what the disk is not to blame for is passed over.
    func note(_ error: Errno, _ what: String) {
        let found: Trouble
        switch error {
        case .noSpace, .quotaExceeded: found = .full
        case .readOnly: found = .readOnly
        case Errno(EUCLEAN): found = .damaged
        case .inputOutput: found = .failing
        default: return
        }
        let isNews = state.withLock { state in
            if let known = state.trouble, known >= found { return false }
            state = State(trouble: found, what: "\(what): \(error)")
            return true
        }
        if found == .failing { isBarred.store(true, ordering: .releasing) }
        guard isNews else { return }
        log.error("state disk: \(what): \(error)")
        if found >= .damaged { mark("\(what): \(error)\n") }
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
