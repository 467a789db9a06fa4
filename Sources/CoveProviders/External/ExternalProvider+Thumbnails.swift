public import CoveCore
internal import Synchronization

/// Pictures of documents, each call as a message to the process; one that does not say that it has some is asked for none.
extension ExternalProvider {
    private var hasThumbnails: Bool {
        let capabilities = capabilities
        return capabilities.makesThumbnails || capabilities.keepsThumbnails
    }

    /// Asks which files may have a picture; of the answer only those count that were asked for.
    public func thumbnails(
        of names: [FileName],
        in directory: RemoteReference
    ) async throws(ProviderError) -> Set<FileName> {
        guard hasThumbnails else { return [] }
        var found: Set<FileName> = []
        for start in stride(from: 0, to: names.count, by: WireCall.mostNames) {
            let asked = names[start..<min(start + WireCall.mostNames, names.count)]
            var parameters = CallParameters()
            parameters.directory = WireReference(directory)
            parameters.names = asked.map { WireBytes($0.bytes) }
            guard let told = try await call(.thumbnails, parameters).names else {
                found.formUnion(asked)
                continue
            }
            let present = Set(told.map(\.bytes))
            found.formUnion(asked.filter { present.contains($0.bytes) })
        }
        return found
    }

    /// Asks for a picture.
    public func thumbnail(
        of item: RemoteReference,
        version: ContentVersion
    ) async throws(ProviderError) -> [UInt8]? {
        guard hasThumbnails else { return nil }
        var parameters = CallParameters()
        parameters.item = WireReference(item)
        parameters.version = WireBytes(version.bytes)
        let sink = PictureSink()
        try await fetch(.thumbnail, parameters, 0..<Int64(WireCall.longestPicture), sink)
        let bytes = sink.bytes
        return bytes.isEmpty ? nil : bytes
    }

    /// Has a picture kept, or dropped.
    public func setThumbnail(
        _ picture: [UInt8]?,
        of item: RemoteReference,
        version: ContentVersion
    ) async throws(ProviderError) {
        guard capabilities.keepsThumbnails else { throw .unsupported("it keeps no pictures") }
        // No bytes at all are none, wherever a picture is asked for.
        if let picture, picture.isEmpty || picture.count > Picture.greatestSize {
            throw .unsupported("a picture of \(picture.count) bytes")
        }
        let content = picture.map { PictureContent($0) }
        var parameters = CallParameters()
        parameters.item = WireReference(item)
        parameters.version = WireBytes(version.bytes)
        parameters.size = content?.size
        _ = try await call(.setThumbnail, parameters, content: content)
    }
}

/// Keeps the bytes of a picture, which come one after the other.
private final class PictureSink: ContentSink {
    private let state = Mutex<[UInt8]>([])

    var bytes: [UInt8] { state.withLock { $0 } }

    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(ProviderError) {
        state.withLock { $0 += bytes }
    }

    func copy(from descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int {
        throw .unsupported("pictures come in messages")
    }
}

/// The bytes of a picture.
private struct PictureContent: ContentSource {
    private let picture: [UInt8]

    init(_ picture: [UInt8]) { self.picture = picture }

    var size: Int64 { Int64(picture.count) }

    func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ProviderError) -> Int {
        guard offset >= 0, offset < size else { return 0 }
        let part = picture[Int(offset)...].prefix(buffer.count)
        buffer.copyBytes(from: part)
        return part.count
    }

    func copy(to descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int {
        throw .unsupported("pictures go in messages")
    }
}
