/// What an item is.
public enum ItemKind: UInt8, Sendable, Hashable, CaseIterable {
    case file = 0
    case directory, symbolicLink, fifo, socket, characterDevice, blockDevice

    /// True for what a provider can hold; the rest lives on this device only.
    public var isSynced: Bool {
        switch self {
        case .file, .directory, .symbolicLink: true
        case .fifo, .socket, .characterDevice, .blockDevice: false
        }
    }
}

/// What stat(2) says of an item.
public struct ItemAttributes: Sendable, Hashable {
    /// The item, shown as `st_ino`.
    public var id: ItemID
    /// The file type bits of `st_mode`.
    public var kind: ItemKind
    /// The lower twelve bits of `st_mode`.
    public var permissions: UInt16
    /// Owner.
    public var user: UInt32
    /// Group.
    public var group: UInt32
    /// Logical size in bytes.
    public var size: Int64
    /// `st_nlink`; 1 for a directory that was never listed, because its subdirectories are not known.
    public var linkCount: UInt32
    /// `st_rdev` of a device node.
    public var device: UInt64
    /// Local 512-byte blocks: never 0 for a file with a size, or sparse-aware copiers would skip its bytes.
    public var blocks: Int64
    /// Last access.
    public var accessTime: Timestamp
    /// Last change of the bytes.
    public var modificationTime: Timestamp
    /// Last change of the item's own row.
    public var changeTime: Timestamp
    /// When it was made, as far as anybody has told; else the date it had when it was first seen.
    public var birthTime: Timestamp
    /// True while size and dates may change without anybody being told.
    public var mayChangeUnseen = false

    /// Makes a full set of attributes.
    public init(
        id: ItemID,
        kind: ItemKind,
        permissions: UInt16,
        user: UInt32,
        group: UInt32,
        size: Int64,
        linkCount: UInt32,
        device: UInt64,
        blocks: Int64,
        accessTime: Timestamp,
        modificationTime: Timestamp,
        changeTime: Timestamp,
        birthTime: Timestamp? = nil
    ) {
        self.id = id
        self.kind = kind
        self.permissions = permissions
        self.user = user
        self.group = group
        self.size = size
        self.linkCount = linkCount
        self.device = device
        self.blocks = blocks
        self.accessTime = accessTime
        self.modificationTime = modificationTime
        self.changeTime = changeTime
        self.birthTime = birthTime ?? modificationTime
    }
}

/// Who sends a file system request.
public struct Caller: Sendable, Hashable {
    /// The requesting thread's id, which is not always its process's.
    public var thread: Int32
    /// File system user id.
    public var user: UInt32
    /// File system group id.
    public var group: UInt32
    /// What umask(2) takes from the mode of what is made, where the kernel leaves that to the file system.
    public var umask: UInt16
    /// The request's number, unique as long as the mount lives; 0 for one that does not come from the kernel.
    public var request: UInt64
    /// True for a request that an earlier daemon had and may have carried out before it died.
    public var isResent: Bool

    /// One that no thread stands for.
    public static let unknown = Caller(thread: 0, user: 0, group: 0)

    /// Names a caller.
    public init(
        thread: Int32,
        user: UInt32,
        group: UInt32,
        umask: UInt16 = 0,
        request: UInt64 = 0,
        isResent: Bool = false
    ) {
        self.thread = thread
        self.user = user
        self.group = group
        self.umask = umask
        self.request = request
        self.isResent = isResent
    }
}
