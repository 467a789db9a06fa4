public import CoveCore

/// Erasing everything: the note, what is hidden, and what a bucket keeps of all that was there.
extension S3Provider {
    private var noteKey: [UInt8] { address.prefix + ErasureNote.name.bytes }

    /// Gets the note.
    public func erasure() async throws(ProviderError) -> [UInt8]? {
        switch try await client.ask(S3Call("GET", noteKey)) {
        case .success(let response): return Array(response.body.prefix(ErasureNote.greatestSize))
        case .failure(let failure):
            guard failure.status == 404, failure.code != .noSuchBucket else { throw failure.error }
            return nil
        }
    }

    /// Puts the note, in place of an earlier one.
    public func noteErasure(_ note: [UInt8]) async throws(ProviderError) {
        var call = S3Call("PUT", noteKey)
        call.body = .bytes(note)
        call.payload = Digest.hash(note, .sha256).hexadecimal
        call.isRepeatable = true
        _ = try await client.send(call)
    }

    /// Deletes all hidden objects, and of a bucket with versions what is no current object below the prefix.
    ///
    /// What another device has sent meanwhile is current, and stays.
    public func eraseRest() async throws(ProviderError) {
        // A page each time, as long as something goes.
        var last: [[UInt8]] = []
        while true {
            let keys = try await client.list(address.prefix + Array(".cove".utf8), delimiter: false).objects.map(\.key)
                .filter { $0 != noteKey }
            if keys.isEmpty || keys == last { break }
            for key in keys { _ = try await client.send(S3Call("DELETE", key)) }
            last = keys
        }
        guard features.keepsVersions else { return }
        var marker: S3Versions.Marker?
        repeat {
            let page = try await client.versions(address.prefix, after: marker)
            for row in page.rows where !row.isLatest || row.object == nil {
                _ = try await client.send(S3Call("DELETE", row.key, query: [("versionId", row.id)]))
            }
            guard page.next != marker else { break }
            marker = page.next
        } while marker != nil
    }
}
