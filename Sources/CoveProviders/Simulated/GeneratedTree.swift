public import CoveCore

/// A tree of any number of items that exists nowhere: names, dates and bytes are computed from an item's number.
///
/// For tests and measurements. The root is number 0, and the items below number k are those from `k * fanout + 1` on, as
/// many as the fanout says; an item with none below it is a file. Nothing in it ever changes.
public final class GeneratedTree: Provider {
    private static let pageSize: Int64 = 1000
    /// The 1st of January 2025.
    private static let epoch: Int64 = 1_735_689_600

    private let items: Int64
    private let fanout: Int64
    private let silence = ChangeSignal()

    /// Makes a tree of so many items, with so many in each directory but the last.
    public init(items: Int64 = 1_000_000, fanout: Int64 = 1000) {
        self.items = min(max(0, items), 1 << 40)
        self.fanout = min(max(1, fanout), 1 << 20)
    }

    /// Only to be read.
    public var capabilities: ProviderCapabilities {
        var capabilities = ProviderCapabilities()
        capabilities.stableIDs = true
        capabilities.readOnly = true
        return capabilities
    }

    /// Is always there.
    public func start() async throws(ProviderError) {}

    /// Has no source that could be exchanged.
    public func sourceIdentity() async -> [UInt8]? { nil }

    /// Ends the silent signal.
    public func stop() async { silence.finish() }

    /// Lists a thousand items at a time.
    public func list(_ directory: RemoteReference, page: Page?) async throws(ProviderError) -> Listing {
        let below = children(of: try number(of: directory))
        let start = page.map { GeneratedTree.decode($0.bytes) } ?? below.lowerBound
        let end = min(start + GeneratedTree.pageSize, below.upperBound)
        guard below.lowerBound <= start, start <= end else { throw .pageExpired }
        return Listing(items: (start..<end).map(item), next: end < below.upperBound ? Page(encode(end)) : nil)
    }

    /// Reads an item's number from its name.
    public func lookup(_ name: FileName, in directory: RemoteReference) async throws(ProviderError) -> RemoteItem {
        let parent = try number(of: directory)
        guard let number = number(named: name), children(of: parent).contains(number) else { throw .noSuchItem }
        return item(number)
    }

    /// Nothing ever changes.
    public func changes(since anchor: Anchor?) async throws(ProviderError) -> Changes {
        Changes(events: [], anchor: Anchor([0]), moreComing: false)
    }

    /// Nothing changes.
    public var mustBePolled: Bool { false }

    /// Never fires.
    public var changeSignal: AsyncStream<Void>? { silence.stream() }

    /// Computes bytes.
    public func fetch(
        _ item: RemoteReference,
        version: ContentVersion,
        range: Range<Int64>,
        into sink: any ContentSink
    ) async throws(ProviderError) {
        let number = try number(of: item)
        let range = range.clamped(to: 0..<size(number))
        let bytes = range.map { byte(of: number, at: $0) }
        do {
            try bytes.withUnsafeBytes { try sink.write($0, at: range.lowerBound) }
        } catch let error as ProviderError {
            throw error
        } catch {
            throw .failed("\(error)", nil)
        }
    }

    /// The byte of a file at an offset.
    private func byte(of number: Int64, at offset: Int64) -> UInt8 { UInt8(truncatingIfNeeded: number &* 31 &+ offset) }

    private func size(_ number: Int64) -> Int64 { isDirectory(number) ? 0 : number % 10_000 }

    private func isDirectory(_ number: Int64) -> Bool { number == 0 || !children(of: number).isEmpty }

    private func children(of number: Int64) -> Range<Int64> {
        let first = min(number * fanout + 1, items + 1)
        return first..<min(first + fanout, items + 1)
    }

    private func item(_ number: Int64) -> RemoteItem {
        let isDirectory = isDirectory(number)
        return RemoteItem(
            id: RemoteID(encode(number)),
            name: Array("\(isDirectory ? "folder" : "file")-\(number)".utf8),
            kind: isDirectory ? .directory : .file,
            size: size(number),
            contentVersion: ContentVersion(isDirectory ? [] : [1]),
            metadataVersion: MetadataVersion([1]),
            metadata: ItemMetadata(modificationTime: Timestamp(seconds: GeneratedTree.epoch + number, nanoseconds: 0))
        )
    }

    /// The number of an item that the tree has under this name.
    private func number(named name: FileName) -> Int64? {
        guard let dash = name.bytes.lastIndex(of: 0x2D),
            let number = Int64(String(decoding: name.bytes[(dash + 1)...], as: UTF8.self)),
            number > 0, number <= items, item(number).name == name.bytes
        else { return nil }
        return number
    }

    private func number(of reference: RemoteReference) throws(ProviderError) -> Int64 {
        guard let name = reference.path.name else { return 0 }
        guard let number = number(named: name) else { throw .noSuchItem }
        return number
    }

    private func encode(_ number: Int64) -> [UInt8] { withUnsafeBytes(of: number.bigEndian) { Array($0) } }

    private static func decode(_ bytes: [UInt8]) -> Int64 { bytes.prefix(8).reduce(0) { $0 << 8 | Int64($1) } }
}

/// What would change the tree is refused.
extension GeneratedTree {
    private static let refusal = ProviderError.notPermitted("a generated tree can't be changed")

    /// Refused.
    public func create(
        _ template: ItemTemplate,
        name: FileName,
        in directory: RemoteReference,
        content: (any ContentSource)?
    ) async throws(ProviderError) -> RemoteItem {
        throw GeneratedTree.refusal
    }

    /// Refused.
    public func modify(
        _ item: RemoteReference,
        base: ContentVersion,
        metadata: ItemMetadata,
        content: (any ContentSource)?
    ) async throws(ProviderError) -> RemoteItem {
        throw GeneratedTree.refusal
    }

    /// Refused.
    public func move(
        _ item: RemoteReference,
        base: ContentVersion?,
        to directory: RemoteReference,
        name: FileName
    ) async throws(ProviderError) -> RemoteItem {
        throw GeneratedTree.refusal
    }

    /// Refused.
    public func copy(
        _ item: RemoteReference,
        version: ContentVersion,
        to directory: RemoteReference,
        name: FileName
    ) async throws(ProviderError) -> RemoteItem {
        throw GeneratedTree.refusal
    }

    /// Refused.
    public func delete(_ item: RemoteReference, base: ContentVersion?) async throws(ProviderError) {
        throw GeneratedTree.refusal
    }

    /// There is no trash.
    public func trash(
        _ item: RemoteReference,
        base: ContentVersion?,
        as token: String
    ) async throws(ProviderError) -> RemoteItem? {
        nil
    }

    /// There is no limit to tell.
    public func quota() async throws(ProviderError) -> ProviderQuota? { nil }
}

/// Reading `simulated://?items=1000000&fanout=1000`.
extension GeneratedTree {
    static let scheme = "simulated://"

    /// Makes the tree that a source names; nil for another kind of source.
    static func make(source: String) throws(SourceError) -> GeneratedTree? {
        guard source.hasPrefix(scheme) else { return nil }
        var values = ["items": Int64(1_000_000), "fanout": 1000]
        for part in source.dropFirst(scheme.count).drop(while: { $0 == "?" }).split(separator: "&") {
            let words = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            let text = words.count > 1 ? words[1] : ""
            guard values[words[0]] != nil, let value = Int64(text), (1...1 << 31).contains(value) else {
                throw .invalidOption(words[0], value: text, expected: "items or fanout, and a number")
            }
            values[words[0]] = value
        }
        return GeneratedTree(items: values["items"] ?? 0, fanout: values["fanout"] ?? 1)
    }
}
