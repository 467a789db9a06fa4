/// The remote half of an account: a cloud, or a directory that serves as one.
///
/// Everything is paged or ranged, can be cancelled through the calling task, and changes nothing whose base version is
/// not the current one. No call may block Swift's cooperative pool.
public protocol Provider: Sendable {
    /// What the remote side can do, probed by `start()`.
    var capabilities: ProviderCapabilities { get }

    /// Connects, and learns the capabilities. Throws when the source can't be used; may be called again after that.
    func start() async throws(ProviderError)

    /// Names the source itself, so that another one in its place is noticed; nil where there is no such name.
    func sourceIdentity() async -> [UInt8]?

    /// Ends watching and closes connections.
    func stop() async

    /// Lists one directory, a page at a time; nil asks for the first page.
    ///
    /// Changes made to the directory after the first page was asked for appear in `changes(since:)`.
    func list(_ directory: RemoteReference, page: Page?) async throws(ProviderError) -> Listing

    /// Looks one name up in a directory. Throws `noSuchItem` when it is not there.
    func lookup(_ name: FileName, in directory: RemoteReference) async throws(ProviderError) -> RemoteItem

    /// The changes after an anchor; with nil none, only the current anchor. Throws `anchorExpired` when it can't tell.
    func changes(since anchor: Anchor?) async throws(ProviderError) -> Changes

    /// Fires when `changes(since:)` has something new; nil where the provider must be polled.
    var changeSignal: AsyncStream<Void>? { get }

    /// True while nothing tells of changes by itself, and listed directories must be listed again and again.
    var mustBePolled: Bool { get }

    /// Fetches bytes of one version into a sink, in any order inside the range, each byte once.
    ///
    /// Throws `versionNoLongerAvailable` rather than give bytes of another version.
    func fetch(
        _ item: RemoteReference,
        version: ContentVersion,
        range: Range<Int64>,
        into sink: any ContentSink
    ) async throws(ProviderError)

    /// Creates an item under a name that must be free; else throws `filenameCollision`.
    func create(
        _ template: ItemTemplate,
        name: FileName,
        in directory: RemoteReference,
        content: (any ContentSource)?
    ) async throws(ProviderError) -> RemoteItem

    /// Replaces bytes or metadata, if the content version is still the base; else throws `conflict`.
    func modify(
        _ item: RemoteReference,
        base: ContentVersion,
        metadata: ItemMetadata,
        content: (any ContentSource)?
    ) async throws(ProviderError) -> RemoteItem

    /// Renames or moves to a name that must be free, directories with all below, if a file's version is still the base.
    ///
    /// A directory that is where a file is meant stays, and the error is `noSuchItem` or `conflict`.
    func move(
        _ item: RemoteReference,
        base: ContentVersion?,
        to directory: RemoteReference,
        name: FileName
    ) async throws(ProviderError) -> RemoteItem

    /// The moves of directories that go on now: neither place shows all of one; nil where a directory moves at once.
    func movesUnderway() async throws(ProviderError) -> [DirectoryMove]?

    /// Copies one version on the remote side to a name that must be free.
    func copy(
        _ item: RemoteReference,
        version: ContentVersion,
        to directory: RemoteReference,
        name: FileName
    ) async throws(ProviderError) -> RemoteItem

    /// Deletes a file of the base version, or an empty directory; throws `noSuchItem` when it is not there.
    ///
    /// With the base `.directory` nothing but a directory is deleted, whatever has taken its name; without one, what is there.
    func delete(_ item: RemoteReference, base: ContentVersion?) async throws(ProviderError)

    /// Moves a file of the base version into the remote trash; nil where the provider has none.
    func trash(
        _ item: RemoteReference,
        base: ContentVersion?,
        as token: String
    ) async throws(ProviderError) -> RemoteItem?

    /// The earlier contents of a file that the remote side keeps, newest first, at most some thousands.
    ///
    /// The content that the file has now is not among them. Asked only where `capabilities.versions` says so.
    func versions(of item: RemoteReference) async throws(ProviderError) -> [RemoteVersion]

    /// Fetches all bytes of an earlier content into a sink, in any order, each byte once.
    ///
    /// Throws `versionNoLongerAvailable` when the remote side has dropped it.
    func fetch(
        _ version: RemoteVersion,
        of item: RemoteReference,
        into sink: any ContentSink
    ) async throws(ProviderError)

    /// Which of some files of a directory may have a picture; all of them where that can't be told at once.
    ///
    /// Like the next one asked only where `capabilities` says that it makes or keeps some.
    func thumbnails(of names: [FileName], in directory: RemoteReference) async throws(ProviderError) -> Set<FileName>

    /// The picture of one version of a file, as an image file of any format; nil where there is none.
    func thumbnail(of item: RemoteReference, version: ContentVersion) async throws(ProviderError) -> [UInt8]?

    /// Keeps a PNG picture of one version of a file for all devices; nil drops the one of that version.
    ///
    /// Asked only where `capabilities.keepsThumbnails` says so.
    func setThumbnail(
        _ picture: [UInt8]?,
        of item: RemoteReference,
        version: ContentVersion
    ) async throws(ProviderError)

    /// Says that nobody uses a file any more whose bytes it gave; told again until it does not throw.
    ///
    /// Called only where `capabilities.releases` says so.
    func released(_ item: RemoteReference) async throws(ProviderError)

    /// Says that the machine has slept or its network has changed: connections from before may lead nowhere.
    func networkChanged()

    /// Total and free bytes; nil where the provider can't tell.
    func quota() async throws(ProviderError) -> ProviderQuota?

    /// What a person can have it do with items, besides what every provider does.
    var actions: [ProviderAction] { get }

    /// Does one of these; what a person is to be told of it, nil for nothing.
    func perform(_ action: String, on items: [RemoteReference]) async throws(ProviderError) -> String?
}

extension Provider {
    /// True where there is no signal.
    public var mustBePolled: Bool { changeSignal == nil }

    /// Nothing is kept for a file in use.
    public func released(_ item: RemoteReference) async throws(ProviderError) {}

    /// There are no connections.
    public func networkChanged() {}

    /// None.
    public var actions: [ProviderAction] { [] }

    /// There are none.
    public func perform(_ action: String, on items: [RemoteReference]) async throws(ProviderError) -> String? {
        throw .unsupported("it has no action \(action)")
    }

    /// It can't be told.
    public func thumbnails(
        of names: [FileName],
        in directory: RemoteReference
    ) async throws(ProviderError) -> Set<FileName> {
        Set(names)
    }

    /// None.
    public func thumbnail(
        of item: RemoteReference,
        version: ContentVersion
    ) async throws(ProviderError) -> [UInt8]? { nil }

    /// Nothing is kept.
    public func setThumbnail(
        _ picture: [UInt8]?,
        of item: RemoteReference,
        version: ContentVersion
    ) async throws(ProviderError) {
        throw .unsupported("it keeps no pictures")
    }

    /// None.
    public func versions(of item: RemoteReference) async throws(ProviderError) -> [RemoteVersion] { [] }

    /// There is none.
    public func fetch(
        _ version: RemoteVersion,
        of item: RemoteReference,
        into sink: any ContentSink
    ) async throws(ProviderError) {
        throw .versionNoLongerAvailable
    }
}

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
        decorations: [UInt8]? = nil
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
}

extension ContentSource {
    /// Nothing names the snapshot.
    public var identity: [UInt8]? { nil }
}
