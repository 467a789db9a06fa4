internal import CoveCore
internal import Glibc

/// What `cove doctor` looks at of a user's own: the configuration and the state directories.
enum StateCheck {
    static func all(_ arguments: Arguments) -> [DoctorFinding] {
        [configuration(), sockets()] + stateDirectories(arguments).flatMap { [permissions($0), room($0)] }
            + mounted(arguments).compactMap { keeper($0) }
    }

    /// The daemons of the accounts that are looked at.
    private static func mounted(_ arguments: Arguments) -> [DaemonAddress] {
        if let operand = arguments.operands.first { return (try? ItemLocation.find(operand)).map { [$0.daemon] } ?? [] }
        if let state = arguments.value("state") {
            return [StatePaths.daemon(inState: LocalPath.absolute(state), .account)]
        }
        let accounts = arguments.value("account").map { [$0] } ?? StatePaths.accounts()
        return accounts.map { DaemonAddress(socket: StatePaths.socket(of: $0, .account)) }
    }

    /// What became of the keeper of an account that is mounted; nil where no daemon answers.
    private static func keeper(_ address: DaemonAddress) -> DoctorFinding? {
        let socket = address.socket
        guard access(socket, F_OK) == 0, let connection = try? AccountConnection(address, name: socket),
            let reply: AccountInterface.StatisticsReply = try? connection.call("\(AccountInterface.name).Statistics")
        else { return nil }
        let process = pid_t(exactly: reply.statistics.keeperPID) ?? 0
        if process > 0, kill(process, 0) == 0 || Errno.current == .notPermitted {
            return .ok("keeper", "process \(process)")
        }
        return .warning(
            "keeper",
            "the keeper of \(socket) has ended: this mount does not survive its daemon any more",
            "unmount and mount again"
        )
    }

    private static func configuration() -> DoctorFinding {
        let path = ConfigFile.path
        guard access(path, F_OK) == 0 else { return .ok("config", "no \(path): the defaults hold") }
        do throws(Failure) {
            _ = try ConfigFile.read(path)
            return .ok("config", path)
        } catch {
            return .problem("config", "\(path): \(error.what)", error.remedy ?? "correct it")
        }
    }

    private static func sockets() -> DoctorFinding {
        let path = StatePaths.sockets
        guard let status = try? System.lstat(path) else { return .ok("sockets", "\(path) is made when needed") }
        guard status.st_mode & S_IFMT == S_IFDIR, status.st_uid == geteuid(), status.st_mode & 0o077 == 0 else {
            return .problem("sockets", "\(path) is open to others", "remove it; it is made again")
        }
        return .ok("sockets", path)
    }

    private static func stateDirectories(_ arguments: Arguments) -> [String] {
        if !arguments.operands.isEmpty {
            let status = try? AccountConnection.openPath(arguments).0.status()
            return status.map { [$0.stateDirectory] } ?? []
        }
        if let state = arguments.value("state") { return [LocalPath.absolute(state)] }
        if let account = arguments.value("account") { return [StatePaths.state(of: account)] }
        let home = StatePaths.state(of: "")
        guard let folder = opendir(home) else { return [] }
        defer { closedir(folder) }
        var paths: [String] = []
        while let entry = readdir(folder) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            if !name.hasPrefix(".") { paths.append(home + name) }
        }
        return paths.sorted()
    }

    private static func permissions(_ path: String) -> DoctorFinding {
        guard let status = try? System.statFollowing(path) else {
            return .warning("state", "\(path) is missing", "it is made by `cove mount`")
        }
        guard status.st_uid == geteuid() else {
            return .problem("state", "\(path) belongs to another user", "choose another with --state")
        }
        guard status.st_mode & 0o077 == 0 else {
            return .warning("state", "\(path) is open to others", "run `chmod 700 \(path)`")
        }
        return .ok("state", path)
    }

    private static func room(_ path: String) -> DoctorFinding {
        guard let free = DiskRoom(path)?.available else {
            return .warning("disk", "\(path): \(Errno.current)", "check the disk")
        }
        let message = "\(path): \(Units.size(free)) free"
        guard free >= 1 << 30 else {
            return .warning("disk", message, "free some room: below 1G downloads soon fail")
        }
        return .ok("disk", message)
    }

    /// A small file's text.
    static func text(of path: String) -> String? {
        guard let descriptor = try? System.open(path, O_RDONLY | O_NONBLOCK) else { return nil }
        defer { System.close(descriptor) }
        return String(decoding: (try? System.contents(descriptor, atMost: 64 << 10)) ?? [], as: UTF8.self)
    }
}
