/// The completion script for bash, made from the command table.
enum BashCompletions {
    /// The script.
    static var text: String {
        var script = """
            # bash completion for cove; made by `cove completions bash`.
            _cove() {
                local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}
                local words='' files=''
                COMPREPLY=()
                if [ "$COMP_CWORD" -eq 1 ]; then
                    COMPREPLY=($(compgen -W '\(firstWords)' -- "$current"))
                    return
                fi
                case "$command" in

            """
        for (family, members) in families {
            let choices = members.map { String($0.name.dropFirst(family.count + 1)) }.joined(separator: " ")
            script += """
                    \(family))
                        if [ "$COMP_CWORD" -eq 2 ]; then
                            COMPREPLY=($(compgen -W '\(choices)' -- "$current"))
                            return
                        fi
                        command="$command ${COMP_WORDS[2]}" ;;

                """
        }
        script += "    esac\n    case \"$command $previous\" in\n"
        for command in CommandTable.visible {
            for option in command.allOptions where option.argument != nil {
                let patterns = [option.short.map { "-\($0)" }, option.long.map { "--\($0)" }].compactMap(\.self)
                let pattern = patterns.map { "\"\(command.name) \($0)\"" }.joined(separator: "|")
                script += "    \(pattern)) \(reply(option.completion)); return ;;\n"
            }
        }
        script += "    esac\n    case \"$command\" in\n"
        for command in CommandTable.visible {
            let options = command.allOptions.flatMap { option in
                [option.short.map { "-\($0)" }, option.long.map { "--\($0)" }].compactMap(\.self)
            }
            script += "    \"\(command.name)\")\n"
            script += "        case \"$current\" in\n"
            script += "        -*) COMPREPLY=($(compgen -W '\(options.joined(separator: " "))' -- \"$current\")) ;;\n"
            let completion = command.operands.names.isEmpty ? .nothing : command.operands.completion
            script += "        *) \(reply(completion)) ;;\n"
            script += "        esac ;;\n"
        }
        return script + "    esac\n}\ncomplete -F _cove cove\n"
    }

    private static var families: [(String, [Command])] {
        CommandTable.familyNames.map { ($0, CommandTable.family($0)) }
    }

    private static var firstWords: String {
        var words: [String] = []
        for command in CommandTable.visible {
            let word = String(command.name.prefix { $0 != " " })
            if !words.contains(word) { words.append(word) }
        }
        return words.joined(separator: " ")
    }

    private static func reply(_ completion: Option.Completion) -> String {
        switch completion {
        case .nothing: ":"
        case .file: "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$current\")"
        case .directory: "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$current\")"
        case .account:
            "COMPREPLY=($(compgen -W \"$(cd \"${XDG_RUNTIME_DIR:-/run/user/$UID}/cove\" 2>/dev/null && "
                + "ls | sed -n 's/\\.sock$//p')\" -- \"$current\"))"
        case .mountpoint:
            "compopt -o filenames; COMPREPLY=($(compgen -W \"$(sed -n 's/^[^ ]* \\([^ ]*\\) fuse\\.cove .*/\\1/p' "
                + "/proc/mounts)\" -- \"$current\"))"
        case .command: "COMPREPLY=($(compgen -W '\(firstWords)' -- \"$current\"))"
        case .words(let words):
            "COMPREPLY=($(compgen -W '\(words.joined(separator: " "))' -- \"$current\"))"
        }
    }
}
