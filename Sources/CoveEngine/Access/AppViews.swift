internal import CLinux
internal import CoveCore
internal import Glibc
internal import Synchronization

/// The programs that are to see no more of the account than one app may.
///
/// They are known by their PID namespace, which no program leaves but for one inside of it. It costs one atomic load for
/// each call while there is none.
final class AppViews: Sendable {
    /// How deep PID namespaces can be nested, see pid_namespaces(7).
    private static let deepest = 32

    private let catalog: Catalog
    private let log: Log
    private let table = RareTable<UInt64, View>()
    /// The namespace of this process, whose programs are the user's.
    let own: UInt64

    struct View: Sendable {
        var app: AppIdentifier
        /// The first process of the namespace, as this one sees it.
        var process: Int32
        /// Keeps the namespace's number from being another one's as long as it stands for the app here.
        let namespace: Namespace
    }

    /// A PID namespace that is held open.
    final class Namespace: Sendable {
        let number: UInt64
        private let descriptor: Int32

        /// Opens that of a process; nil where the process is not there, or not to be seen.
        init?(of process: Int32) {
            guard let descriptor = try? System.open("/proc/\(process)/ns/pid", O_RDONLY) else { return nil }
            guard let status = try? System.fstat(descriptor) else {
                System.close(descriptor)
                return nil
            }
            self.descriptor = descriptor
            number = UInt64(status.st_ino)
        }

        deinit { System.close(descriptor) }
    }

    /// Takes over those of a daemon that died, whose programs may live on.
    init(_ catalog: Catalog, _ log: Log) throws(Errno) {
        self.catalog = catalog
        self.log = log
        own = Self.namespace(of: "/proc/self/ns/pid") ?? 0
        let known = try catalog.read { database throws(Errno) in
            try database.all("SELECT namespace, app, process FROM views") { row in
                (UInt64(bitPattern: row.int(0)), row.text(1), Int32(truncatingIfNeeded: row.int(2)))
            }
        }
        for (namespace, app, process) in known {
            guard let app = AppIdentifier(app), let held = Namespace(of: process), held.number == namespace else {
                continue
            }
            table.insert(View(app: app, process: process, namespace: held), for: namespace)
        }
        if table.contents().count != known.count {
            let alive = table.contents()
            try catalog.write { database throws(Errno) in
                for (namespace, _, _) in known where alive[namespace] == nil {
                    try database.run("DELETE FROM views WHERE namespace = ?", .int(Int64(bitPattern: namespace)))
                }
            }
        }
    }

    var isEmpty: Bool { table.isEmpty }

    /// From now on the programs of a process's PID namespace are an app's; durably, for they outlive this daemon.
    ///
    /// Throws `EINVAL` for one in this process's own namespace, and `EEXIST` where the namespace is another app's already.
    func enter(_ app: AppIdentifier, process: Int32) throws(Errno) {
        guard process > 0, let held = Namespace(of: process) else { throw .noSuchEntry }
        let namespace = held.number
        guard namespace != own, own != 0 else { throw .invalidArgument }
        if let known = table[namespace], known.app != app, isAlive(known, namespace) { throw .exists }
        try catalog.write(durable: true) { database throws(Errno) in
            try database.run(
                "INSERT OR REPLACE INTO views(namespace, app, process) VALUES(?, ?, ?)",
                .int(Int64(bitPattern: namespace)),
                .text(app.text),
                .int(Int64(process))
            )
            let view = View(app: app, process: process, namespace: held)
            database.whenCommitted { [table] in table.insert(view, for: namespace) }
        }
    }

    /// Forgets those whose programs have all ended.
    func expire() {
        if table.isEmpty { return }
        let ended = table.contents().filter { !isAlive($0.value, $0.key) }
        if ended.isEmpty { return }
        try? catalog.write { database throws(Errno) in
            for namespace in ended.keys {
                try database.run("DELETE FROM views WHERE namespace = ?", .int(Int64(bitPattern: namespace)))
            }
            database.whenCommitted { [table] in table.update { table in for key in ended.keys { table[key] = nil } } }
        }
    }

    /// A PID namespace ends with its first process.
    private func isAlive(_ view: View, _ namespace: UInt64) -> Bool {
        Self.namespace(of: "/proc/\(view.process)/ns/pid") == namespace
    }

    /// The app whose view a process or thread has; nil for the user's own programs.
    ///
    /// Throws `EACCES` where it can't be told: then it is refused.
    func app(of thread: Int32) throws(Errno) -> AppIdentifier? {
        guard !table.isEmpty, thread > 0 else { return nil }
        let path = "/proc/\(thread)/ns/pid"
        guard let namespace = Self.namespace(of: path) else {
            // One that has ended can do nothing more; of another user's it is told how deep it is.
            let depth = Self.depth(of: thread)
            if depth == 1 { return nil }
            throw .accessDenied
        }
        if namespace == own { return nil }
        if let view = table[namespace] { return view.app }
        return try self.app(around: path)
    }

    /// True for a process in a PID namespace, or in one that a program has made in it.
    func isInside(_ namespace: UInt64, _ process: Int32) -> Bool {
        let path = "/proc/\(process)/ns/pid"
        if namespace == own || namespace == 0 { return false }
        if Self.namespace(of: path) == namespace { return true }
        return ((try? first(around: path) { $0 == namespace ? true : nil }) ?? nil) ?? false
    }

    /// The app of a namespace around one, which a program has made for itself.
    private func app(around path: String) throws(Errno) -> AppIdentifier? {
        try first(around: path) { table[$0]?.app }
    }

    /// What is found of the first namespace around one of which something is; nil where there is nothing up to this process's own.
    private func first<Value>(around path: String, _ found: (UInt64) -> Value?) throws(Errno) -> Value? {
        guard var current = try? System.open(path, O_RDONLY) else { throw .accessDenied }
        defer { System.close(current) }
        for _ in 0..<Self.deepest {
            let parent = cove_namespace_parent(current)
            // The parent of this process's own is nobody's here.
            guard parent >= 0 else { return nil }
            System.close(current)
            current = parent
            guard let status = try? System.fstat(current) else { throw .accessDenied }
            if UInt64(status.st_ino) == own { return nil }
            if let value = found(UInt64(status.st_ino)) { return value }
        }
        throw .accessDenied
    }

    /// The number of the namespace that a file of /proc stands for.
    static func namespace(of path: String) -> UInt64? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        return UInt64(status.st_ino)
    }

    /// In how many PID namespaces a thread is, seen from /proc; nil where it has ended.
    static func depth(of thread: Int32) -> Int? {
        guard let file = try? System.open("/proc/\(thread)/status", O_RDONLY) else { return nil }
        defer { System.close(file) }
        guard let bytes = try? System.contents(file, atMost: 16384) else { return nil }
        let line = String(decoding: bytes, as: UTF8.self).split(separator: "\n").first { $0.hasPrefix("NSpid:") }
        return line.map { $0.split { $0 == "\t" || $0 == " " }.count - 1 }
    }
}
