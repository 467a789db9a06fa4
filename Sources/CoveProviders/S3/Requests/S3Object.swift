internal import CoveCore

/// What the server says of one object.
struct S3Object: Sendable, Equatable {
    var key: [UInt8]
    var size: Int64
    var version: ContentVersion
    /// In whole seconds, as listings and answers to HEAD have it in common.
    var modified: Timestamp
    /// When the server said so, by its own clock.
    var asked: Timestamp?
    /// The headers that make up the object's metadata, by lower-case name; nil when only a listing is known.
    var headers: [String: String]?

    /// Headers that a server keeps with an object besides `x-amz-meta-*`.
    static let keptHeaders = [
        "content-type", "content-encoding", "content-language", "content-disposition", "cache-control", "expires",
    ]

    /// The header in which Cove marks what one upload or copy made.
    static let tokenHeader = "x-amz-meta-cove-token"
    /// The mark that new metadata has taken the place of.
    static let originHeader = "x-amz-meta-cove-origin"
    static let timeHeader = "x-amz-meta-mtime"
    static let modeHeader = "x-amz-meta-mode"
    /// Who wrote the bytes: the device's name, percent-encoded.
    static let editorHeader = "x-amz-meta-cove-editor"

    /// Reads the answer to a HEAD or GET of the whole object.
    init(key: [UInt8], head: HTTPHead) throws(ProviderError) {
        guard let size = head.contentRange?.size ?? head.contentLength else {
            throw .failed("the server does not tell the object's size", nil)
        }
        self.key = key
        self.size = size
        modified = head["last-modified"].flatMap { HTTPDate.parse($0) } ?? Timestamp(0)
        version = Self.version(head["etag"], size: size, modified)
        asked = head["date"].flatMap { HTTPDate.parse($0) }
        headers = Dictionary(
            head.headers.filter { Self.keptHeaders.contains($0.name) || $0.name.hasPrefix("x-amz-meta-") }
                .map { ($0.name, $0.value) },
            uniquingKeysWith: { first, _ in first }
        )
    }

    /// Reads a row of a listing; nil for one without a key or a size.
    init?(row: S3Document.Fields, key: [UInt8]) {
        guard let size = row["Size"].flatMap({ Self.number($0) }) else { return nil }
        self.key = key
        self.size = size
        let time = row["LastModified"].flatMap { HTTPDate.parseInternet($0) } ?? Timestamp(0)
        modified = Timestamp(seconds: time.seconds, nanoseconds: 0)
        version = Self.version(row["ETag"] ?? [], size: size, modified)
    }

    /// Reads a number as `Int64` does.
    private static func number(_ text: [UInt8]) -> Int64? {
        guard (1...18).contains(text.count), text.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return Int64(String(decoding: text, as: UTF8.self))
        }
        return text.reduce(0) { $0 * 10 + Int64($1 - 0x30) }
    }

    /// An ETag without its quotes, and the size, as a server may tell the one of what is there and the other of what was;
    /// where there is no ETag, what else tells versions apart.
    static func version(_ tag: String?, size: Int64, _ modified: Timestamp) -> ContentVersion {
        version(Array((tag ?? "").utf8), size: size, modified)
    }

    private static func version(_ raw: [UInt8], size: Int64, _ modified: Timestamp) -> ContentVersion {
        let isQuoted = raw.count >= 2 && raw.first == 0x22 && raw.last == 0x22
        let tag = isQuoted ? raw[1..<(raw.count - 1)] : raw[...]
        guard !tag.isEmpty else { return ContentVersion("~\(modified.seconds)-\(size)") }
        let size = Array(String(size).utf8)
        let name = tag.count <= 100 ? tag : Array("~\(Digest.hash(Array(tag), .sha256).hexadecimal)".utf8)[...]
        return ContentVersion(name + [0x20] + size)
    }

    /// An ETag without its quotes; empty where there is none.
    static func tag(_ raw: String?) -> String {
        let tag = Substring(raw ?? "")
        let isQuoted = tag.count >= 2 && tag.hasPrefix("\"") && tag.hasSuffix("\"")
        return String(isQuoted ? tag.dropFirst().dropLast() : tag)
    }

    /// The object's ETag without its quotes, or what stands for it.
    var tag: String { version.tag }

    /// What one upload or copy left with the object.
    var token: String? { headers?[Self.tokenHeader] }

    /// What the token of a copy onto itself, for new metadata, begins with.
    static let describing = "described-"

    /// What it was left with before it got new metadata, which makes no other object of it.
    var origin: String? {
        guard let token, token.hasPrefix(Self.describing) else { return token }
        return headers?[Self.originHeader]
    }

    /// True for an object that got new metadata since another look at the same version: nobody has made it anew.
    func isDescribed(since other: S3Object?) -> Bool {
        token?.hasPrefix(Self.describing) == true && token != other?.token
    }

    /// The item as the engine knows it.
    func item(at path: RemotePath) -> RemoteItem {
        RemoteItem(
            id: Self.id(path),
            name: path.name?.bytes ?? [],
            kind: .file,
            size: size,
            contentVersion: version,
            metadataVersion: MetadataVersion(String(modified.seconds)),
            metadata: ItemMetadata(
                modificationTime: headers?[Self.timeHeader].flatMap(Self.time) ?? modified,
                permissions: headers?[Self.modeHeader].flatMap { UInt32($0) }.map { UInt16($0 & 0o7777) }
            ),
            editor: editor
        )
    }

    /// Who wrote the bytes, where Cove did; nil when only a listing is known.
    var editor: String? {
        headers?[Self.editorHeader].flatMap { PercentEncoding.decode($0.utf8) }
            .map { String(decoding: $0, as: UTF8.self) }
    }

    /// A directory, of which a server keeps nothing but the name.
    static func directory(at path: RemotePath) -> RemoteItem {
        RemoteItem(
            id: id(path),
            name: path.name?.bytes ?? [],
            kind: .directory,
            size: 0,
            contentVersion: .directory,
            metadataVersion: MetadataVersion([]),
            metadata: ItemMetadata()
        )
    }

    /// Objects have no identity but their place.
    static func id(_ path: RemotePath) -> RemoteID {
        path.bytes.count <= 400 ? RemoteID(path.bytes) : RemoteID("/" + Digest.hash(path.bytes, .sha256).hexadecimal)
    }

    /// The headers of an object of its own, with the given metadata put over what was known of another one.
    static func headers(
        _ metadata: ItemMetadata,
        over known: [String: String]? = nil,
        token: String?
    ) -> [(name: String, value: String)] {
        var headers = known ?? ["content-type": "application/octet-stream"]
        if let former = headers[tokenHeader], !former.hasPrefix(describing) { headers[originHeader] = former }
        if token?.hasPrefix(describing) != true { headers[originHeader] = nil }
        headers[tokenHeader] = token
        if let time = metadata.modificationTime { headers[timeHeader] = text(time) }
        if let permissions = metadata.permissions {
            headers[modeHeader] = String(0o100000 | UInt32(permissions & 0o7777))
        }
        return headers.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// Seconds since 1970 with a fraction, as other programs write them.
    static func text(_ time: Timestamp) -> String {
        let magnitude = time.nanosecondsSinceEpoch.magnitude
        let fraction = String(magnitude % 1_000_000_000)
        let seconds = "\(time < .epoch ? "-" : "")\(magnitude / 1_000_000_000)"
        return magnitude % 1_000_000_000 == 0
            ? seconds : "\(seconds).\(String(repeating: "0", count: 9 - fraction.count))\(fraction)"
    }

    /// Reads what `text` and other programs write; nil for anything else.
    static func time(_ text: String) -> Timestamp? {
        let isNegative = text.hasPrefix("-")
        let parts = (isNegative ? text.dropFirst() : Substring(text)).split(
            separator: ".",
            omittingEmptySubsequences: false
        )
        guard (1...2).contains(parts.count), let seconds = UInt32(parts[0]) else { return nil }
        var nanoseconds: Int64 = 0
        if parts.count == 2 {
            let digits = parts[1].prefix(9)
            guard let value = UInt32(digits) else { return nil }
            nanoseconds = (digits.count..<9).reduce(Int64(value)) { value, _ in value * 10 }
        }
        let value = Int64(seconds) * 1_000_000_000 + nanoseconds
        return Timestamp(isNegative ? -value : value)
    }
}

extension ContentVersion {
    /// True for one that no condition can name, because the server gave no ETag, or a very long one.
    var isMadeUp: Bool { bytes.first == 0x7E }

    /// The ETag of a bucket's object without its quotes.
    var tag: String { String(decoding: bytes[..<(bytes.lastIndex(of: 0x20) ?? bytes.endIndex)], as: UTF8.self) }
}
