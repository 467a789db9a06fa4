public import CoveCore

extension S3Provider {
    /// The objects that a versioned bucket keeps under the file's key, but for the current one.
    public func versions(of item: RemoteReference) async throws(ProviderError) -> [RemoteVersion] {
        let key = key(item.path)
        var found: [RemoteVersion] = []
        var marker: S3Versions.Marker?
        repeat {
            let page = try await client.versions(key, after: marker)
            for row in page.rows where row.key == key && !row.isLatest {
                guard let object = row.object else { continue }
                found.append(
                    RemoteVersion(
                        id: row.id,
                        size: object.size,
                        modificationTime: object.modified,
                        contentVersion: object.version
                    )
                )
            }
            // The key itself comes before the longer ones that begin with it.
            let isOver = page.rows.last.map { $0.key != key } ?? true
            guard !isOver, page.next != marker, found.count < Self.versionLimit else { break }
            marker = page.next
        } while marker != nil
        return found
    }

    private static var versionLimit: Int { 5000 }

    /// Fetches one of those objects.
    public func fetch(
        _ version: RemoteVersion,
        of item: RemoteReference,
        into sink: any ContentSink
    ) async throws(ProviderError) {
        guard version.size > 0 else { return }
        let key = key(item.path)
        var call = S3Call("GET", key, query: [("versionId", version.id)])
        call.headers.append(S3Call.wantsChecksum)
        let features = features
        let checked = CheckedSink(0..<version.size, into: sink)
        let receiver = RangeReceiver(0..<version.size, into: checked, takesCodings: true) {
            head throws(ProviderError) in
            let object = try S3Object(key: key, head: head)
            guard object.size == version.size, object.version == version.contentVersion else {
                throw .versionNoLongerAvailable
            }
            if checked.hold(size: object.size) { checked.expect(features.checks(of: object, head)) }
        }
        switch try await client.fetch(call, receiver) {
        case .success:
            guard receiver.isComplete else { throw .serverUnreachable("the server sent fewer bytes than it has") }
            guard checked.isRight else {
                throw .failed("the bytes that came do not have the checksum that the server gives", .inputOutput)
            }
            try checked.finish()
        case .failure(let failure):
            if [400, 404, 405].contains(failure.status) { throw .versionNoLongerAvailable }
            throw failure.error
        }
    }
}

/// One answer to ListObjectVersions.
struct S3Versions: Sendable {
    /// Where a page starts: behind one version of a key.
    struct Marker: Sendable, Equatable {
        var key: String
        var id: String
    }

    struct Row: Sendable {
        var key: [UInt8]
        var id: String
        var isLatest: Bool
        /// Nil for a note that the object was deleted.
        var object: S3Object?
    }

    let rows: [Row]
    /// Where the next page starts; nil after the last.
    private(set) var next: Marker?

    /// Reads an answer; a row that can't be read is left out.
    init(_ body: [UInt8]) throws(ProviderError) {
        var read: [(name: String, fields: S3Document.Fields)] = []
        let document = try S3Document.read(body, rows: ["Version", "DeleteMarker"]) { read.append(($0, $1)) }
        guard document.root.hasPrefix("ListVersions") else {
            throw .failed("the server sent \(document.root.prefix(100)) for a list of versions", nil)
        }
        let isEncoded = document["EncodingType"] == "url"
        rows = read.compactMap { name, fields in
            guard let id = fields.text("VersionId"), (1...400).contains(id.utf8.count),
                id.utf8.allSatisfy({ (0x21...0x7E).contains($0) }),
                let key = fields["Key"].flatMap({ S3Listing.key($0, isEncoded) })
            else { return nil }
            let object = name == "Version" ? S3Object(row: fields, key: key) : nil
            return Row(key: key, id: id, isLatest: fields.text("IsLatest") == "true", object: object)
        }
        guard document["IsTruncated"] == "true",
            let key = document["NextKeyMarker"].flatMap({ S3Listing.key(Array($0.utf8), isEncoded) })
        else { return }
        next = Marker(key: String(decoding: key, as: UTF8.self), id: document["NextVersionIdMarker"] ?? "")
    }
}

extension S3Client {
    /// Lists the versions of keys that begin so, the newest of a key first.
    func versions(_ prefix: [UInt8], after marker: S3Versions.Marker?) async throws(ProviderError) -> S3Versions {
        var call = S3Call("GET", query: [("versions", ""), ("max-keys", "1000"), ("encoding-type", "url")])
        call.query.append(("prefix", String(decoding: prefix, as: UTF8.self)))
        if let marker {
            call.query.append(("key-marker", marker.key))
            if !marker.id.isEmpty { call.query.append(("version-id-marker", marker.id)) }
        }
        return try S3Versions(try await send(call).body)
    }
}
