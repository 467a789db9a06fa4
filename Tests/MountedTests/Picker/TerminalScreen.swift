import CoveTestSupport
import Foundation

/// A terminal of tmux's, with a shell in the mount, whose keys a test presses and whose screen it reads.
final class TerminalScreen: Sendable {
    private let socket: String

    /// Opens a terminal of some size.
    init(_ account: MountedAccount, columns: Int = 80, rows: Int = 24) throws {
        socket = account.scratch.appending("tmux-\(Int.random(in: 0..<1_000_000))")
        let environment = account.environment.merging(["TERM": "xterm-256color", "LC_ALL": "C.UTF-8"]) { $1 }
        try Command.run(
            "tmux",
            ["-S", socket, "-f", "/dev/null", "new-session", "-d", "-x", "\(columns)", "-y", "\(rows)"]
                + ["-c", account.mount, "bash --norc --noprofile"],
            environment: environment
        )
        try wait(for: "bash-")
    }

    deinit { _ = try? Command.run("tmux", ["-S", socket, "kill-server"], mayFail: true) }

    /// Types a text, letter by letter.
    func type(_ text: String) throws { try send(["send-keys", "-l", text]) }

    /// Presses keys, by tmux's names for them.
    func press(_ keys: String...) throws { try send(["send-keys"] + keys) }

    /// Types a command and starts it.
    func run(_ command: String) throws {
        try type(command)
        try press("Enter")
    }

    /// Gives the terminal another size.
    func resize(columns: Int, rows: Int) throws { try send(["resize-window", "-x", "\(columns)", "-y", "\(rows)"]) }

    /// What is on the screen, a line each, without spaces at its end.
    func lines() throws -> [String] {
        let text = try send(["capture-pane", "-p"])
        return text.components(separatedBy: "\n").map { $0.replacing(/\ +$/, with: "") }
    }

    /// What is on the screen.
    func text() throws -> String { try lines().joined(separator: "\n") }

    /// Waits until a text is on the screen.
    func wait(for wanted: String) throws {
        try waitUntil("\(wanted) is on the screen, which has\n\((try? text()) ?? "nothing")") {
            try text().contains(wanted)
        }
    }

    /// Waits until the screen is as it should be.
    func wait(_ what: String, _ isSo: ([String]) -> Bool) throws {
        try waitUntil("\(what); the screen has\n\((try? text()) ?? "nothing")") { try isSo(lines()) }
    }

    @discardableResult
    private func send(_ words: [String]) throws -> String { try Command.run("tmux", ["-S", socket] + words).output }
}
