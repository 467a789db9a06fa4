internal import CoveCore
internal import CoveEngine
internal import FoundationEssentials

/// Commands for claims.
extension CommandTable {
    private typealias Interface = CoordinationInterface

    static let coordinate = Command(
        name: "coordinate",
        summary: "run a command while holding claims on files",
        operands: .init(names: ["COMMAND"], minimum: 1, repeats: true, completion: .command),
        options: [
            item(
                "reading",
                "others may read PATH and not change it; what programs have not saved of it is saved first"
            ),
            item("writing", "nobody else may read or change PATH"),
            item("merging", "as --writing, and what programs have not saved is saved first"),
            item("moving", "PATH, and all in it, is going to be moved"),
            item("deleting", "PATH, and all in it, is going to be deleted"),
            item("replacing", "another item is going to take PATH, whether or not one is there"),
            Option(long: "for-uploading", summary: "read snapshots, and let others write at once"),
            Option(long: "without-changes", summary: "read what is saved already: no program is asked to save first"),
            Option(
                short: "w",
                long: "timeout",
                argument: "S",
                summary: "give up after so many seconds, as 5 or 0.5; 0 never waits for others' claims"
            ),
            Option(
                long: "open-files",
                argument: "wait|ignore|fail",
                summary: "what to do about files that programs have open for writing (wait until they rest)"
            ),
            Option(
                long: "purpose",
                argument: "ID",
                summary: "claims of one purpose never wait for each other; a provider has one of its own"
            ),
            Option(
                short: "E",
                long: "conflict-exit-code",
                argument: "N",
                summary: "the exit code when the seconds are over, instead of 1"
            ),
        ],
        details: """
            Each item option can be given several times; all are claimed at once, so that two commands never wait for each
            other: `cove coordinate --writing F vim F`.

            Claims are held until the command ends. It and the programs it starts use the items as ever; others wait, and so
            do programs that know nothing of claims: they wait in open(2), at most 45 seconds, and may be interrupted.
            Removing, renaming, linking and creating wait a second and then fail with EBUSY.

            A program that has a file open for writing and rests is told of on standard error and by `cove claims`: what it
            writes later nobody can hold back. With `--open-files fail` nothing is claimed then.

            The variable COVE_PATH has the paths of all items, one a line, as they are when the claims are granted: what was
            waited for may have moved, and a symbolic link stands for what it points at.

            With --for-uploading the variable COVE_SNAPSHOT has the paths of the snapshots of all items that are read, one a
            line: copies that no later write changes, a directory as one zip file. They are deleted when the command ends.

            With --without-changes programs that present what is read are not asked to save: what they have not saved is not
            read. It is of use to programs that look often, as indexers do, and to those that can't wait for others.

            The exit code is the command's, or 128 and the number of the signal that killed it; 1 when the claims can't be
            had; 126 or 127 when the command can't be run. SIGTERM and SIGHUP are handed on to the command. One that is
            stopped (Ctrl-Z) for 10 seconds loses the claims that others wait for, and is told when it goes on.
            """
    ) { arguments throws(Failure) in try Coordinate(arguments).run() }

    private static func item(_ name: String, _ summary: String) -> Option {
        Option(long: name, argument: "PATH", summary: summary, completion: .file)
    }

    static let claims = Command(
        name: "claims",
        summary: "list claims, held and waiting, and programs that present files",
        operands: .account,
        details: """
            One line each: the claim, whether it is granted or what it waits for, the program that asked, and its items. PATH
            says of which account; all of its claims are listed.
            """
    ) { arguments throws(Failure) in
        let (connection, _) = try AccountConnection.openPath(arguments, .coordination)
        var found = Interface.ListReply(claims: [], presenters: [])
        let last: Interface.ListReply = try connection.stream("\(Interface.name).List") {
            (reply: Interface.ListReply) in
            found.claims += reply.claims
            found.presenters += reply.presenters
        }
        found.claims += last.claims
        found.presenters += last.presenters
        if arguments.has("json") {
            try JSONOutput.write(found)
            return 0
        }
        let terminal = Terminal.standardOutput
        for claim in found.claims {
            var line = "\(claim.claim)  \(ItemText.padded(claim.state, 10, left: false))"
            line += "  \(terminal.safe(claim.program)) (\(claim.process))"
            for intent in claim.intents {
                let options = intent.options.isEmpty ? "" : " " + intent.options.joined(separator: ",")
                line += "  \(intent.kind.rawValue)\(options) \(terminal.safe(intent.path.shown))"
            }
            for file in claim.openFiles ?? [] {
                let program = file.process == 0 ? "a program" : "\(terminal.safe(file.program)) (\(file.process))"
                let path = terminal.safe(file.path)
                line += claim.state == "granted" ? "  \(program) has \(path) open" : "  while \(program) writes \(path)"
            }
            if !claim.waitsFor.isEmpty { line += "  after \(claim.waitsFor.joined(separator: " "))" }
            terminal.write(line + "\n")
        }
        for presenter in found.presenters {
            var line = "\(presenter.presenter)  presents    \(terminal.safe(presenter.program)) (\(presenter.process))"
            line += "  \(terminal.safe(presenter.path.shown))"
            if presenter.unanswered > 0 { line += "  \(presenter.unanswered) unanswered" }
            terminal.write(line + "\n")
        }
        return 0
    }
}

extension CommandTable {
    static let claimSpeed = Command(
        name: "claim-speed",
        summary: "measure the table of claims",
        operands: .init(names: ["COUNT"], minimum: 1),
        isForAccount: false,
        isHidden: true
    ) { arguments throws(Failure) in
        guard let count = arguments.operand(0).flatMap({ Int($0) }), count > 0 else {
            throw .usage("COUNT", "is no number")
        }
        Terminal.standardOutput.write("\(ClaimSpeed.measure(count: count).nanoseconds)\n")
        return 0
    }
}

extension PathParameter {
    /// The path for a person.
    var shown: String { ((try? remotePath()) ?? nil)?.description ?? "-" }
}
