internal import CoveCore
internal import CoveMount
internal import Glibc

/// Commands that begin and end a mount.
extension CommandTable {
    private static let mountOperands = Command.Operands(
        names: ["SOURCE", "MOUNTPOINT"],
        minimum: 1,
        completion: .directory
    )

    static let cacert = Option(
        long: "cacert",
        argument: "FILE",
        summary: "trust the server certificates that this file vouches for",
        completion: .file
    )

    private static let mountOptions = [
        Option(short: "f", long: "foreground", summary: "stay in the foreground, with the log on standard error"),
        Option(
            long: "state",
            argument: "DIR",
            summary: "keep the account's state, its socket too, in this directory",
            completion: .directory
        ),
        Option(long: "account", argument: "NAME", summary: "the account's name; else the source's last part"),
        Option(
            long: "app",
            argument: "ID",
            summary: "show an app's container of a mounted account in the folder (root)"
        ),
        Option(long: "read-only", summary: "refuse every change"),
        cacert,
        Option(
            short: "o",
            argument: "OPTIONS",
            summary: "options as in fstab(5), separated by commas",
            completion: .words([
                "ro", "allow_other", "passthrough", "offline", "cache-size=", "settle=", "stall-limit=", "poll=",
                "open-timeout=",
                "presenter-timeout=", "cacert=",
                "versions=", "ignore=", "log=", "simulate-latency=", "simulate-bandwidth=", "simulate-stall=", "nosuid",
                "nodev", "noexec",
            ])
        ),
    ]

    static let mount = Command(
        name: "mount",
        summary: "mount a cloud source as a directory tree",
        operands: mountOperands,
        options: mountOptions,
        details: """
            SOURCE is one of
              dir:///PATH, a directory that serves as the cloud; a plain path means the same
              webdavs://USER@HOST/PATH, a WebDAV server as Nextcloud; webdav:// is the same without encryption
              s3://ACCESSKEY@BUCKET/PREFIX?endpoint=URL&region=R, a bucket of any S3 server; without endpoint AWS's
              exec:PROGRAM?OPTION=VALUE&…, what a program of its own serves; exec:cove-zip?path=/PATH is a zip archive
              rclone:REMOTE:PATH, whatever rclone is set up for; `rclone config` makes remotes and keeps their passwords
            `cove login SOURCE` keeps the password or secret key; else COVE_PASSWORD or ~/.netrc has it, for a bucket the
            AWS environment variables or ~/.aws/credentials.

            The first mount of an account connects to the source, and makes no mount where that fails or takes four times
            the stall limit (at least 10 s, at most 120 s). Later ones need no connection: what is here can be used, and the
            command says so.

            Options for -o:
              ro, allow_other, nosuid, nodev, noexec: as for any mount
              passthrough: the kernel reads and writes files whose bytes are here by itself (root, Linux 6.9): reads and writes
                in place are as fast as on the disk, but small writes are no longer gathered in the kernel's cache, which
                makes those to other files several times slower, and a file that is open for writing is sent when it is
                closed, or as a copy after 30 s without a write
              offline: make the first mount too while the source can't be had, as at boot; it can be used once it can
              generation=legacy: at the first mount, be a device that knows documents and no apps, until `cove account migrate`
              cache-size=20G or 10%: keep at most so many bytes of clean content on this disk
              settle=2s: how long a change rests before it is sent; a new folder, a whole new file, and the first save after half a
                minute in which nothing was sent, rest a quarter of it, half a second at least where changes rest longer
              stall-limit=30s: how long a program waits for a source that makes no progress
              poll=30s: how often a server that tells of no changes is asked for those of other programs; what devices with Cove
                change they tell each other within seconds
              open-timeout=45s: how long open(2) waits for a claim, see `cove coordinate`
              presenter-timeout=30s: how long a program that presents a file may take to answer
              cacert=FILE: as --cacert
              versions=10: how many earlier contents of a file are kept here, see `cove versions ls`; 0 for none
              ignore=GLOB: names that stay on this device (repeatable)
              log=debug, info, notice or error: how much goes to the log
              simulate-latency=20ms, simulate-bandwidth=100M, simulate-stall=GLOB: a slow or stuck source, for tests
            """
    ) { arguments throws(Failure) in
        if let app = arguments.value("app") { return try mountContainer(app, arguments) }
        guard arguments.operands.count == 2 else {
            throw .usage("MOUNTPOINT", "is missing", "see `cove help mount`")
        }
        let plan = try MountPlan(arguments)
        try plan.recoverMountPoint()
        try plan.check()
        if arguments.has("foreground") { try becomeKeeper(plan, arguments) }
        let (keeper, ready) = try startKeeper(plan)
        tell(ready.notice, plan)
        guard arguments.has("json") else { return 0 }
        try JSONOutput.write(MountedAccount(plan, daemon: ready.daemon, keeper: keeper, notice: ready.notice))
        return 0
    }

    /// The daemon, as the keeper starts it.
    static let daemon = Command(
        name: "daemon",
        summary: "serve a mount for its keeper",
        operands: mountOperands,
        options: mountOptions,
        isHidden: true
    ) { arguments throws(Failure) in
        ProcessSettings.setName("cove")
        let isInForeground = arguments.has("foreground")
        ProcessSettings.closeInherited(above: ReadyPipe.descriptor)
        let keeper = try KeeperLink()
        do throws(Failure) {
            let plan = try MountPlan(daemon: arguments, isMounted: keeper.isTakeover)
            return try Daemon.run(plan, keeper, echoesLog: isInForeground) { notice in
                guard isInForeground else { return ReadyPipe.tellReady(notice) }
                tell(notice, plan)
                guard arguments.has("json") else { return }
                try? JSONOutput.write(MountedAccount(plan, daemon: getpid(), keeper: getppid(), notice: notice))
            }
        } catch {
            // Later nobody waits for it, and the pipe's number is another descriptor's.
            if keeper.generation > 0, let log = keeper[.log] { Log(descriptor: log).error(error.line) }
            if isInForeground { throw error }
            if keeper.generation == 0 { ReadyPipe.tell(error) }
            return error.exitCode
        }
    }

    /// Goes on as the keeper, in the foreground.
    private static func becomeKeeper(_ plan: MountPlan, _ arguments: Arguments) throws(Failure) -> Never {
        let program = try KeeperLink.program()
        var words = [program, ownPath, "daemon", "--foreground"]
        if arguments.has("json") { words.append("--json") }
        let list = (words + plan.daemonArguments).map { strdup($0) } + [nil]
        execv(program, list)
        throw Failure(program, "\(Errno.current)", "install Cove again")
    }

    /// Starts the keeper in the background, and waits for its daemon; its process id, and what the daemon told.
    private static func startKeeper(_ plan: MountPlan) throws(Failure) -> (keeper: pid_t, ready: ReadyPipe.Report) {
        let program = try KeeperLink.program()
        var ends: [Int32] = [-1, -1]
        let process: pid_t
        do throws(Errno) {
            try System.retry { pipe(&ends) }
            for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
            process = try ChildProcess.start(
                ["--ready", ownPath, "daemon"] + plan.daemonArguments,
                program: program,
                descriptors: [ends[1]],
                standardError: .null,
                group: .inherited
            )
        } catch {
            throw Failure(program, "it can't be started: \(error)", "check the limits of processes and memory")
        }
        System.close(ends[1])
        defer { System.close(ends[0]) }
        do throws(Failure) {
            return (process, try ReadyPipe.wait(on: ends[0], log: plan.stateDirectory + "/log"))
        } catch {
            // It holds the lock on the state directory until it has ended.
            kill(process, SIGTERM)
            ChildProcess.await(process, limit: .seconds(10))
            throw error
        }
    }

    /// This program, by a name that another process can use.
    static var ownPath: String {
        var buffer = [CChar](repeating: 0, count: 4096)
        let length = readlink("/proc/self/exe", &buffer, buffer.count - 1)
        guard length > 0 else { return "/proc/self/exe" }
        return String(decoding: buffer.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Tells what there is to know of a mount that was made.
    private static func tell(_ notice: String?, _ plan: MountPlan) {
        if let notice { Tool.report(Failure(plan.account, notice)) }
    }

    static let unmount = Command(
        name: "unmount",
        summary: "write back what programs wrote, and unmount",
        operands: .init(names: ["MOUNTPOINT"], minimum: 1, completion: .mountpoint),
        options: [Option(short: "z", long: "lazy", summary: "detach the mount even while programs use it"), .json],
        isForAccount: false,
        details: "Changes that the cloud does not have yet stay in the account's journal and are sent after the next "
            + "mount."
    ) { arguments throws(Failure) in
        try Unmounting.run(arguments)
    }

    static let upgrade = Command(
        name: "upgrade",
        summary: "replace the daemon by this program, without unmounting",
        operands: .account,
        options: [.json],
        details: "Programs that use the mount wait for a moment and notice nothing. Where the new daemon can't serve "
            + "the mount, the former one is started again."
    ) { arguments throws(Failure) in
        try Upgrade.run(arguments)
    }
}

/// What `cove mount --json` says.
private struct MountedAccount: Encodable {
    var account: String
    var source: String
    var mountpoint: String
    var stateDirectory: String
    var socket: String
    var coordinationSocket: String
    var daemonPID: Int32
    var keeperPID: Int32
    var notice: String?

    init(_ plan: MountPlan, daemon: pid_t, keeper: pid_t, notice: String?) {
        account = plan.account
        source = plan.shownSource
        mountpoint = plan.mountpoint
        stateDirectory = plan.stateDirectory
        socket = plan.socket
        coordinationSocket = plan.coordinationSocket
        daemonPID = daemon
        keeperPID = keeper
        self.notice = notice
    }
}
