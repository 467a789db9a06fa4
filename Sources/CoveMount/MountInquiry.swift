internal import CFuse
public import CoveCore
internal import Glibc

/// A process of Cove's that asks a mount, so that the one who wants to know can go on, and end, without an answer.
///
/// A thread that has asked a daemon which doesn't answer can't be killed, and the end of its process waits for it.
public final class MountInquiry {
    /// The command of Cove's executable that runs `answer`.
    public static let command = "mount-state"

    /// The descriptor that the process answers on.
    private static let answers: Int32 = 3
    private static let dead = "dead"
    private static let serving = "serving"
    private static let socket = "socket "

    private let mount: Mount
    private let process: pid_t
    private let output: Int32
    private var text: [UInt8] = []

    /// Starts the process, which is this program again.
    public init(_ mount: Mount) throws(Errno) {
        let (read, write) = try System.pipe()
        defer { System.close(write) }
        do throws(Errno) {
            process = try ChildProcess.start(
                [Self.command, "--", mount.path],
                descriptors: [write],
                standardError: .null,
                group: .own
            )
        } catch {
            System.close(read)
            throw error
        }
        self.mount = mount
        output = read
    }

    deinit {
        System.close(output)
        kill(process, SIGKILL)
        // The kernel may hold it until the daemon answers or ends.
        if waitpid(process, nil, WNOHANG) == 0 {
            let process = process
            try? BlockingThread.start { waitpid(process, nil, 0) }
        }
    }

    /// Whether the daemon answers, as far as that is known within a time.
    public func state(within limit: TimeSpan) -> Mount.State {
        switch line(0, within: limit) {
        case Self.dead: .dead
        case Self.serving: .serving
        default: .silent
        }
    }

    /// Where the daemon of a mount that is served listens; nil where it doesn't say within a time.
    public func daemon(within limit: TimeSpan) -> DaemonAddress? {
        guard let line = line(1, within: limit), line.hasPrefix(Self.socket) else { return nil }
        return DaemonAddress(socket: String(line.dropFirst(Self.socket.count)), owners: mount.owners)
    }

    /// A whole line of what the process says.
    private func line(_ index: Int, within limit: TimeSpan) -> String? {
        let deadline = System.monotonic() + limit
        let newline = UInt8(ascii: "\n")
        while true {
            let lines = text.split(separator: newline, omittingEmptySubsequences: false)
            if index < lines.count - 1 { return String(decoding: lines[index], as: UTF8.self) }
            var entry = pollfd(fd: output, events: Int16(POLLIN), revents: 0)
            let left = max(deadline - System.monotonic(), .zero)
            guard let ready = try? System.retry({ poll(&entry, 1, left.pollMilliseconds) }), ready > 0 else {
                return nil
            }
            var buffer = [UInt8](repeating: 0, count: 4096)
            let count = (try? System.retry { read(output, &buffer, buffer.count) }) ?? 0
            guard count > 0 else { return nil }
            text += buffer[..<count]
        }
    }

    /// The process's side: asks the mount at a path and says what it hears.
    public static func answer(_ path: String) {
        var status = statvfs()
        // statfs(2) is the one request that the kernel never answers from a cache.
        if statvfs(path, &status) != 0, [ENOTCONN, ECONNABORTED].contains(errno) { return say(dead) }
        say(serving)
        guard let location = try? ItemLocation.find(Array((path + "/").utf8)) else { return }
        say(socket + location.daemon.socket)
    }

    private static func say(_ line: String) {
        let bytes = Array((line + "\n").utf8)
        _ = write(answers, bytes, bytes.count)
    }
}
