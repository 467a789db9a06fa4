internal import Glibc

/// What bubblewrap(1) is told for a program that is to see the system's programs and nothing else of this machine.
public enum Sandbox {
    private static let folders = ["/usr/bin", "/bin", "/usr/local/bin"]
    /// What programs read of the system, besides `/usr`.
    private static let files = [
        "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime",
        "/etc/timezone",
        "/etc/mime.types", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf",
    ]

    /// The first words: a world of its own, which ends with whoever made it.
    public static let own = ["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]

    /// The system's programs, and what all of them read.
    public static func system() -> [String] {
        var words = ["--ro-bind", "/usr", "/usr"]
        for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] { words += folder("/" + name) }
        for file in files { words += ["--ro-bind-try", file, file] }
        return words
    }

    /// Devices, and room for shared memory and temporary files, which are memory, in bytes.
    public static func devices(shared: Int, temporary: Int) -> [String] {
        [
            "--proc", "/proc", "--dev", "/dev", "--size", "\(shared)", "--tmpfs", "/dev/shm",
            "--size", "\(temporary)", "--tmpfs", "/tmp",
        ]
    }

    /// The last words: all else would be memory that nobody counts, and gone with the process.
    public static let end = ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/", "--"]

    /// A folder of the system's programs, or the link into `/usr` that stands for it.
    private static func folder(_ path: String) -> [String] {
        guard let status = try? System.lstat(path) else { return [] }
        guard status.st_mode & S_IFMT == S_IFLNK else { return ["--ro-bind", path, path] }
        guard let target = try? System.readlinkat(AT_FDCWD, Array(path.utf8)) else { return [] }
        return ["--symlink", String(decoding: target, as: UTF8.self), path]
    }

    /// A program of the system's, by its name; nil where it is not installed.
    public static func find(_ name: String) -> String? {
        folders.map { $0 + "/" + name }.first { access($0, X_OK) == 0 }
    }
}
