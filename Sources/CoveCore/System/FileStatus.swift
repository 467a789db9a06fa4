internal import CLinux
internal import Glibc

/// What statx(2) says of a file, its time of birth included.
public struct FileStatus: Sendable, Equatable {
    /// The file type bits of `stx_mode`.
    public var kind: ItemKind
    /// The lower twelve bits of `stx_mode`.
    public var permissions: UInt16
    /// Owner.
    public var user: UInt32
    /// Group.
    public var group: UInt32
    /// Size in bytes.
    public var size: Int64
    /// Names of the file.
    public var linkCount: UInt32
    /// Inode number.
    public var inode: UInt64
    /// Device, major number in the upper half.
    public var device: UInt64
    /// Creation; 0 where the file system does not keep it.
    public var birthTime: Timestamp
    /// Last change of the bytes.
    public var modificationTime: Timestamp
    /// Last change of the inode.
    public var changeTime: Timestamp
}

extension FileStatus {
    fileprivate init(_ raw: statx) {
        let mode = UInt32(raw.stx_mode)
        kind =
            switch mode & UInt32(S_IFMT) {
            case UInt32(S_IFDIR): .directory
            case UInt32(S_IFLNK): .symbolicLink
            case UInt32(S_IFIFO): .fifo
            case UInt32(S_IFSOCK): .socket
            case UInt32(S_IFCHR): .characterDevice
            case UInt32(S_IFBLK): .blockDevice
            default: .file
            }
        permissions = UInt16(mode & 0o7777)
        user = raw.stx_uid
        group = raw.stx_gid
        size = Int64(clamping: raw.stx_size)
        linkCount = raw.stx_nlink
        inode = raw.stx_ino
        device = UInt64(raw.stx_dev_major) << 32 | UInt64(raw.stx_dev_minor)
        birthTime = raw.stx_mask & UInt32(STATX_BTIME) == 0 ? Timestamp(0) : Timestamp(raw.stx_btime)
        modificationTime = Timestamp(raw.stx_mtime)
        changeTime = Timestamp(raw.stx_ctime)
    }
}

extension Timestamp {
    fileprivate init(_ time: statx_timestamp) {
        self.init(seconds: time.tv_sec, nanoseconds: Int64(time.tv_nsec))
    }
}

extension System {
    /// statx(2) of a name in a directory; a symbolic link is not followed.
    public static func status(_ directory: Int32, _ name: [UInt8]) throws(Errno) -> FileStatus {
        try withCString(name) { name throws(Errno) in try status(directory, name, Int32(AT_SYMLINK_NOFOLLOW)) }
    }

    /// statx(2) of an open file.
    public static func status(_ descriptor: Int32) throws(Errno) -> FileStatus {
        try withCString([]) { empty throws(Errno) in try status(descriptor, empty, Int32(COVE_AT_EMPTY_PATH)) }
    }

    private static func status(
        _ directory: Int32,
        _ name: UnsafePointer<CChar>,
        _ flags: Int32
    ) throws(Errno) -> FileStatus {
        var raw = statx()
        try retry { cove_statx(directory, name, flags, UInt32(STATX_BASIC_STATS) | UInt32(STATX_BTIME), &raw) }
        return FileStatus(raw)
    }
}

extension System {
    /// The mount that a path lies in, by the id that is never used again in one boot (Linux 6.8), or else the usual one.
    public static func mountID(_ path: String) throws(Errno) -> UInt64 {
        var raw = statx()
        let mask = UInt32(COVE_STATX_MNT_ID_UNIQUE) | UInt32(STATX_MNT_ID)
        try retry { cove_statx(AT_FDCWD, path, 0, mask, &raw) }
        return raw.stx_mnt_id
    }
}
