internal import CoveCore

/// Bytes in a header: a string, or `{"base64": …}` for what is not UTF-8.
struct WireBytes: Codable, Equatable {
    var bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    private enum CodingKeys: String, CodingKey { case base64 }

    init(from decoder: any Decoder) throws {
        if let text = try? decoder.singleValueContainer().decode(String.self) {
            bytes = Array(text.utf8)
            return
        }
        let container = try decoder.container(keyedBy: CodingKeys.self)
        let text = try container.decode(String.self, forKey: .base64)
        guard let bytes = [UInt8](base64: text) else {
            throw DecodingError.dataCorruptedError(forKey: .base64, in: container, debugDescription: "is no base64")
        }
        self.bytes = bytes
    }

    func encode(to encoder: any Encoder) throws {
        if let text = String(validating: bytes, as: UTF8.self) {
            var container = encoder.singleValueContainer()
            try container.encode(text)
        } else {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(bytes.base64, forKey: .base64)
        }
    }
}

/// How a call names an item that is there: by where it was last known to be, and by id where there is one.
struct WireReference: Codable, Equatable {
    var id: WireBytes?
    var path: WireBytes
    /// True for what is known to be no directory.
    var isFile: Bool?

    init(_ reference: RemoteReference) {
        id = reference.id.map { WireBytes($0.bytes) }
        path = WireBytes(reference.path.bytes)
        isFile = reference.isFile ? true : nil
    }

    /// Throws for a path that leads out of the root.
    func reference() throws(JSONError) -> RemoteReference {
        var reference = RemoteReference(id: id.map { RemoteID($0.bytes) }, path: try WirePath.path(path))
        reference.isFile = isFile ?? false
        return reference
    }
}

/// Names and paths as they come in: joined names, none of them empty, `.` or `..`.
enum WirePath {
    static func path(_ bytes: WireBytes) throws(JSONError) -> RemotePath {
        var names: [FileName] = []
        for part in bytes.bytes.split(separator: 0x2F, omittingEmptySubsequences: false) where !bytes.bytes.isEmpty {
            names.append(try name(WireBytes(Array(part))))
        }
        return RemotePath(names)
    }

    static func name(_ bytes: WireBytes) throws(JSONError) -> FileName {
        guard let name = FileName(validating: bytes.bytes) else { throw JSONError("a name that can't be one") }
        return name
    }
}

/// Dates, permissions and the like; what is missing is not known, or not to be changed.
struct WireMetadata: Codable, Equatable {
    /// Last change of the bytes, in nanoseconds since 1970 UTC.
    var modified: Int64?
    /// The lower twelve bits of `st_mode`.
    var permissions: UInt16?
    var user: UInt32?
    var group: UInt32?
    /// All `user.*` attributes.
    var attributes: [WireAttribute]?

    init(_ metadata: ItemMetadata) {
        modified = metadata.modificationTime?.nanosecondsSinceEpoch
        permissions = metadata.permissions
        user = metadata.user
        group = metadata.group
        attributes = metadata.extendedAttributes.map { all in
            all.map { WireAttribute(name: WireBytes($0.key), value: WireBytes($0.value)) }
        }
    }

    var metadata: ItemMetadata {
        ItemMetadata(
            modificationTime: modified.map { Timestamp($0) },
            permissions: permissions.map { $0 & 0o7777 },
            user: user,
            group: group,
            extendedAttributes: attributes.map { all in
                Dictionary(all.map { ($0.name.bytes, $0.value.bytes) }) { first, _ in first }
            }
        )
    }
}

/// One extended attribute.
struct WireAttribute: Codable, Equatable {
    var name: WireBytes
    var value: WireBytes
}

/// What an item is.
enum WireKind: String, Codable {
    case file, directory
    case link

    /// Nil for what no provider can hold.
    init?(_ kind: ItemKind) {
        switch kind {
        case .file: self = .file
        case .directory: self = .directory
        case .symbolicLink: self = .link
        case .fifo, .socket, .characterDevice, .blockDevice: return nil
        }
    }

    var kind: ItemKind {
        switch self {
        case .file: .file
        case .directory: .directory
        case .link: .symbolicLink
        }
    }
}

/// An item as a provider tells of it.
struct WireItem: Codable, Equatable {
    var id: WireBytes
    var name: WireBytes
    var kind: WireKind
    /// Bytes of a file.
    var size: Int64?
    /// Of a file: changes whenever the bytes do.
    var contentVersion: WireBytes?
    /// Changes whenever anything else does.
    var metadataVersion: WireBytes?
    var metadata: WireMetadata?
    /// Where a symbolic link points.
    var target: WireBytes?
    /// Marks for file managers.
    var decorations: [WireDecoration]?
    /// With whom it is shared.
    var sharing: ItemSharing?
    /// Who changed it last.
    var editor: String?
    /// When it was made, in nanoseconds since 1970 UTC.
    var created: Int64?

    init?(_ item: RemoteItem) {
        guard let kind = WireKind(item.kind) else { return nil }
        id = WireBytes(item.id.bytes)
        name = WireBytes(item.name)
        self.kind = kind
        size = item.size == 0 ? nil : item.size
        contentVersion = item.contentVersion == .directory ? nil : WireBytes(item.contentVersion.bytes)
        metadataVersion = item.metadataVersion.bytes.isEmpty ? nil : WireBytes(item.metadataVersion.bytes)
        metadata = item.metadata == ItemMetadata() ? nil : WireMetadata(item.metadata)
        target = item.linkTarget.map { WireBytes($0) }
        decorations = item.decorations.flatMap { try? JSONValue(parsing: $0).decode() }
        sharing = item.sharing
        editor = item.editor
        created = item.created?.nanosecondsSinceEpoch
    }

    /// Throws for what breaks the rules of the protocol; the engine checks the rest.
    func item() throws(JSONError) -> RemoteItem {
        let version = contentVersion?.bytes ?? []
        if kind == .directory, !version.isEmpty { throw JSONError("a directory has no content version") }
        if kind == .file, version.isEmpty { throw JSONError("a file needs a content version") }
        if version.count > 128 || (metadataVersion?.bytes.count ?? 0) > 128 {
            throw JSONError("a version is longer than 128 bytes")
        }
        if id.bytes.isEmpty || id.bytes.count > 500 { throw JSONError("an id has 1 to 500 bytes") }
        if (size ?? 0) < 0 { throw JSONError("a size is negative") }
        if (decorations?.count ?? 0) > WireDecoration.most { throw JSONError("an item has too many decorations") }
        return RemoteItem(
            id: RemoteID(id.bytes),
            name: name.bytes,
            kind: kind.kind,
            size: kind == .directory ? 0 : size ?? 0,
            contentVersion: ContentVersion(version),
            metadataVersion: MetadataVersion(metadataVersion?.bytes ?? []),
            metadata: metadata?.metadata ?? ItemMetadata(),
            linkTarget: target?.bytes,
            decorations: try decorations.flatMap { list throws(JSONError) in
                list.isEmpty ? nil : try JSONValue(encoding: list.map(\.shown)).bytes
            },
            sharing: sharing,
            editor: editor,
            created: created.map { Timestamp($0) }
        )
    }
}

/// A mark that a file manager may show of an item.
struct WireDecoration: Codable, Equatable {
    /// More of one item nobody could tell apart.
    static let most = 10

    var id: String
    /// An icon's name, as the freedesktop icon naming specification has them.
    var badge: String?
    /// What it says, in a few words.
    var label: String?
    var category: String?

    /// As it is kept: of a size that can be shown.
    var shown: WireDecoration {
        WireDecoration(
            id: id.shown(100),
            badge: badge?.shown(100),
            label: label?.shown(100),
            category: category?.shown(100)
        )
    }
}
