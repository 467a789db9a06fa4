internal import CoveCore
internal import Glibc

/// A thread that sent a request, as /proc shows it.
struct CallerThread {
    /// Its id, 0 for one that this process can't see.
    let id: Int32

    /// True when it is gone or on its way out; false where there is no telling.
    var hasEnded: Bool {
        guard id > 0 else { return false }
        // With hidepid= other users' threads have no files in /proc; this call knows them all.
        if kill(id, 0) != 0, Errno.current == Errno(ESRCH) { return true }
        // proc_pid_stat(5): a name in parentheses, then the state; the flags are the seventh field from there.
        guard let text = text(of: "stat"), let name = text.lastIndex(of: ")") else { return false }
        let fields = text[name...].split(separator: " ")
        guard fields.count > 7, let flags = UInt64(fields[7]) else { return false }
        let isExiting: UInt64 = 0x4  // PF_EXITING
        return flags & isExiting != 0
    }

    /// Its supplementary groups, which a request doesn't carry; see proc_pid_status(5).
    var groups: [UInt32] {
        let lines = text(of: "status")?.split(separator: "\n") ?? []
        let line = lines.first { $0.hasPrefix("Groups:") } ?? ""
        return line.split { $0 == " " || $0 == "\t" }.compactMap { UInt32($0) }
    }

    private func text(of file: String) -> String? {
        guard let descriptor = try? System.open("/proc/\(id)/\(file)", O_RDONLY) else { return nil }
        defer { System.close(descriptor) }
        var buffer = [UInt8](repeating: 0, count: 16384)
        let count = buffer.withUnsafeMutableBytes { (try? System.pread(descriptor, $0, 0)) ?? 0 }
        return String(decoding: buffer[..<count], as: UTF8.self)
    }
}

extension Caller {
    /// True for root and for a member of the group, by whichever of their groups.
    func belongs(to group: UInt32) -> Bool {
        user == 0 || group == self.group || CallerThread(id: thread).groups.contains(group)
    }

    /// True for a program of these, which are paths or last names.
    func isProgram(of names: [String]) -> Bool {
        if names.isEmpty { return false }
        var buffer = [CChar](repeating: 0, count: 4096)
        let length = readlink("/proc/\(thread)/exe", &buffer, buffer.count - 1)
        guard length > 0 else { return false }
        var path = String(decoding: buffer.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
        // What the kernel adds to the name of a file that an upgrade has replaced.
        let end = " (deleted)"
        if path.hasSuffix(end) { path.removeLast(end.utf8.count) }
        func isMeant(_ path: String) -> Bool { names.contains { $0 == path || path.hasSuffix("/" + $0) } }
        if isMeant(path) { return true }
        // KDE's workers are one program, whose arguments tell the library that they run.
        let name = path.split(separator: "/").last ?? ""
        guard ["kioworker", "kioslave"].contains(where: { name.hasPrefix($0) }) else { return false }
        return ProcessTree.arguments(of: ProcessTree.process(of: thread)).contains { isMeant($0) }
    }
}
