/// The completion script for zsh, made from the command table.
enum ZshCompletions {
    /// The script.
    static var text: String {
        var script = """
            #compdef cove
            # zsh completion for cove; made by `cove completions zsh`.
            _cove() {
                local command=$words[2]
                if (( CURRENT == 2 )); then
                    local -a commands=(

            """
        for (name, summary) in firstWords { script += "            \(quote("\(name):\(summary)"))\n" }
        script += "        )\n        _describe command commands\n        return\n    fi\n    case $command in\n"
        for family in CommandTable.familyNames {
            script += "    \(family))\n        if (( CURRENT == 3 )); then\n            local -a commands=(\n"
            for command in CommandTable.family(family) {
                script += "                \(quote("\(command.name.dropFirst(family.count + 1)):\(command.summary)"))\n"
            }
            script += "            )\n            _describe command commands\n            return\n        fi\n"
            script += "        command=\"$command $words[3]\"; shift words; (( CURRENT-- )) ;;\n"
        }
        script += "    esac\n    shift words; (( CURRENT-- ))\n    case $command in\n"
        for command in CommandTable.visible {
            script += "    \(quote(command.name)))\n        _arguments -s"
            for option in command.allOptions { script += specifications(option) }
            if !command.operands.names.isEmpty {
                let operands = "*:\(command.operands.names[0]):\(action(command.operands.completion))"
                script += " \\\n            \(quote(operands))"
            }
            script += " ;;\n"
        }
        return script + "    esac\n}\n_cove \"$@\"\n"
    }

    private static var firstWords: [(String, String)] {
        var words: [(String, String)] = []
        for command in CommandTable.visible {
            guard let family = CommandTable.familyNames.first(where: { command.name.hasPrefix($0 + " ") }) else {
                words.append((command.name, command.summary))
                continue
            }
            if !words.contains(where: { $0.0 == family }) {
                let members = CommandTable.family(family).map { $0.name.dropFirst(family.count + 1) }
                words.append((family, members.joined(separator: ", ")))
            }
        }
        return words
    }

    private static func specifications(_ option: Option) -> String {
        [option.short.map { "-\($0)" }, option.long.map { "--\($0)" }].compactMap(\.self).map { name in
            let summary = option.summary.replacing("[", with: "(").replacing("]", with: ")").replacing(":", with: " ")
            guard let argument = option.argument else { return " \\\n            \(quote("\(name)[\(summary)]"))" }
            let isLong = name.hasPrefix("--")
            let specification = "*\(name)\(isLong ? "=" : "+")[\(summary)]:\(argument):\(action(option.completion))"
            return " \\\n            \(quote(specification))"
        }.joined()
    }

    private static func action(_ completion: Option.Completion) -> String {
        switch completion {
        case .nothing: " "
        case .file: "_files"
        case .directory: "_files -/"
        case .account: "(${XDG_RUNTIME_DIR:-/run/user/$UID}/cove/*.sock(N:t:r))"
        case .mountpoint: "_files -/"
        case .command: "(\(firstWords.map(\.0).joined(separator: " ")))"
        case .words(let words): "(\(words.joined(separator: " ")))"
        }
    }

    private static func quote(_ text: String) -> String {
        "'" + text.replacing("'", with: "'\\''") + "'"
    }
}
