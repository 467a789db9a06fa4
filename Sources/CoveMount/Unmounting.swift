internal import CoveCore
internal import Glibc

/// Ends mounts from child processes.
///
/// The last unmount writes back what the kernel holds and waits for it. In the daemon that would be a thread that waits
/// for its own process while it keeps /dev/fuse open: killed just then, both would stay for good.
enum Unmounting {
    /// Unmounts a directory; false when it is in use, or not a mount of this user's.
    static func unmount(_ path: String, isLazy: Bool) -> Bool {
        if geteuid() == 0 { return run("umount", ["-i"] + (isLazy ? ["-l"] : []) + ["--", path]) }
        return run("fusermount3", ["-u", "-q"] + (isLazy ? ["-z"] : []) + ["--", path])
    }

    /// Writes back what the kernel holds of a mount, as far as it gets in ten seconds (syncfs(2)).
    static func flush(_ path: String) {
        _ = run("sync", ["-f", "--", path])
    }

    /// Runs a program of the system to its end; false when it fails or the time is over.
    private static func run(_ program: String, _ arguments: [String]) -> Bool {
        let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return (try? ChildProcess.run(program, arguments, environment: [path], limit: .seconds(10))) == 0
    }
}
