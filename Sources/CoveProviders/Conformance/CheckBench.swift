internal import CoveCore
internal import Synchronization

/// What a check does with a provider, in a folder of its own at the source, and how it says what went wrong.
///
/// Each call is noted: the last ones are the request that shows a fault.
final class CheckBench: Sendable {
    let provider: any Provider
    /// The folder of the check.
    let folder: RemotePath
    private let calls = Mutex<[String]>([])
    /// No file of the check has more bytes than the largest that it was sent.
    private let largest = Mutex<Int64>(0)

    init(_ provider: any Provider, folder: RemotePath) {
        self.provider = provider
        self.folder = folder
    }

    /// The last calls with their answers, the latest at the end.
    var lastCalls: [String] { calls.withLock { Array($0.suffix(3)) } }

    private func note<T>(
        _ call: String,
        _ told: (T) -> String,
        _ body: () async throws(ProviderError) -> T
    ) async throws(ProviderError) -> T {
        do throws(ProviderError) {
            let result = try await body()
            calls.withLock { $0.append("\(call) → \(told(result))") }
            return result
        } catch {
            calls.withLock { $0.append("\(call) → \(error)") }
            throw error
        }
    }

    func reference(_ path: String, id: RemoteID? = nil, isFile: Bool = false) -> RemoteReference {
        let names = RemotePath(unchecked: Array(path.utf8)).names
        var reference = RemoteReference(id: id, path: names.reduce(folder) { $0.appending($1) })
        reference.isFile = isFile
        return reference
    }

    private func place(_ path: String) throws(ProviderError) -> (RemoteReference, FileName) {
        let whole = reference(path).path
        guard let name = whole.name else { throw .failed("a check names the source's root", nil) }
        return (RemoteReference(id: nil, path: whole.parent), name)
    }

    /// Makes a file.
    @discardableResult
    func create(
        _ path: String,
        _ bytes: [UInt8],
        _ metadata: ItemMetadata = ItemMetadata()
    ) async throws(ProviderError) -> RemoteItem {
        try await create(path, content: CheckContent(bytes), metadata)
    }

    @discardableResult
    func create(
        _ path: String,
        content: any ContentSource,
        _ metadata: ItemMetadata = ItemMetadata()
    ) async throws(ProviderError) -> RemoteItem {
        let (directory, name) = try place(path)
        note(size: content.size)
        return try await note("create \(path), \(content.size) bytes", Self.told) { () throws(ProviderError) in
            try await provider.create(
                ItemTemplate(kind: .file, metadata: metadata),
                name: name,
                in: directory,
                content: content
            )
        }
    }

    @discardableResult
    func makeDirectory(_ path: String) async throws(ProviderError) -> RemoteItem {
        let (directory, name) = try place(path)
        return try await note("create \(path), a directory", Self.told) { () throws(ProviderError) in
            try await provider.create(
                ItemTemplate(kind: .directory, metadata: ItemMetadata()),
                name: name,
                in: directory,
                content: nil
            )
        }
    }

    func modify(
        _ path: String,
        _ base: ContentVersion,
        _ bytes: [UInt8]
    ) async throws(ProviderError) -> RemoteItem {
        note(size: Int64(bytes.count))
        let call = "modify \(path), version \(base), \(bytes.count) bytes"
        return try await note(call, Self.told) { () throws(ProviderError) in
            try await provider.modify(
                reference(path, isFile: true),
                base: base,
                metadata: ItemMetadata(),
                content: CheckContent(bytes)
            )
        }
    }

    @discardableResult
    func move(
        _ path: String,
        id: RemoteID? = nil,
        _ base: ContentVersion?,
        to target: String
    ) async throws(ProviderError) -> RemoteItem {
        let (directory, name) = try place(target)
        let call = "move \(path)\(Self.told(id)), \(Self.told(base)), to \(target)"
        return try await note(call, Self.told) { () throws(ProviderError) in
            try await provider.move(reference(path, id: id), base: base, to: directory, name: name)
        }
    }

    func copy(_ path: String, _ version: ContentVersion, to target: String) async throws(ProviderError) -> RemoteItem {
        let (directory, name) = try place(target)
        return try await note("copy \(path), version \(version), to \(target)", Self.told) {
            () throws(ProviderError) in
            try await provider.copy(reference(path), version: version, to: directory, name: name)
        }
    }

    func delete(_ path: String, id: RemoteID? = nil, _ base: ContentVersion?) async throws(ProviderError) {
        let call = "delete \(path)\(Self.told(id)), \(Self.told(base))"
        try await note(call, { _ in "done" }) { () throws(ProviderError) in
            try await provider.delete(reference(path, id: id), base: base)
        }
    }

    func lookup(_ path: String) async throws(ProviderError) -> RemoteItem {
        let (directory, name) = try place(path)
        return try await note("lookup \(path)", Self.told) { () throws(ProviderError) in
            try await provider.lookup(name, in: directory)
        }
    }

    /// All items of a directory, page after page.
    func list(_ path: String = "") async throws(ProviderError) -> [RemoteItem] {
        var items: [RemoteItem] = []
        var page: Page?
        var pages = 0
        repeat {
            let asked = page
            let call = "list \(path.isEmpty ? "the folder" : path)\(asked == nil ? "" : ", another page")"
            let listing = try await note(call, { "\($0.items.count) items" }) { () throws(ProviderError) in
                try await provider.list(reference(path), page: asked)
            }
            items += listing.items
            page = listing.next
            // A provider whose pages never end is no reason to check for ever.
            pages += 1
            guard items.count < 100_000, pages < 10_000 else { throw .failed("its pages don't end", nil) }
        } while page != nil
        return items
    }

    func changes(since anchor: Anchor?) async throws(ProviderError) -> Changes {
        let call = anchor == nil ? "changes, without an anchor" : "changes"
        return try await note(call, { "\($0.events.count) events\($0.moreComing ? ", and more" : "")" }) {
            () throws(ProviderError) in
            try await provider.changes(since: anchor)
        }
    }

    func fetch(
        _ path: String,
        _ version: ContentVersion,
        _ range: Range<Int64>
    ) async throws(ProviderError) -> [UInt8] {
        let sink = CheckSink(range)
        let call = "fetch \(path), version \(version), bytes \(range)"
        return try await note(call, { "\($0.count) bytes" }) { () throws(ProviderError) in
            try await provider.fetch(reference(path, isFile: true), version: version, range: range, into: sink)
            return try sink.bytes()
        }
    }

    func released(_ path: String) async throws(ProviderError) {
        try await note("released \(path)", { _ in "done" }) { () throws(ProviderError) in
            try await provider.released(reference(path, isFile: true))
        }
    }

    func persistentIdentifier(_ path: String) async throws(ProviderError) -> PersistentIdentifier {
        try await note("persistentIdentifier of \(path)", { "\($0.bytes.count) bytes" }) { () throws(ProviderError) in
            try await provider.persistentIdentifier(of: reference(path))
        }
    }

    /// Where in the folder of the check the item of an identifier is; the whole path where it is elsewhere.
    func place(of identifier: PersistentIdentifier) async throws(ProviderError) -> String {
        let call = "itemForPersistentIdentifier of \(identifier.bytes.count) bytes"
        let path = try await note(call, { "\($0)" }) { () throws(ProviderError) in
            try await provider.path(ofPersistent: identifier)
        }
        guard path.isInside(folder), path != folder else { return "\(path)" }
        return "\(RemotePath(Array(path.names.dropFirst(folder.names.count))))"
    }

    /// Which of some files in the folder of the check may have a picture.
    func thumbnails(_ names: [String]) async throws(ProviderError) -> [String] {
        let asked = names.map { FileName(unchecked: Array($0.utf8)) }
        let call = "thumbnails of \(names.joined(separator: ", "))"
        return try await note(call, { "\($0)" }) { () throws(ProviderError) in
            try await provider.thumbnails(of: asked, in: reference("")).map { "\($0)" }
        }
    }

    func thumbnail(_ path: String, _ version: ContentVersion) async throws(ProviderError) -> [UInt8]? {
        let call = "thumbnail of \(path), version \(version)"
        return try await note(call, { $0.map { "\($0.count) bytes" } ?? "none" }) { () throws(ProviderError) in
            try await provider.thumbnail(of: reference(path, isFile: true), version: version)
        }
    }

    /// Gives a file a picture; nil drops the one of the version.
    func setThumbnail(_ picture: [UInt8]?, _ path: String, _ version: ContentVersion) async throws(ProviderError) {
        let what = picture.map { "\($0.count) bytes" } ?? "none"
        try await note("setThumbnail of \(path), version \(version), \(what)", { _ in "done" }) {
            () throws(ProviderError) in
            try await provider.setThumbnail(picture, of: reference(path, isFile: true), version: version)
        }
    }

    private func note(size: Int64) { largest.withLock { $0 = max($0, size) } }

    /// All bytes of a file as it is now.
    func bytes(_ path: String) async throws(ProviderError) -> [UInt8] {
        let item = try await lookup(path)
        // What a provider tells is no reason to have room for it.
        guard item.kind == .file, item.size >= 0, item.size <= largest.withLock({ $0 }) else {
            throw .failed("lookup tells of \(item.size) bytes of \(path), more than any file was given", nil)
        }
        return item.size == 0 ? [] : try await fetch(path, item.contentVersion, 0..<item.size)
    }

    private static func told(_ item: RemoteItem) -> String {
        item.kind == .file
            ? "\(String(decoding: item.name, as: UTF8.self)), \(item.size) bytes, version \(item.contentVersion)"
            : "\(String(decoding: item.name, as: UTF8.self)), a \(item.kind)"
    }

    private static func told(_ id: RemoteID?) -> String {
        id.map { " by its id \(String(decoding: $0.bytes, as: UTF8.self).escapingControls)" } ?? ""
    }

    private static func told(_ base: ContentVersion?) -> String { base.map { "version \($0)" } ?? "any version" }
}

/// Content from memory, which may be called off after some bytes.
struct CheckContent: ContentSource {
    private let content: [UInt8]
    private let end: Int

    init(_ bytes: [UInt8], calledOffAfter end: Int? = nil) {
        content = bytes
        self.end = end ?? .max
    }

    var size: Int64 { Int64(content.count) }

    func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ProviderError) -> Int {
        guard offset < Int64(end) else { throw .cancelled }
        guard offset >= 0, offset < size else { return 0 }
        let part = content[Int(offset)..<min(content.count, end, Int(offset) + buffer.count)]
        buffer.copyBytes(from: part)
        return part.count
    }

    func copy(to descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int {
        guard offset < Int64(end) else { throw .cancelled }
        guard offset >= 0, offset < size else { return 0 }
        let part = Array(content[Int(offset)..<min(content.count, end, Int(offset) + count)])
        do throws(Errno) { try System.pwriteAll(descriptor, part, offset) } catch {
            throw .failed("the disk of the check: \(error)", error)
        }
        return part.count
    }
}

/// Takes the bytes of a range, each once.
final class CheckSink: ContentSink {
    private let range: Range<Int64>
    private let state: Mutex<(bytes: [UInt8], isHere: [Bool])>

    init(_ range: Range<Int64>) {
        self.range = range
        let count = Int(range.upperBound - range.lowerBound)
        state = Mutex((Array(repeating: 0, count: count), Array(repeating: false, count: count)))
    }

    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(ProviderError) {
        let (end, isOver) = offset.addingReportingOverflow(Int64(bytes.count))
        guard !isOver, offset >= range.lowerBound, end <= range.upperBound else {
            throw .failed("it gave bytes that it was not asked for, at \(offset)", nil)
        }
        let start = Int(offset - range.lowerBound)
        let isTwice = state.withLock { state in
            let part = start..<start + bytes.count
            if state.isHere[part].contains(true) { return true }
            state.bytes.replaceSubrange(part, with: bytes)
            state.isHere.replaceSubrange(part, with: repeatElement(true, count: bytes.count))
            return false
        }
        if isTwice { throw .failed("it gave a byte twice, at \(offset)", nil) }
    }

    func copy(from descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int {
        let room = Int(clamping: max(0, range.upperBound - offset))
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, min(count, room, 1 << 20)), alignment: 16)
        defer { buffer.deallocate() }
        let length: Int
        do throws(Errno) { length = try System.pread(descriptor, buffer, offset) } catch {
            throw .failed("the disk of the check: \(error)", error)
        }
        if length > 0 { try write(UnsafeRawBufferPointer(rebasing: buffer[..<min(length, room)]), at: offset) }
        return min(length, room)
    }

    /// All of them; throws where some are missing.
    func bytes() throws(ProviderError) -> [UInt8] {
        let (bytes, isWhole) = state.withLock { ($0.bytes, !$0.isHere.contains(false)) }
        guard isWhole else { throw .failed("it gave fewer bytes than it was asked for", nil) }
        return bytes
    }
}
