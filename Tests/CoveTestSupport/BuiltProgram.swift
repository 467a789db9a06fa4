public import CoveCore
import Foundation

extension Command {
    /// The path of a program that was built with the tests.
    public static func built(_ name: String) throws(Errno) -> String {
        let tests = try System.readlinkat(AT_FDCWD, Array("/proc/self/exe".utf8))
        let folder = URL(fileURLWithPath: String(decoding: tests, as: UTF8.self)).deletingLastPathComponent()
        return folder.appendingPathComponent(name).path
    }

    /// The lines it has printed so far.
    public var lines: [String] { output.split(separator: "\n").map(String.init) }

    /// Waits until it has printed a line; throws when it ends without.
    public func says(_ line: String) throws {
        let end = ContinuousClock.now + .seconds(60)
        while true {
            let hasEnded = hasEnded(within: 0.01)
            if lines.contains(line) { return }
            guard !hasEnded, ContinuousClock.now < end else {
                throw CommandFailure("\(hasEnded ? "ended" : "waits") without \(line): \(lines) \(error)")
            }
        }
    }

    /// Waits for its good end; the lines it printed.
    public func finish() throws -> [String] {
        let result = try wait(deadline: 60)
        guard result.status == 0 else {
            throw CommandFailure("exit \(result.status): \(result.output)\(result.error)")
        }
        return lines
    }
}
