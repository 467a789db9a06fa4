public import CoveCore

/// Links to files: addresses that are signed in advance, as every S3 server takes them.
extension S3Provider {
    /// No server takes such a signature for longer.
    private static let greatestLife = TimeSpan.seconds(7 * 86_400)

    /// Signs an address of the version itself where the bucket keeps versions, else of a copy of it, which goes in time.
    public func publish(
        _ item: RemoteReference,
        version: ContentVersion,
        until: Timestamp
    ) async throws(ProviderError) -> Publication {
        let life = until - System.now()
        guard life <= Self.greatestLife else {
            throw .failed("a link to a file in a bucket lives 7 days at most; ask for less", .invalidArgument)
        }
        try await settleMoves(around: item.path)
        let (known, id) = try await identify(item.path, version)
        var call = S3Call("GET", known.key)
        if let id {
            call.query = [("versionId", id)]
        } else {
            call.key = try await makePublished(known, item.path, PublishedName(until: until, owner: owner))
            if let name = item.path.name {
                let text = "attachment; filename*=UTF-8''\(PercentEncoding.encode(name.bytes))"
                call.query = [("response-content-disposition", text)]
            }
        }
        let link = try await client.link(call, lasting: life)
        let response = try await client.follow(link, isEmpty: known.size == 0)
        guard response.head.isSuccess, (response.head.contentRange?.size ?? response.head.contentLength) == known.size
        else {
            if id == nil, let key = call.key { _ = try await client.send(S3Call("DELETE", key)) }
            throw .failed("the server takes no addresses that are signed in advance", .notSupported)
        }
        if id == nil { publications.begin(after: life) { [weak self] in await self?.sweepPublished() } }
        return Publication(url: link, expires: until)
    }

    /// The object of a version, and what a bucket with versions calls it.
    private func identify(
        _ path: RemotePath,
        _ version: ContentVersion
    ) async throws(ProviderError) -> (object: S3Object, id: String?) {
        let key = key(path)
        let head: HTTPHead
        switch try await client.ask(S3Call("HEAD", key)) {
        case .success(let response): head = response.head
        case .failure(let failure):
            guard failure.status == 404, failure.code != .noSuchBucket else { throw failure.error }
            throw .noSuchItem
        }
        let object = try S3Object(key: key, head: head)
        guard object.version.isSame(as: version) else { throw .conflict(object.item(at: path)) }
        let id = head["x-amz-version-id"].flatMap { id in
            let isUsable = (1...400).contains(id.utf8.count) && id.utf8.allSatisfy { (0x21...0x7E).contains($0) }
            return isUsable && id != "null" && features.keepsVersions ? id : nil
        }
        return (object, id)
    }

    /// Copies a version to a hidden key; nobody else makes that.
    private func makePublished(
        _ known: S3Object,
        _ path: RemotePath,
        _ name: PublishedName
    ) async throws(ProviderError) -> [UInt8] {
        let key = publishedPrefix + name.fileName.bytes
        let headers = S3Object.headers(ItemMetadata(), over: known.headers, token: "\(DocumentID.random())")
        let isDone = try await copyObject(known, to: key, headers, condition: .absent)
        let (after, copy) = (try await client.head(known.key), try await client.head(key))
        // Where the server knows no conditions the one may have been replaced while it was copied.
        guard isDone, let copy, copy.size == known.size, after?.version == known.version else {
            if copy != nil { _ = try await client.send(S3Call("DELETE", key)) }
            throw .conflict(after?.item(at: path))
        }
        return key
    }

    private var publishedPrefix: [UInt8] { address.prefix + PublishedName.folder.bytes + [0x2F] }

    /// Deletes copies whose time is over; when the next one's is, nil where this device has none.
    func sweepPublished() async -> Timestamp? {
        let now = System.now()
        var names: [PublishedName] = []
        var token: String?
        do throws(ProviderError) {
            // Of a listing without an end the rest is seen another time.
            for _ in 0..<100 {
                let listing = try await client.list(publishedPrefix, delimiter: false, from: token)
                names += listing.objects.filter { $0.key.starts(with: publishedPrefix) }
                    .compactMap { PublishedName($0.key.dropFirst(publishedPrefix.count)) }
                token = listing.next
                if token == nil { break }
            }
        } catch {
            log("what was published is looked through another time: \(error)")
            return now + .seconds(600)
        }
        return await PublishedName.sweep(names, of: owner, at: now, log: log) { name throws(ProviderError) in
            _ = try await self.client.send(S3Call("DELETE", self.publishedPrefix + name.fileName.bytes))
        }
    }
}
