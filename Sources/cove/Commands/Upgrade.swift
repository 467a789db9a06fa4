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
    private static let patience = TimeSpan.seconds(30)

    static func run(_ arguments: Arguments) throws(Failure) -> Int32 {
        let program = CommandTable.ownPath
        let (connection, _) = try AccountConnection.openPath(arguments)
        let former = try daemon(connection).statistics.daemonPID
        let _: VarlinkNothing = try connection.call(
            "\(AccountInterface.name).Upgrade",
            AccountInterface.UpgradeRequest(program: program)
        )
        _ = connection.waitForEnd(timeout: patience)
        let current = try daemon(AccountConnection.openPath(arguments).0)
        if arguments.has("json") {
            let process = current.statistics.daemonPID
            try JSONOutput.write(Report(program: program, formerPID: former, daemonPID: process))
        }
        // One of before does not tell, and can be looked at.
        let running = current.program ?? identity("/proc/\(current.statistics.daemonPID)/exe")
        guard running == identity(program) else {
            throw Failure(
                connection.name,
                "the new daemon could not serve the mount, and the former program goes on",
                "see the account's log"
            )
        }
        return 0
    }

    private static func daemon(_ connection: AccountConnection) throws(Failure) -> AccountInterface.StatisticsReply {
        try connection.call("\(AccountInterface.name).Statistics")
    }

    /// What tells a program from one that had its name before; nil where it can't be seen.
    static func identity(_ path: String) -> String? {
        (try? System.statFollowing(path)).map { "\($0.st_dev):\($0.st_ino)" }
    }
}
