/// A parsed command line: options by name, operands as the bytes they came as.
struct Arguments: Sendable {
    /// The values of each option, in order; an empty text for a switch.
    private(set) var options: [String: [[UInt8]]] = [:]
    /// What is no option; names of files need not be UTF-8.
    private(set) var operands: [[UInt8]] = []

    /// True when the option is given.
    func has(_ name: String) -> Bool { options[name] != nil }

    /// The option's last value.
    func value(_ name: String) -> String? { options[name]?.last.map { String(decoding: $0, as: UTF8.self) } }

    /// All of the option's values.
    func values(_ name: String) -> [[UInt8]] { options[name] ?? [] }

    /// An operand as text.
    func operand(_ index: Int) -> String? {
        index < operands.count ? String(decoding: operands[index], as: UTF8.self) : nil
    }

    /// Sorts words into options and operands the GNU way: mixed, `--` ends the options, short ones may be joined.
    init(_ words: [[UInt8]], for command: Command) throws(Failure) {
        let remedy = "see `cove help \(command.name)`"
        var rest = words[...]
        while let word = rest.popFirst() {
            let text = String(decoding: word, as: UTF8.self)
            if text == "--" {
                operands += rest
                break
            }
            if text.hasPrefix("--") {
                let parts = text.dropFirst(2).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                guard let option = command.allOptions.first(where: { $0.long == String(parts[0]) }) else {
                    throw .usage("--\(parts[0])", "unknown option", remedy)
                }
                if option.argument == nil {
                    guard parts.count == 1 else { throw .usage("--\(parts[0])", "takes no value", remedy) }
                    options[option.key, default: []].append([])
                } else if parts.count == 2 {
                    options[option.key, default: []].append(Array(word.drop { $0 != UInt8(ascii: "=") }.dropFirst()))
                } else {
                    try take(option, from: &rest, remedy)
                }
            } else if text.hasPrefix("-"), text != "-" {
                try takeShort(text.dropFirst(), &rest, command, remedy)
            } else if case .command = command.operands.completion {
                // The options after a command are its own.
                operands += [word] + rest
                break
            } else {
                operands.append(word)
            }
        }
        if has("help") { return }
        try checkOperands(command, remedy)
    }

    private mutating func takeShort(
        _ letters: Substring,
        _ rest: inout ArraySlice<[UInt8]>,
        _ command: Command,
        _ remedy: String
    ) throws(Failure) {
        var letters = letters
        while let letter = letters.popFirst() {
            guard let option = command.allOptions.first(where: { $0.short == letter }) else {
                throw .usage("-\(letter)", "unknown option", remedy)
            }
            if option.argument == nil {
                options[option.key, default: []].append([])
            } else if letters.isEmpty {
                try take(option, from: &rest, remedy)
            } else {
                options[option.key, default: []].append(Array(letters.utf8))
                letters = ""
            }
        }
    }

    private mutating func take(
        _ option: Option,
        from rest: inout ArraySlice<[UInt8]>,
        _ remedy: String
    ) throws(Failure) {
        guard let value = rest.popFirst() else {
            throw .usage(option.spelling, "its value is missing", remedy)
        }
        options[option.key, default: []].append(value)
    }

    private func checkOperands(_ command: Command, _ remedy: String) throws(Failure) {
        if operands.count < command.operands.minimum {
            throw .usage(command.operands.names[operands.count], "is missing", remedy)
        }
        if operands.count > command.operands.names.count, !command.operands.repeats {
            let extra = String(decoding: operands[command.operands.names.count], as: UTF8.self)
            throw .usage(extra, "one operand too many", remedy)
        }
        if let empty = operands.firstIndex(where: { $0.isEmpty }) {
            throw .usage("operand \(empty + 1)", "is empty", remedy)
        }
    }
}
