internal import Glibc

/// Hands an image to a daemon, for which its messages are too short: as a file beside its socket, which only its user reaches.
public enum ThumbnailHandover {
    /// No longer image is taken, in bytes.
    public static let greatestSize = 16 << 20
    private static let prefix = ".thumbnail-"

    /// Writes a file; its name is for `io.cove.Item.SetThumbnail`.
    ///
    /// Blocks.
    public static func put(_ bytes: [UInt8], beside socket: String) throws(Errno) -> String {
        guard bytes.count <= greatestSize else { throw .fileTooLarge }
        let name = "\(prefix)\(DocumentID.random())"
        let path = "\(folder(of: socket))/\(name)"
        let descriptor = try System.open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
        defer { System.close(descriptor) }
        do throws(Errno) {
            try System.pwriteAll(descriptor, bytes, 0)
            // It may be root who calls the daemon of another user.
            try System.fchmod(descriptor, 0o644)
        } catch {
            try? System.unlink(path)
            throw error
        }
        return name
    }

    /// Removes one that no daemon took.
    public static func drop(_ name: String, beside socket: String) {
        guard isName(name) else { return }
        try? System.unlink("\(folder(of: socket))/\(name)")
    }

    /// Reads and removes such a file.
    ///
    /// Blocks. Throws `EINVAL` for anything else.
    public static func take(_ name: String, beside socket: String) throws(Errno) -> [UInt8] {
        guard isName(name) else { throw .invalidArgument }
        let path = "\(folder(of: socket))/\(name)"
        let descriptor = try System.open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW)
        defer { System.close(descriptor) }
        let status = try System.fstat(descriptor)
        guard status.st_mode & S_IFMT == S_IFREG else { throw .invalidArgument }
        try? System.unlink(path)
        guard status.st_size <= greatestSize else { throw .fileTooLarge }
        return try System.contents(descriptor, atMost: Int(status.st_size))
    }

    /// Removes what programs that died have left.
    public static func clean(beside socket: String, olderThan time: Timestamp) {
        let folder = folder(of: socket)
        for name in (try? System.names(in: folder)) ?? [] where isName(name) {
            guard let status = try? System.lstat("\(folder)/\(name)"), Timestamp(status.st_mtim) < time else {
                continue
            }
            drop(name, beside: socket)
        }
    }

    private static func isName(_ name: String) -> Bool {
        guard name.hasPrefix(prefix) else { return false }
        let rest = name.utf8.dropFirst(prefix.utf8.count)
        return rest.count == 32 && rest.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
    }

    private static func folder(of socket: String) -> String { LocalPath.parent(of: socket) ?? "/" }
}
