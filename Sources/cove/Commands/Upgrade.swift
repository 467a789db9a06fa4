internal import CoveCore
internal import Glibc

/// What `cove upgrade` does.
enum Upgrade {
    /// What it says with `--json`.
    private struct Report: Encodable {
        var program: String
        var formerPID: Int
        var daemonPID: Int
    }

    /// How long a new daemon may take until it answers.
    private static let patience = Duration.seconds(30)

    static func run(_ arguments: Arguments) throws(Failure) -> Int32 {
        let program = CommandTable.ownPath
        let connection = try AccountConnection.open(arguments)
        let former = try daemon(connection)
        let _: VarlinkNothing = try connection.call(
            "\(AccountInterface.name).Upgrade",
            AccountInterface.UpgradeRequest(program: program)
        )
        _ = connection.waitForEnd(timeout: patience)
        let current = try daemon(AccountConnection.open(arguments))
        if arguments.has("json") {
            try JSONOutput.write(Report(program: program, formerPID: former, daemonPID: current))
        }
        guard try runs(current, program) else {
            throw Failure(
                connection.name,
                "the new daemon could not serve the mount, and the former program goes on",
                "see the account's log"
            )
        }
        return 0
    }

    private static func daemon(_ connection: AccountConnection) throws(Failure) -> Int {
        let reply: AccountInterface.StatisticsReply = try connection.call("\(AccountInterface.name).Statistics")
        return reply.statistics.daemonPID
    }

    /// True when a process runs this program, and not one that had its name before.
    private static func runs(_ process: Int, _ program: String) throws(Failure) -> Bool {
        try Failure.explaining(program, remedy: "see `cove doctor`") { () throws(Errno) in
            let running = try System.statFollowing("/proc/\(process)/exe")
            let wanted = try System.statFollowing(program)
            return running.st_dev == wanted.st_dev && running.st_ino == wanted.st_ino
        }
    }
}
