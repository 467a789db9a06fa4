internal import CoveCore
internal import Glibc

/// What /proc tells of processes.
enum ProcessTree {
    /// The processes that one runs below, the nearest first, without init.
    static func ancestors(of process: Int32) -> [Int32] {
        var found: [Int32] = []
        var current = process
        while found.count < 256, let fields = fields(of: current), fields.count > 1, let parent = Int32(fields[1]),
            parent > 1
        {
            found.append(parent)
            current = parent
        }
        return found
    }

    /// The process that a thread belongs to.
    static func process(of thread: Int32) -> Int32 {
        guard let line = text(thread, "status")?.split(separator: "\n").first(where: { $0.hasPrefix("Tgid:") }),
            let number = line.split(separator: "\t").last.flatMap({ Int32($0) })
        else { return thread }
        return number
    }

    /// When a process began, in clock ticks since the machine's start.
    static func start(of process: Int32) -> UInt64? {
        guard let fields = fields(of: process), fields.count > 19 else { return nil }
        return UInt64(fields[19])
    }

    /// True for the process of that number that began then, unless it is dead and only not waited for.
    static func isAlive(_ process: Int32, began: UInt64) -> Bool {
        guard let fields = fields(of: process), fields.count > 19, UInt64(fields[19]) == began else { return false }
        return !["Z", "X", "x"].contains(fields[0])
    }

    /// False for one that is stopped, dead or gone.
    static func isRunning(_ process: Int32) -> Bool {
        guard let state = fields(of: process)?.first else { return false }
        return !["T", "t", "Z", "X", "x"].contains(state)
    }

    /// The name of a process's program.
    static func name(of process: Int32) -> String {
        text(process, "comm").map { String($0.prefix { $0 != "\n" }) } ?? ""
    }

    /// What a process was called with, its program first; not all of very many.
    static func arguments(of process: Int32) -> [String] {
        text(process, "cmdline")?.split(separator: "\0").map { String($0) } ?? []
    }

    /// proc_pid_stat(5): what follows the name in parentheses, the state first.
    private static func fields(of process: Int32) -> [Substring]? {
        guard let text = text(process, "stat"), let end = text.lastIndex(of: ")") else { return nil }
        return text[text.index(after: end)...].split(separator: " ")
    }

    private static func text(_ process: Int32, _ file: String) -> String? {
        guard process > 0, let descriptor = try? System.open("/proc/\(process)/\(file)", O_RDONLY) else { return nil }
        defer { System.close(descriptor) }
        var buffer = [UInt8](repeating: 0, count: 4096)
        let count = buffer.withUnsafeMutableBytes { (try? System.pread(descriptor, $0, 0)) ?? 0 }
        guard count > 0 else { return nil }
        return String(decoding: buffer[..<count], as: UTF8.self)
    }
}
