internal import CLinux
public import Glibc

/// What a process may use of the machine, with all that it starts.
public struct ProcessLimits: Sendable {
    /// More processes than these nothing needs.
    private static let mostProcesses = 1000
    /// It yields to whatever a person waits for.
    private static let niceness: Int32 = 5

    /// How much memory all of them may have, in bytes.
    public var memory: Int64
    /// On how many processors they run; nil for all.
    public var processors: Int?

    /// So much memory, in bytes, and all processors where none are named.
    public init(memory: Int64, processors: Int? = nil) {
        self.memory = memory
        self.processors = processors
    }

    /// No more than this process may give.
    public var possibleMemory: Int64 { min(memory, Int64(clamping: cove_hard_memory_limit())) }

    /// The processors on which they run, of those that this thread may use the last ones; none where it is no matter.
    public var processorNumbers: [Int32] {
        guard let processors else { return [] }
        var numbers = [Int32](repeating: 0, count: processors)
        let count = cove_last_processors(Int32(clamping: processors), &numbers)
        return Array(numbers.prefix(max(0, Int(count))))
    }

    /// Limits a process; those that it starts from then on have the same limits.
    public func limit(_ process: pid_t) {
        // Refused only where the process has limits that are lower, or has ended.
        _ = cove_limit_memory(process, UInt64(max(0, possibleMemory)))
        let which = __priority_which_t(PRIO_PROCESS.rawValue)
        if getpriority(which, id_t(process)) < Self.niceness { _ = setpriority(which, id_t(process), Self.niceness) }
        let numbers = processorNumbers
        if !numbers.isEmpty { _ = cove_set_processors(process, numbers, Int32(numbers.count)) }
    }

    /// Limits a process and all below it; why it has to be ended, nil for one that keeps its limits.
    public func enforce(on process: pid_t) -> String? {
        let tree = Self.tree(of: process)
        if tree.count >= Self.mostProcesses { return "it has started \(tree.count) processes" }
        var used: Int64 = 0
        for member in tree {
            // One that was started before its parent had limits has none.
            limit(member)
            used = used.saturatingAdd(Self.memory(of: member))
        }
        return used > memory ? "it had \(used >> 20) MiB of memory, and may have \(memory >> 20)" : nil
    }

    private static func tree(of process: pid_t) -> [pid_t] {
        var found: [pid_t] = []
        var open = [process]
        while let next = open.popLast(), found.count < mostProcesses {
            found.append(next)
            open += children(of: next)
        }
        return found
    }

    /// proc_pid_status(5): what is resident of its own and of shared memory, without files, in bytes.
    private static func memory(of process: pid_t) -> Int64 {
        var sum: Int64 = 0
        for line in text("/proc/\(process)/status").split(separator: "\n") {
            guard line.hasPrefix("RssAnon:") || line.hasPrefix("RssShmem:") else { continue }
            let number = line.split { !$0.isNumber }.first.flatMap { Int64($0) } ?? 0
            sum = sum.saturatingAdd(min(number, .max / 1024) * 1024)
        }
        return sum
    }

    private static func children(of process: pid_t) -> [pid_t] {
        let threads = (try? System.names(in: "/proc/\(process)/task")) ?? []
        return threads.flatMap { thread in
            text("/proc/\(process)/task/\(thread)/children").split(separator: " ").compactMap { pid_t($0) }
        }
    }

    private static func text(_ path: String) -> String {
        guard let descriptor = try? System.open(path, O_RDONLY) else { return "" }
        defer { System.close(descriptor) }
        return (try? System.contents(descriptor)).map { String(decoding: $0, as: UTF8.self) } ?? ""
    }
}
