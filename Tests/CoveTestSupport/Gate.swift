public import CoveCore
import Foundation

/// A fifo at which a program waits until the test lets it pass; CoveKitDriver's `gate` and others take its path.
public struct Gate: Sendable, CustomStringConvertible {
    /// Where it is.
    public let path: String

    /// The path, for a program's arguments.
    public var description: String { path }

    /// Makes one at a path that is free.
    public init(_ path: String) throws(Errno) {
        self.path = path
        try System.retry { mkfifo(path, 0o600) }
    }

    /// Lets the program pass, once it is there; throws when it ends before.
    public func open(for program: Command) throws {
        // A fifo without a reader can't be opened so: ENXIO.
        try waitUntil("\(path) is waited at: \(program.lines.suffix(5)) \(program.error)") {
            if let file = try? System.open(path, O_WRONLY | O_NONBLOCK) {
                defer { System.close(file) }
                try [UInt8(0x0A)].withUnsafeBytes { try System.writeAll(file, $0) }
                return true
            }
            guard !program.hasEnded(within: 0) else {
                throw CommandFailure("nobody is at \(path) any more: \(program.lines.suffix(5)) \(program.error)")
            }
            return false
        }
    }
}
