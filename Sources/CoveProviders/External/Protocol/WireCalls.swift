internal import CoveCore

/// The calls that a provider's process answers; `Documentation.docc/ProviderProtocol.md` tells of each.
enum WireCall: String, CaseIterable {
    case hello, stop, list, lookup, changes, fetch, create, modify, move, movesUnderway, copy, delete, trash
    case versions, fetchVersion, quota, perform, released, networkChanged
    case thumbnails, thumbnail, setThumbnail
    case persistentIdentifier, itemForPersistentIdentifier

    /// The one version of the protocol there is.
    static let version = 1
    /// How many bytes of content may be under way in one direction of one call.
    static let window = 4 << 20
    /// No longer picture is taken from a process, in bytes.
    static let longestPicture = 4 << 20
    /// Of so many names of one directory at a time is asked whether they have a picture.
    static let mostNames = 1000
}

/// What a process is told first.
struct HelloParameters: Codable {
    /// The versions that Cove speaks.
    var versions: [Int]
    /// What a person typed behind the name, such as `path=/a/b`.
    var options: [String: String]
    /// A directory for what the provider has to remember; nil where nothing is kept.
    var state: String?
    /// Who uses the source, for a provider whose manifest asks for it.
    var credentials: WireLogin?
    /// True where nothing is to be changed in the source; nil otherwise.
    var readOnly: Bool?
}

/// A user's name and password.
struct WireLogin: Codable {
    var user: String
    var password: String
}

/// What a process answers to that.
struct HelloResult: Codable {
    /// The version it speaks.
    var version: Int
    /// What it calls itself.
    var name: String?
    /// Names the source itself, so that another one in its place is noticed.
    var identity: WireBytes?
    /// It tells of changes by itself.
    var signals: Bool?
    /// How many calls it takes at a time.
    var parallelCalls: Int?
    var capabilities: WireCapabilities?
    /// What a person can have it do.
    var actions: [WireAction]?
    /// The purpose of claims under which it writes what the source has already.
    var purpose: String?

    /// No purpose is longer, in bytes.
    static let longestPurpose = 200
}

/// Something that a person can have a provider do.
struct WireAction: Codable {
    var id: String
    var name: String
    var kinds: [WireKind]?
    var several: Bool?

    init(_ action: ProviderAction) {
        id = action.id
        name = action.name
        kinds = action.kinds?.compactMap { $0 == "symlink" ? .link : WireKind(rawValue: $0) }
        several = action.takesSeveral
    }

    /// Throws for what could not be typed or shown.
    func action() throws(JSONError) -> ProviderAction {
        guard (1...100).contains(id.utf8.count), id.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw JSONError("an action needs an id of 1 to 100 printable ASCII characters")
        }
        let shown = name.shown(200)
        let names = kinds?.map { $0 == .link ? "symlink" : $0.rawValue }
        return ProviderAction(id: id, name: shown.isEmpty ? id : shown, kinds: names, takesSeveral: several ?? false)
    }
}

/// What the source can do; what is missing is as `ProviderCapabilities` has it.
struct WireCapabilities: Codable {
    var ranges: Bool?
    var conditionalWrites: Bool?
    var coarseVersions: Bool?
    var serverSideCopy: Bool?
    var trash: Bool?
    var versions: Bool?
    var movesInSteps: Bool?
    var replacesAtOnce: Bool?
    var stableIDs: Bool?
    var symbolicLinks: Bool?
    var modificationTimes: Bool?
    var risingDirectoryVersions: Bool?
    var permissions: Bool?
    var ownership: Bool?
    var extendedAttributes: Bool?
    var releases: Bool?
    var persistentIdentifiers: Bool?
    var readOnly: Bool?
    var makesThumbnails: Bool?
    var keepsThumbnails: Bool?
    var parallelChanges: Int?

    init() {}

    init(_ capabilities: ProviderCapabilities) {
        ranges = capabilities.ranges
        conditionalWrites = capabilities.conditionalWrites
        coarseVersions = capabilities.coarseVersions
        serverSideCopy = capabilities.serverSideCopy
        trash = capabilities.trash
        versions = capabilities.versions
        movesInSteps = capabilities.movesInSteps
        replacesAtOnce = capabilities.replacesAtOnce
        stableIDs = capabilities.stableIDs
        symbolicLinks = capabilities.symbolicLinks
        modificationTimes = capabilities.modificationTimes
        risingDirectoryVersions = capabilities.risingDirectoryVersions
        permissions = capabilities.permissions
        ownership = capabilities.ownership
        extendedAttributes = capabilities.extendedAttributes
        releases = capabilities.releases
        persistentIdentifiers = capabilities.persistentIdentifiers
        readOnly = capabilities.readOnly
        makesThumbnails = capabilities.makesThumbnails
        keepsThumbnails = capabilities.keepsThumbnails
        parallelChanges = capabilities.parallelChanges
    }

    /// Nothing that a provider does not claim is taken for granted.
    var capabilities: ProviderCapabilities {
        var all = ProviderCapabilities()
        all.ranges = ranges ?? false
        all.conditionalWrites = conditionalWrites ?? false
        all.coarseVersions = coarseVersions ?? false
        all.serverSideCopy = serverSideCopy ?? false
        all.trash = trash ?? false
        all.versions = versions ?? false
        all.movesInSteps = movesInSteps ?? false
        all.replacesAtOnce = replacesAtOnce ?? false
        all.stableIDs = stableIDs ?? false
        all.symbolicLinks = symbolicLinks ?? false
        all.modificationTimes = modificationTimes ?? false
        all.risingDirectoryVersions = risingDirectoryVersions ?? false
        all.permissions = permissions ?? false
        all.ownership = ownership ?? false
        all.extendedAttributes = extendedAttributes ?? false
        all.releases = releases ?? false
        all.persistentIdentifiers = persistentIdentifiers ?? false
        all.readOnly = readOnly ?? false
        all.makesThumbnails = makesThumbnails ?? false
        all.keepsThumbnails = keepsThumbnails ?? false
        all.parallelChanges = min(max(parallelChanges ?? 4, 1), 64)
        return all
    }
}

/// What the calls are given; each takes some of these.
struct CallParameters: Codable {
    var item: WireReference?
    var directory: WireReference?
    var name: WireBytes?
    var page: WireBytes?
    var anchor: WireBytes?
    /// The content version that is meant, or must be the current one.
    var version: WireBytes?
    /// The first byte of a range, and the one behind the last.
    var start: Int64?
    var end: Int64?
    var kind: WireKind?
    var metadata: WireMetadata?
    var target: WireBytes?
    /// How many bytes of content follow in frames of their own; nil for none at all.
    var size: Int64?
    /// Names the content among all, so that an upload that was cut off may go on.
    var identity: WireBytes?
    /// Names what is put into the trash.
    var token: String?
    /// An earlier content.
    var past: WireVersion?
    /// What is to be done, and with which items.
    var action: String?
    var items: [WireReference]?
    /// Of which files of a directory it is asked whether they have a picture.
    var names: [WireBytes]?
    /// What the provider called an item for good.
    var identifier: WireBytes?
}

/// What the calls give back; each uses some of these.
struct CallResult: Codable {
    var item: WireItem?
    var items: [WireItem]?
    var next: WireBytes?
    var events: [WireChange]?
    var anchor: WireBytes?
    var more: Bool?
    var moves: [WireMove]?
    var versions: [WireVersion]?
    /// Of a fetch that gave less than it was asked for: the file has no more.
    var atEnd: Bool?
    /// Bytes in all, and those that are left.
    var total: Int64?
    var available: Int64?
    /// What a person is to be told of an action.
    var message: String?
    /// Which files may have a picture; nil where that can't be told.
    var names: [WireBytes]?
    /// What an item is called for good, and where one of that identifier is.
    var identifier: WireBytes?
    var path: WireBytes?
}

/// One change at the source: one of these.
struct WireChange: Codable {
    var updated: WireItem?
    /// The directory of what was updated.
    var directory: WireBytes?
    var removed: WireBytes?
    var relist: WireBytes?

    init(_ change: RemoteChange) {
        switch change {
        case .updated(let item, let directory):
            updated = WireItem(item)
            self.directory = WireBytes(directory.bytes)
        case .removed(let path): removed = WireBytes(path.bytes)
        case .directoryChanged(let path): relist = WireBytes(path.bytes)
        }
    }

    func change() throws(JSONError) -> RemoteChange {
        if let updated { return .updated(try updated.item(), directory: try WirePath.path(directory ?? WireBytes([]))) }
        if let removed { return .removed(try WirePath.path(removed)) }
        if let relist { return .directoryChanged(try WirePath.path(relist)) }
        throw JSONError("a change is none of updated, removed and relist")
    }
}

/// A directory that is being moved.
struct WireMove: Codable {
    var from: WireBytes
    var to: WireBytes
}

/// An earlier content of a file.
struct WireVersion: Codable {
    var id: String
    var size: Int64
    /// When it was written, in nanoseconds since 1970 UTC.
    var modified: Int64
    var contentVersion: WireBytes?

    init(_ version: RemoteVersion) {
        id = version.id
        size = version.size
        modified = version.modificationTime.nanosecondsSinceEpoch
        contentVersion = version.contentVersion.map { WireBytes($0.bytes) }
    }

    func version() throws(JSONError) -> RemoteVersion {
        guard size >= 0, !id.isEmpty, id.utf8.count <= 500, id.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw JSONError("an earlier content needs an id of printable ASCII, and a size")
        }
        return RemoteVersion(
            id: id,
            size: size,
            modificationTime: Timestamp(modified),
            contentVersion: contentVersion.map { ContentVersion($0.bytes) }
        )
    }
}
