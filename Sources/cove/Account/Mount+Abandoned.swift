internal import CoveCore
internal import CoveMount
internal import Glibc

/// Mounts that nobody can serve any more.
extension Mount {
    /// Whether the daemon answers; dead, too, where it gives no answer for ten seconds and neither daemon nor keeper is left.
    ///
    /// All processes of an account that are killed at once can leave a connection that stays: one of them waits in the kernel
    /// for a program, and that program for an answer.
    func standing() -> State {
        guard let inquiry = try? MountInquiry(self) else { return .silent }
        let state = inquiry.state(within: .seconds(2))
        guard state == .silent, isAbandoned() else { return state }
        let later = inquiry.state(within: .seconds(8))
        return later == .silent && isAbandoned() ? .dead : later
    }

    /// True when no process is in sight that serves the mount or would; false where that can't be seen.
    private func isAbandoned() -> Bool {
        guard geteuid() == 0 || owners.contains(geteuid()), let mounts = try? MountTable.read(),
            let whole = mounts.last(where: {
                $0.root == "/" && $0.majorDevice == majorDevice && $0.minorDevice == minorDevice
            })
        else { return false }
        // Not every process that holds the account's lock need be in sight.
        let state = StatePaths.state(of: String(source.dropFirst("cove:".count)))
        if StateLock.isHeld(state), StateLock.mountpoint(ofState: state) == whole.path { return false }
        return !ProcessTable.contains { $0.contains("daemon") && $0.last == whole.path }
    }
}

/// The processes in /proc.
private enum ProcessTable {
    /// True when a process has arguments of which the condition holds.
    static func contains(_ condition: ([String]) -> Bool) -> Bool {
        guard let folder = opendir("/proc") else { return true }
        defer { closedir(folder) }
        while let entry = readdir(folder) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            guard let process = pid_t(name), process != getpid(),
                let file = try? System.open("/proc/\(process)/cmdline", O_RDONLY)
            else { continue }
            defer { System.close(file) }
            let text = (try? System.contents(file)) ?? []
            if condition(text.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }) { return true }
        }
        return false
    }
}
