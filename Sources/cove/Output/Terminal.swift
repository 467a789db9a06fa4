internal import CoveCore
internal import Glibc

/// Standard output or standard error, and what may be written there.
struct Terminal: Sendable {
    static let standardOutput = Terminal(1)
    static let standardError = Terminal(2)

    private let descriptor: Int32
    /// True when a person looks at it.
    let isInteractive: Bool
    /// True when colours are welcome: a terminal, no NO_COLOR, not a dumb one.
    let hasColour: Bool

    private init(_ descriptor: Int32) {
        self.descriptor = descriptor
        isInteractive = isatty(descriptor) == 1
        let refusal = getenv("NO_COLOR").map { $0.pointee != 0 } ?? false
        let isDumb = getenv("TERM").map { strcmp($0, "dumb") == 0 } ?? true
        hasColour = isInteractive && !refusal && !isDumb
    }

    /// Columns; 80 where there is no telling.
    var width: Int {
        var size = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }

    /// Writes a text; a reader that has gone away is no error, and makes it false.
    @discardableResult
    func write(_ text: String) -> Bool { write(Array(text.utf8)) }

    /// Writes bytes; a reader that has gone away is no error, and makes it false.
    @discardableResult
    func write(_ bytes: [UInt8]) -> Bool {
        bytes.withUnsafeBytes { bytes in (try? System.writeAll(descriptor, bytes)) != nil }
    }

    /// Ends the program as soon as nobody reads any more, as behind head(1), though nothing is to be written for long.
    func endWhenUnread() {
        try? BlockingThread.start { [descriptor] in
            var entry = pollfd(fd: descriptor, events: 0, revents: 0)
            repeat {
                guard (try? System.retry({ poll(&entry, 1, -1) })) == 1 else { return }
            } while entry.revents & Int16(POLLERR | POLLHUP | POLLNVAL) == 0
            exit(0)
        }
    }

    /// The text in a colour (SGR code), where colours are welcome.
    func coloured(_ text: String, _ code: String?) -> String {
        guard hasColour, let code else { return text }
        return "\u{1B}[\(code)m\(text)\u{1B}[0m"
    }

    /// A name as it may be shown: on a terminal without control characters, which could do anything to it.
    func safe(_ text: String) -> String {
        isInteractive ? text.escapingControls : text
    }

    /// The bytes of a name as they may be shown.
    func safe(_ bytes: [UInt8]) -> [UInt8] {
        isInteractive ? Array(String(decoding: bytes, as: UTF8.self).escapingControls.utf8) : bytes
    }
}
