internal import CLinux
internal import CoveCore
internal import CoveMount
internal import Glibc
internal import Synchronization

/// The daemon's side of the notifier process: starts it, and starts it again when it dies.
final class NotifierProcess: NoticeCarrier {
    private struct State {
        var socket: Int32 = -1
        var process: pid_t = 0
    }

    private let device: Int32
    private let log: Log
    private let state = Mutex(State())
    private let isStopped = Atomic(false)
    /// The socket now, for `stop`, which must not wait for a notification that goes nowhere.
    private let current = Atomic<Int32>(-1)

    init(device: Int32, log: Log) {
        self.device = device
        self.log = log
    }

    /// Starts the process.
    func start() throws(Errno) {
        let outcome: Result<Void, Errno> = state.withLock { state in
            Result { () throws(Errno) in try self.spawn(&state) }
        }
        try outcome.get()
    }

    /// Ends the process; a thread of it that waits in the kernel ends when the mount does.
    func stop() {
        isStopped.store(true, ordering: .releasing)
        _ = shutdown(current.load(ordering: .acquiring), Int32(SHUT_RDWR))
        state.withLock { end(&$0) }
    }

    func carry(_ notice: [UInt8]) {
        state.withLock { state in
            if send(notice, state) || isStopped.load(ordering: .acquiring) { return }
            end(&state)
            do throws(Errno) {
                try spawn(&state)
                log.notice("the notifier process ended; it is started again")
            } catch {
                return log.error("the notifier process can't be started: \(error); the kernel's caches may be stale")
            }
            _ = send(notice, state)
        }
    }

    private func send(_ notice: [UInt8], _ state: borrowing State) -> Bool {
        let socket = state.socket
        let sent = try? System.retry { Glibc.send(socket, notice, notice.count, Int32(MSG_NOSIGNAL)) }
        return sent == notice.count
    }

    private func spawn(_ state: inout State) throws(Errno) {
        var pair: [Int32] = [-1, -1]
        let type = Int32(SOCK_SEQPACKET.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        try System.retry { socketpair(AF_UNIX, type, 0, &pair) }
        defer { System.close(pair[1]) }
        let clone = Self.clone(of: device)
        defer { if let clone { System.close(clone) } }
        do throws(Errno) {
            state.process = try ChildProcess.start(
                ["notifier"],
                descriptors: [pair[1], clone ?? device],
                standardError: .inherited,
                group: .own
            )
            state.socket = pair[0]
            current.store(pair[0], ordering: .releasing)
        } catch {
            System.close(pair[0])
            throw error
        }
    }

    /// A device of its own on the same connection; nil where the kernel gives none.
    ///
    /// A thread of the process may wait in the kernel for a lock that a program holds while its request is served. When all
    /// processes of the account die, that request fails only once the device that it was read from is closed: the notifier,
    /// which can't be killed just then, must not be the one that holds it open.
    private static func clone(of device: Int32) -> Int32? {
        guard let clone = try? System.open("/dev/fuse", O_RDWR) else { return nil }
        guard cove_clone_fuse_device(clone, device) == 0 else {
            System.close(clone)
            return nil
        }
        return clone
    }

    private func end(_ state: inout State) {
        current.store(-1, ordering: .releasing)
        if state.socket >= 0 { System.close(state.socket) }
        state.socket = -1
        if state.process > 0 { waitpid(state.process, nil, WNOHANG) }
        state.process = 0
    }
}
