internal import CoveCore
internal import Glibc

/// The kernel's settings of a mount's page cache, which start too low and which INIT can only lower: 128 KiB of
/// readahead, and dirty pages up to a hundredth of all that may be dirty, where a writer is slowed to a crawl.
///
/// The limit stays a strict one, with or without memory to spare. So a mount that stalls holds back at most a fifth of
/// what may be dirty, others write on, and so does the daemon, whose own writes are never measured by its mount's.
enum BackingDevice {
    private static let settings = [("read_ahead_kb", 1024), ("max_ratio", 20), ("min_ratio", 5)]

    /// Raises a mount's readahead and its shares, in percent, of the dirty pages, where the user may: root.
    static func raise(at path: String) {
        guard let mount = try? MountTable.read().last(where: { $0.path == path && $0.isCove }) else { return }
        for (name, value) in settings {
            let file = "/sys/class/bdi/\(mount.majorDevice):\(mount.minorDevice)/\(name)"
            guard let descriptor = try? System.open(file, O_WRONLY) else { return }
            Array(String(value).utf8).withUnsafeBytes { try? System.writeAll(descriptor, $0) }
            System.close(descriptor)
        }
    }
}
