/// One command: what help, completions and the manual say of it, and what it does.
struct Command: Sendable {
    /// How many operands a command takes and what they are called.
    struct Operands: Sendable {
        var names: [String] = []
        var minimum = 0
        /// True when the last one may be repeated.
        var repeats = false
        var completion = Option.Completion.file

        static let none = Operands()
        /// Anything inside a mount, which names the account.
        static let account = Operands(names: ["PATH"])
    }

    /// The name; two words for one of a family, such as `trash ls`.
    var name: String
    /// What it does, as one phrase.
    var summary: String
    var operands = Operands.none
    var options: [Option] = []
    /// Whether it concerns an account, and so takes `--account`, `--state` and `--json`.
    var isForAccount = true
    /// Paragraphs that follow the options.
    var details = ""
    /// Left out of help, completions and the manual: for Cove's own use.
    var isHidden = false
    var run: @Sendable (Arguments) throws(Failure) -> Int32

    /// The command's options and those every such command takes.
    var allOptions: [Option] {
        let shared: [Option] = isForAccount ? [.account, .state, .json] : []
        return options + shared.filter { shared in !options.contains { $0.long == shared.long } } + [.help]
    }

    /// The whole command line in one line.
    var synopsis: String {
        var parts = ["cove", name]
        for option in options { parts.append("[\(option.spelling)]") }
        for (index, name) in operands.names.enumerated() {
            let text = operands.repeats && index == operands.names.count - 1 ? "\(name)…" : name
            parts.append(index < operands.minimum ? text : "[\(text)]")
        }
        return parts.joined(separator: " ")
    }
}
