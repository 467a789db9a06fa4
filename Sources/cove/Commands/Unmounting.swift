internal import CoveCore
internal import CoveMount
internal import Glibc

/// What `cove unmount` does.
enum Unmounting {
    /// How long a daemon may take to end once it has unmounted.
    private static let patience = TimeSpan.seconds(60)
    /// How long a daemon may take to say where it listens.
    private static let answer = TimeSpan.seconds(30)

    static func run(_ arguments: Arguments) throws(Failure) -> Int32 {
        let shown = arguments.operand(0) ?? ""
        let mount = try find(shown)
        // From inside the mount this process would be the one that keeps it busy.
        _ = chdir("/")
        guard mount.standing() != .dead else {
            do throws(MountError) { try mount.end() } catch { throw Failure(line: error.description) }
            return try report(nil, arguments)
        }
        let connection = try connect(shown, mount, isLazy: arguments.has("lazy"))
        guard let connection else { return try report(nil, arguments) }
        let processes = AccountProcesses(daemon: connection.process)
        let reply: AccountInterface.UnmountReply
        do throws(Failure) {
            reply = try connection.call(
                "\(AccountInterface.name).Unmount",
                AccountInterface.UnmountRequest(lazy: arguments.has("lazy")),
                subject: shown,
                timeout: .seconds(120)
            )
        } catch {
            throw explained(error, mount)
        }
        // It is over when nobody holds the state directory any more.
        guard connection.waitForEnd(timeout: patience), processes.waitForEnd(timeout: patience) else {
            let time = Units.duration(patience.seconds)
            throw Failure(shown, "is unmounted, but its daemon has not ended in \(time)", "see the account's log")
        }
        return try report(reply.queuedOperations, arguments)
    }

    private static func find(_ shown: String) throws(Failure) -> Mount {
        let path = LocalPath.absolute(shown)
        guard let mount = (try? MountTable.coveMount(holding: path)) ?? nil else {
            throw Failure(shown, "no Cove mount is there", "see `findmnt -t fuse.cove`")
        }
        let isTop = ((try? MountTable.relativePath(of: path, in: mount)) ?? nil)?.bytes
        guard isTop == Array(mount.root.utf8.drop { $0 == 0x2F }) else {
            throw Failure(shown, "is inside the mount at \(mount.path)", "unmount \(mount.path)")
        }
        return mount
    }

    /// The mount's daemon; nil when it does not answer and the mount was detached as asked.
    private static func connect(_ shown: String, _ mount: Mount, isLazy: Bool) throws(Failure) -> AccountConnection? {
        let inquiry = try? MountInquiry(mount)
        let failure: Failure
        if let daemon = inquiry?.daemon(within: isLazy ? .seconds(5) : answer) {
            do throws(Failure) { return try AccountConnection(daemon, name: shown) } catch { failure = error }
        } else {
            let time = Units.duration(answer.seconds)
            failure = Failure(shown, "its daemon has not answered for \(time)", "use --lazy to detach the mount")
        }
        guard isLazy else { throw failure }
        try detach(mount)
        return nil
    }

    private static func detach(_ mount: Mount) throws(Failure) {
        do throws(MountError) { try mount.detach() } catch { throw Failure(line: error.description) }
    }

    private static func report(_ queued: Int?, _ arguments: Arguments) throws(Failure) -> Int32 {
        if arguments.has("json") {
            try JSONOutput.write(AccountInterface.UnmountReply(queuedOperations: queued ?? 0))
        } else if let queued, queued > 0 {
            let what = queued == 1 ? "1 change waits" : "\(queued) changes wait"
            Terminal.standardError.write("cove: \(what) for the cloud until the next mount\n")
        }
        return 0
    }

    /// Names the programs that keep the mount busy, as far as this user may know.
    private static func explained(_ failure: Failure, _ mount: Mount) -> Failure {
        let users = MountUsers.find(mount.path)
        guard failure.what.contains("uses the mount"), !users.isEmpty else { return failure }
        let names = users.prefix(5).map { "\($0.name) (pid \($0.process))" }.joined(separator: ", ")
        let more = users.count > 5 ? " and \(users.count - 5) more" : ""
        return Failure(failure.subject, "in use by \(names)\(more)", "end that, or use --lazy")
    }
}

/// A process that has a file or its working directory in a mount.
struct MountUsers {
    var process: Int32
    var name: String

    /// Looks through /proc, which asks the mount nothing.
    static func find(_ mountpoint: String) -> [MountUsers] {
        names(in: "/proc").compactMap { Int32($0) }.compactMap { process in
            let folder = "/proc/\(process)"
            let links = ["cwd", "root", "exe"] + names(in: folder + "/fd").map { "fd/" + $0 }
            guard links.contains(where: { LocalPath.isInside(target(of: "\(folder)/\($0)"), mountpoint) }) else {
                return nil
            }
            let program = target(of: folder + "/exe").split(separator: "/").last.map(String.init)
            return MountUsers(process: process, name: program ?? "a program")
        }
    }

    private static func target(of link: String) -> String {
        let size = 4096
        var buffer = [CChar](repeating: 0, count: size)
        let count = readlink(link, &buffer, size)
        return count > 0 ? String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self) : ""
    }

    private static func names(in directory: String) -> [String] {
        guard let folder = opendir(directory) else { return [] }
        defer { closedir(folder) }
        var names: [String] = []
        while let entry = readdir(folder) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) { Array($0.prefix { $0 != 0 }) }
            names.append(String(decoding: name, as: UTF8.self))
        }
        return names
    }
}
