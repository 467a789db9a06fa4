internal import CoveCore
internal import Glibc

/// What happens to files, as it happens.
extension CommandTable {
    static let trace = Command(
        name: "trace",
        summary: "show what happens to files: opens, fetches and uploads",
        operands: .account,
        details: """
            Of the file PATH, of all below a directory, or of the whole account, a line for each step, until you end it or the
            daemon ends:
              open      a program calls open(2); of a file that it makes there is only grant
              claim     no claim of another program is in its way
              provide   the source is asked for bytes
              contents  the first of them are here
              provided  all of them are here
              stop      the source is told that nobody wants the rest
              fail      the source could not give or take bytes, and why
              grant     the program has the file open
              refuse    the program's open failed, and why
              close     an open of the file has ended
              send      the source is given the file's new bytes
              sent      it has taken them
            Renames, deletions and changes of attributes are not shown. Who reads too slowly loses events: the line after them says
            how many.
            """
    ) { arguments throws(Failure) in
        let (connection, location) = try AccountConnection.openPath(arguments)
        let wanted = location.map { PathParameter($0.path) }
        // It is no reason for a mount to be in use.
        _ = chdir("/")
        let wantsJSON = arguments.has("json")
        let terminal = Terminal.standardOutput
        terminal.endWhenUnread()
        let _: AccountInterface.TraceReply = try connection.stream(
            "\(AccountInterface.name).Trace",
            AccountInterface.TraceRequest(path: wanted)
        ) { (reply: AccountInterface.TraceReply) in
            guard let event = reply.event else {
                Terminal.standardError.write("cove trace: ready; end it with Ctrl-C\n")
                return
            }
            let text = wantsJSON ? try? JSONValue(encoding: event).description : line(event, terminal)
            if let text, !terminal.write(text + "\n") { exit(0) }
        }
        return 0
    }

    /// One step as a line: `12:34:56.789 open      notes/doc.txt  cat (4711)`.
    private static func line(_ event: TraceEvent, _ terminal: Terminal) -> String {
        let lost = event.lost.map { "(\($0) lost before this) " } ?? ""
        let path = event.path == PathParameter() ? "item \(event.itemID)" : terminal.safe(event.path.shown)
        let program = event.program.map { "\(terminal.safe($0)) (\(event.process ?? 0))" }
        let rest = [path, program, event.detail.map { terminal.safe($0) }].compactMap { $0 }
        return
            "\(Units.clock(event.time)) \(ItemText.padded(terminal.safe(event.step), 9)) \(lost)\(rest.joined(separator: "  "))"
    }
}
