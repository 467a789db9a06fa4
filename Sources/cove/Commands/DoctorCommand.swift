internal import CoveCore

extension CommandTable {
    static let doctor = Command(
        name: "doctor",
        summary: "look for trouble, and say what to do about it",
        operands: .account,
        options: [Option(long: "repair", summary: "check and mend the catalog of an account that is not mounted")],
        details: """
            Works without a mount too; with PATH, --account or --state it looks at that account alone. Exits with 1 when it
            found a problem; warnings alone are no problem.

            --repair reads all of one account's catalog, named by --account or --state, and says in a line each what it found
            and did. Indexes are made anew; of a damaged catalog all that can be read goes into a new one, and the old one is
            kept in a folder corrupt-TIME beside it; content that no item knows goes to the folder lost+found there. Nothing
            is deleted that the source does not have.
            """
    ) { arguments throws(Failure) in
        if arguments.has("repair") { return try Repair.run(arguments) }
        var findings = SystemCheck.all(arguments) + StateCheck.all(arguments)
        findings += daemonFindings(arguments)
        if arguments.has("json") {
            try JSONOutput.write(findings)
        } else {
            for finding in findings { write(finding) }
        }
        return findings.contains { $0.level == "problem" } ? 1 : 0
    }

    private static func daemonFindings(_ arguments: Arguments) -> [DoctorFinding] {
        do throws(Failure) {
            let (connection, _) = try AccountConnection.openPath(arguments)
            let reply: AccountInterface.DiagnoseReply = try connection.call(
                "\(AccountInterface.name).Diagnose"
            )
            return reply.findings
        } catch {
            let isWanted = arguments.has("account") || arguments.has("state") || !arguments.operands.isEmpty
            let message = (error.subject.map { "\($0): " } ?? "") + error.what
            guard isWanted else { return [.ok("daemon", "none was asked: \(message)")] }
            return [.problem("daemon", message, error.remedy ?? "mount the account with `cove mount`")]
        }
    }

    private static func write(_ finding: DoctorFinding) {
        let terminal = Terminal.standardOutput
        let colours = ["ok": "32", "warning": "33", "problem": "31"]
        let level = terminal.coloured(ItemText.padded(finding.level, 8), colours[finding.level])
        let remedy = finding.remedy.map { "; \($0)" } ?? ""
        terminal.write("\(level) \(finding.check): \(terminal.safe(finding.message + remedy))\n")
    }
}

extension DoctorFinding {
    /// Nothing to do.
    static func ok(_ check: String, _ message: String) -> DoctorFinding {
        DoctorFinding(check: check, level: "ok", message: message, remedy: nil)
    }

    /// Works, but not as well as it could.
    static func warning(_ check: String, _ message: String, _ remedy: String) -> DoctorFinding {
        DoctorFinding(check: check, level: "warning", message: message, remedy: remedy)
    }

    /// Does not work.
    static func problem(_ check: String, _ message: String, _ remedy: String) -> DoctorFinding {
        DoctorFinding(check: check, level: "problem", message: message, remedy: remedy)
    }
}
