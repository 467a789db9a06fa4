/// The texts of `cove help`, made from the command table.
enum HelpText {
    /// All commands, a line each.
    static var overview: String {
        let commands = CommandTable.visible
        let width = commands.map(\.name.count).max() ?? 0
        var text = "Cove mounts a cloud as an ordinary directory tree.\n\nusage: cove COMMAND [OPTION…] [OPERAND…]\n\n"
        for command in commands { text += line(command.name, command.summary, width) }
        text += "\n`cove help COMMAND` tells more of one. Exit status: 0 done, 1 failed, 2 wrong usage.\n"
        return text
    }

    /// The commands of one family.
    static func family(_ name: String) -> String {
        CommandTable.family(name).map { "usage: \($0.synopsis)\n    \($0.summary)\n" }.joined(separator: "\n")
    }

    /// Everything about one command.
    static func page(_ command: Command) -> String {
        var text = "usage: \(command.synopsis)\n\n\(sentence(command.summary))\n"
        let options = command.allOptions
        let width = options.map(\.spellings.count).max() ?? 0
        text += "\nOptions:\n"
        for option in options { text += line(option.spellings, option.summary, width) }
        if !command.details.isEmpty { text += "\n\(command.details)\n" }
        return text
    }

    /// A phrase as a sentence.
    static func sentence(_ phrase: String) -> String {
        phrase.prefix(1).uppercased() + phrase.dropFirst() + "."
    }

    private static func line(_ name: String, _ summary: String, _ width: Int) -> String {
        "  " + name + String(repeating: " ", count: max(0, width - name.count) + 2) + summary + "\n"
    }
}
