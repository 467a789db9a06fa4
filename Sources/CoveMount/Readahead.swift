internal import CoveCore
internal import Glibc

/// The kernel starts every FUSE mount with 128 KiB of readahead and only ever lets INIT lower it.
enum Readahead {
    private static let kibibytes = 1024

    /// Raises a mount's readahead to 1 MiB, where the user may: root.
    static func raise(at path: String) {
        guard let mount = try? MountTable.read().last(where: { $0.path == path && $0.isCove }) else { return }
        let file = "/sys/class/bdi/\(mount.majorDevice):\(mount.minorDevice)/read_ahead_kb"
        guard let descriptor = try? System.open(file, O_WRONLY) else { return }
        defer { System.close(descriptor) }
        Array(String(kibibytes).utf8).withUnsafeBytes { try? System.writeAll(descriptor, $0) }
    }
}
