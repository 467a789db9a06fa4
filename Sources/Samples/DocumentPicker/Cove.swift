import Foundation

/// The command-line program, for what an app leaves to it: its registration, and the picker on the terminal.
enum Cove {
    /// Runs it with the terminal of this program, in the mount of the account that is meant.
    ///
    /// What it printed; nil where it has failed or the person has left it, of which it has told on the terminal.
    static func run(_ words: [String], at mount: URL) async -> String? {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread { continuation.resume(returning: runNow(words, at: mount)) }
        }
    }

    private static func runNow(_ words: [String], at mount: URL) -> String? {
        let program = ProcessInfo.processInfo.environment["COVE"] ?? "cove"
        let command = "cd \(quoted(mount.path)) && " + ([program] + words).map(quoted).joined(separator: " ")
        // Foundation's Process would start it in the background of the terminal.
        guard let pipe = popen(command, "r") else { return nil }
        let printed = FileHandle(fileDescriptor: fileno(pipe), closeOnDealloc: false).readDataToEndOfFile()
        guard pclose(pipe) == 0 else { return nil }
        return String(decoding: printed, as: UTF8.self).trimmingCharacters(in: .newlines)
    }

    /// A word as the shell takes it for one.
    private static func quoted(_ word: String) -> String { "'\(word.replacing("'", with: "'\\''"))'" }
}
