public import CoveCore

/// Pictures, as `ThumbnailFolder` has them.
extension S3Provider {
    /// Which files have one, of whatever version.
    public func thumbnails(
        of names: [FileName],
        in directory: RemoteReference
    ) async throws(ProviderError) -> Set<FileName> {
        let prefix = directoryKey(ThumbnailFolder.folder(of: directory.path))
        var present: Set<[UInt8]> = []
        var token: String?
        // Of a listing without an end the rest is not known.
        for _ in 0..<100 {
            let listing = try await client.list(prefix, delimiter: true, from: token)
            for object in listing.objects { present.insert(Array(object.key.dropFirst(prefix.count))) }
            token = listing.next
            if token == nil { break }
        }
        return ThumbnailFolder.files(of: names, among: present)
    }

    /// The one of a version.
    public func thumbnail(
        of item: RemoteReference,
        version: ContentVersion
    ) async throws(ProviderError) -> [UInt8]? {
        switch try await client.ask(S3Call("GET", key(ThumbnailFolder.place(of: item.path)))) {
        case .success(let response): return ThumbnailFolder.open(response.body, version)
        case .failure(let failure):
            guard failure.status == 404, failure.code != .noSuchBucket else { throw failure.error }
            return nil
        }
    }

    /// Puts one, whatever is there: another one can be made of the document.
    public func setThumbnail(
        _ picture: [UInt8]?,
        of item: RemoteReference,
        version: ContentVersion
    ) async throws(ProviderError) {
        let key = key(ThumbnailFolder.place(of: item.path))
        guard let picture else {
            guard try await thumbnail(of: item, version: version) != nil else { return }
            _ = try await client.send(S3Call("DELETE", key))
            return
        }
        let bytes = try ThumbnailFolder.seal(picture, version)
        var call = S3Call("PUT", key)
        call.headers = [("Content-Type", "image/png")]
        call.body = .bytes(bytes)
        call.payload = Digest.hash(bytes, .sha256).hexadecimal
        call.isRepeatable = true
        _ = try await client.send(call)
    }

    /// Deletes the pictures of a source whose prefix a directory was, if that is all that is in it; false where it is not.
    func dropThumbnails(in directory: [UInt8]) async throws(ProviderError) -> Bool {
        let prefix = directory + ThumbnailFolder.name.bytes + [0x2F]
        let markers = S3Names.markers(of: directory)
        let around = try await client.list(directory, delimiter: true, limit: markers.count + 2)
        guard around.prefixes == [prefix], around.next == nil,
            around.objects.allSatisfy({ markers.contains($0.key) && $0.size == 0 })
        else { return false }
        // A page each time, as long as something goes.
        var last: [[UInt8]] = []
        for _ in 0..<100 {
            let pictures = try await client.list(prefix, delimiter: false).objects.map(\.key).filter { key in
                ThumbnailFolder.isPicture(Array(key.split(separator: 0x2F).last ?? []))
            }
            if pictures.isEmpty || pictures == last { break }
            for picture in pictures { _ = try await client.send(S3Call("DELETE", picture)) }
            last = pictures
        }
        return true
    }
}
