internal import CoveCore

/// Commands for syncing and what comes of it.
extension CommandTable {
    static let sync = Command(
        name: "sync",
        summary: "send what waits and fetch what is new, now",
        operands: .init(names: ["PATH"]),
        options: [
            Option(long: "wait", summary: "return when nothing is left, with 1 if something failed"),
            Option(long: "timeout", argument: "SECONDS", summary: "wait no longer than that"),
            Option(long: "accept-deletions", summary: "carry out a deletion of unusual size made elsewhere"),
            Option(long: "accept-local-deletions", summary: "send a deletion of unusual size made here"),
        ],
        details: """
            PATH only says which account: all of it is synced. What waits to settle or failed before goes at once, what was set
            aside after two deaths of the daemon is tried again, and the source is looked at everywhere.

            --wait goes on while something can be sent or fetched, whatever else has failed, and ends when a person is to decide:
            about a deletion of more than half of everything and over 100 items, a pause, or a source that can't be had.
            """
    ) { arguments throws(Failure) in
        var request = AccountInterface.SyncRequest()
        request.wait = arguments.has("wait")
        request.acceptDeletions = arguments.has("accept-deletions")
        request.acceptLocalDeletions = arguments.has("accept-local-deletions")
        if let text = arguments.value("timeout") {
            guard let timeout = Units.parseDuration(text) else {
                throw .usage("--timeout \(text)", "is no time", "write it like 30 or 5m")
            }
            request.timeoutSeconds = timeout.seconds
        }
        let (connection, location) = try AccountConnection.openPath(arguments)
        request.path = location.map { PathParameter($0.path) }
        return try sync(connection, request, wantsJSON: arguments.has("json"))
    }

    private static func sync(
        _ connection: AccountConnection,
        _ request: AccountInterface.SyncRequest,
        wantsJSON: Bool
    ) throws(Failure) -> Int32 {
        let progress = ProgressBar()
        let last: AccountInterface.SyncReply = try connection.stream("\(AccountInterface.name).Sync", request) {
            (reply: AccountInterface.SyncReply) in
            guard let status = reply.status else { return }
            if let transfer = status.transfers.first {
                let more = status.queuedOperations > 1 ? "\(status.queuedOperations) left, " : ""
                progress.show(
                    "\(more)\(transfer.direction) \(transfer.path)",
                    done: transfer.doneBytes,
                    total: transfer.totalBytes
                )
            } else {
                progress.show("\(status.queuedOperations) left, \(status.state)")
            }
        }
        progress.clear()
        guard let report = last.report else {
            if wantsJSON { try JSONOutput.write(try connection.status()) }
            return 0
        }
        if wantsJSON { try JSONOutput.write(report) }
        for error in report.errors { Tool.report(Failure(error.path, error.message)) }
        if !report.isSettled, report.errors.isEmpty {
            let status = try connection.status()
            let remedy = status.state == "paused" ? "run `cove resume`" : "see `cove status`"
            Tool.report(
                Failure(status.account, "changes still wait: \(report.remaining) (\(status.state))", remedy)
            )
        }
        return report.isSettled && report.errors.isEmpty ? 0 : 1
    }

    static let pause = Command(
        name: "pause",
        summary: "stop sending, and fetching what nobody opens",
        operands: .account,
        details: """
            Changes made meanwhile wait in the journal. Opening a file still fetches its bytes, and what other devices change is
            still shown.
            """
    ) { arguments throws(Failure) in try setPaused("Pause", arguments) }

    static let resume = Command(
        name: "resume",
        summary: "end a pause",
        operands: .account
    ) { arguments throws(Failure) in try setPaused("Resume", arguments) }

    private static func setPaused(_ method: String, _ arguments: Arguments) throws(Failure) -> Int32 {
        let (connection, _) = try AccountConnection.openPath(arguments)
        let _: VarlinkNothing = try connection.call("\(AccountInterface.name).\(method)")
        if arguments.has("json") { try JSONOutput.write(try connection.status()) }
        return 0
    }

    static let conflicts = Command(
        name: "conflicts",
        summary: "list documents of which two contents are kept",
        operands: .account,
        details: """
            With PATH those at or below it. The second content is a file beside the document, called
            `NAME (conflict from HOST DATE TIME)`. Delete or rename it when it is dealt with, or say so by
            `cove versions resolve NAME`: then it is dealt with on all devices.
            """
    ) { arguments throws(Failure) in
        let (connection, location) = try AccountConnection.openPath(arguments)
        var conflicts: [ConflictStatus] = []
        let last: AccountInterface.ConflictsReply = try connection.stream("\(AccountInterface.name).Conflicts") {
            (reply: AccountInterface.ConflictsReply) in conflicts += reply.conflicts
        }
        conflicts += last.conflicts
        if let location { conflicts.removeAll { !location.holds($0.path) && !location.holds($0.copyPath) } }
        if arguments.has("json") {
            try JSONOutput.write(conflicts)
        } else {
            let terminal = Terminal.standardOutput
            for conflict in conflicts {
                let names = "\(terminal.safe(conflict.path))  \(terminal.safe(conflict.copyPath))"
                terminal.write("\(Units.date(conflict.time))  \(names)  by \(terminal.safe(conflict.host))\n")
            }
        }
        return 0
    }

    static let statistics = Command(
        name: "stats",
        summary: "count what the daemon has done since it started",
        operands: .account
    ) { arguments throws(Failure) in
        let (connection, _) = try AccountConnection.openPath(arguments)
        let reply: AccountInterface.StatisticsReply = try connection.call("\(AccountInterface.name).Statistics")
        if arguments.has("json") {
            try JSONOutput.write(reply.statistics)
        } else if let value = try? JSONValue(encoding: reply.statistics), case .object(let members) = value {
            for (name, number) in members.sorted(by: { $0.key < $1.key }) {
                Terminal.standardOutput.write(ItemText.padded(name, 20) + number.description + "\n")
            }
        }
        return 0
    }
}
