internal import CoveMount

/// Commands that tell about Cove itself.
extension CommandTable {
    static let help = Command(
        name: "help",
        summary: "explain Cove, or one command",
        operands: .init(names: ["COMMAND"], repeats: true, completion: .command),
        isForAccount: false
    ) { arguments throws(Failure) in
        guard let first = arguments.operand(0) else {
            Terminal.standardOutput.write(HelpText.overview)
            return 0
        }
        let name = arguments.operand(1).map { "\(first) \($0)" } ?? first
        if let command = command(name) {
            Terminal.standardOutput.write(HelpText.page(command))
        } else if !family(name).isEmpty {
            Terminal.standardOutput.write(HelpText.family(name))
        } else {
            throw .usage(name, "unknown command", "see `cove help`")
        }
        return 0
    }

    static let completions = Command(
        name: "completions",
        summary: "write a shell's completion script",
        operands: .init(names: ["SHELL"], minimum: 1, completion: .words(["bash", "zsh"])),
        isForAccount: false,
        details: "bash: cove completions bash > /usr/share/bash-completion/completions/cove\n\n"
            + "zsh: cove completions zsh > a directory of $fpath, as _cove"
    ) { arguments throws(Failure) in
        switch arguments.operand(0) {
        case "bash": Terminal.standardOutput.write(BashCompletions.text)
        case "zsh": Terminal.standardOutput.write(ZshCompletions.text)
        default: throw .usage(arguments.operand(0), "unknown shell", "bash or zsh")
        }
        return 0
    }

    static let manual = Command(
        name: "man",
        summary: "write the manual page as roff",
        isForAccount: false,
        details: "Read it with: cove man | man -l -"
    ) { _ in
        Terminal.standardOutput.write(ManualPage.text)
        return 0
    }

    static let version = Command(
        name: "version",
        summary: "tell the version",
        options: [.json],
        isForAccount: false
    ) { arguments throws(Failure) in
        if arguments.has("json") {
            try JSONOutput.write(["version": Tool.version])
        } else {
            Terminal.standardOutput.write("cove \(Tool.version)\n")
        }
        return 0
    }

    static let announcer = Command(
        name: "announcer",
        summary: "make the daemon's system calls on its own mount",
        isForAccount: false,
        isHidden: true
    ) { _ in AnnouncerMain.run() }

    static let notifier = Command(
        name: "notifier",
        summary: "write the daemon's notifications to the kernel",
        isForAccount: false,
        isHidden: true
    ) { _ in NotifierMain.run() }

    static let mountState = Command(
        name: MountInquiry.command,
        summary: "ask a mount whether it is served",
        operands: .init(names: ["MOUNTPOINT"], minimum: 1),
        isForAccount: false,
        isHidden: true
    ) { arguments in
        MountInquiry.answer(arguments.operand(0) ?? "")
        return 0
    }
}
