internal import CoveCore
internal import Glibc

/// What fusermount3, which makes the mounts of users, says on standard error.
enum MountHelper {
    /// Does what may start it; what it said, in one line, where it said anything.
    ///
    /// Standard error is the process's: what other threads write there meanwhile is taken for the helper's.
    static func listening(to work: () -> Bool) -> (isDone: Bool, said: String?) {
        // Root mounts by mount(2), and needs no helper.
        guard geteuid() != 0, let pipe = try? System.pipe() else { return (work(), nil) }
        defer { System.close(pipe.read) }
        let saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)
        dup2(pipe.write, STDERR_FILENO)
        System.close(pipe.write)
        let isDone = work()
        if saved >= 0 {
            dup2(saved, STDERR_FILENO)
            System.close(saved)
        } else {
            System.close(STDERR_FILENO)
        }
        // Nothing that the helper left running is waited for.
        _ = fcntl(pipe.read, F_SETFL, O_NONBLOCK)
        var buffer = [UInt8](repeating: 0, count: 4096)
        let count = max(read(pipe.read, &buffer, buffer.count), 0)
        let text = String(decoding: buffer[..<count], as: UTF8.self)
        let lines = text.split(whereSeparator: \.isNewline).map { line in
            line.hasPrefix("fusermount3: ") ? String(line.dropFirst("fusermount3: ".count)) : String(line)
        }
        return (isDone, lines.isEmpty ? nil : lines.joined(separator: "; "))
    }
}
