internal import Glibc

/// Identifies one item for the life of an account: never reused, and both the FUSE node id and `st_ino`.
public struct ItemID: RawRepresentable, Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The number shown as `st_ino`.
    public let rawValue: UInt64

    /// Wraps an inode number.
    @inlinable
    public init(rawValue: UInt64) { self.rawValue = rawValue }

    /// Wraps an inode number.
    @inlinable
    public init(_ rawValue: UInt64) { self.rawValue = rawValue }

    /// The account's root directory, FUSE_ROOT_ID.
    public static let root = ItemID(1)

    /// Orders by number, which is the order of creation.
    @inlinable
    public static func < (left: ItemID, right: ItemID) -> Bool { left.rawValue < right.rawValue }

    /// The number in decimal.
    public var description: String { String(rawValue) }
}

/// The lasting identity of a document: it stays with the entry over safe saves, moves and remote changes.
public struct DocumentID: Hashable, Sendable, CustomStringConvertible {
    /// The upper 64 of the 128 random bits.
    public let high: UInt64
    /// The lower 64 of the 128 random bits.
    public let low: UInt64

    /// Restores an id from its two halves.
    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Makes a new id from 128 random bits.
    public static func random() -> DocumentID {
        // One system call for both.
        var bits: (UInt64, UInt64) = (0, 0)
        guard getentropy(&bits, 16) == 0 else {
            var generator = SystemRandomNumberGenerator()
            return DocumentID(high: generator.next(), low: generator.next())
        }
        return DocumentID(high: bits.0, low: bits.1)
    }

    /// Makes a new id whose upper half is given: those with the same one are neighbours in an index.
    public static func random(high: UInt64) -> DocumentID {
        var low: UInt64 = 0
        guard getentropy(&low, 8) == 0 else { return DocumentID(high: high, low: .random(in: 0 ... .max)) }
        return DocumentID(high: high, low: low)
    }

    /// The id as 32 lower-case hexadecimal digits.
    public var description: String {
        func hex(_ value: UInt64) -> String {
            let digits = String(value, radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }
        return hex(high) + hex(low)
    }

    /// Parses 32 hexadecimal digits; nil for anything else.
    public init?(_ text: String) {
        guard text.utf8.count == 32, let high = UInt64(text.prefix(16), radix: 16),
            let low = UInt64(text.suffix(16), radix: 16)
        else { return nil }
        self.init(high: high, low: low)
    }
}

/// A provider's own name for a document, opaque here, at most 500 bytes.
public struct RemoteID: Hashable, Sendable {
    /// The provider's bytes.
    public let bytes: [UInt8]

    /// Wraps a provider's bytes.
    public init(_ bytes: [UInt8]) { self.bytes = bytes }
    /// Wraps the UTF-8 of a text.
    public init(_ text: String) { self.bytes = Array(text.utf8) }
}

/// Names one state of a document's bytes on the provider; equal tokens mean equal bytes.
public struct ContentVersion: Hashable, Sendable, CustomStringConvertible {
    /// That of every directory, and of no file.
    public static let directory = ContentVersion([UInt8]())

    /// The provider's bytes, at most 128.
    public let bytes: [UInt8]

    /// Wraps a provider's bytes.
    public init(_ bytes: [UInt8]) { self.bytes = bytes }
    /// Wraps the UTF-8 of a text.
    public init(_ text: String) { self.bytes = Array(text.utf8) }
    /// The token as text, for messages.
    public var description: String { String(decoding: bytes, as: UTF8.self) }

    /// True for a version itself, and where the other is this one without the size behind it, as catalogs had them once.
    public func isSame(as other: ContentVersion) -> Bool {
        if self == other { return true }
        guard !other.bytes.isEmpty, bytes.count > other.bytes.count + 1, bytes.starts(with: other.bytes) else {
            return false
        }
        let rest = bytes[other.bytes.count...]
        return rest.first == 0x20 && rest.dropFirst().allSatisfy { (0x30...0x39).contains($0) }
    }
}

/// Names one state of a document's metadata on the provider; stored and compared only.
public struct MetadataVersion: Hashable, Sendable {
    /// The provider's bytes, at most 128.
    public let bytes: [UInt8]

    /// Wraps a provider's bytes.
    public init(_ bytes: [UInt8]) { self.bytes = bytes }
    /// Wraps the UTF-8 of a text.
    public init(_ text: String) { self.bytes = Array(text.utf8) }
}
