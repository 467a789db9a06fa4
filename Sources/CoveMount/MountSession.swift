internal import CFuse
public import CoveCore
public import CoveEngine
internal import Dispatch
internal import Glibc
internal import Synchronization

/// One mounted account: the driver between the kernel's FUSE requests and an `Engine`.
///
/// Call `mount`, then `run` on a thread of its own, which returns when the mount has ended, by `stop` or from outside.
public final class MountSession: Sendable {
    private enum Phase {
        case new
        case mounted
        case running
        case ended
    }

    private struct State {
        var phase = Phase.new
        var isStopping = false
        /// The thread in `run`, as long as it serves.
        var loopThread: pthread_t?
    }

    /// Threads that serve requests; none waits for the network.
    private static let threadCount: UInt32 = 16

    /// Where the account is mounted.
    public let mountpoint: String
    private let connection: Connection
    private let notifications: KernelNotifications
    private let state = Mutex(State())
    private let ended = DispatchGroup()

    /// What the engine tells the kernel's caches through, once the notifications are started.
    public var notifier: any KernelNotifier { notifications }

    /// Prepares a mount without touching the mount point; throws when an option is not understood.
    public init(
        engine: Engine,
        mountpoint: String,
        options: MountOptions,
        negotiation: Negotiation,
        log: Log
    ) throws(MountError) {
        FuseLog.install(log)
        self.mountpoint = mountpoint
        connection = try Connection(engine: engine, options: options, negotiation: negotiation, log: log) {
            BackingDevice.raise(at: mountpoint)
        }
        notifications = KernelNotifications(log: log)
    }

    /// Takes over the device of a mount that an earlier daemon made; the mount point is not touched.
    public func resume(device: Int32) throws(MountError) {
        try Hooks.install(on: connection, device: device)
        state.withLock { $0.phase = .mounted }
    }

    /// Sends notifications to the kernel through a carrier.
    public func startNotifications(_ carrier: any NoticeCarrier) throws(Errno) { try notifications.start(carrier) }

    /// Mounts, as root by mount(2), else by fusermount3; requests wait until `run` serves them.
    ///
    /// Returns the device.
    public func mount() throws(MountError) -> Int32 {
        guard state.withLock({ $0.phase == .new }) else { throw MountError(.system, "\(mountpoint): mounted already") }
        let (isMounted, said) = MountHelper.listening { fuse_session_mount(connection.session, mountpoint) == 0 }
        guard isMounted else {
            let reason = said ?? FuseLog.lastMessage ?? "fusermount3 refused"
            // Its own words name the option and the file, but not what to do.
            if reason.contains("user_allow_other") {
                let remedy = "have root write user_allow_other to /etc/fuse.conf, or leave allow_other out"
                throw MountError(.notPermitted, "\(mountpoint): not mounted: \(reason); \(remedy)")
            }
            throw MountError(.system, "\(mountpoint): not mounted: \(reason); see `cove doctor`")
        }
        let device = fuse_session_fd(connection.session)
        try Hooks.install(on: connection, device: device)
        state.withLock { $0.phase = .mounted }
        return device
    }

    /// Serves requests on threads of libfuse's and blocks the calling one until the mount has ended.
    ///
    /// `whenServing` runs on one of the threads, once the kernel and this program have agreed on how to talk.
    public func run(whenServing: @escaping @Sendable () -> Void) {
        let mayRun = state.withLock { state in
            guard state.phase == .mounted else { return false }
            state.phase = .running
            state.loopThread = pthread_self()
            return true
        }
        guard mayRun else { return }
        connection.whenServing.withLock { $0 = whenServing }
        ended.enter()
        let configuration = fuse_loop_cfg_create()
        fuse_loop_cfg_set_max_threads(configuration, Self.threadCount)
        let status = cove_fuse_session_loop_mt(connection.session, configuration)
        fuse_loop_cfg_destroy(configuration)
        if status != 0 { connection.log.error("\(mountpoint): requests ended: \(Errno(abs(status)))") }
        state.withLock { state in
            state.phase = .ended
            state.loopThread = nil
        }
        notifications.stop()
        closeDevice()
        ended.leave()
    }

    /// Unmounts and makes `run` return; blocks until then, at most some twenty seconds.
    ///
    /// Requests are served on meanwhile, so that the kernel can write back what it holds. Where programs still use the
    /// mount it is detached after a flush, and they get ENOTCONN. Not to be called from a request's thread.
    public func stop() {
        let (mustStop, isServed) = state.withLock { state in
            defer { state.isStopping = true }
            let isRunning = state.phase == .running
            return (!state.isStopping && (state.phase == .mounted || isRunning), isRunning)
        }
        guard mustStop else { return }
        // What nobody serves would be waited for in vain.
        let isGone = isServed && Unmounting.unmount(mountpoint, isLazy: false)
        if !isGone {
            if isServed { Unmounting.flush(mountpoint) }
            _ = Unmounting.unmount(mountpoint, isLazy: true)
        }
        guard state.withLock({ $0.loopThread != nil }) else {
            notifications.stop()
            return closeDevice()
        }
        if ended.wait(timeout: .now() + (isGone ? 5 : 0.5)) == .success { return }
        _ = interruptLoop()
    }

    /// Makes `run` return while the mount lives on, for another daemon to serve it; false when it is ending already.
    ///
    /// `whenSure` runs before anything ends, `whenStuck` when a request would not end.
    public func leave(whenSure: () -> Void, whenStuck: () -> Void) -> Bool {
        let isRunning = state.withLock { state in
            guard !state.isStopping, state.phase == .running else { return false }
            state.isStopping = true
            whenSure()
            return true
        }
        if isRunning, !interruptLoop() { whenStuck() }
        return isRunning
    }

    /// Ends a loop whose mount lives on, held by programs or by another mount namespace; false when it goes on.
    ///
    /// fuse_session_exit alone wakes nobody, but a signal wakes the thread that waits for the workers, and it cancels
    /// them. SIGURG, because one that comes too late is ignored by default.
    private func interruptLoop() -> Bool {
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { _ in }
        sigaction(SIGURG, &action, nil)
        fuse_session_exit(connection.session)
        for _ in 0..<100 {
            state.withLock { state in
                if let thread = state.loopThread { _ = pthread_kill(thread, SIGURG) }
            }
            if ended.wait(timeout: .now() + 0.05) == .success { return true }
        }
        connection.log.error("\(mountpoint): a request would not end")
        return false
    }

    /// Ends the kernel's side; the number stays taken, for a parked request's late answer goes to it.
    private func closeDevice() {
        guard let null = try? System.open("/dev/null", O_RDWR) else { return }
        let descriptor = fuse_session_fd(connection.session)
        if descriptor >= 0 { dup2(null, descriptor) }
        System.close(null)
    }
}
