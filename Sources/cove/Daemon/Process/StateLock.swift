internal import CoveCore
internal import Glibc

/// Makes sure that one daemon works on a state directory, and that the directory belongs to the account's source.
final class StateLock: Sendable {
    /// The lock; it holds as long as any copy of the descriptor is open, or until `release`.
    let descriptor: Int32
    /// The state directory, for a mount that is made; one that takes over has no need of it.
    private let directory: String?

    /// Who has the lock, as the lock's file says: a process, and where it stands.
    private struct Holder {
        var process: pid_t?
        var mountpoint: String?
        var isEnding = false
    }

    /// What `account.json` in the state directory says.
    private struct Record: Codable, Equatable {
        var account: String
        var source: String
    }

    /// How long a daemon that is ending is waited for.
    private static let patience = TimeSpan.seconds(30)
    /// How long one is waited for whose mount is gone, and that has not said yet that it is ending.
    private static let notice = TimeSpan.seconds(3)

    /// Takes over the lock that an earlier daemon of the mount had.
    init(inherited: Int32, _ plan: MountPlan) {
        descriptor = inherited
        directory = nil
        // It only informs, and a full disk is no reason to give a mount up.
        try? write(Self.serving(plan))
    }

    /// Locks the directory, which is made when missing; waits for a daemon that is ending.
    init(_ plan: MountPlan) throws(Failure) {
        let path = plan.stateDirectory
        let folder = try StateFolder.make(path)
        directory = path
        descriptor = try Failure.explaining(path, "can't be locked", remedy: "check its owner and the disk") {
            () throws(Errno) in try folder.open("lock", O_RDWR | O_CREAT)
        }
        let start = System.monotonic()
        while true {
            if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { break }
            let error = Errno.current
            if error == .interrupted { continue }
            guard error == .wouldBlock else {
                throw Failure(path, "can't be locked: \(error)", "choose a directory on another disk with --state")
            }
            let holder = Self.holder(descriptor)
            let patience = holder.isEnding ? Self.patience : Self.isMounted(holder) ? .zero : Self.notice
            if System.monotonic() - start < patience {
                _ = poll(nil, 0, 10)
                continue
            }
            try Self.checkRecord(folder, plan)
            throw Self.busy(holder, path)
        }
        try Self.checkRecord(folder, plan)
        try write("\(getpid())")
    }

    /// True while a keeper or a daemon works on a state directory.
    static func isHeld(_ directory: String) -> Bool {
        guard let file = try? System.openPlain(AT_FDCWD, Array("\(directory)/lock".utf8), O_RDONLY) else {
            return false
        }
        defer { System.close(file) }
        return flock(file, LOCK_SH | LOCK_NB) != 0 && Errno.current == .wouldBlock
    }

    /// Where the directory's account is mounted, as its daemon or its last one has said.
    static func mountpoint(ofState directory: String) -> String? {
        guard let file = try? System.openPlain(AT_FDCWD, Array("\(directory)/lock".utf8), O_RDONLY) else { return nil }
        defer { System.close(file) }
        return holder(file).mountpoint
    }

    /// Says where the account is mounted.
    func noteServing(_ plan: MountPlan) throws(Failure) { try write(Self.serving(plan)) }

    /// Says that the daemon is ending: who wants the directory waits for that.
    func noteEnding() { try? write("\(getpid())\nending") }

    /// Gives the directory free, whoever has a copy.
    func release() { flock(descriptor, LOCK_UN) }

    deinit { System.close(descriptor) }

    // MARK: the holder

    private static func serving(_ plan: MountPlan) -> String { "\(getpid())\nserving \(plan.mountpoint)" }

    private static func holder(_ descriptor: Int32) -> Holder {
        let lines = text(descriptor).split(separator: "\n", maxSplits: 1)
        let state = lines.count > 1 ? lines[1] : ""
        return Holder(
            process: lines.first.flatMap { pid_t($0) },
            mountpoint: state.hasPrefix("serving ") ? String(state.dropFirst("serving ".count)) : nil,
            isEnding: state == "ending"
        )
    }

    /// False when the holder's mount was taken away, which it learns of in a moment.
    private static func isMounted(_ holder: Holder) -> Bool {
        guard let path = holder.mountpoint, let mounts = try? MountTable.read() else { return true }
        return mounts.contains { $0.isCove && $0.path == path }
    }

    private static func busy(_ holder: Holder, _ directory: String) -> Failure {
        let process = holder.process.map { "a daemon (pid \($0))" } ?? "another daemon"
        guard holder.isEnding else {
            return Failure(
                directory,
                "\(process) works on this account already",
                "end it with `cove unmount`, or choose another directory with --state"
            )
        }
        let time = Units.duration(patience.seconds)
        return Failure(
            directory,
            "\(process) that ends has not ended in \(time)",
            "see \(directory)/log, and try again"
        )
    }

    // MARK: the source

    /// True when the account has been connected before, or was to be used without.
    func hasRecord() -> Bool {
        guard let directory, let folder = try? StateFolder.open(directory) else { return true }
        return (try? folder.status(of: StateFolder.record)).map { $0.size > 0 } ?? false
    }

    /// Makes the directory the source's: state of one source is never used with another.
    func record(_ plan: MountPlan) throws(Failure) {
        guard let directory else { return }
        let folder = try StateFolder.open(directory)
        let record = Record(account: plan.account, source: plan.shownSource)
        guard let value = try? JSONValue(encoding: record) else { return }
        try Failure.explaining(directory, remedy: "check its owner and the disk") { () throws(Errno) in
            // A part of it would be no account's any more.
            let file = try folder.open(StateFolder.newRecord, O_RDWR | O_CREAT | O_TRUNC)
            defer { System.close(file) }
            try System.pwriteAll(file, Array((value.description + "\n").utf8), 0)
            try System.fsync(file)
            try folder.rename(StateFolder.newRecord, StateFolder.record)
            try System.syncDirectory(directory)
        }
    }

    /// It would look as if all had been deleted.
    private static func checkRecord(_ folder: borrowing PrivateFolder, _ plan: MountPlan) throws(Failure) {
        let path = "\(plan.stateDirectory)/\(StateFolder.record)"
        guard let status = try? folder.status(of: StateFolder.record), status.size > 0 else { return }
        let file: Int32
        do throws(Errno) { file = try folder.open(StateFolder.record, O_RDONLY) } catch {
            throw Failure(path, "\(error)", "check its owner and the disk")
        }
        defer { System.close(file) }
        let known = (try? JSONValue(parsing: Array(text(file).utf8)))?["source"]?.text
        guard known != plan.shownSource else { return }
        throw Failure(
            plan.isStateNamed ? plan.stateDirectory : plan.account,
            "belongs to the source \(known ?? "(unreadable \(path))")",
            plan.isStateNamed ? "choose another directory with --state" : "choose another name with --account"
        )
    }

    private static func text(_ file: Int32) -> String {
        String(decoding: (try? System.contents(file)) ?? [], as: UTF8.self)
    }

    private func write(_ text: String) throws(Failure) {
        let file = descriptor
        try Failure.explaining(nil, "the state directory can't be written", remedy: "check its owner and the disk") {
            () throws(Errno) in
            try System.ftruncate(file, 0)
            try System.pwriteAll(file, Array(text.utf8), 0)
        }
    }
}
