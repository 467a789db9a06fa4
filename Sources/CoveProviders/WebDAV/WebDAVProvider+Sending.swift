public import CoveCore

extension WebDAVProvider {
    /// Makes a file or directory whose name must be free.
    public func create(
        _ template: ItemTemplate,
        name: FileName,
        in directory: RemoteReference,
        content: (any ContentSource)?
    ) async throws(ProviderError) -> RemoteItem {
        if name.isReserved, !name.isPassing { throw .unsupported("\(name): a name that Cove keeps for itself") }
        let path = directory.path.appending(name)
        try await checkName(path)
        switch template.kind {
        case .directory: return try await makeDirectory(path)
        case .file: break
        default: throw .unsupported("WebDAV has files and directories only")
        }
        let content = content ?? EmptyContent()
        guard try server().putsInPlace else { return try await createBeside(path, template.metadata, content) }
        return try await droppingChunks(path) { () throws(ProviderError) in
            let sum = try await self.checksum(of: content)
            if let item = try await self.earlier(path, content, sum, over: nil) { return item }
            let response = try await self.store(path, content, template.metadata, sum, over: nil)
            if response.status == 412 { throw .filenameCollision(try await self.lookIfPresent(path)) }
            guard response.head.isSuccess else { throw try await self.putRefusal(response, path) }
            guard let item = try await self.confirm(path, content, template.metadata, response, sum, over: nil) else {
                throw .filenameCollision(try await self.look(path))
            }
            return item
        }
    }

    /// Puts bytes where they belong, if what is there is the base: in one piece, or in chunks.
    private func store(
        _ path: RemotePath,
        _ content: any ContentSource,
        _ metadata: ItemMetadata,
        _ sum: Checksum?,
        over base: ContentVersion?
    ) async throws(ProviderError) -> HTTPResponse {
        let headers = dateHeaders(metadata) + checksumHeaders(sum)
        if try server().takesChunks, content.size > pieceSize {
            let tag = base.flatMap { DAVResource.tag(of: $0) }
            let condition = try tag.map { tag throws(ProviderError) in Assembly.tag(try server().condition(tag)) }
            return try await putInChunks(path, content, headers, if: condition ?? .absent)
        }
        let conditions = base.map { condition($0) } ?? [("If-None-Match", "*")]
        return try await put(path, content, conditions + headers)
    }

    private func makeDirectory(_ path: RemotePath) async throws(ProviderError) -> RemoteItem {
        if try !server().refusesTakenDirectory, let other = try await lookIfPresent(path) {
            throw .filenameCollision(other)
        }
        let response = try await send("MKCOL", path, isDirectory: true)
        switch response.status {
        case 201 where try isPlain(response):
            var made = DAVResource()
            made.isCollection = true
            return item(made, path)
        case 200..<300: return try await look(path)
        case 404: throw .noSuchItem
        case 409:
            if let other = try? await lookIfPresent(path) { throw .filenameCollision(other) }
            throw .noSuchItem
        default:
            if let other = try await lookIfPresent(path) { throw .filenameCollision(other) }
            throw try await refusal(response, making: path)
        }
    }

    /// True when an answer is the server's own, and there is nothing to be known of a new directory but its address.
    private func isPlain(_ response: HTTPResponse) throws(ProviderError) -> Bool {
        let server = try server()
        return server.isOwn(response) && !capabilities.stableIDs && !server.directoryTagsRise
    }

    /// Replaces the bytes of a file, or sets its date where the server lets one.
    public func modify(
        _ item: RemoteReference,
        base: ContentVersion,
        metadata: ItemMetadata,
        content: (any ContentSource)?
    ) async throws(ProviderError) -> RemoteItem {
        guard let content else { return try await setDate(item.path, base, metadata) }
        let path = item.path
        guard try server().putsInPlace, DAVResource.tag(of: base) != nil else {
            do throws(ProviderError) {
                return try await modifyBeside(path, base, metadata, content)
            } catch {
                throw await explained(error, path, base)
            }
        }
        return try await droppingChunks(path) { () throws(ProviderError) in
            let sum = try await self.checksum(of: content)
            if let item = try await self.earlier(path, content, sum, over: base) { return item }
            let response = try await self.conditionally(path, base) { () throws(ProviderError) in
                try await self.store(path, content, metadata, sum, over: base)
            }
            guard response.head.isSuccess else { throw try await self.putRefusal(response, path) }
            guard let item = try await self.confirm(path, content, metadata, response, sum, over: base) else {
                throw .conflict(try await self.look(path))
            }
            return item
        }
    }

    /// What a PUT made in the place of a version; nil when the answer does not tell which version that is.
    ///
    /// An answer may come from something on the way that knows nothing: one that is unlike the server's own is not believed
    /// without a look. Somebody may be quicker than that.
    private func confirm(
        _ path: RemotePath,
        _ content: any ContentSource,
        _ metadata: ItemMetadata,
        _ response: HTTPResponse,
        _ sum: Checksum?,
        over base: ContentVersion?
    ) async throws(ProviderError) -> RemoteItem? {
        let tag = response.head["etag"] ?? response.head["oc-etag"]
        let told = tag.map { DAVResource.version(tag: $0, modified: nil, size: content.size) }
        // Of large ones what the server has kept of them is worth a request.
        let isLarge = sum != nil && content.size > 256 << 10
        if !isLarge, let item = try made(path, content, metadata, response, told) { return item }
        var (item, isRight) = try await look(path, after: sum)
        if let told, DAVResource.isSameTag(item.contentVersion, told) {
            // Some servers tell the size of what was there before for a moment.
            for _ in 0..<2 where item.size != content.size || !isRight {
                do { try await Task.sleep(for: .milliseconds(300)) } catch { throw .cancelled }
                (item, isRight) = try await look(path, after: sum)
            }
            if DAVResource.isSameTag(item.contentVersion, told) {
                guard item.size == content.size, isRight else {
                    throw .failed("\(path): the server kept other bytes", .inputOutput)
                }
                return item
            }
        }
        if item.contentVersion == base { throw Self.notDone(path) }
        guard let told else { return nil }
        (item.contentVersion, item.size) = (told, content.size)
        return item
    }

    /// What the server's own answer says was made; nil where it does not say enough.
    private func made(
        _ path: RemotePath,
        _ content: any ContentSource,
        _ metadata: ItemMetadata,
        _ response: HTTPResponse,
        _ told: ContentVersion?
    ) throws(ProviderError) -> RemoteItem? {
        let server = try server()
        guard let told, [201, 204].contains(response.status), server.isOwn(response) else { return nil }
        var resource = DAVResource()
        if capabilities.stableIDs {
            guard let id = response.head["oc-fileid"] else { return nil }
            resource.fileID = id
        }
        resource.size = content.size
        var item = item(resource, path)
        item.contentVersion = told
        item.metadata = ItemMetadata()
        item.metadataVersion = MetadataVersion([])
        if let date = metadata.modificationTime, date.seconds > 0, server.keepsDates {
            resource.modified = date.wholeSecond
            item.metadata = ItemMetadata(modificationTime: resource.modified)
            // With whom it is shared is told by a listing alone.
            if !server.makesShares { item.metadataVersion = MetadataVersion("\(date.seconds)") }
        }
        return item
    }

    /// The login page of a network answers so.
    static func notDone(_ path: RemotePath) -> ProviderError {
        .failed("\(path): something answered that this was done, and it was not", nil)
    }

    func putRefusal(_ response: HTTPResponse, _ path: RemotePath) async throws(ProviderError) -> ProviderError {
        switch response.status {
        case 404, 409, 500:
            if let there = try await lookIfPresent(path), there.kind == .directory { return .filenameCollision(there) }
        case 405:
            if let there = try await lookIfPresent(path) { return .filenameCollision(there) }
        default: break
        }
        return try await refusal(response, making: path)
    }

    func dateHeaders(_ metadata: ItemMetadata) -> [(name: String, value: String)] {
        guard let date = metadata.modificationTime, date.seconds > 0, (try? server().keepsDates) == true else {
            return []
        }
        return [("X-OC-Mtime", "\(date.seconds)")]
    }

    /// Sets the date of a file of the base version.
    ///
    /// What is there afterwards becomes the version of the bytes that are here: it must be the same file with another date,
    /// and not what another device has put meanwhile.
    private func setDate(
        _ path: RemotePath,
        _ base: ContentVersion,
        _ metadata: ItemMetadata
    ) async throws(ProviderError) -> RemoteItem {
        let server = try server()
        let body = server.keepsChecksums && metadata.modificationTime != nil ? checksumRequest : itemRequest
        let before = try await properties(path, body)
        if before.isPlaceholder { throw .noSuchItem }
        let current = item(before, path)
        let isSame = current.kind == .directory ? base.bytes.isEmpty : current.contentVersion.isSame(as: base)
        guard isSame else { throw .conflict(current) }
        guard current.kind == .file, let date = metadata.modificationTime, server.keepsDates, date.seconds > 0,
            date.seconds != current.metadata.modificationTime?.seconds
        else { return current }
        let response = try await conditionally(path, current.contentVersion) { () throws(ProviderError) in
            try await self.patchDate(path, date, over: current.contentVersion)
        }
        guard response.head.isSuccess else { throw try await refusal(response, at: path) }
        let after = try await properties(path, body)
        if after.isPlaceholder { throw .noSuchItem }
        let found = item(after, path)
        guard found.kind == .file, found.size == current.size else { throw .conflict(found) }
        if found.contentVersion == current.contentVersion { return found }
        // Some servers make another tag with the date.
        guard found.metadata.modificationTime?.seconds == date.seconds, Self.mayBeSame(before, after) else {
            throw .conflict(found)
        }
        return found
    }

    /// Asks for a date, on the condition of a version where the server heeds conditions at all.
    private func patchDate(
        _ path: RemotePath,
        _ date: Timestamp,
        over version: ContentVersion
    ) async throws(ProviderError) -> HTTPResponse {
        let server = try server()
        let isConditional = server.heedsPutConditions || server.heedsDeleteConditions
        var request = HTTPRequest("PROPPATCH", address.url(path))
        request.headers =
            [("Content-Type", "application/xml; charset=utf-8")] + (isConditional ? condition(version) : [])
        request.body = .bytes(
            Array(
                """
                <?xml version="1.0" encoding="utf-8"?><d:propertyupdate xmlns:d="DAV:"><d:set><d:prop>\
                <d:lastmodified>\(date.seconds)</d:lastmodified></d:prop></d:set></d:propertyupdate>
                """.utf8
            )
        )
        request.isRepeatable = true
        return try await client.send(request)
    }

    /// False where the checksums that were told of two files show that their bytes differ.
    ///
    /// Some servers forget a file's checksum with its date.
    private static func mayBeSame(_ one: DAVResource, _ other: DAVResource) -> Bool {
        let sums = [one, other].map { Checksum.all(in: $0.checksums ?? "") }
        guard !sums[0].isEmpty, !sums[1].isEmpty else { return true }
        return sums[0].contains { sums[1].contains($0) }
            && !sums[0].contains { sum in sums[1].contains { $0.algorithm == sum.algorithm && $0 != sum } }
    }
}

/// The content of a file of no bytes.
struct EmptyContent: ContentSource {
    var size: Int64 { 0 }
    func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ProviderError) -> Int { 0 }
    func copy(to descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int { 0 }
}
