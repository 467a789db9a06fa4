internal import Glibc
internal import Synchronization

/// Writes dated lines to the account's log file, and to standard error when the daemon runs in the foreground.
public final class Log: Sendable {
    /// How much a line matters.
    public enum Level: Int, Sendable, Comparable {
        case debug, info, notice, error

        /// Orders from the least to the most important.
        public static func < (left: Level, right: Level) -> Bool { left.rawValue < right.rawValue }
    }

    private let ownsDescriptor: Bool
    private let echoes: Bool
    private let minimum: Level

    /// Opens a log for appending; nil keeps none.
    public init(path: String?, echoToStandardError: Bool, minimum: Level = .info) {
        descriptor =
            (try? path.map { path throws(Errno) in try System.open(path, O_WRONLY | O_CREAT | O_APPEND) }) ?? -1
        ownsDescriptor = true
        echoes = echoToStandardError
        self.minimum = minimum
    }

    /// A log on a descriptor that somebody else owns.
    public init(descriptor: Int32) {
        self.descriptor = descriptor
        ownsDescriptor = false
        echoes = false
        minimum = .info
    }

    /// The file, for whoever is to write to it too; -1 without one.
    public let descriptor: Int32

    deinit {
        if ownsDescriptor, descriptor >= 0 { System.close(descriptor) }
    }

    /// A log that keeps nothing.
    public static let none = Log(path: nil, echoToStandardError: false, minimum: .error)

    /// Expected failures and details.
    public func debug(_ message: @autoclosure () -> String) { write(.debug, message) }
    /// What happens in ordinary use.
    public func info(_ message: @autoclosure () -> String) { write(.info, message) }
    /// What a person may want to know.
    public func notice(_ message: @autoclosure () -> String) { write(.notice, message) }
    /// What should not have happened.
    public func error(_ message: @autoclosure () -> String) { write(.error, message) }

    private func write(_ level: Level, _ message: () -> String) {
        guard level >= minimum, descriptor >= 0 || echoes else { return }
        var seconds = time(nil)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        var stamp = [CChar](repeating: 0, count: 32)
        let length = strftime(&stamp, stamp.count, "%Y-%m-%dT%H:%M:%SZ", &parts)
        let date = String(decoding: stamp.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let line = Array("\(date) \(level) \(message())\n".utf8)
        line.withUnsafeBytes { bytes in
            if descriptor >= 0 { try? System.writeAll(descriptor, bytes) }
            if echoes { try? System.writeAll(2, bytes) }
        }
    }
}
