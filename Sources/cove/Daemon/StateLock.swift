internal import CoveCore
internal import Glibc

/// Makes sure that one daemon works on a state directory, and that the directory belongs to the account's source.
final class StateLock {
    /// The lock; it holds as long as any copy of the descriptor is open, or until `release`.
    let descriptor: Int32

    /// What `account.json` in the state directory says.
    private struct Record: Codable, Equatable {
        var account: String
        var source: String
    }

    /// Takes over the lock that an earlier daemon of the mount had.
    init(inherited: Int32) throws(Failure) {
        descriptor = inherited
        try Self.write(descriptor, "\(getpid())")
    }

    /// Locks the directory, which is made when missing.
    init(_ plan: MountPlan) throws(Failure) {
        let directory = plan.stateDirectory
        try StatePaths.makePrivate(directory)
        descriptor = try Failure.explaining(directory, "can't be locked", remedy: "check its owner and the disk") {
            () throws(Errno) in try System.open(directory + "/lock", O_RDWR | O_CREAT)
        }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let holder = Self.text(descriptor)
            let process = holder.isEmpty ? "another daemon" : "a daemon (pid \(holder))"
            System.close(descriptor)
            try Self.checkRecord(plan)
            throw Failure(
                directory,
                "\(process) works on this account already",
                "end it with `cove unmount`, or choose another directory with --state"
            )
        }
        do throws(Failure) {
            try Self.checkRecord(plan)
            try Self.write(descriptor, "\(getpid())")
        } catch {
            System.close(descriptor)
            throw error
        }
    }

    /// True while a keeper or a daemon works on a state directory.
    static func isHeld(_ directory: String) -> Bool {
        guard let file = try? System.open(directory + "/lock", O_RDONLY) else { return false }
        defer { System.close(file) }
        return flock(file, LOCK_SH | LOCK_NB) != 0
    }

    /// Gives the directory free, whoever has a copy.
    func release() { flock(descriptor, LOCK_UN) }

    deinit { System.close(descriptor) }

    /// State of one source is never used with another: it would look as if all had been deleted.
    private static func checkRecord(_ plan: MountPlan) throws(Failure) {
        let path = plan.stateDirectory + "/account.json"
        let record = Record(account: plan.account, source: plan.shownSource)
        let file = try Failure.explaining(path, remedy: "check its owner and the disk") { () throws(Errno) in
            try System.open(path, O_RDWR | O_CREAT)
        }
        defer { System.close(file) }
        let existing = text(file)
        if existing.isEmpty {
            guard let value = try? JSONValue(encoding: record) else { return }
            return try write(file, value.description + "\n")
        }
        let known = (try? JSONValue(parsing: Array(existing.utf8)))?["source"]?.text
        guard known != record.source else { return }
        throw Failure(
            plan.isStateNamed ? plan.stateDirectory : plan.account,
            "belongs to the source \(known ?? "(unreadable \(path))")",
            plan.isStateNamed ? "choose another directory with --state" : "choose another name with --account"
        )
    }

    private static func text(_ file: Int32) -> String {
        var bytes = [UInt8](repeating: 0, count: 4096)
        let count = bytes.withUnsafeMutableBytes { (try? System.pread(file, $0, 0)) ?? 0 }
        return String(decoding: bytes[..<count].prefix { $0 != 0x0A }, as: UTF8.self)
    }

    private static func write(_ file: Int32, _ text: String) throws(Failure) {
        let remedy = "check its owner and the disk"
        try Failure.explaining(nil, "the state directory can't be written", remedy: remedy) { () throws(Errno) in
            try System.ftruncate(file, 0)
            let bytes = Array(text.utf8)
            try bytes.withUnsafeBytes { buffer in
                Result<Void, Errno> { () throws(Errno) in try System.pwriteAll(file, buffer, 0) }
            }.get()
        }
    }
}
