internal import CLinux
internal import CoveCore
internal import Glibc

/// What a daemon asks of the kernel for its own process.
enum ProcessSettings {
    /// The name that ps(1) shows, which would else be that of /proc/self/exe.
    static func setName(_ name: String) {
        guard let file = try? System.open("/proc/self/comm", O_WRONLY) else { return }
        defer { System.close(file) }
        let text = Array(name.utf8)
        _ = write(file, text, text.count)
    }

    /// Closes what a careless parent left open: it may wait for the end of a pipe or socket that nobody uses here.
    static func closeInherited(above descriptor: Int32) { _ = cove_close_range(UInt32(descriptor) + 1, UInt32.max) }

    /// Files that the daemon makes in its state directory are its user's only.
    static func closeToOthers() { _ = umask(0o077) }

    /// As many open files as the system allows, and to be among the last that the kernel ends when memory runs out.
    static func raiseLimits() {
        var limit = rlimit()
        if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0, limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        }
        // Only root may; the mount works as well without.
        if let file = try? System.open("/proc/self/oom_score_adj", O_WRONLY) {
            defer { System.close(file) }
            let text = Array("-500".utf8)
            _ = write(file, text, text.count)
        }
    }

    /// Nobody but root reads this process's memory, environment or descriptors, which have passwords.
    static func hide() { _ = cove_set_undumpable() }

    /// The signals that end a daemon.
    static let endingSignals = [SIGTERM, SIGINT, SIGHUP]

    /// Blocks the ending signals; to be called before there is a second thread.
    static func blockEndingSignals() {
        var set = endingSignalSet
        pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    /// Waits for one of the ending signals, on a thread of its own; returns it.
    static func waitForEndingSignal() -> Int32 {
        var set = endingSignalSet
        var signal: Int32 = 0
        while sigwait(&set, &signal) != 0 {}
        return signal
    }

    private static var endingSignalSet: sigset_t {
        var set = sigset_t()
        sigemptyset(&set)
        for signal in endingSignals { sigaddset(&set, signal) }
        return set
    }
}
