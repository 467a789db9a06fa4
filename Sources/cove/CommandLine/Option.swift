/// One option of a command.
struct Option: Sendable {
    /// What can follow an option or stand as an operand, for completion.
    enum Completion: Sendable {
        case nothing, file, directory, account, mountpoint, command
        case words([String])
    }

    /// The name after one dash; nil where there is none.
    var short: Character?
    /// The name after two dashes; nil where there is none.
    var long: String?
    /// The argument's name in capitals; nil for a switch.
    var argument: String?
    /// What it does, as one phrase.
    var summary: String
    /// What its argument can be.
    var completion = Completion.nothing

    /// The name the parsed values are kept under.
    var key: String { long ?? short.map(String.init) ?? "" }

    /// The spelling in a synopsis: `-f` or `--state DIR`.
    var spelling: String {
        let name = short.map { "-\($0)" } ?? "--\(long ?? "")"
        return argument.map { "\(name) \($0)" } ?? name
    }

    /// All spellings, for a list of options: `-f, --foreground`.
    var spellings: String {
        var names = [short.map { "-\($0)" }, long.map { "--\($0)" }].compactMap(\.self)
        if let argument { names[names.count - 1] += " \(argument)" }
        return names.joined(separator: ", ")
    }

    static let json = Option(long: "json", summary: "write JSON with stable keys")
    static let help = Option(short: "h", long: "help", summary: "explain the command")
    static let account = Option(
        long: "account",
        argument: "NAME",
        summary: "the account, by name",
        completion: .account
    )
    static let state = Option(
        long: "state",
        argument: "DIR",
        summary: "the account, by its state directory",
        completion: .directory
    )
}
