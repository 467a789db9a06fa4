/// How the engine names an existing remote item: by where it last knew it, and by id where there is one.
public struct RemoteReference: Sendable, Hashable {
    /// The provider's id, where it gave one.
    public var id: RemoteID?
    /// Where the item is, as far as the provider has acknowledged.
    public var path: RemotePath
    /// True for what is known to be no directory: one that has its place by now is another item.
    public var isFile = false

    /// Names an item.
    public init(id: RemoteID?, path: RemotePath) {
        self.id = id
        self.path = path
    }

    /// The account's root directory.
    public static let root = RemoteReference(id: nil, path: .root)
}

/// An item as the provider sees it; nothing in it is trusted before the engine has checked it.
public struct RemoteItem: Sendable, Equatable {
    /// Unique in the account; stable over renames where `stableIDs` says so.
    public var id: RemoteID
    /// The name's raw bytes, unchecked.
    public var name: [UInt8]
    /// A file, a directory or a symbolic link.
    public var kind: ItemKind
    /// Bytes of a file; unchecked.
    public var size: Int64
    /// Changes whenever the bytes do; empty for a directory.
    public var contentVersion: ContentVersion
    /// Changes whenever anything else does; empty for a file where a change did not tell it.
    public var metadataVersion: MetadataVersion
    /// Dates, permissions and the like, as far as the provider keeps them.
    public var metadata: ItemMetadata
    /// Where a symbolic link points.
    public var linkTarget: [UInt8]?
    /// Marks that a file manager may show of it, a JSON list; nil where there are none.
    public var decorations: [UInt8]?
    /// With whom it is shared; nil where it is not, or nobody knows.
    public var sharing: ItemSharing?
    /// Who changed it last, as people know that; nil where this answer does not tell.
    public var editor: String?
    /// When it was made; nil where nobody tells.
    public var created: Timestamp?

    /// Makes an item.
    public init(
        id: RemoteID,
        name: [UInt8],
        kind: ItemKind,
        size: Int64,
        contentVersion: ContentVersion,
        metadataVersion: MetadataVersion,
        metadata: ItemMetadata,
        linkTarget: [UInt8]? = nil,
        decorations: [UInt8]? = nil,
        sharing: ItemSharing? = nil,
        editor: String? = nil,
        created: Timestamp? = nil
    ) {
        self.id = id
        self.name = name
        self.kind = kind
        self.size = size
        self.contentVersion = contentVersion
        self.metadataVersion = metadataVersion
        self.metadata = metadata
        self.linkTarget = linkTarget
        self.decorations = decorations
        self.sharing = sharing
        self.editor = editor
        self.created = created
    }
}

/// What travels beside the bytes; nil where it is not known or not to be changed.
public struct ItemMetadata: Sendable, Equatable {
    /// Last change of the bytes.
    public var modificationTime: Timestamp?
    /// The lower twelve bits of `st_mode`.
    public var permissions: UInt16?
    /// Owner.
    public var user: UInt32?
    /// Group.
    public var group: UInt32?
    /// All `user.*` attributes, by full name.
    public var extendedAttributes: [[UInt8]: [UInt8]]?

    /// Makes metadata; everything is unknown unless said.
    public init(
        modificationTime: Timestamp? = nil,
        permissions: UInt16? = nil,
        user: UInt32? = nil,
        group: UInt32? = nil,
        extendedAttributes: [[UInt8]: [UInt8]]? = nil
    ) {
        self.modificationTime = modificationTime
        self.permissions = permissions
        self.user = user
        self.group = group
        self.extendedAttributes = extendedAttributes
    }
}

/// An earlier content of a file that the remote side keeps.
public struct RemoteVersion: Sendable, Equatable {
    /// The provider's name for it, unique among those of the file: printable ASCII without spaces.
    public var id: String
    /// How many bytes it has.
    public var size: Int64
    /// When it was written.
    public var modificationTime: Timestamp
    /// What the file's content version was while it had this content; nil where nobody knows.
    public var contentVersion: ContentVersion?

    /// Makes a version.
    public init(id: String, size: Int64, modificationTime: Timestamp, contentVersion: ContentVersion?) {
        self.id = id
        self.size = size
        self.modificationTime = modificationTime
        self.contentVersion = contentVersion
    }
}

/// A link by which anybody can read one version of a file.
public struct Publication: Sendable, Equatable {
    /// The address, printable ASCII.
    public var url: String
    /// When it ends.
    public var expires: Timestamp

    /// Makes a link.
    public init(url: String, expires: Timestamp) {
        self.url = url
        self.expires = expires
    }
}

/// What a new item is to be.
public struct ItemTemplate: Sendable, Equatable {
    /// A file, a directory or a symbolic link.
    public var kind: ItemKind
    /// Dates and permissions to set.
    public var metadata: ItemMetadata
    /// Where a symbolic link points.
    public var linkTarget: [UInt8]?

    /// Makes a template.
    public init(kind: ItemKind, metadata: ItemMetadata, linkTarget: [UInt8]? = nil) {
        self.kind = kind
        self.metadata = metadata
        self.linkTarget = linkTarget
    }
}

/// An opaque place in a listing, at most 500 bytes.
public struct Page: Sendable, Hashable {
    /// The provider's bytes.
    public let bytes: [UInt8]
    /// Wraps a provider's bytes.
    public init(_ bytes: [UInt8]) { self.bytes = bytes }
}

/// An opaque place in the stream of changes, at most 500 bytes.
public struct Anchor: Sendable, Hashable {
    /// The provider's bytes.
    public let bytes: [UInt8]
    /// Wraps a provider's bytes.
    public init(_ bytes: [UInt8]) { self.bytes = bytes }
}

/// How often a source was asked for something, since the daemon's start.
public struct RequestCounts: Sendable, Equatable {
    /// All requests.
    public var total = 0
    /// What they cost by the source's price list, in millionths of a dollar; nil where it has none.
    public var millionths: Double?
    /// Makes counts.
    public init(total: Int = 0, millionths: Double? = nil) { (self.total, self.millionths) = (total, millionths) }

    /// What was asked since others were counted.
    public func since(_ earlier: RequestCounts) -> RequestCounts {
        RequestCounts(
            total: total.saturatingSubtract(earlier.total),
            millionths: millionths.map { $0 - (earlier.millionths ?? 0) }
        )
    }
}

/// What devices have left word of, as it is at the source now.
public struct News: Sendable {
    /// The words.
    public var board: NewsBoard
    /// Which state of it this is; nil where it is to be asked for anew.
    public var version: ContentVersion?
    /// Says what there is.
    public init(_ board: NewsBoard, version: ContentVersion?) { (self.board, self.version) = (board, version) }
}

/// One page of a directory.
public struct Listing: Sendable {
    /// The page's items.
    public var items: [RemoteItem]
    /// Where the next page starts; nil after the last.
    public var next: Page?
    /// Makes a page.
    public init(items: [RemoteItem], next: Page?) {
        self.items = items
        self.next = next
    }
}

/// What changed at the source, in an order that may be replayed.
public struct Changes: Sendable {
    /// The changes; harmless when seen twice.
    public var events: [RemoteChange]
    /// Where to go on.
    public var anchor: Anchor
    /// True when more is ready now.
    public var moreComing: Bool
    /// Makes a set of changes.
    public init(events: [RemoteChange], anchor: Anchor, moreComing: Bool) {
        self.events = events
        self.anchor = anchor
        self.moreComing = moreComing
    }
}

/// One change at the source.
public enum RemoteChange: Sendable, Equatable {
    /// An item is new, changed or moved here.
    case updated(RemoteItem, directory: RemotePath)
    /// Nothing has this path any more.
    case removed(RemotePath)
    /// The directory must be listed again.
    case directoryChanged(RemotePath)
}

/// Room at the source, in bytes.
public struct ProviderQuota: Sendable, Equatable {
    /// All there is.
    public var total: Int64
    /// What is left for this account.
    public var available: Int64
    /// Makes a quota.
    public init(total: Int64, available: Int64) {
        self.total = total
        self.available = available
    }
}

/// Takes fetched bytes, from any thread, one call at a time for one fetch.
public protocol ContentSink: Sendable {
    /// Takes bytes that belong at an offset. Throws when the fetch is to end.
    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(ProviderError)

    /// Takes bytes straight from a descriptor at the same offset; returns how many there were, 0 at its end.
    func copy(from descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int

    /// Is told who made a version, where the answer that brings its bytes says so.
    func note(editor: String, of version: ContentVersion)
}

extension ContentSink {
    /// Most have no use for it.
    public func note(editor: String, of version: ContentVersion) {}
}

/// Gives the bytes of one consistent snapshot, to any thread, several calls at a time.
public protocol ContentSource: Sendable {
    /// How many bytes the snapshot has.
    var size: Int64 { get }

    /// Names the snapshot among all of all devices, also after a restart; nil when nothing does.
    ///
    /// An upload that was cut off may go on with a source of the same identity.
    var identity: [UInt8]? { get }

    /// Reads bytes of the snapshot. Throws `cancelled` once a local change has ended the snapshot.
    func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ProviderError) -> Int

    /// Copies bytes straight to a descriptor at the same offset; returns how many, 0 at the end.
    func copy(to descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int

    /// Hears how many bytes the source itself has, from a provider that knows it; else what was read counts.
    func note(arrived bytes: Int64)
}

extension ContentSource {
    /// Nothing names the snapshot.
    public var identity: [UInt8]? { nil }

    /// Most have no use for it.
    public func note(arrived bytes: Int64) {}
}
