internal import CLinux
public import Glibc

/// What renameat2(2) does when the new name is taken.
public enum RenameMode: UInt32, Sendable {
    /// The old file of that name is replaced.
    case replace = 0
    /// EEXIST.
    case exclusive = 1
    /// The two files trade names.
    case exchange = 2
}

extension System {
    /// O_PATH, hidden without _GNU_SOURCE: names a file without opening it.
    public static let pathOnly = Int32(COVE_O_PATH)

    /// openat2(2) that follows no symbolic link and never leaves the directory; adds O_CLOEXEC.
    ///
    /// Throws ENOSYS before Linux 5.6.
    public static func openBeneath(
        _ directory: Int32,
        _ path: [UInt8],
        _ flags: Int32,
        _ mode: mode_t = 0
    ) throws(Errno) -> Int32 {
        try withCString(path.isEmpty ? [0x2E] : path) { path throws(Errno) in
            try retry { cove_openat2_beneath(directory, path, UInt64(flags | O_CLOEXEC), UInt64(mode)) }
        }
    }

    /// openat(2) of a plain file that this process's user owns: no link is followed, and nothing is waited for.
    ///
    /// Throws `EINVAL` for anything else that stands there.
    public static func openPlain(_ directory: Int32, _ name: [UInt8], _ flags: Int32) throws(Errno) -> Int32 {
        let file = try openat(directory, name, flags | O_NOFOLLOW | O_NONBLOCK)
        do throws(Errno) {
            let status = try fstat(file)
            guard status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid() else { throw .invalidArgument }
            return file
        } catch {
            close(file)
            throw error
        }
    }

    /// renameat2(2).
    public static func renameat(
        _ from: Int32,
        _ name: [UInt8],
        _ to: Int32,
        _ newName: [UInt8],
        _ mode: RenameMode
    ) throws(Errno) {
        try withCString(name) { name throws(Errno) in
            try withCString(newName) { newName throws(Errno) in
                try retry { cove_renameat2(from, name, to, newName, mode.rawValue) }
            }
        }
    }

    /// linkat(2); a symbolic link is not followed.
    public static func linkat(
        _ from: Int32,
        _ name: [UInt8],
        _ to: Int32,
        _ newName: [UInt8]
    ) throws(Errno) {
        try withCString(name) { name throws(Errno) in
            try withCString(newName) { newName throws(Errno) in
                try retry { Glibc.linkat(from, name, to, newName, 0) }
            }
        }
    }

    /// Gives an open file, one of `O_TMPFILE` too, a name; linkat(2).
    public static func link(_ descriptor: Int32, _ path: String) throws(Errno) {
        try retry { Glibc.linkat(AT_FDCWD, "/proc/self/fd/\(descriptor)", AT_FDCWD, path, AT_SYMLINK_FOLLOW) }
    }

    /// unlinkat(2); with `directory` set, rmdir(2).
    public static func unlinkat(_ parent: Int32, _ name: [UInt8], directory: Bool = false) throws(Errno) {
        try withCString(name) { name throws(Errno) in
            try retry { Glibc.unlinkat(parent, name, directory ? AT_REMOVEDIR : 0) }
        }
    }

    /// mkdirat(2).
    public static func mkdirat(_ parent: Int32, _ name: [UInt8], _ mode: mode_t) throws(Errno) {
        try withCString(name) { name throws(Errno) in try retry { Glibc.mkdirat(parent, name, mode) } }
    }

    /// symlinkat(2).
    public static func symlinkat(_ target: [UInt8], _ parent: Int32, _ name: [UInt8]) throws(Errno) {
        try withCString(target) { target throws(Errno) in
            try withCString(name) { name throws(Errno) in try retry { Glibc.symlinkat(target, parent, name) } }
        }
    }

    /// fstatat(2) of a name, not following a symbolic link.
    public static func statat(_ parent: Int32, _ name: [UInt8]) throws(Errno) -> stat {
        try withCString(name) { name throws(Errno) in
            var result = stat()
            try retry { fstatat(parent, name, &result, AT_SYMLINK_NOFOLLOW) }
            return result
        }
    }

    /// readdir(3): what is in a directory, without `.` and `..`, in no order.
    public static func names(in directory: String) throws(Errno) -> [String] {
        try rawNames(in: Array(directory.utf8)).map { String(decoding: $0, as: UTF8.self) }
    }

    /// The same in bytes, which need not be UTF-8.
    public static func rawNames(in directory: [UInt8]) throws(Errno) -> [[UInt8]] {
        let folder = try withCString(directory) { path throws(Errno) -> OpaquePointer in
            guard let folder = opendir(path) else { throw .current }
            return folder
        }
        defer { closedir(folder) }
        var names: [[UInt8]] = []
        while let entry = readdir(folder) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) { Array($0.prefix { $0 != 0 }) }
            if name != [0x2E], name != [0x2E, 0x2E] { names.append(name) }
        }
        return names
    }

    /// readlinkat(2).
    public static func readlinkat(_ parent: Int32, _ name: [UInt8]) throws(Errno) -> [UInt8] {
        try withCString(name) { name throws(Errno) in
            var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
            let length = try retry { Glibc.readlinkat(parent, name, &buffer, buffer.count) }
            return buffer.prefix(length).map { UInt8(bitPattern: $0) }
        }
    }

    /// fchmod(2).
    public static func fchmod(_ descriptor: Int32, _ permissions: UInt16) throws(Errno) {
        try retry { Glibc.fchmod(descriptor, mode_t(permissions)) }
    }

    /// chmod(2); follows symbolic links.
    public static func chmod(_ path: String, _ permissions: UInt16) throws(Errno) {
        try retry { Glibc.chmod(path, mode_t(permissions)) }
    }

    /// fchownat(2) of a name, not following a symbolic link; nil leaves a part as it is.
    public static func chownat(_ parent: Int32, _ name: [UInt8], user: UInt32?, group: UInt32?) throws(Errno) {
        try withCString(name) { name throws(Errno) in
            try retry { Glibc.fchownat(parent, name, user ?? .max, group ?? .max, AT_SYMLINK_NOFOLLOW) }
        }
    }

    /// fchown(2); nil leaves a part as it is.
    public static func fchown(_ descriptor: Int32, user: UInt32?, group: UInt32?) throws(Errno) {
        try retry { Glibc.fchown(descriptor, user ?? .max, group ?? .max) }
    }

    /// futimens(3): sets the modification time and leaves the access time.
    public static func setModificationTime(_ descriptor: Int32, _ time: Timestamp) throws(Errno) {
        let times = [timespec(tv_sec: 0, tv_nsec: utimeOmit), time.timespec]
        try retry { Glibc.futimens(descriptor, times) }
    }

    /// utimensat(2): sets the modification time of a name, not following a symbolic link.
    public static func setModificationTime(_ parent: Int32, _ name: [UInt8], _ time: Timestamp) throws(Errno) {
        let times = [timespec(tv_sec: 0, tv_nsec: utimeOmit), time.timespec]
        try withCString(name) { name throws(Errno) in
            try retry { Glibc.utimensat(parent, name, times, AT_SYMLINK_NOFOLLOW) }
        }
    }

    private static let utimeOmit = (1 << 30) - 2

    /// Takes a read lease, which fails with EAGAIN while anyone has the file open for writing.
    ///
    /// See fcntl(2). A broken lease sends SIGURG, which is ignored by default, instead of the deadly SIGIO.
    public static func takeReadLease(_ descriptor: Int32) throws(Errno) {
        try retry { cove_set_lease_signal(descriptor, SIGURG) }
        try retry { cove_set_lease(descriptor, F_RDLCK) }
    }

    /// Gives a lease back.
    public static func releaseLease(_ descriptor: Int32) { _ = cove_set_lease(descriptor, F_UNLCK) }

    /// ioctl_ficlone(2): shares all blocks of one file with an empty one.
    public static func clone(_ source: Int32, to target: Int32) throws(Errno) {
        try retry { cove_clone(target, source) }
    }

    /// fstatvfs(3).
    public static func fileSystem(_ descriptor: Int32) throws(Errno) -> statvfs {
        var result = statvfs()
        try retry { Glibc.fstatvfs(descriptor, &result) }
        return result
    }

    /// The magic number of a file's file system, as in fstatfs(2); -1 when it can't be told.
    public static func fileSystemType(_ descriptor: Int32) -> Int64 { cove_filesystem_type(descriptor) }

    /// pipe2(2) with O_CLOEXEC: the end that is read, and the one that is written.
    public static func pipe() throws(Errno) -> (read: Int32, write: Int32) {
        var ends: (Int32, Int32) = (-1, -1)
        try retry { withUnsafeMutableBytes(of: &ends) { cove_pipe($0.baseAddress) } }
        return (ends.0, ends.1)
    }

    /// eventfd(2), non-blocking, for waking a poll(2).
    public static func eventDescriptor() throws(Errno) -> Int32 { try retry { cove_eventfd() } }
}
