internal import CoveCore
internal import CoveEngine
internal import Glibc

/// What `cove doctor --repair` does.
enum Repair {
    /// Mends one account's catalog; the exit code.
    static func run(_ arguments: Arguments) throws(Failure) -> Int32 {
        guard let directory = directory(arguments) else {
            throw .usage("--repair", "the account is missing", "name it with --account or --state")
        }
        let lock = try lock(directory)
        defer { System.close(lock) }
        let report: RepairReport
        do throws(EngineError) {
            let log = Log(path: directory + "/log", echoToStandardError: false)
            report = try CatalogRepair(stateDirectory: directory, log: log).run()
        } catch {
            throw Failure(line: error.description)
        }
        if arguments.has("json") {
            try JSONOutput.write(report)
        } else {
            write(report, directory)
        }
        return 0
    }

    private static func directory(_ arguments: Arguments) -> String? {
        if let state = arguments.value("state") { return LocalPath.absolute(state) }
        return arguments.value("account").map { StatePaths.state(of: $0) }
    }

    /// No daemon may work on it meanwhile.
    private static func lock(_ directory: String) throws(Failure) -> Int32 {
        let folder = try StateFolder.open(directory)
        let lock = try Failure.explaining(directory, "can't be locked", remedy: "check its name and owner") {
            () throws(Errno) in try folder.open("lock", O_RDWR)
        }
        guard flock(lock, LOCK_EX | LOCK_NB) == 0 else {
            System.close(lock)
            throw Failure(directory, "a daemon works on this account", "end it with `cove unmount`")
        }
        return lock
    }

    private static func write(_ report: RepairReport, _ directory: String) {
        let terminal = Terminal.standardOutput
        func line(_ word: String, _ text: String) {
            terminal.write("\(ItemText.padded(word, 8)) \(terminal.safe(text))\n")
        }
        for finding in report.findings { line("mended", "\(finding.check): \(finding.count): \(finding.message)") }
        if report.findings.isEmpty { line("ok", "\(directory): nothing is wrong") }
        if let folder = report.keptAside { line("kept", "\(folder): the damaged catalog; delete it when all is there") }
        if let folder = report.foundContent {
            line("kept", "\(folder): content without a name; look through it, then delete it")
        }
    }
}
