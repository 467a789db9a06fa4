internal import CLinux
internal import CoveCore
internal import Glibc

/// The processes that hold an account's state directory, by descriptors that no later process can be mistaken for.
final class AccountProcesses {
    private let handles: [Int32]

    /// Takes hold of a daemon and its keeper; of none where they are out of sight.
    init(daemon: pid_t) {
        let processes = [daemon, Self.keeper(of: daemon)].compactMap(\.self).filter { $0 > 0 }
        handles = processes.compactMap { process in try? System.retry { cove_pidfd_open(process) } }
    }

    deinit { handles.forEach { System.close($0) } }

    /// Waits until all have ended; false when they have not in time.
    func waitForEnd(timeout: TimeSpan) -> Bool {
        let deadline = System.monotonic() + timeout
        for handle in handles {
            let left = (deadline - System.monotonic()).pollMilliseconds
            var entry = pollfd(fd: handle, events: Int16(POLLIN), revents: 0)
            guard let count = try? System.retry({ poll(&entry, 1, left) }), count > 0 else { return false }
        }
        return true
    }

    /// A daemon's parent, unless that is who takes in orphans.
    private static func keeper(of daemon: pid_t) -> pid_t? {
        // After the name, which may hold anything, come state and parent; see proc_pid_stat(5).
        guard let text = text("/proc/\(daemon)/stat"), let name = text.lastIndex(of: ")") else { return nil }
        let fields = text[name...].split(separator: " ")
        guard fields.count > 2, let parent = pid_t(fields[2]) else { return nil }
        return Self.text("/proc/\(parent)/comm") == "cove-keeper\n" ? parent : nil
    }

    private static func text(_ path: String) -> String? {
        guard let file = try? System.open(path, O_RDONLY) else { return nil }
        defer { System.close(file) }
        return (try? System.contents(file)).map { String(decoding: $0, as: UTF8.self) }
    }
}
