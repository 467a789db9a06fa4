internal import CFuse
internal import CoveCore
internal import Glibc

/// Ends mounts from child processes.
///
/// The last unmount writes back what the kernel holds and waits for it. In the daemon that would be a thread that waits
/// for its own process while it keeps /dev/fuse open: killed just then, both would stay for good.
enum Unmounting {
    /// Unmounts a directory; false when it is in use, or not a mount of this user's.
    static func unmount(_ path: String, isLazy: Bool) -> Bool {
        let deadline = Duration.seconds(10)
        if geteuid() == 0 {
            return run(["umount", "-i"] + (isLazy ? ["-l"] : []) + ["--", path], deadline)
        }
        return run(["fusermount3", "-u", "-q"] + (isLazy ? ["-z"] : []) + ["--", path], deadline)
    }

    /// Writes back what the kernel holds of a mount, as far as it gets in ten seconds (syncfs(2)).
    static func flush(_ path: String) {
        _ = run(["sync", "-f", "--", path], .seconds(10))
    }

    /// Runs a program of the system to its end; false when it fails or the deadline passes.
    private static func run(_ arguments: [String], _ limit: Duration) -> Bool {
        guard let program = arguments.first, let child = spawn(program, arguments) else { return false }
        let clock = ContinuousClock()
        let deadline = clock.now + limit
        var pause: UInt32 = 500
        while true {
            var status: Int32 = 0
            let result = waitpid(child, &status, WNOHANG)
            if result == child { return status == 0 }
            if result < 0, Errno.current != .interrupted { return false }
            if clock.now >= deadline { break }
            usleep(pause)
            pause = min(pause * 2, 20000)
        }
        kill(child, SIGKILL)
        // A child that the kernel holds can't be waited for; it is init's when the daemon is gone.
        waitpid(child, nil, WNOHANG)
        return false
    }

    private static func spawn(_ program: String, _ arguments: [String]) -> pid_t? {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for descriptor in Int32(0)...2 {
            posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_RDWR, 0)
        }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        let list = arguments.map { strdup($0) } + [nil]
        let environment = [strdup("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"), nil]
        defer {
            list.forEach { free($0) }
            environment.forEach { free($0) }
        }
        var child = pid_t()
        return posix_spawnp(&child, program, &actions, &attributes, list, environment) == 0 ? child : nil
    }
}
