/// The manual page, as roff for man(7), made from the command table.
enum ManualPage {
    /// The whole page.
    static var text: String {
        var page = """
            .TH COVE 1 "" "Cove \(Tool.version)" "User Commands"
            .SH NAME
            cove \\- mount a cloud as an ordinary directory tree
            .SH SYNOPSIS
            .B cove
            .I COMMAND
            [\\fIOPTION\\fR]... [\\fIOPERAND\\fR]...
            .SH DESCRIPTION
            Every file of the cloud is visible at once with its name, size and dates; its bytes arrive when something
            opens it. Changes are kept on this disk and sent as soon as the cloud can be reached.
            .SH COMMANDS

            """
        for command in CommandTable.visible { page += section(command) }
        page += """
            .SH CONFIGURATION
            .I $XDG_CONFIG_HOME/cove/config.json5
            (JSON5) may hold
            .B cacheSize
            (such as "20G" or "10%"),
            .B ignore
            (globs of names that stay on this device),
            .B noMaterialize
            (programs that never cause a download; replaces the built\\-in list),
            .B thumbnails
            (false: no pictures are made or given to other programs),
            .B fileManagers
            (programs whose listings wait a moment for pictures; replaces the built\\-in list), and
            .B accounts
            with the same ones by account name.
            .SH FILES
            .TP
            .I $XDG_STATE_HOME/cove/ACCOUNT/
            the account's state, unsent changes among it
            .TP
            .I $XDG_RUNTIME_DIR/cove/ACCOUNT.sock
            the control socket of the account's daemon
            .SH EXIT STATUS
            0 when done, 1 when something failed, 2 for a wrong command line.

            """
        return page
    }

    private static func section(_ command: Command) -> String {
        var text = ".SS \(escape(command.name))\n\\fB\(escape(command.synopsis))\\fR\n.PP\n"
        text += escape(HelpText.sentence(command.summary)) + "\n"
        for option in command.options {
            text += ".TP\n\\fB\(escape(option.spellings))\\fR\n\(escape(option.summary))\n"
        }
        for paragraph in paragraphs(command.details) { text += ".PP\n" + paragraph }
        return text
    }

    /// Paragraphs stand between empty lines; indented lines keep their breaks.
    private static func paragraphs(_ details: String) -> [String] {
        details.split(separator: "\n\n").map { paragraph in
            paragraph.split(separator: "\n").map { line in
                line.hasPrefix(" ") ? ".br\n\(escape(String(line)))\n" : escape(String(line)) + "\n"
            }.joined()
        }
    }

    private static func escape(_ text: String) -> String {
        var result = ""
        for character in text {
            switch character {
            case "\\": result += "\\e"
            case "-": result += "\\-"
            case "…": result += "..."
            case "'", ".": result += result.isEmpty ? "\\&\(character)" : String(character)
            default: result.append(character)
            }
        }
        return result
    }
}
