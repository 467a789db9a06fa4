/// The hidden name that an item has at the provider while others trade places; a provider lists, finds and moves it as any other.
///
/// It tells since when the item is hidden and what it was called, so that every device can bring it back to light when the one
/// that hid it never comes back.
public struct PassingName: Sendable, Equatable {
    private static let prefix = Array(".cove-moving-".utf8)
    private static let documentLength = 32

    /// The name itself.
    public let name: FileName
    /// The document, as the device knows it that hid it; nil where the name does not tell.
    public let document: DocumentID?
    /// When the item was hidden; nil where the name does not tell.
    public let since: Timestamp?
    /// What the item was called before, perhaps shortened; nil where the name does not tell.
    public let original: FileName?

    /// The name for a document that is hidden now.
    public init(_ document: DocumentID, since: Timestamp, original: FileName) {
        let start = Self.prefix + Array("\(document)-\(String(max(0, since.seconds), radix: 16))-".utf8)
        var length = min(original.bytes.count, FileName.maximumLength - start.count)
        // No character is cut.
        while length > 0, length < original.bytes.count, original.bytes[length] & 0xC0 == 0x80 { length -= 1 }
        let kept = original.bytes.prefix(length)
        name = FileName(unchecked: start + kept)
        self.document = document
        self.since = since.wholeSecond
        self.original = FileName(validating: kept)
    }

    /// Reads a name; nil when it is none of these.
    public init?(_ name: FileName) {
        guard name.isPassing else { return nil }
        self.name = name
        let behind = name.bytes.dropFirst(Self.prefix.count)
        document = DocumentID(String(decoding: behind.prefix(Self.documentLength), as: UTF8.self))
        let rest = behind.dropFirst(Self.documentLength)
        let parts = rest.split(separator: 0x2D, maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0].isEmpty, parts[1].count <= 12,
            let seconds = Int64(String(decoding: parts[1], as: UTF8.self), radix: 16), seconds >= 0
        else {
            (since, original) = (nil, nil)
            return
        }
        since = Timestamp(seconds: seconds, nanoseconds: 0)
        original = FileName(validating: parts[2]).flatMap { $0.isReserved ? nil : $0 }
    }

    fileprivate static func isPrefix(of bytes: [UInt8]) -> Bool { bytes.starts(with: prefix) }
}

extension FileName {
    /// True for the hidden names that `PassingName` makes.
    public var isPassing: Bool { PassingName.isPrefix(of: bytes) }
}
