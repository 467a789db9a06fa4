internal import CoveCore
internal import Glibc

/// Where imported documents go: a folder of a program's own, each in one of its own below that.
///
/// A copy stays until the session in which it was picked has ended; it goes when the next one is made.
struct PrivateCopies {
    private static let remedy = "make ~/.cache yours, or set XDG_CACHE_HOME"
    private let path: String

    /// The copies of a program.
    init(app: String) { path = "\(BaseDirectories.cache)/cove/picked/\(app)" }

    /// Makes a new copy of what is at a path; the copy's own path.
    func make(of source: [UInt8], named name: [UInt8], _ interruption: Interruption) throws(Failure) -> [UInt8] {
        try PrivateFolder.make(path, remedy: Self.remedy)
        removeOld()
        let folder = "\(path)/\(Self.session)-\(DocumentID.random())"
        try PrivateFolder.make(folder, remedy: Self.remedy)
        do throws(Errno) {
            let directory = try System.open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
            defer { System.close(directory) }
            var copy = FileCopy(interruption)
            try copy.copy(source, into: directory, as: name)
        } catch {
            remove(folder)
            var failure = Failure(String(decoding: source, as: UTF8.self), "it can't be copied: \(error)", "try again")
            failure.errno = error
            throw failure
        }
        return Array(folder.utf8) + [0x2F] + name
    }

    private func remove(_ folder: String) { FileCopy.remove(AT_FDCWD, Array(folder.utf8)) }

    /// Removes what was picked in sessions that have ended.
    private func removeOld() {
        for name in (try? System.names(in: path)) ?? [] {
            let parts = name.split(separator: "-")
            guard parts.count > 2, let process = pid_t(parts[0]), Self.startTime(of: process) != String(parts[1]) else {
                continue
            }
            remove("\(path)/\(name)")
        }
    }

    /// The process that leads this session, and when it was started.
    private static var session: String {
        let leader = getsid(0)
        let process = leader > 0 ? leader : getppid()
        return "\(process)-\(startTime(of: process) ?? "0")"
    }

    /// Field 22 of proc_pid_stat(5), which comes 20 fields after the name.
    private static func startTime(of process: pid_t) -> String? {
        guard let file = try? System.open("/proc/\(process)/stat", O_RDONLY) else { return nil }
        defer { System.close(file) }
        guard let text = (try? System.contents(file)).map({ String(decoding: $0, as: UTF8.self) }),
            let name = text.lastIndex(of: ")")
        else { return nil }
        let fields = text[name...].split(separator: " ")
        return fields.count > 20 ? String(fields[20]) : nil
    }
}
