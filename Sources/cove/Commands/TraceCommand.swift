internal import CoveCore
internal import Glibc

/// What happens to files, as it happens.
extension CommandTable {
    static let trace = Command(
        name: "trace",
        summary: "show what happens to files: opens, fetches and uploads",
        operands: .account,
        details: """
            Of the file PATH, of all below a directory, or of the whole account at a mount point, a line for each step, until
            it is ended or the daemon is:
              open      a program calls open(2)       claim     no other program's claim is in its way
              provide   the source is asked for bytes contents  the first of them are here
              provided  all of them are               grant     the program has the file open
              refuse    the open failed, and why      close     the program has closed it
              send      the source is given a change  sent      it has taken it
              fail      the source could not give or take bytes, and why
            """
    ) { arguments throws(Failure) in
        let (connection, location) = try AccountConnection.openPath(arguments)
        let wanted = location.map { PathParameter($0.path) }
        let wantsJSON = arguments.has("json")
        let terminal = Terminal.standardOutput
        let _: AccountInterface.TraceReply = try connection.stream(
            "\(AccountInterface.name).Trace",
            AccountInterface.TraceRequest(path: wanted)
        ) { (reply: AccountInterface.TraceReply) in
            guard let event = reply.event else {
                Terminal.standardError.write("cove trace: ready; end it with Ctrl-C\n")
                return
            }
            let json = wantsJSON ? try? JSONValue(encoding: event).bytes : nil
            // Nobody reads any more, as behind head(1).
            if !terminal.write((json ?? Array(line(event, terminal).utf8)) + [0x0A]) { exit(0) }
        }
        return 0
    }

    /// One step as a line: `12:34:56.789 open      notes/doc.txt  cat (4711)`.
    private static func line(_ event: TraceEvent, _ terminal: Terminal) -> String {
        let lost = event.lost.map { "(\($0) lost before this) " } ?? ""
        let path =
            (try? event.path.remotePath()).flatMap { $0 }.map { terminal.safe("\($0)") } ?? "item \(event.itemID)"
        let program = event.program.map { "\(terminal.safe($0)) (\(event.process ?? 0))" }
        let rest = [path, program, event.detail.map { terminal.safe($0) }].compactMap { $0 }
        return
            "\(Units.clock(event.time)) \(ItemText.padded(terminal.safe(event.step), 9)) \(lost)\(rest.joined(separator: "  "))"
    }
}
