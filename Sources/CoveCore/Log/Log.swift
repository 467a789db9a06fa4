internal import Glibc
internal import Synchronization

/// Writes dated lines to the account's log file, and to standard error when the daemon runs in the foreground.
///
/// A message is one line whatever it has in it, and a problem is told once (`LogFilter`), but for a log that has details.
/// The file keeps a few megabytes, and as much of before is in another one beside it.
public final class Log: Sendable {
    /// How much a line matters.
    public enum Level: Int, Sendable, Comparable {
        case debug, info, notice, error

        /// Orders from the least to the most important.
        public static func < (left: Level, right: Level) -> Bool { left.rawValue < right.rawValue }
    }

    /// How many bytes the file may have.
    public static let sizeLimit: Int64 = 4 << 20
    /// Of a message so many bytes are kept.
    private static let lengthLimit = 4096

    private struct State {
        var filter = LogFilter()
        var size: Int64 = 0
    }

    private let path: String?
    private let ownsDescriptor: Bool
    private let echoes: Bool
    private let minimum: Level
    private let sizeLimit: Int64
    private let state = Mutex(State())

    /// Opens a log for appending; nil keeps none.
    public convenience init(path: String?, echoToStandardError: Bool, minimum: Level = .info) {
        self.init(path: path, echoToStandardError: echoToStandardError, minimum: minimum, sizeLimit: Self.sizeLimit)
    }

    init(path: String?, echoToStandardError: Bool, minimum: Level, sizeLimit: Int64) {
        descriptor =
            (try? path.map { path throws(Errno) in
                try System.openPlain(AT_FDCWD, Array(path.utf8), O_RDWR | O_CREAT | O_APPEND)
            }) ?? -1
        self.path = path
        ownsDescriptor = true
        echoes = echoToStandardError
        self.minimum = minimum
        self.sizeLimit = sizeLimit
        state.withLock { $0.size = size }
    }

    /// A log on a descriptor that somebody else owns.
    public init(descriptor: Int32) {
        self.descriptor = descriptor
        path = nil
        ownsDescriptor = false
        echoes = false
        minimum = .info
        sizeLimit = .max
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
        let message = message()
        let isLong = message.utf8.count > Self.lengthLimit
        let text = isLong ? String(decoding: message.utf8.prefix(Self.lengthLimit), as: UTF8.self) + "…" : message
        let line = "\(level) \(text.escapingControls)"
        let date = Self.date()
        state.withLock { state in
            let lines = minimum == .debug ? [line] : state.filter.lines(for: line, at: System.monotonic())
            guard !lines.isEmpty else { return }
            let bytes = lines.flatMap { Array("\(date) \($0)\n".utf8) }
            bytes.withUnsafeBytes { bytes in
                if echoes { try? System.writeAll(2, bytes) }
                guard descriptor >= 0 else { return }
                try? System.writeAll(descriptor, bytes)
                state.size += Int64(bytes.count)
            }
            // The keeper writes to it too.
            if state.size > sizeLimit { state.size = beginAnew() }
        }
    }

    private static func date() -> String {
        var seconds = time(nil)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        var stamp = [CChar](repeating: 0, count: 32)
        let length = strftime(&stamp, stamp.count, "%Y-%m-%dT%H:%M:%SZ", &parts)
        return String(decoding: stamp.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    private var size: Int64 { (try? System.fstat(descriptor).st_size).map { Int64($0) } ?? 0 }

    /// Copies what the file has to another one beside it, and empties it; its size afterwards.
    ///
    /// It stays the same file, which the keeper has open too. On a full disk the copy ends early.
    private func beginAnew() -> Int64 {
        guard let path, size > sizeLimit else { return size }
        let name = Array("\(path).1".utf8)
        if let copy = try? System.openPlain(AT_FDCWD, name, O_WRONLY | O_CREAT | O_TRUNC) {
            var offset: Int64 = 0
            let portion = 256 << 10
            var bytes = [UInt8](repeating: 0, count: portion)
            while let count = try? System.pread(descriptor, into: &bytes, count: portion, offset), count > 0 {
                offset += Int64(count)
                guard bytes.prefix(count).withUnsafeBytes({ (try? System.writeAll(copy, $0)) != nil }) else { break }
            }
            System.close(copy)
        }
        try? System.ftruncate(descriptor, 0)
        return size
    }
}
