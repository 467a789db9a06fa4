internal import CoveCore
internal import CoveEngine
internal import Glibc
internal import Synchronization

/// The daemon's side of the announcer process: starts it, starts it again when it dies, and never waits for it for long.
final class AnnouncerProcess: Announcer {
    private struct State {
        var socket: Int32 = -1
        var process: pid_t = 0
        var isStopped = false
        /// Killed processes that the kernel had not let go yet.
        var unreaped: [pid_t] = []
    }

    private let mountpoint: String
    private let device: UInt64
    private let log: Log
    /// Hears of each process that is started.
    private let whenStarted: @Sendable (pid_t) -> Void
    private let state = Mutex(State())
    /// The process id now, for `isAnnouncer`, which must not wait for an announcement going on.
    private let process = Atomic<Int32>(0)

    /// How long one system call may take.
    private static let callLimit = TimeSpan.seconds(10)

    init(mountpoint: String, device: UInt64, log: Log, whenStarted: @escaping @Sendable (pid_t) -> Void) {
        self.whenStarted = whenStarted
        self.mountpoint = mountpoint
        self.device = device
        self.log = log
    }

    /// Starts the process.
    func start() throws(Errno) {
        try locked { state throws(Errno) in try self.spawn(&state) }
    }

    /// Ends the process.
    func stop() {
        state.withLock { state in
            state.isStopped = true
            end(&state)
        }
    }

    func isAnnouncer(_ thread: Int32) -> Bool { thread > 0 && thread == process.load(ordering: .relaxed) }

    func perform(_ announcement: Announcement) throws(Errno) {
        let frame =
            switch announcement {
            case .rename(let from, let to): AnnouncerFrame(.rename, first: from.bytes, second: to.bytes)
            case .makeDirectory(let path): AnnouncerFrame(.makeDirectory, first: path.bytes)
            case .unlink(let path): AnnouncerFrame(.unlink, first: path.bytes)
            case .removeDirectory(let path): AnnouncerFrame(.removeDirectory, first: path.bytes)
            case .flush(let path): AnnouncerFrame(.flush, first: path.bytes)
            case .notice(let path): AnnouncerFrame(.notice, first: path.bytes)
            case .setTimes(let path, let time):
                AnnouncerFrame(.setTimes, number: time.nanosecondsSinceEpoch, first: path.bytes)
            }
        try send(frame, limit: Self.callLimit)
    }

    /// syncfs(2) of the mount: what programs wrote reaches the daemon.
    func syncFileSystem(limit: TimeSpan) throws(Errno) {
        try send(AnnouncerFrame(.syncFileSystem), limit: limit)
    }

    /// Runs the body while no announcement goes on: the process then has nothing of the mount open.
    ///
    /// One that was killed in a system call has until that has been answered, which is waited for, but not for long.
    func whileIdle<Value: Sendable>(_ body: () -> Value) -> Value {
        state.withLock { state in
            let deadline = System.monotonic() + Self.callLimit
            reap(&state)
            while let process = state.unreaped.first, System.monotonic() < deadline {
                _ = ChildProcess.hasEnded(process, within: .milliseconds(100))
                reap(&state)
            }
            return body()
        }
    }

    private func send(_ frame: AnnouncerFrame, limit: TimeSpan) throws(Errno) {
        guard frame.bytes.count <= AnnouncerFrame.maximumLength else { throw .nameTooLong }
        try locked { state throws(Errno) in
            if state.isStopped { throw .notConnected }
            if state.socket < 0 { try self.spawn(&state) }
            do throws(Errno) {
                try Self.exchange(frame, state.socket, limit)
            } catch .notConnected {
                // It died, perhaps long ago: one fresh start, then the answer stands.
                self.log.notice("the announcer process ended; it is started again")
                self.end(&state)
                try self.spawn(&state)
                try Self.exchange(frame, state.socket, limit)
            } catch .timedOut {
                self.log.error("the announcer process made no progress with \(frame.kind); it is started again")
                self.end(&state)
                throw .timedOut
            }
        }
    }

    /// Sends a frame and waits for its errno.
    ///
    /// Throws ENOTCONN when the process is gone, ETIMEDOUT when it is stuck.
    private static func exchange(_ frame: AnnouncerFrame, _ socket: Int32, _ limit: TimeSpan) throws(Errno) {
        let bytes = frame.bytes
        let sent = bytes.withUnsafeBytes { Glibc.send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
        guard sent == bytes.count else { throw .notConnected }
        var entry = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
        let ready = try System.retry { poll(&entry, 1, limit.pollMilliseconds) }
        guard ready > 0 else { throw .timedOut }
        var answer: Int32 = 0
        let size = MemoryLayout.size(ofValue: answer)
        let received = try? System.retry { recv(socket, &answer, size, 0) }
        guard received == size else { throw .notConnected }
        let error = Int32(littleEndian: answer)
        if error == ENOTCONN { throw .inputOutput }
        if error != 0 { throw Errno(error) }
    }

    private func spawn(_ state: inout State) throws(Errno) {
        reap(&state)
        var pair: [Int32] = [-1, -1]
        let type = Int32(SOCK_SEQPACKET.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        try System.retry { socketpair(AF_UNIX, type, 0, &pair) }
        defer { System.close(pair[1]) }
        do throws(Errno) {
            state.process = try ChildProcess.start(
                ["announcer"],
                descriptors: [pair[1]],
                standardError: .inherited,
                group: .own
            )
            state.socket = pair[0]
            process.store(state.process, ordering: .relaxed)
            whenStarted(state.process)
            try Self.exchange(
                AnnouncerFrame(.greet, number: Int64(bitPattern: device), first: Array(mountpoint.utf8)),
                pair[0],
                Self.callLimit
            )
        } catch {
            if state.socket < 0 { System.close(pair[0]) }
            end(&state)
            throw error
        }
    }

    private func end(_ state: inout State) {
        if state.socket >= 0 { System.close(state.socket) }
        state.socket = -1
        if state.process > 0 {
            kill(state.process, SIGKILL)
            state.unreaped.append(state.process)
        }
        state.process = 0
        process.store(0, ordering: .relaxed)
        reap(&state)
    }

    /// Never waits: a process in the middle of a request can't be waited for before the request is answered.
    private func reap(_ state: inout State) {
        state.unreaped.removeAll { waitpid($0, nil, WNOHANG) != 0 }
    }

    /// Holds the lock for a whole announcement: they are performed one at a time.
    private func locked(_ body: (inout State) throws(Errno) -> Void) throws(Errno) {
        let outcome: Result<Void, Errno> = state.withLock { state in
            Result { () throws(Errno) in try body(&state) }
        }
        try outcome.get()
    }
}
