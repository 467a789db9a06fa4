internal import CoveCore
internal import CoveMount
internal import Glibc

/// Commands that begin and end a mount.
extension CommandTable {
    private static let mountOperands = Command.Operands(
        names: ["SOURCE", "MOUNTPOINT"],
        minimum: 2,
        completion: .directory
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
        Option(long: "read-only", summary: "refuse every change"),
        Option(
            short: "o",
            argument: "OPTIONS",
            summary: "options as in fstab(5), separated by commas",
            completion: .words([
                "ro", "allow_other", "cache-size=", "settle=", "stall-limit=", "ignore=", "log=", "simulate-latency=",
                "simulate-bandwidth=", "simulate-stall=", "nosuid", "nodev", "noexec",
            ])
        ),
    ]

    static let mount = Command(
        name: "mount",
        summary: "mount a cloud source as a directory tree",
        operands: mountOperands,
        options: mountOptions,
        details: """
            SOURCE is dir:///PATH, a directory that serves as the cloud; a plain path means the same.

            Options for -o:
              ro, allow_other, nosuid, nodev, noexec: as for any mount
              cache-size=20G or 10%: keep at most so many bytes of clean content on this disk
              settle=2s: how long a change rests before it is sent
              stall-limit=30s: how long a program waits for a source that makes no progress
              ignore=GLOB: names that stay on this device (repeatable)
              log=debug, info, notice or error: how much goes to the log
              simulate-latency=20ms, simulate-bandwidth=100M, simulate-stall=GLOB: a slow or stuck source, for tests
            """
    ) { arguments throws(Failure) in
        let plan = try MountPlan(arguments)
        if arguments.has("foreground") {
            return try Daemon.run(plan, echoesLog: true) { notice in
                tell(notice, plan)
                guard arguments.has("json") else { return }
                try? JSONOutput.write(MountedAccount(plan, process: getpid()))
            }
        }
        try plan.recoverMountPoint()
        try plan.check()
        let process = try startDaemon(plan)
        if arguments.has("json") { try JSONOutput.write(MountedAccount(plan, process: process)) }
        return 0
    }

    /// The daemon in the background, as `mount` starts it.
    static let daemon = Command(
        name: "daemon",
        summary: "serve a mount in the background",
        operands: mountOperands,
        options: mountOptions,
        isHidden: true
    ) { arguments throws(Failure) in
        ProcessSettings.setName("cove")
        ProcessSettings.detach()
        ProcessSettings.closeInherited(above: ReadyPipe.descriptor)
        do throws(Failure) {
            return try Daemon.run(try MountPlan(arguments), echoesLog: false) { ReadyPipe.tellReady($0) }
        } catch {
            ReadyPipe.tell(error)
            return error.exitCode
        }
    }

    private static func startDaemon(_ plan: MountPlan) throws(Failure) -> pid_t {
        var ends: [Int32] = [-1, -1]
        let process: pid_t
        do throws(Errno) {
            try System.retry { pipe(&ends) }
            for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
            process = try ChildProcess.start(
                ["daemon"] + plan.daemonArguments,
                descriptor: ends[1],
                standardError: .null,
                group: .inherited
            )
        } catch {
            throw Failure(nil, "the daemon can't be started: \(error)", "check the limits of processes and memory")
        }
        System.close(ends[1])
        defer { System.close(ends[0]) }
        do throws(Failure) {
            tell(try ReadyPipe.wait(on: ends[0], limit: .seconds(60), log: plan.stateDirectory + "/log"), plan)
        } catch {
            kill(process, SIGTERM)
            throw error
        }
        return process
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
}

/// What `cove mount --json` says.
private struct MountedAccount: Encodable {
    var account: String
    var source: String
    var mountpoint: String
    var stateDirectory: String
    var socket: String
    var daemonPID: Int32

    init(_ plan: MountPlan, process: pid_t) {
        account = plan.account
        source = plan.shownSource
        mountpoint = plan.mountpoint
        stateDirectory = plan.stateDirectory
        socket = plan.socket
        daemonPID = process
    }
}
