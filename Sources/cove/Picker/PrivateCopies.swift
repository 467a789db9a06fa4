internal import CoveCore
internal import Glibc

/// Where imported documents go: a folder of a program's own, each in one of its own below that.
///
/// A copy stays until the session in which it was picked has ended. A daemon looks for those that have, and so does who makes one.
struct PrivateCopies {
    private static let remedy = "make ~/.cache yours, or set XDG_CACHE_HOME"
    private static let patience = TimeSpan.seconds(10)
    private static var root: String { "\(BaseDirectories.cache)/cove/picked" }

    /// The folder that has all copies of the program.
    let path: String

    /// The copies of a program.
    init(app: String) { path = "\(Self.root)/\(app)" }

    /// Makes the folder where it is not there yet.
    func makeFolder() throws(Failure) { try PrivateFolder.make(path, remedy: Self.remedy) }

    /// Makes a new copy of what has a name in an open folder, and people know by a path; the copy's own path.
    func make(
        of source: [UInt8],
        in parent: Int32,
        named name: [UInt8],
        _ interruption: Interruption
    ) throws(Failure) -> [UInt8] {
        try makeFolder()
        Self.removeOld()
        let folder = "\(path)/\(Self.session)-\(DocumentID.random())"
        try PrivateFolder.make(folder, remedy: Self.remedy)
        do throws(Errno) {
            let directory = try System.open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
            defer { System.close(directory) }
            var copy = FileCopy(interruption)
            try copy.copy(parent, name, into: directory)
        } catch {
            Self.remove(folder)
            var failure = Failure(String(decoding: source, as: UTF8.self), "it can't be copied: \(error)", "try again")
            failure.errno = error
            throw failure
        }
        return Array(folder.utf8) + [0x2F] + name
    }

    /// Removes the copies of sessions that have ended, now and then, for as long as this process lives.
    static func watchSessions() {
        Task {
            while !Task.isCancelled {
                await OffPool.run { removeOld() }
                try? await Task.sleep(for: patience)
            }
        }
    }

    private static func removeOld() {
        for app in someNames(in: root) {
            for name in someNames(in: "\(root)/\(app)") where hasEnded(name) { remove("\(root)/\(app)/\(name)") }
        }
    }

    /// Names in a folder that programs fill as they like: of very many only some.
    private static func someNames(in folder: String) -> [String] {
        guard let listing = opendir(folder) else { return [] }
        defer { closedir(listing) }
        var names: [String] = []
        while names.count < 1000, let entry = readdir(listing) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(validatingCString: $0) }
            }
            if let name, name != ".", name != ".." { names.append(name) }
        }
        return names
    }

    private static func remove(_ folder: String) { FileCopy.remove(AT_FDCWD, Array(folder.utf8)) }

    /// True for the copy of a session that is certainly over.
    ///
    /// Numbers of another machine's processes, or of another namespace's, say nothing here.
    private static func hasEnded(_ name: String) -> Bool {
        let parts = name.split(separator: "-").map(String.init)
        guard parts.count > 5, let process = pid_t(parts[0]), parts[3] == machine else { return false }
        if parts[4] != boot { return true }
        guard parts[2] == namespace else { return false }
        switch start(of: process) {
        case .success(let time): return time != parts[1]
        // Others may go on in a session whose first process has ended.
        case .failure(.noSuchEntry), .failure(Errno(ESRCH)): return !hasMembers(process)
        case .failure: return false
        }
    }

    /// True where a process is in the session, or where that can't be known.
    private static func hasMembers(_ session: pid_t) -> Bool {
        guard let names = try? System.names(in: "/proc"), names.count > 10 else { return true }
        return names.compactMap { pid_t($0) }.contains { process in
            switch fields(of: process) {
            case .success(let fields): fields.count > 4 && pid_t(fields[4]) == session
            case .failure(.noSuchEntry), .failure(Errno(ESRCH)): false
            case .failure: true
            }
        }
    }

    /// The process that leads this session, when it was started, and where.
    private static var session: String {
        let leader = getsid(0)
        let process = leader > 0 ? leader : getppid()
        let time = (try? start(of: process).get()) ?? "0"
        return "\(process)-\(time)-\(namespace)-\(machine)-\(boot)"
    }

    /// The number of this process's PID namespace.
    private static var namespace: String {
        let link = (try? System.readlinkat(AT_FDCWD, Array("/proc/self/ns/pid".utf8))) ?? []
        return String(decoding: link.filter { (0x30...0x39).contains($0) }, as: UTF8.self)
    }

    private static var machine: String { word("/etc/machine-id") }
    private static var boot: String { word("/proc/sys/kernel/random/boot_id") }

    private static func word(_ path: String) -> String {
        guard let file = try? System.open(path, O_RDONLY) else { return "none" }
        defer { System.close(file) }
        let text = (try? System.contents(file, atMost: 100)) ?? []
        let digits = text.filter {
            UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 || UInt8(ascii: "a")...UInt8(ascii: "f") ~= $0
        }
        return digits.isEmpty ? "none" : String(decoding: digits, as: UTF8.self)
    }

    /// Field 22 of proc_pid_stat(5).
    private static func start(of process: pid_t) -> Result<String, Errno> {
        fields(of: process).flatMap { $0.count > 20 ? .success(String($0[20])) : .failure(.invalidArgument) }
    }

    /// The fields of proc_pid_stat(5) from the name on: the second one is the first.
    private static func fields(of process: pid_t) -> Result<[Substring], Errno> {
        do throws(Errno) {
            let file = try System.open("/proc/\(process)/stat", O_RDONLY)
            defer { System.close(file) }
            let text = String(decoding: try System.contents(file, atMost: 4096), as: UTF8.self)
            guard let name = text.lastIndex(of: ")") else { return .failure(.invalidArgument) }
            return .success(text[name...].split(separator: " "))
        } catch {
            return .failure(error)
        }
    }
}
