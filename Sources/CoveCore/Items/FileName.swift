/// One component of a path: 1 to 255 bytes, in no particular encoding, never `.`, `..`, and free of `/` and NUL.
public struct FileName: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The longest name in bytes, NAME_MAX.
    public static let maximumLength = 255

    /// The name's bytes.
    public let bytes: [UInt8]

    /// Accepts a name a directory may hold; nil for an empty, reserved, too long or otherwise impossible one.
    public init?(validating bytes: some Collection<UInt8>) {
        guard Self.problem(with: bytes) == nil else { return nil }
        self.bytes = Array(bytes)
    }

    /// Accepts a text as a name; nil where `init(validating:)` would be.
    public init?(_ text: String) { self.init(validating: Array(text.utf8)) }

    /// Takes bytes that the kernel or the catalog has already checked.
    public init(unchecked bytes: [UInt8]) { self.bytes = bytes }

    /// Says in a few words what makes the bytes impossible as a name, or nil.
    public static func problem(with bytes: some Collection<UInt8>) -> String? {
        // Every new name passes here: an array's bytes are looked at where they lie.
        bytes.withContiguousStorageIfAvailable { problem(in: $0) }
            ?? Array(bytes).withUnsafeBufferPointer { problem(in: $0) }
    }

    private static func problem(in bytes: UnsafeBufferPointer<UInt8>) -> String? {
        if bytes.isEmpty { return "an empty name" }
        if bytes.count > maximumLength { return "a name over 255 bytes" }
        if bytes.contains(0x2F) { return "a name with a slash" }
        if bytes.contains(0) { return "a name with a NUL byte" }
        if bytes.count <= 2, bytes.allSatisfy({ $0 == 0x2E }) { return "the name \"\(bytes.count == 1 ? "." : "..")\"" }
        return nil
    }

    /// Names Cove keeps for itself in every directory: `.cove` and all that starts with `.cove-`.
    public var isReserved: Bool {
        let prefix: [UInt8] = [0x2E, 0x63, 0x6F, 0x76, 0x65]
        guard bytes.starts(with: prefix) else { return false }
        return bytes.count == prefix.count || bytes[prefix.count] == 0x2D
    }

    /// True for a name that programs leave out of listings: it begins with a dot.
    public var isHidden: Bool { bytes.first == 0x2E }

    /// Hashes all bytes at once.
    public func hash(into hasher: inout Hasher) { bytes.withUnsafeBytes { hasher.combine(bytes: $0) } }

    /// Orders by bytes.
    public static func < (left: FileName, right: FileName) -> Bool {
        left.bytes.lexicographicallyPrecedes(right.bytes)
    }

    /// The name for messages; bytes that are not UTF-8 are shown as replacement characters.
    public var description: String { String(decoding: bytes, as: UTF8.self) }

    /// The part before the last dot and the part from it on; a leading dot starts no extension.
    public var stemAndExtension: (stem: [UInt8], extension: [UInt8]) {
        guard let dot = bytes.lastIndex(of: 0x2E), dot > 0 else { return (bytes, []) }
        return (Array(bytes[..<dot]), Array(bytes[dot...]))
    }

    /// The names to try in turn for an item that comes back to where it was: its own, then ones beside it.
    public var recoveryNames: [FileName] {
        [self, inserting(" (recovered)")] + (2..<100).map { inserting(" (recovered \($0))") }
    }

    /// The name with a text put before its extension, shortened so that it stays within 255 bytes.
    public func inserting(_ text: String) -> FileName {
        let (stem, suffix) = stemAndExtension
        let middle = Array(text.utf8)
        guard middle.count + suffix.count < Self.maximumLength else {
            return FileName(unchecked: Array((stem + middle).suffix(Self.maximumLength)))
        }
        var length = min(stem.count, Self.maximumLength - middle.count - suffix.count)
        // No character is cut: what follows the last byte kept must not continue one.
        while length > 0, length < stem.count, stem[length] & 0xC0 == 0x80 { length -= 1 }
        let kept = Array(stem[..<length])
        return FileName(unchecked: kept + middle + suffix)
    }
}

/// A path relative to an account's root: names joined by `/`, empty for the root itself.
public struct RemotePath: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The joined bytes, with no slash at either end.
    public let bytes: [UInt8]

    /// The account's root.
    public static let root = RemotePath(unchecked: [])

    /// Takes bytes already known to be joined names.
    public init(unchecked bytes: [UInt8]) { self.bytes = bytes }

    /// Joins names.
    public init(_ names: [FileName]) {
        var joined: [UInt8] = []
        for name in names {
            if !joined.isEmpty { joined.append(0x2F) }
            joined.append(contentsOf: name.bytes)
        }
        bytes = joined
    }

    /// True for the account's root.
    public var isRoot: Bool { bytes.isEmpty }

    /// The path of a name inside this directory.
    public func appending(_ name: FileName) -> RemotePath {
        bytes.isEmpty ? RemotePath(unchecked: name.bytes) : RemotePath(unchecked: bytes + [0x2F] + name.bytes)
    }

    /// The names along the path.
    public var names: [FileName] { bytes.split(separator: 0x2F).map { FileName(unchecked: Array($0)) } }

    /// The last name, nil for the root.
    public var name: FileName? {
        guard !bytes.isEmpty else { return nil }
        let start = bytes.lastIndex(of: 0x2F).map { $0 + 1 } ?? 0
        return FileName(unchecked: Array(bytes[start...]))
    }

    /// The directory that holds the path; the root is its own parent.
    public var parent: RemotePath {
        guard let slash = bytes.lastIndex(of: 0x2F) else { return .root }
        return RemotePath(unchecked: Array(bytes[..<slash]))
    }

    /// True when the path is the directory itself or lies below it.
    public func isInside(_ directory: RemotePath) -> Bool {
        if directory.isRoot { return true }
        guard bytes.starts(with: directory.bytes) else { return false }
        return bytes.count == directory.bytes.count || bytes[directory.bytes.count] == 0x2F
    }

    /// Orders by bytes: a directory comes before what it holds.
    public static func < (left: RemotePath, right: RemotePath) -> Bool {
        left.bytes.lexicographicallyPrecedes(right.bytes)
    }

    /// The path for messages, `/` for the root.
    public var description: String { isRoot ? "/" : String(decoding: bytes, as: UTF8.self) }
}
