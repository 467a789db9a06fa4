internal import CoveCore
internal import Glibc

/// The `cove` program: finds the command, runs it, and turns failures into a line and an exit code.
enum Tool {
    /// The version, as `cove version` and the control protocol tell it.
    static let version = "0.2.0"

    /// Runs the command the process was started with; its exit code.
    static func run() -> Int32 {
        signal(SIGPIPE, SIG_IGN)
        do throws(Failure) {
            return try run(words())
        } catch {
            report(error)
            return error.exitCode
        }
    }

    /// Writes a failure's one line.
    static func report(_ failure: Failure) {
        Terminal.standardError.write("cove: \(failure.line.escapingControls)\n")
    }

    private static func run(_ words: [[UInt8]]) throws(Failure) -> Int32 {
        guard let first = words.first.map({ String(decoding: $0, as: UTF8.self) }) else {
            Terminal.standardError.write(HelpText.overview)
            return 2
        }
        if first == "--help" || first == "-h" { return show(HelpText.overview) }
        if first == "--version" { return show("cove \(version)\n") }
        if words.count > 1 {
            let both = first + " " + String(decoding: words[1], as: UTF8.self)
            if let command = CommandTable.command(both) { return try run(command, words.dropFirst(2)) }
        }
        if let command = CommandTable.command(first) { return try run(command, words.dropFirst()) }
        let family = CommandTable.family(first)
        guard !family.isEmpty else {
            throw .usage(first, "unknown command", "see `cove help`")
        }
        if words.dropFirst().contains(where: { $0.elementsEqual("--help".utf8) || $0.elementsEqual("-h".utf8) }) {
            return show(HelpText.family(first))
        }
        let choices = family.map { $0.name.dropFirst(first.count + 1) }.joined(separator: ", ")
        throw .usage(first, words.count > 1 ? "unknown command" : "a command is missing", "one of \(choices)")
    }

    private static func run(_ command: Command, _ words: ArraySlice<[UInt8]>) throws(Failure) -> Int32 {
        let arguments = try Arguments(Array(words), for: command)
        if arguments.has("help") { return show(HelpText.page(command)) }
        return try command.run(arguments)
    }

    private static func show(_ text: String) -> Int32 {
        Terminal.standardOutput.write(text)
        return 0
    }

    /// The command line's bytes: Swift's own list of texts would have mended names that are not UTF-8.
    private static func words() -> [[UInt8]] {
        (1..<max(1, Int(CommandLine.argc))).compactMap { index in
            CommandLine.unsafeArgv[index].map { word in
                Array(UnsafeRawBufferPointer(start: word, count: strlen(word)))
            }
        }
    }
}
