internal import Glibc

extension System {
    /// Removes what has a name in a directory, with all in it, and follows no link; how much of it went that was no directory.
    ///
    /// What can't be removed stays, with the directories that it is in, and so does what is mounted there.
    @discardableResult
    public static func removeTree(_ parent: Int32, _ name: [UInt8]) -> Int {
        guard let status = try? fstat(parent) else { return 0 }
        return removeTree(parent, name, on: status.st_dev, depth: 0)
    }

    private static func removeTree(_ parent: Int32, _ name: [UInt8], on device: dev_t, depth: Int) -> Int {
        guard let status = try? statat(parent, name), status.st_dev == device else { return 0 }
        guard status.st_mode & S_IFMT == S_IFDIR else { return (try? unlinkat(parent, name)) == nil ? 0 : 1 }
        var count = 0
        // A descriptor is open for each step down.
        if depth < 400, let folder = try? openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW) {
            for child in (try? rawNames(in: Array("/proc/self/fd/\(folder)".utf8))) ?? [] {
                count += removeTree(folder, child, on: device, depth: depth + 1)
            }
            close(folder)
        }
        try? unlinkat(parent, name, directory: true)
        return count
    }
}
