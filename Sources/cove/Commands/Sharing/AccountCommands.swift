internal import CoveCore

/// Commands for all that an account holds.
extension CommandTable {
    static let accountExport = Command(
        name: "account export",
        summary: "write every document of an account to a folder",
        operands: .init(names: ["FOLDER"], minimum: 1),
        details: """
            The account is that of the working directory, or the one that --account or --state names. Modes, dates and user.*
            attributes go along. What is not on this disk is fetched for it, and leaves again. The command can be ended at any
            time, and be given again: what it has written already stays. Fails, with a list, where something could not be had.
            """
    ) { arguments throws(Failure) in
        let connection = try AccountConnection.open(arguments)
        let mount = try connection.status().mountpoint
        let report = try Export(connection, mountedAt: mount, to: arguments.operands[0]).run()
        if arguments.has("json") {
            try JSONOutput.write(report)
        } else {
            for (name, why) in report.failures.sorted(by: { $0.key < $1.key }) { Tool.report(Failure(name, why)) }
            Terminal.standardOutput.write(
                "\(report.exported) written (\(Units.size(report.bytes))), \(report.present) there already, "
                    + "\(report.failures.count) could not be had\n"
            )
        }
        return report.failures.isEmpty ? 0 : 1
    }
}
