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
        let server = try server()
        try checkShown(name, server)
        let path = directory.path.appending(name)
        switch template.kind {
        case .directory: return try await makeDirectory(path)
        case .file: break
        default: throw .unsupported("WebDAV has files and directories only")
        }
        let content = content ?? EmptyContent()
        guard server.putsInPlace else { return try await createBeside(path, template.metadata, content) }
        return try await droppingChunks(path) { () throws(ProviderError) in
            let sum = try await self.checksum(of: content)
            if let item = try await self.earlier(path, content, sum, over: nil) { return item }
            let response = try await self.store(path, content, template.metadata, sum, over: nil)
            if response.status == 412 { throw .filenameCollision(try await self.lookIfPresent(path)) }
            guard response.head.isSuccess else { throw try await self.putRefusal(response, path) }
            guard let item = try await self.confirm(path, content, response, sum, over: nil) else {
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
        over tag: String?
    ) async throws(ProviderError) -> HTTPResponse {
        let headers = dateHeaders(metadata) + checksumHeaders(sum)
        if try server().takesChunks, content.size > pieceSize {
            let condition = tag.map { Assembly.tag($0) } ?? .absent
            return try await putInChunks(path, content, headers, if: condition)
        }
        let condition = tag.map { ("If-Match", $0) } ?? ("If-None-Match", "*")
        return try await put(path, content, [condition] + headers)
    }

    /// What a server never lists would look deleted.
    func checkShown(_ name: FileName, _ server: DAVServer) throws(ProviderError) {
        if server.hidesDotNames, name.bytes.first == 0x2E, !name.isReserved {
            throw .unsupported("\(name): the server does not list names that begin with a dot")
        }
    }

    private func createBeside(
        _ path: RemotePath,
        _ metadata: ItemMetadata,
        _ content: any ContentSource
    ) async throws(ProviderError) -> RemoteItem {
        let server = try server()
        if let sent = unanswered[path], try await lookIfPresent(path)?.contentVersion == sent {
            return try await modifyBeside(path, sent, metadata, content)
        }
        // Many bytes are not sent for nothing.
        if content.size > 256 << 10 || !server.heedsOverwrite, let other = try await lookIfPresent(path) {
            throw .filenameCollision(other)
        }
        return try await beside(path, metadata, content) { (upload, sent) async throws(ProviderError) -> RemoteItem in
            try await self.create(upload, sent, at: path)
        }
    }

    /// Moves an upload to a name that must be free.
    private func create(
        _ upload: RemotePath,
        _ sent: RemoteItem,
        at path: RemotePath
    ) async throws(ProviderError) -> RemoteItem {
        let response: HTTPResponse
        if try server().heedsLocks {
            response = try await lockingFree(upload, path)
        } else {
            response = try await move(upload, to: path, isDirectory: false, overwrite: false)
        }
        if response.status == 412 { throw .filenameCollision(try await lookIfPresent(path)) }
        return try await settle(response, sent, at: path, over: nil)
    }

    private func makeDirectory(_ path: RemotePath) async throws(ProviderError) -> RemoteItem {
        if try !server().refusesTakenDirectory, let other = try await lookIfPresent(path) {
            throw .filenameCollision(other)
        }
        let response = try await send("MKCOL", path, isDirectory: true)
        switch response.status {
        case 200..<300: return try await look(path)
        case 404, 409: throw .noSuchItem
        default:
            if let other = try await lookIfPresent(path) { throw .filenameCollision(other) }
            throw refusal(response, "\(path)")
        }
    }

    /// Replaces the bytes of a file, or sets its date where the server lets one.
    public func modify(
        _ item: RemoteReference,
        base: ContentVersion,
        metadata: ItemMetadata,
        content: (any ContentSource)?
    ) async throws(ProviderError) -> RemoteItem {
        let server = try server()
        guard let content else { return try await setDate(item.path, base, metadata) }
        let path = item.path
        guard server.putsInPlace, let tag = DAVResource.tag(of: base) else {
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
                try await self.store(path, content, metadata, sum, over: tag)
            }
            guard response.head.isSuccess else { throw try await self.putRefusal(response, path) }
            guard let item = try await self.confirm(path, content, response, sum, over: base) else {
                throw .conflict(try await self.look(path))
            }
            return item
        }
    }

    /// Some servers trip over a change that another device makes meanwhile: then that is what happened.
    private func explained(
        _ error: ProviderError,
        _ path: RemotePath,
        _ base: ContentVersion
    ) async -> ProviderError {
        switch error {
        case .failed, .noSuchItem:
            guard let current = try? await lookAgain(path), current.contentVersion != base else { return error }
            return .conflict(current)
        default: return error
        }
    }

    private func modifyBeside(
        _ path: RemotePath,
        _ known: ContentVersion,
        _ metadata: ItemMetadata,
        _ content: any ContentSource
    ) async throws(ProviderError) -> RemoteItem {
        let current = try await lookAgain(path)
        // What this device sent, and got no answer for, is as good a base.
        let base = unanswered[path] == current.contentVersion ? current.contentVersion : known
        guard current.kind == .file, current.contentVersion == base else { throw .conflict(current) }
        if current.size == content.size { try await waitForAnotherVersion(than: current) }
        return try await beside(path, metadata, content) { (upload, sent) async throws(ProviderError) -> RemoteItem in
            let response: HTTPResponse
            if try self.server().heedsLocks {
                response = try await self.locking(path) { (lock) async throws(ProviderError) -> HTTPResponse in
                    if lock.hasMadeFile { throw .noSuchItem }
                    try await self.expect(path, base)
                    return try await self.move(upload, to: path, isDirectory: false, overwrite: true, lock: lock)
                }
            } else {
                // The server keeps nobody out: this is as near to a condition as it gets.
                try await self.expect(path, base)
                response = try await self.move(upload, to: path, isDirectory: false, overwrite: true)
            }
            return try await self.settle(response, sent, at: path, over: base)
        }
    }

    /// Where versions are dates and sizes, two of one size must not have one second.
    private func waitForAnotherVersion(than current: RemoteItem) async throws(ProviderError) {
        guard current.contentVersion.bytes.first == 0x74, let date = current.metadata.modificationTime else { return }
        let age = System.now().rawValue - date.rawValue
        // A clock that is wrong by more than that is the server's to mend.
        guard age > -2_000_000_000, age < 2_000_000_000 else { return }
        do { try await Task.sleep(for: .nanoseconds(2_000_000_000 - max(0, age))) } catch { throw .cancelled }
    }

    /// Uploads under a hidden name first, where nobody else writes: so its version is known for sure, and an upload
    /// that breaks off has broken nothing.
    private func beside(
        _ path: RemotePath,
        _ metadata: ItemMetadata,
        _ content: any ContentSource,
        _ place: (RemotePath, RemoteItem) async throws(ProviderError) -> RemoteItem
    ) async throws(ProviderError) -> RemoteItem {
        let upload = path.parent.appending(Leftover.upload())
        do throws(ProviderError) {
            let sum = try await checksum(of: content)
            let response = try await put(upload, content, dateHeaders(metadata) + checksumHeaders(sum))
            guard response.head.isSuccess else { throw try await putRefusal(response, upload) }
            let (sent, isRight) = try await look(upload, after: sum)
            guard sent.size == content.size, isRight else { throw .failed("\(path): the server kept other bytes", nil) }
            unanswered.begin(path, sent.contentVersion)
            let item = try await place(upload, sent)
            unanswered.end(path)
            return item
        } catch {
            // Of what was refused nothing arrives any more.
            if !error.parksAccount, error != .cancelled, error != .timedOut { unanswered.end(path) }
            // Whoever called it off does not wait for this to be called off too.
            await Task { await self.discard(upload) }.value
            throw error
        }
    }

    /// Deletes an upload that broke off, which the server may only be about to make.
    private func discard(_ upload: RemotePath) async {
        var wasThere = false
        for _ in 0..<6 {
            guard let response = try? await send("DELETE", upload) else { return }
            if response.status == 404, wasThere { return }
            wasThere = wasThere || response.head.isSuccess
            try? await Task.sleep(for: .milliseconds(150))
        }
    }

    /// What a MOVE of an upload made, in the place of a version.
    private func settle(
        _ response: HTTPResponse,
        _ sent: RemoteItem,
        at path: RemotePath,
        over base: ContentVersion?
    ) async throws(ProviderError) -> RemoteItem {
        switch response.status {
        case 200...204: break
        case 404, 409:
            // A MOVE whose answer got lost was sent again: it is there already.
            let found = try await look(path)
            guard found.contentVersion == sent.contentVersion else { throw .noSuchItem }
            return found
        default: throw refusal(response, "\(path)")
        }
        let found = try await look(path)
        if found.contentVersion == sent.contentVersion { return found }
        if found.contentVersion == base { throw Self.notDone(path) }
        guard try server().keepsVersionOnMove || found.size != sent.size else { return found }
        // Somebody was quicker than this look: what was sent is the base of what is there.
        var item = sent
        (item.name, item.id) = (found.name, found.id)
        return item
    }

    /// What a PUT made in the place of a version; nil when the answer does not tell which version that is.
    ///
    /// Somebody may be quicker than the look at it. An answer may also come from something on the way that knows nothing.
    private func confirm(
        _ path: RemotePath,
        _ content: any ContentSource,
        _ response: HTTPResponse,
        _ sum: Checksum?,
        over base: ContentVersion?
    ) async throws(ProviderError) -> RemoteItem? {
        let (found, isRight) = try await look(path, after: sum)
        var item = found
        let tag = response.head["etag"] ?? response.head["oc-etag"]
        let told = tag.map { DAVResource.version(tag: $0, modified: nil, size: 0) }
        if item.contentVersion == told {
            guard item.size == content.size, isRight else {
                throw .failed("\(path): the server kept other bytes", .inputOutput)
            }
            return item
        }
        if item.contentVersion == base { throw Self.notDone(path) }
        guard let told else { return nil }
        (item.contentVersion, item.size) = (told, content.size)
        return item
    }

    /// The login page of a network answers so.
    private static func notDone(_ path: RemotePath) -> ProviderError {
        .failed("\(path): something answered that the bytes were stored, and they were not", nil)
    }

    private func putRefusal(_ response: HTTPResponse, _ path: RemotePath) async throws(ProviderError) -> ProviderError {
        switch response.status {
        case 404, 409, 500:
            // Some servers answer 500 when the folder is missing.
            guard try await lookIfPresent(path.parent) != nil else { return .noSuchItem }
            if let there = try await lookIfPresent(path), there.kind == .directory { return .filenameCollision(there) }
        case 405:
            if let there = try await lookIfPresent(path) { return .filenameCollision(there) }
        default: break
        }
        return refusal(response, "\(path)")
    }

    /// Throws unless a file of the version is there.
    @discardableResult
    func expect(_ path: RemotePath, _ base: ContentVersion) async throws(ProviderError) -> RemoteItem {
        let current = try await lookAgain(path)
        guard current.kind == .file, current.contentVersion == base else { throw .conflict(current) }
        return current
    }

    /// Looks at what is to be replaced, twice where it seems gone: some servers replace in two steps.
    private func lookAgain(_ path: RemotePath) async throws(ProviderError) -> RemoteItem {
        do throws(ProviderError) { return try await look(path) } catch .noSuchItem {
            do { try await Task.sleep(for: .milliseconds(100)) } catch { throw .cancelled }
            return try await look(path)
        }
    }

    private func dateHeaders(_ metadata: ItemMetadata) -> [(name: String, value: String)] {
        guard let date = metadata.modificationTime, date.seconds > 0, (try? server().keepsDates) == true else {
            return []
        }
        return [("X-OC-Mtime", "\(date.seconds)")]
    }

    private func setDate(
        _ path: RemotePath,
        _ base: ContentVersion,
        _ metadata: ItemMetadata
    ) async throws(ProviderError) -> RemoteItem {
        let current = try await look(path)
        guard current.kind == .directory || current.contentVersion == base else { throw .conflict(current) }
        guard current.kind == .file, let date = metadata.modificationTime, try server().keepsDates, date.seconds > 0,
            date.seconds != current.metadata.modificationTime?.seconds
        else { return current }
        var request = HTTPRequest("PROPPATCH", address.url(path))
        request.headers = [("Content-Type", "application/xml; charset=utf-8")]
        request.body = .bytes(
            Array(
                """
                <?xml version="1.0" encoding="utf-8"?><d:propertyupdate xmlns:d="DAV:"><d:set><d:prop>\
                <d:lastmodified>\(date.seconds)</d:lastmodified></d:prop></d:set></d:propertyupdate>
                """.utf8
            )
        )
        request.isRepeatable = true
        let response = try await client.send(request)
        guard response.head.isSuccess else { throw refusal(response, "\(path)") }
        return try await look(path)
    }
}

/// The content of a file of no bytes.
private struct EmptyContent: ContentSource {
    var size: Int64 { 0 }
    func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ProviderError) -> Int { 0 }
    func copy(to descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int { 0 }
}
