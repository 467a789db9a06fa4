import CoveCore
import Foundation

/// What a run was about to do and what was acknowledged, outside of the state: a line is there once `write` returns.
struct StepLog {
    private let file: FileHandle

    init(path: String) throws {
        file = FileHandle(fileDescriptor: try System.open(path, O_WRONLY | O_CREAT | O_APPEND))
    }

    func write(_ line: String) throws { try file.write(contentsOf: Data((line + "\n").utf8)) }

    /// What a log tells.
    struct Progress {
        /// How many steps were acknowledged.
        var done: Int
        /// True when one more was begun.
        var isCutOff: Bool
        /// True when a start after the kill got as far as the source.
        var isStarted: Bool
    }

    /// Nil when the steps did not begin.
    static func read(_ path: String) throws -> Progress? {
        let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
        guard lines.contains("begin") else { return nil }
        let begun = lines.count { $0.hasPrefix("step ") }
        let done = lines.count { $0.hasPrefix("done ") }
        return Progress(done: done, isCutOff: begun > done, isStarted: lines.contains("started"))
    }
}
