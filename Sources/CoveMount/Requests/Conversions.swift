internal import CFuse
internal import CoveCore
internal import CoveEngine
internal import Glibc

/// How long the kernel may keep entries, negative entries and attributes: changes are announced or invalidated explicitly.
let cacheTimeout: Double = 86400

extension ItemAttributes {
    /// How long the kernel may keep them.
    var timeout: Double { mayChangeUnseen ? 0 : cacheTimeout }
}

extension ItemKind {
    /// The file type bits of `st_mode`.
    var mode: mode_t {
        switch self {
        case .file: S_IFREG
        case .directory: S_IFDIR
        case .symbolicLink: S_IFLNK
        case .fifo: S_IFIFO
        case .socket: S_IFSOCK
        case .characterDevice: S_IFCHR
        case .blockDevice: S_IFBLK
        }
    }
}

extension stat {
    /// The attributes as stat(2) shows them.
    init(_ attributes: ItemAttributes) {
        self.init()
        st_ino = ino_t(attributes.id.rawValue)
        st_mode = attributes.kind.mode | mode_t(attributes.permissions)
        st_nlink = nlink_t(attributes.linkCount)
        st_uid = attributes.user
        st_gid = attributes.group
        st_rdev = dev_t(attributes.device)
        st_size = off_t(attributes.size)
        st_blksize = 4096
        st_blocks = blkcnt_t(attributes.blocks)
        st_atim = attributes.accessTime.timespec
        st_mtim = attributes.modificationTime.timespec
        st_ctim = attributes.changeTime.timespec
    }
}

extension fuse_entry_param {
    /// An entry that points at an item; ids are never reused, so the generation stays 0.
    init(_ attributes: ItemAttributes, isCached: Bool) {
        self.init()
        ino = attributes.id.rawValue
        attr = stat(attributes)
        entry_timeout = isCached ? cacheTimeout : 0
        attr_timeout = isCached ? attributes.timeout : 0
    }

    /// The knowledge that a name is free.
    init(negative isCached: Bool) {
        self.init()
        entry_timeout = isCached ? cacheTimeout : 0
    }
}

extension statvfs {
    /// The status as statvfs(3) shows it.
    init(_ status: FileSystemStatus) {
        self.init()
        f_bsize = UInt(status.blockSize)
        f_frsize = UInt(status.blockSize)
        f_blocks = fsblkcnt_t(status.totalBlocks)
        f_bfree = fsblkcnt_t(status.freeBlocks)
        f_bavail = fsblkcnt_t(status.availableBlocks)
        f_files = fsfilcnt_t(status.files)
        f_ffree = fsfilcnt_t(status.freeFiles)
        f_favail = fsfilcnt_t(status.freeFiles)
        f_namemax = UInt(status.maximumNameLength)
    }
}

/// Copies a C string's bytes without its NUL.
@inline(__always)
func bytes(of text: UnsafePointer<CChar>?) -> [UInt8] {
    guard let text else { return [] }
    return Array(UnsafeRawBufferPointer(start: text, count: strlen(text)))
}
