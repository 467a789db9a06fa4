internal import CoveCore

/// How many of an item's bytes, or of a directory's names, are here.
enum Residency: Int64 {
    /// All bytes are here; a directory is listed.
    case whole = 0
    /// No bytes are here; a directory was never listed.
    case dataless = 1
    /// Some bytes are here.
    case partial = 2
}

/// One row of `items`.
struct ItemRow {
    var id: ItemID
    var kind: ItemKind
    var permissions: UInt16
    var user: UInt32
    var group: UInt32
    var device: UInt64 = 0
    var linkCount: Int64 = 1
    var size: Int64 = 0
    var accessTime: Timestamp
    var modificationTime: Timestamp
    var changeTime: Timestamp
    var birthTime: Timestamp
    var residency: Residency = .whole
    var generation: Int64 = 1
    var version: ContentVersion?
    var resident: Int64 = 0
    var isSynced = false
    var used: Int64 = 0
    var target: [UInt8]?
    var home: Place?

    /// Reads the columns from `first` on, in the order that `Database.item` asks for them.
    init(_ row: Row, from first: Int32 = 0) {
        id = row.item(first)
        kind = ItemKind(rawValue: UInt8(truncatingIfNeeded: row.int(first + 1))) ?? .file
        permissions = UInt16(truncatingIfNeeded: row.int(first + 2))
        user = UInt32(truncatingIfNeeded: row.int(first + 3))
        group = UInt32(truncatingIfNeeded: row.int(first + 4))
        device = UInt64(bitPattern: row.int(first + 5))
        linkCount = row.count(first + 6)
        size = row.count(first + 7)
        accessTime = row.time(first + 8)
        modificationTime = row.time(first + 9)
        changeTime = row.time(first + 10)
        residency = Residency(rawValue: row.int(first + 11)) ?? .whole
        generation = row.count(first + 12)
        version = row.optionalBlob(first + 13).map { ContentVersion($0) }
        resident = row.count(first + 14)
        isSynced = row.int(first + 15) != 0
        used = row.int(first + 16)
        target = row.optionalBlob(first + 17)
        home = row.optionalBlob(first + 18).flatMap { Place(bytes: $0) }
        birthTime = row.int(first + 19) == 0 ? modificationTime : row.time(first + 19)
    }

    /// A new item made by a local program.
    init(kind: ItemKind, permissions: UInt16, user: UInt32, group: UInt32, now: Timestamp) {
        id = ItemID(0)
        self.kind = kind
        self.permissions = permissions
        self.user = user
        self.group = group
        accessTime = now
        modificationTime = now
        changeTime = now
        birthTime = now
    }

    /// What stat(2) says of the row.
    var attributes: ItemAttributes {
        ItemAttributes(
            id: id,
            kind: kind,
            permissions: permissions,
            user: user,
            group: group,
            size: size,
            linkCount: UInt32(clamping: linkCount),
            device: device,
            blocks: ItemRow.blocks(kind: kind, size: size, resident: resident),
            accessTime: accessTime,
            modificationTime: modificationTime,
            changeTime: changeTime,
            birthTime: birthTime
        )
    }

    /// `st_blocks`: never 0 for a file with bytes, or sparse-aware copiers would take it for a hole.
    static func blocks(kind: ItemKind, size: Int64, resident: Int64) -> Int64 {
        guard kind == .file, size > 0 else { return 0 }
        return max(1, (resident + 511) / 512)
    }
}

/// One row of `entries`: a document, and what the provider has acknowledged of it.
struct EntryRow {
    /// Bits of `flags`.
    struct Flags: OptionSet {
        let rawValue: Int64
        /// Never uploaded: a scratch name, or a kind no provider holds.
        static let localOnly = Flags(rawValue: 1)
        /// Kept on this disk, a directory with all that is in it.
        static let pinned = Flags(rawValue: 2)
        /// Permissions, dates or attributes differ from what the provider has.
        static let metadataChanged = Flags(rawValue: 4)
        /// Fetched again when it has changed at the provider, if it was here.
        static let refreshed = Flags(rawValue: 8)
        /// Let go when it has changed at the provider, whatever is said above it.
        static let evicted = Flags(rawValue: 16)
        /// Its new bytes are to come by themselves, as those before were here.
        static let wanted = Flags(rawValue: 32)
        /// Written under a claim of the source's own purpose: the provider may have it already, and is looked at first.
        static let fromSource = Flags(rawValue: 64)
    }

    var id: Int64
    var parent: ItemID
    var name: [UInt8]
    var item: ItemID
    var document: DocumentID
    var flags: Flags
    var remoteID: RemoteID?
    var remoteParent: ItemID?
    var remoteName: [UInt8]?
    var remoteVersion: ContentVersion?
    var remoteMetadata: MetadataVersion?
    var remoteItem: ItemID?
    var remoteGeneration: Int64?

    init(_ row: Row) {
        id = row.int(0)
        parent = row.item(1)
        name = row.blob(2)
        item = row.item(3)
        document = row.document(4)
        flags = Flags(rawValue: row.int(5))
        remoteID = row.optionalBlob(6).map { RemoteID($0) }
        remoteParent = row.optionalInt(7).map { ItemID(UInt64(bitPattern: $0)) }
        remoteName = row.optionalBlob(8)
        remoteVersion = row.optionalBlob(9).map { ContentVersion($0) }
        remoteMetadata = row.optionalBlob(10).map { MetadataVersion($0) }
        remoteItem = row.optionalInt(11).map { ItemID(UInt64(bitPattern: $0)) }
        remoteGeneration = row.optionalInt(12)
    }

    /// A new entry made by a local program.
    init(parent: ItemID, name: [UInt8], item: ItemID, document: DocumentID = .random(), flags: Flags = []) {
        id = 0
        self.parent = parent
        self.name = name
        self.item = item
        self.document = document
        self.flags = flags
    }

    /// True once the provider has acknowledged the document.
    var isUploaded: Bool { remoteID != nil }

    /// True while the provider knows it under another name or directory.
    var isMoved: Bool { remoteParent != nil }

    /// True while it has a hidden name at the provider, which this device gave it.
    var isHiddenThere: Bool { isUploaded && remoteName.map { FileName(unchecked: $0).isPassing } == true }

    /// Where it is here.
    var place: Place { Place(parent, name) }

    /// Where the provider has it, or is to have it.
    var remotePlace: Place { Place(remoteParent ?? parent, remoteName ?? name) }

    /// True while the provider does not have the bytes of the item's generation.
    func hasUnsentContent(generation: Int64) -> Bool { remoteItem != item || remoteGeneration != generation }

    /// True where permissions, dates or attributes were changed here, and no bytes.
    func hasUnsentMetadataOnly(generation: Int64) -> Bool {
        flags.contains(.metadataChanged) && !hasUnsentContent(generation: generation)
    }

    /// True while its item only keeps its place until the provider's bytes are known, as a recovery leaves it.
    func isStandIn(_ row: ItemRow) -> Bool {
        row.kind == .file && row.residency == .dataless && remoteItem == row.id && remoteVersion == ContentVersion([])
    }
}

/// A name in a directory.
struct Place: Hashable {
    var parent: ItemID
    var name: [UInt8]

    init(_ parent: ItemID, _ name: [UInt8]) {
        self.parent = parent
        self.name = name
    }

    init?(bytes: [UInt8]) {
        guard bytes.count > 8 else { return nil }
        parent = ItemID(bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) })
        name = Array(bytes.dropFirst(8))
    }

    var bytes: [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: parent.rawValue >> UInt64(56 - 8 * $0)) } + name
    }
}
