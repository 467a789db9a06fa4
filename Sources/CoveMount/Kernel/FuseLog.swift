internal import CFuse
internal import CoveCore
internal import Glibc
internal import Synchronization

/// Leads libfuse's own messages, which would go to standard error, into the log.
enum FuseLog {
    private static let state = Mutex<(log: Log, last: String?)>((.none, nil))

    /// The latest message, which says why libfuse failed.
    static var lastMessage: String? { state.withLock { $0.last } }

    /// Sends messages to a log from now on.
    static func install(_ log: Log) {
        state.withLock { $0 = (log, nil) }
        fuse_set_log_func { _, format, arguments in
            guard let format, let arguments else { return }
            var text = [CChar](repeating: 0, count: 512)
            let length = vsnprintf(&text, text.count, format, arguments)
            guard length > 0 else { return }
            let bytes = text.prefix(min(Int(length), text.count - 1)).map { UInt8(bitPattern: $0) }
            FuseLog.receive(String(decoding: bytes, as: UTF8.self))
        }
    }

    private static func receive(_ message: String) {
        var line = Substring(message)
        while line.last?.isWhitespace == true { line.removeLast() }
        if line.hasPrefix("fuse: ") { line.removeFirst(6) }
        let text = String(line)
        let log = state.withLock { state in
            state.last = text
            return state.log
        }
        log.error("libfuse: \(text)")
    }
}
