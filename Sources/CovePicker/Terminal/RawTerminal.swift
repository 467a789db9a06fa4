internal import CoveCore
internal import Glibc

/// The controlling terminal while a face has it: the other screen, each key by itself, nothing echoed.
///
/// Signals of the terminal come as numbers from `signals`; whoever has it must call `leave` before anything ends.
final class RawTerminal {
    /// The terminal.
    let descriptor: Int32
    /// The terminal's signals, and those that would end the process.
    let signals: SignalReader
    private var former: termios
    private var isEntered = false

    /// The signals that a face answers to.
    static let handled = [SIGWINCH, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT]

    /// Opens the controlling terminal, and keeps its signals from doing what they do.
    ///
    /// Threads that are started later get none of them, either. Throws ENXIO where there is no terminal.
    init() throws(Errno) {
        let terminal = try System.open("/dev/tty", O_RDWR | O_NOCTTY)
        var settings = termios()
        do throws(Errno) {
            try System.retry { tcgetattr(terminal, &settings) }
            signals = try SignalReader(Self.handled)
        } catch {
            System.close(terminal)
            throw error
        }
        descriptor = terminal
        former = settings
    }

    deinit {
        leave()
        System.close(descriptor)
    }

    /// Takes the screen.
    func enter() {
        var raw = former
        raw.c_iflag &= ~tcflag_t(BRKINT | ICRNL | INLCR | IGNCR | INPCK | ISTRIP | IXON)
        raw.c_lflag &= ~tcflag_t(ECHO | ECHONL | ICANON | IEXTEN)
        withUnsafeMutableBytes(of: &raw.c_cc) { codes in
            codes[Int(VMIN)] = 1
            codes[Int(VTIME)] = 0
        }
        isEntered = true
        _ = try? System.retry { tcsetattr(descriptor, TCSADRAIN, &raw) }
        write("\u{1B}[?1049h\u{1B}[?2004h\u{1B}[2J\u{1B}[H")
    }

    /// Gives the screen back as it was; a second time it does nothing.
    func leave() {
        guard isEntered else { return }
        isEntered = false
        write("\u{1B}[0m\u{1B}[?25h\u{1B}[?2004l\u{1B}[?1049l")
        _ = try? System.retry { tcsetattr(descriptor, TCSADRAIN, &former) }
    }

    /// Stops this process, as Ctrl-Z does others, and goes on when it is told to.
    func stop() {
        leave()
        kill(getpid(), SIGSTOP)
        takeAgain()
    }

    /// Takes the screen after a stop.
    ///
    /// A shell may have set the terminal meanwhile.
    func takeAgain() {
        if !isEntered { _ = try? System.retry { tcgetattr(descriptor, &former) } }
        enter()
    }

    /// Columns and rows.
    var size: (columns: Int, rows: Int) {
        var size = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else { return (80, 24) }
        return (Int(size.ws_col), Int(size.ws_row))
    }

    /// The bytes that were typed; nil once the terminal is gone.
    func input() -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: 4096)
        guard let count = try? System.retry({ read(descriptor, &bytes, bytes.count) }), count > 0 else { return nil }
        return Array(bytes.prefix(count))
    }

    /// Writes a text; a terminal that is gone is no error here, for the next read tells it.
    func write(_ text: String) {
        let bytes = Array(text.utf8)
        bytes.withUnsafeBytes { bytes in _ = try? System.writeAll(descriptor, bytes) }
    }
}

extension Screen {
    /// What makes a terminal that shows another screen, or nothing, show this one.
    func changes(from former: Screen?) -> String {
        var output = "\u{1B}[?25l"
        for (index, row) in rows.enumerated() {
            if let former, index < former.rows.count, former.rows[index] == row { continue }
            output += "\u{1B}[\(index + 1);1H\u{1B}[0m\u{1B}[2K"
            for span in row {
                output += "\u{1B}[\(index + 1);\(span.column + 1)H\u{1B}[\(span.style.code)m\(span.text)\u{1B}[0m"
            }
        }
        return output + "\u{1B}[\(cursor.row + 1);\(cursor.column + 1)H\u{1B}[?25h"
    }
}

extension Screen.Style {
    /// The parameters of SGR, ECMA-48.
    fileprivate var code: String {
        switch self {
        case .plain: "0"
        case .strong: "1"
        case .faint: "2"
        case .current: "7"
        case .currentFaint: "2;7"
        }
    }
}
