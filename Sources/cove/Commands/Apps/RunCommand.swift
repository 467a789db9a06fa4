internal import CLinux
internal import CoveCore
internal import Glibc
internal import Synchronization

/// Running a program that sees no more of the account than an app may.
extension CommandTable {
    static let run = Command(
        name: "run",
        summary: "run a program that sees only what an app may",
        operands: .init(names: ["COMMAND"], minimum: 1, repeats: true, completion: .command),
        options: [
            appOption,
            Option(long: "net", summary: "let it use the network"),
            Option(
                long: "bind",
                argument: "DIR",
                summary: "let it use this folder of the machine too",
                completion: .directory
            ),
        ],
        details: """
            The program is shut in by bubblewrap: it has the system's programs, an empty /tmp, the app's container as its home
            and working folder, and the documents of the account's root. The containers of other apps are empty for it, and
            what it may not open the daemon refuses, whichever way it asks. It has no network unless --net is given. Copies
            that `cove pick --mode import` has made for the app are where that command says.

            COVE_APP has the app's identifier, COVE_CONTAINER the container's folder, COVE_SHARED that of the root. Of the
            environment it has PATH, TERM, LANG, LC_ALL, TZ and COLORTERM only.

            The exit code is the program's, or 128 and the number of the signal that killed it; 126 or 127 when it can't be run.
            """
    ) { arguments throws(Failure) in
        guard let app = arguments.value("app") else { throw .usage("--app", "is needed", "say as which app it runs") }
        return try AppView(try AppIdentifier.read(app), arguments).run(arguments.operands)
    }

    /// MS_BIND of mount(2).
    private static let bindMount: UInt = 4096

    /// `cove mount --app ID DIR`: a container at a place of its own.
    static func mountContainer(_ app: String, _ arguments: Arguments) throws(Failure) -> Int32 {
        let app = try AppIdentifier.read(app)
        guard let target = arguments.operand(0), arguments.operands.count == 1 else {
            throw .usage("--app \(app)", "takes one folder", "write `cove mount --app \(app) DIR`")
        }
        guard geteuid() == 0 else {
            throw Failure(target, "only root can mount a container elsewhere", "use `cove run --app \(app)` instead")
        }
        let connection = try AccountConnection.open(arguments)
        let reply: AccessInterface.PathReply = try connection.call(
            "\(AccessInterface.name).ContainerPath",
            AccessInterface.PathRequest(app: app.text)
        )
        guard let path = reply.path else {
            throw Failure(app.text, "it has no container", "make one with `cove container create ID --app \(app)`")
        }
        let source = try connection.absolute(path)
        guard Glibc.mount(source, target, nil, bindMount, nil) == 0 else {
            throw Failure(target, "\(Errno.current)", "name an empty folder; umount(8) ends it")
        }
        if arguments.has("json") { try JSONOutput.write(["source": source, "target": LocalPath.absolute(target)]) }
        return 0
    }
}

/// What a program sees that runs as an app.
struct AppView {
    private static let kept = ["PATH", "TERM", "LANG", "LC_ALL", "TZ", "COLORTERM"]
    private static let sharedMemory = 256 << 20
    private static let temporarySpace = 1 << 30

    private let app: AppIdentifier
    private let connection: AccountConnection
    private let mountpoint: String
    private let container: String
    private let covered: [String]
    /// What else is mounted in the account's mount.
    private let foreign: [(path: String, isFolder: Bool)]
    private let sockets: [String]
    private let binds: [String]
    /// The folder of what was picked for the app; none where that can't be made.
    private let copies: [String]
    private let hasNetwork: Bool

    init(_ app: AppIdentifier, _ arguments: Arguments) throws(Failure) {
        self.app = app
        connection = try AccountConnection.open(arguments)
        mountpoint = try connection.mountpoint()
        let view: AccessInterface.ViewReply = try connection.call(
            "\(AccessInterface.name).View",
            AccessInterface.ViewRequest(app: app.text),
            subject: app.text
        )
        guard let path = view.container else {
            throw Failure(app.text, "it has no container", "make one with `cove container create ID --app \(app)`")
        }
        let root = mountpoint
        container = root + "/" + path
        let covered = view.covered.map { root + "/" + $0 }
        self.covered = covered
        foreign = try Self.mounts(in: root).filter { mount in
            !covered.contains { MountTable.contains($0, mount.path) }
        }
        let bytes = Array(mountpoint.utf8)
        sockets = [ItemLocation.Socket.account, .coordination].compactMap { socket in
            guard let found = try? ItemLocation.find(bytes, socket: socket) else { return nil }
            let path = found.daemon.socket
            // What is beside the account's socket is nothing for an app.
            return socket == .account ? path : LocalPath.parent(of: path)
        }
        var binds: [String] = []
        let account = arguments.has("bind") ? try connection.status() : nil
        for folder in arguments.values("bind") {
            let text = String(decoding: folder, as: UTF8.self)
            guard let resolved = try? ItemLocation.resolve(folder + [0x2F]) else {
                throw Failure(text, "no such folder", "name one that is there")
            }
            let path = String(decoding: resolved, as: UTF8.self)
            guard let account, !account.keptFolders.contains(where: { Self.overlap(path, $0) }) else {
                throw Failure(text, "it has or is in what belongs to the account", "name another folder")
            }
            binds.append(path)
        }
        self.binds = binds
        let copies = PrivateCopies(app: app.text)
        self.copies = (try? copies.makeFolder()) == nil ? [] : [copies.path]
        hasNetwork = arguments.has("net")
    }

    /// Runs a command; its exit code.
    func run(_ command: [[UInt8]]) throws(Failure) -> Int32 {
        guard let bwrap = Sandbox.find("bwrap") else {
            throw Failure("bwrap", "it is not installed", "install bubblewrap")
        }
        let remedy = "check the limit of open files"
        let (told, tells) = try Failure.explaining(nil, remedy: remedy) { () throws(Errno) in try System.pipe() }
        let (entered, enters) = try Failure.explaining(nil, remedy: remedy) { () throws(Errno) in try System.pipe() }
        let (waits, goes) = try Failure.explaining(nil, remedy: remedy) { () throws(Errno) in try System.pipe() }
        var words = [bwrap] + Sandbox.own.filter { $0 != "--new-session" || Self.needsSession }
        // These numbers, and no other descriptor, the sandbox has: tells, enters, waits, goes.
        words += ["--info-fd", "3"]
        if hasNetwork { words.append("--share-net") }
        words += view() + ["--"]
        // The sandbox is whole when this begins. It holds the other end of what it waits for itself: it goes on when it is
        // told to, and not when this process dies.
        let gate = "printf x >&4; read -r -n 1 -u 5 x && exec 3>&- 4>&- 5<&- 6>&- && exec \"$@\""
        words += ["/bin/bash", "-c", gate, "cove"]
        let watch = Gatekeeper(connection, app, told: told, entered: entered, goes: goes)
        do throws(Errno) {
            try BlockingThread.start { watch.admit() }
        } catch {
            throw Failure(nil, "no thread can be started: \(error)", "check the limit of processes")
        }
        let status = CommandProcess.run(
            words.map { Array($0.utf8) } + command,
            alone: ([tells, enters, waits, goes], environment)
        ) {
            for descriptor in [tells, enters, waits] { System.close(descriptor) }
        }
        if let failure = watch.failure { throw failure }
        return status
    }

    /// True where one folder is another one, or in it.
    private static func overlap(_ one: String, _ other: String) -> Bool {
        one == other || one.hasPrefix(other == "/" ? other : other + "/")
            || other.hasPrefix(one == "/" ? one : one + "/")
    }

    /// Programs in the session of a terminal could type into it, where the kernel lets them.
    private static var needsSession: Bool {
        guard let file = try? System.open("/proc/sys/dev/tty/legacy_tiocsti", O_RDONLY) else { return true }
        defer { System.close(file) }
        return (try? System.contents(file, atMost: 8).first) != UInt8(ascii: "0")
    }

    /// All that the sandbox knows of the caller's: bubblewrap's own process can be looked at in it.
    private var environment: [String] {
        let kept = Self.kept.compactMap { name in getenv(name).map { "\(name)=\(String(cString: $0))" } }
        return kept + [
            "HOME=\(container)", "COVE_APP=\(app)", "COVE_CONTAINER=\(container)", "COVE_SHARED=\(mountpoint)",
        ]
    }

    private func view() -> [String] {
        var words = Sandbox.system() + Sandbox.devices(shared: Self.sharedMemory, temporary: Self.temporarySpace)
        if hasNetwork {
            for file in ["/etc/resolv.conf", "/etc/hosts", "/etc/ssl", "/etc/ca-certificates"] {
                words += ["--ro-bind-try", file, file]
            }
        }
        for folder in binds + copies { words += ["--bind", folder, folder] }
        words += ["--bind", mountpoint, mountpoint]
        // A bind brings along what else is mounted in it.
        for (path, isFolder) in foreign {
            words += isFolder ? Self.cover(path) : ["--ro-bind", "/dev/null", path]
        }
        for folder in covered { words += Self.cover(folder) }
        for socket in sockets { words += ["--ro-bind-try", socket, socket] }
        return words + ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", container]
    }

    private static func cover(_ folder: String) -> [String] {
        ["--perms", "0000", "--size", "4096", "--tmpfs", folder]
    }

    /// What is mounted in the account's own mount, and is nothing of the account's: other accounts, disks, bind mounts.
    private static func mounts(in mountpoint: String) throws(Failure) -> [(path: String, isFolder: Bool)] {
        let table = try Failure.explaining("/proc/self/mountinfo", remedy: "mount /proc") { () throws(Errno) in
            try MountTable.read()
        }
        let paths = Set(table.map(\.path).filter { $0 != mountpoint && MountTable.contains(mountpoint, $0) })
        // What is covered has nothing in it any more.
        let topmost = paths.filter { path in !paths.contains { $0 != path && MountTable.contains($0, path) } }
        return topmost.sorted().map { path in
            (path, (try? System.lstat(path)).map { $0.st_mode & S_IFMT == S_IFDIR } ?? true)
        }
    }

    /// Tells the daemon of a sandbox before anything runs in it.
    private final class Gatekeeper: @unchecked Sendable {
        private let connection: AccountConnection
        private let app: AppIdentifier
        private let told: Int32
        private let entered: Int32
        private let goes: Int32
        private let outcome = Mutex<Failure?>(nil)

        init(_ connection: AccountConnection, _ app: AppIdentifier, told: Int32, entered: Int32, goes: Int32) {
            self.connection = connection
            self.app = app
            self.told = told
            self.entered = entered
            self.goes = goes
        }

        var failure: Failure? { outcome.withLock { $0 } }

        func admit() {
            // Its end says that there is no sandbox: bubblewrap has said why.
            guard let process = process() else { return }
            var byte: UInt8 = 0
            let entered = entered
            guard let count = try? System.retry({ Glibc.read(entered, &byte, 1) }), count == 1 else { return }
            do throws(Failure) {
                let _: VarlinkNothing = try connection.call(
                    "\(AccessInterface.name).EnterView",
                    AccessInterface.ViewRequest(app: app.text, process: process),
                    subject: app.text
                )
                guard Glibc.write(goes, &byte, 1) == 1 else { throw Failure(nil, "\(Errno.current)", "try again") }
            } catch {
                outcome.withLock { $0 = error }
                kill(process, SIGKILL)
            }
        }

        /// The first process of the sandbox, as bubblewrap tells it.
        private func process() -> Int32? {
            var text: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: 4096)
            while text.count < 65536 {
                guard let count = try? System.retry({ Glibc.read(told, &buffer, 4096) }), count > 0 else { break }
                text += buffer[..<count]
                if let value = try? JSONValue(parsing: text), case .integer(let process)? = value["child-pid"] {
                    return Int32(exactly: process)
                }
            }
            return nil
        }
    }
}
