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
        // Other names begin so too, and are the user's.
        for start in [".cove/", ".cove-"] { try await eraseHidden(address.prefix + Array(start.utf8)) }
        guard features.keepsVersions else { return }
        var marker: S3Versions.Marker?
        repeat {
            let page = try await client.versions(address.prefix, after: marker)
            for row in page.rows where row.key.starts(with: address.prefix) && (!row.isLatest || row.object == nil) {
                _ = try await client.send(S3Call("DELETE", row.key, query: [("versionId", row.id)]))
            }
            guard page.next != marker else { break }
            marker = page.next
        } while marker != nil
    }

    /// Deletes the hidden objects whose keys begin so, and nothing else, whatever the server lists.
    private func eraseHidden(_ start: [UInt8]) async throws(ProviderError) {
        // A page each time, as long as something goes.
        var last: [[UInt8]] = []
        while true {
            let keys = try await client.list(start, delimiter: false).objects.map(\.key).filter { isHidden($0) }
            if keys.isEmpty || keys == last { return }
            for key in keys { _ = try await client.send(S3Call("DELETE", key)) }
            last = keys
        }
    }

    /// True for a key whose first name below the prefix is one that goes with all else.
    private func isHidden(_ key: [UInt8]) -> Bool {
        guard key.starts(with: address.prefix) else { return false }
        return ErasureNote.isOver(Array(key.dropFirst(address.prefix.count).prefix { $0 != 0x2F }))
    }
}
