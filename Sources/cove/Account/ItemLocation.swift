internal import CLinux
internal import CoveCore
internal import CoveMount
internal import Glibc

/// Where a path is: the mount that shows it and the path from the account's root.
struct ItemLocation {
    /// The path as it was given, for messages.
    var shown: String
    /// The path from the account's root.
    var path: RemotePath
    /// The account's control socket.
    var socket: String

    /// Finds an item that is there; a symbolic link at the path's end is not followed.
    static func existing(_ path: [UInt8]) throws(Failure) -> ItemLocation {
        let location = try find(path)
        // In a directory never listed the daemon learns of the item by this.
        do throws(Errno) {
            try System.withCString(path) { path throws(Errno) in
                var status = stat()
                try System.retry { lstat(path, &status) }
            }
        } catch {
            throw Failure(location.shown, error.explanation)
        }
        return location
    }

    /// Finds the mount that shows a path, whether or not the item is there.
    static func find(_ path: [UInt8]) throws(Failure) -> ItemLocation {
        let shown = String(decoding: path, as: UTF8.self)
        let absolute = try resolve(path, shown)
        let mounts: [Mount]
        do throws(Errno) { mounts = try MountTable.read() } catch {
            throw Failure("/proc/self/mountinfo", "\(error)", "mount /proc")
        }
        var holder: Mount?
        for mount in mounts where isInside(absolute, Array(mount.path.utf8)) {
            if mount.path.utf8.count >= holder?.path.utf8.count ?? 0 { holder = mount }
        }
        guard let holder, holder.isCove else {
            throw Failure(shown, "is not inside a Cove mount", "name a path below one (`findmnt -t fuse.cove`)")
        }
        let inside = absolute.dropFirst(holder.path == "/" ? 0 : holder.path.utf8.count)
        let names = (Array(holder.root.utf8) + [0x2F] + inside).split(separator: 0x2F)
        return ItemLocation(
            shown: shown,
            path: RemotePath(names.map { FileName(unchecked: Array($0)) }),
            socket: try socket(of: holder, mounts, shown)
        )
    }

    /// The socket of the mount's daemon, which the root of the mount tells.
    private static func socket(of mount: Mount, _ mounts: [Mount], _ shown: String) throws(Failure) -> String {
        // A bind mount of a subfolder has the root's answer elsewhere.
        let whole = mounts.last {
            $0.root == "/" && $0.majorDevice == mount.majorDevice && $0.minorDevice == mount.minorDevice
        }
        var value = [CChar](repeating: 0, count: 4096)
        let path = (whole ?? mount).path
        let count = cove_getxattr(path, "user.cove.socket", &value, value.count)
        guard count > 0 else {
            let error = Errno.current
            if error == .notConnected {
                throw Failure(
                    shown,
                    "the daemon of the mount at \(path) has died",
                    "run `cove unmount \(path)` and mount again"
                )
            }
            throw Failure(shown, "the mount at \(path) does not tell its daemon: \(error)", "name it with --account")
        }
        return String(decoding: value.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Resolves all but the last name; a path that ends in `/`, `.` or `..` is resolved wholly.
    private static func resolve(_ path: [UInt8], _ shown: String) throws(Failure) -> [UInt8] {
        let names = path.split(separator: 0x2F)
        let isWhole = path.last == 0x2F || names.last.map { $0 == [0x2E] || $0 == [0x2E, 0x2E] } ?? true
        do throws(Errno) {
            if isWhole { return try real(path) }
            let name = Array(names[names.count - 1])
            let slash = path.lastIndex(of: 0x2F)
            let directory = slash.map { $0 == 0 ? [0x2F] : Array(path[..<$0]) } ?? [0x2E]
            let parent = try real(directory)
            return parent == [0x2F] ? parent + name : parent + [0x2F] + name
        } catch .notConnected {
            throw Failure(shown, "the mount's daemon has died", "run `cove unmount` on the mount point and mount again")
        } catch {
            throw Failure(shown, "\(error)", "check the path")
        }
    }

    private static func real(_ path: [UInt8]) throws(Errno) -> [UInt8] {
        try System.withCString(path) { path throws(Errno) in
            guard let resolved = realpath(path, nil) else { throw Errno.current }
            defer { free(resolved) }
            return Array(UnsafeRawBufferPointer(start: resolved, count: strlen(resolved)))
        }
    }

    private static func isInside(_ path: [UInt8], _ directory: [UInt8]) -> Bool {
        if directory == [0x2F] { return true }
        guard path.starts(with: directory) else { return false }
        return path.count == directory.count || path[directory.count] == 0x2F
    }
}
