internal import CoveCore

/// What a server tells of one resource, in an answer to PROPFIND.
struct DAVResource: Sendable {
    /// As it was sent.
    var href: [UInt8] = []
    /// The status of the resource itself; nil where it only has properties.
    var status: Int?
    /// The server tells some of its properties.
    var isDescribed = false
    /// The status of the properties that an item is made of, where the server does not tell one of them; a passing one comes
    /// before others, and those before one that says that there is no such property.
    var problem: Int?
    /// The server does not tell whether it is a collection, though there is an answer to that.
    var lacksType = false
    var isCollection = false
    var size: Int64?
    var tag: String?
    var modified: Timestamp?
    /// An id that survives renames, as ownCloud and Nextcloud give.
    var fileID: String?
    /// The id by which a server lists what else it keeps of a file.
    var numericID: String?
    /// When it was made, as Nextcloud tells.
    var created: Timestamp?
    /// The server has a picture of it, as Nextcloud says.
    var hasPreview: Bool?
    /// Hashes of the bytes, as ownCloud and Nextcloud write them.
    var checksums: String?
    /// Letters for what the user may do, as ownCloud and Nextcloud write them.
    var permissions: String?
    /// Whose it is, as people know that.
    var owner: String?
    /// The user has given it to somebody.
    var isGiven: Bool?
    var availableBytes: Int64?
    var usedBytes: Int64?

    /// With whom it is shared; nil for what is the user's alone, or where the server does not tell.
    var sharing: ItemSharing? {
        guard let permissions else { return nil }
        let isTaken = permissions.contains("S")
        guard isTaken || isGiven == true else { return nil }
        let mayWrite = isCollection ? permissions.contains("C") || permissions.contains("K") : permissions.contains("W")
        return ItemSharing(
            role: isTaken ? .participant : .owner,
            permissions: mayWrite ? .readWrite : .readOnly,
            owner: isTaken ? owner : nil
        )
    }

    /// Why the server tells too little of it to be known; nil for what it describes.
    ///
    /// Only what it says is not there is not: what is locked, or what it can't read now, is there as before.
    func refusal(_ what: String) -> ProviderError? {
        if let status, status >= 300 { return .told(status, of: what) }
        guard let problem, isPlaceholder || lacksType, ![404, 410].contains(problem) else { return nil }
        return .told(problem, of: what)
    }

    /// Some servers tell of a locked name that has nothing yet.
    var isPlaceholder: Bool { !isCollection && tag == nil && modified == nil && size == nil }

    /// Names the bytes: the entity tag and the size, or where there is no tag, date and size.
    ///
    /// A server may tell the tag of what is there and the size of what was, in one answer.
    var contentVersion: ContentVersion {
        if isCollection { return .directory }
        return Self.version(tag: tag, modified: modified, size: size ?? 0)
    }

    /// The version that an answer tells of.
    static func version(tag: String?, modified: Timestamp?, size: Int64) -> ContentVersion {
        guard let name = tag.flatMap({ name(tag: $0) }) else {
            return ContentVersion("t\(modified?.seconds ?? 0)-\(size)")
        }
        return ContentVersion("\(name) \(size)")
    }

    /// True when an answer's headers tell of a version; without a size they may tell its tag alone.
    static func isVersion(_ version: ContentVersion, tag: String?, modified: Timestamp?, size: Int64?) -> Bool {
        // A server may tell a tag here and none in its listings.
        if version.bytes.first == 0x74 {
            return version == Self.version(tag: nil, modified: modified, size: size ?? -1)
        }
        guard let name = tag.flatMap({ name(tag: $0) }) else { return false }
        if let size { return ContentVersion("\(name) \(size)").isSame(as: version) }
        return version.isSame(as: ContentVersion(name))
    }

    private static func name(tag: String) -> String? {
        guard let plain = EntityTag(tag) else { return nil }
        // What is too long to be kept, or can't be sent: its hash names it as well, and no condition can be made of it.
        let strong = plain.quoted
        let isPlain = strong.utf8.dropFirst().dropLast().allSatisfy { $0 > 0x20 && $0 != 0x22 && $0 != 0x7F }
        return strong.utf8.count < 100 && isPlain
            ? "e" + strong : "h" + Digest.hash(Array(strong.utf8), .sha256).hexadecimal
    }

    /// True for versions of one entity tag, whatever their sizes are.
    static func isSameTag(_ one: ContentVersion, _ other: ContentVersion) -> Bool {
        if one == other { return true }
        let names = [one, other].map { $0.bytes.prefix { $0 != 0x20 } }
        // Those that are dates and sizes have no tag.
        return names[0] == names[1] && (names[0].first == 0x65 || names[0].first == 0x68)
    }

    /// The entity tag that a version was made of; nil where there was none.
    static func tag(of version: ContentVersion) -> EntityTag? {
        guard version.bytes.first == 0x65, let end = version.bytes.lastIndex(of: 0x22) else { return nil }
        return EntityTag(String(decoding: version.bytes[1...end], as: UTF8.self))
    }
}

/// Reads a multistatus answer (RFC 4918, 13) and hands out each resource as soon as it is complete.
final class MultistatusReader: XMLHandler {
    /// What is asked for.
    static let request = itemRequest("")
    /// The same with checksums, for which some servers read the whole file.
    static let checksumRequest = itemRequest(checksums)
    /// The same with whom it is shared, and when it was made, as Nextcloud tells.
    static let sharingRequest = itemRequest(sharing)
    /// The same with both.
    static let fullRequest = itemRequest(checksums + sharing)

    private static let checksums = "<oc:checksums/>"
    private static let sharing = "<oc:permissions/><oc:owner-display-name/><oc:share-types/><nc:creation_time/>"

    private static func itemRequest(_ more: String) -> [UInt8] {
        Array(
            """
            <?xml version="1.0" encoding="utf-8"?>
            <d:propfind xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns" xmlns:nc="http://nextcloud.org/ns"><d:prop>\
            <d:resourcetype/><d:getcontentlength/>\
            <d:getetag/><d:getlastmodified/><oc:id/><oc:fileid/>\(more)</d:prop></d:propfind>
            """.utf8
        )
    }

    /// Asks which files have pictures.
    static let previewRequest = Array(
        """
        <?xml version="1.0" encoding="utf-8"?>
        <d:propfind xmlns:d="DAV:" xmlns:nc="http://nextcloud.org/ns"><d:prop><d:resourcetype/><nc:has-preview/></d:prop></d:propfind>
        """.utf8
    )
    static let quotaRequest = Array(
        """
        <?xml version="1.0" encoding="utf-8"?>
        <d:propfind xmlns:d="DAV:"><d:prop><d:quota-available-bytes/><d:quota-used-bytes/></d:prop></d:propfind>
        """.utf8
    )

    private let take: (DAVResource) throws(ProviderError) -> Void
    private(set) var completed = 0
    private var path: [String] = []
    private var resource = DAVResource()
    /// The properties of one `propstat`, which count if its status is a success.
    private var properties = DAVResource()
    private var propertyStatus = 0
    /// Which properties of an item the `propstat` is about.
    private var essentials: Set<String> = []
    private static let essential: Set<String> = [
        "DAV: resourcetype", "DAV: getetag", "DAV: getcontentlength", "DAV: getlastmodified",
    ]

    init(_ take: @escaping (DAVResource) throws(ProviderError) -> Void) { self.take = take }

    func begin(_ name: String) throws(ProviderError) {
        if path.isEmpty, name != "DAV: multistatus" {
            throw .failed("the server answers with something that is not WebDAV", nil)
        }
        path.append(name)
        switch name {
        case "DAV: response": resource = DAVResource()
        case "DAV: propstat": (properties, propertyStatus, essentials) = (DAVResource(), 0, [])
        case "DAV: collection" where path.dropLast().last == "DAV: resourcetype": properties.isCollection = true
        default: break
        }
    }

    func end(_ name: String, text: [UInt8]) throws(ProviderError) {
        path.removeLast()
        switch (name, path.last) {
        case ("DAV: response", "DAV: multistatus"):
            guard !resource.href.isEmpty else { throw .failed("the server lists something without an address", nil) }
            completed += 1
            try take(resource)
        case ("DAV: href", "DAV: response"): resource.href = Self.trimmed(text)
        case ("DAV: status", "DAV: response"): resource.status = Self.status(text)
        case ("DAV: status", "DAV: propstat"): propertyStatus = Self.status(text)
        case ("DAV: propstat", "DAV: response"):
            if (200..<300).contains(propertyStatus) { merge() } else { notePropertyProblem() }
        case ("http://owncloud.org/ns checksum", "http://owncloud.org/ns checksums"):
            let more = String(decoding: Self.trimmed(text), as: UTF8.self)
            properties.checksums = properties.checksums.map { "\($0) \(more)" } ?? more
        case ("http://owncloud.org/ns share-type", "http://owncloud.org/ns share-types"): properties.isGiven = true
        case (_, "DAV: prop"): set(name, String(decoding: Self.trimmed(text), as: UTF8.self))
        default: break
        }
    }

    private func set(_ name: String, _ text: String) {
        if Self.essential.contains(name) { essentials.insert(name) }
        switch name {
        case "DAV: getcontentlength": properties.size = Int64(text)
        case "DAV: getetag": properties.tag = text
        case "DAV: getlastmodified": properties.modified = HTTPDate.parse(text)
        case "http://owncloud.org/ns id": properties.fileID = text.isEmpty ? nil : text
        case "http://owncloud.org/ns fileid": properties.numericID = text.isEmpty ? nil : text
        case "http://owncloud.org/ns permissions": properties.permissions = text
        case "http://owncloud.org/ns owner-display-name": properties.owner = text.isEmpty ? nil : text
        case "http://nextcloud.org/ns creation_time":
            // It has 0 for what it does not know.
            properties.created = Int64(text).flatMap { $0 > 0 ? Timestamp(seconds: $0, nanoseconds: 0) : nil }
        case "http://nextcloud.org/ns has-preview": properties.hasPreview = text == "true"
        case "DAV: quota-available-bytes": properties.availableBytes = Int64(text)
        case "DAV: quota-used-bytes": properties.usedBytes = Int64(text)
        default: break
        }
    }

    private func notePropertyProblem() {
        guard propertyStatus >= 300, !essentials.isEmpty else { return }
        func rank(_ status: Int) -> Int { ProviderError.isPassing(status) ? 2 : [404, 410].contains(status) ? 0 : 1 }
        if resource.problem.map({ rank($0) < rank(propertyStatus) }) ?? true { resource.problem = propertyStatus }
        if essentials.contains("DAV: resourcetype"), rank(propertyStatus) > 0 { resource.lacksType = true }
    }

    private func merge() {
        resource.isDescribed = true
        resource.isCollection = resource.isCollection || properties.isCollection
        resource.size = properties.size ?? resource.size
        resource.tag = properties.tag ?? resource.tag
        resource.modified = properties.modified ?? resource.modified
        resource.fileID = properties.fileID ?? resource.fileID
        resource.numericID = properties.numericID ?? resource.numericID
        resource.created = properties.created ?? resource.created
        resource.hasPreview = properties.hasPreview ?? resource.hasPreview
        resource.checksums = properties.checksums ?? resource.checksums
        resource.permissions = properties.permissions ?? resource.permissions
        resource.owner = properties.owner ?? resource.owner
        resource.isGiven = properties.isGiven ?? resource.isGiven
        resource.availableBytes = properties.availableBytes ?? resource.availableBytes
        resource.usedBytes = properties.usedBytes ?? resource.usedBytes
    }

    private static func status(_ text: [UInt8]) -> Int {
        String(decoding: text, as: UTF8.self).split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
    }

    private static func trimmed(_ text: [UInt8]) -> [UInt8] {
        let isSpace = { (byte: UInt8) in byte == 0x20 || byte == 0x09 || byte == 0x0A || byte == 0x0D }
        guard let first = text.firstIndex(where: { !isSpace($0) }), let last = text.lastIndex(where: { !isSpace($0) })
        else { return [] }
        return Array(text[first...last])
    }
}
