internal import CoveCore

/// Checksums that go along with a file, as ownCloud and Nextcloud keep them.
extension WebDAVProvider {
    /// The hash that goes along with a content, where the server keeps one.
    func checksum(of content: any ContentSource) async throws(ProviderError) -> Checksum? {
        guard try server().keepsChecksums else { return nil }
        return try await work.run { flag throws(ProviderError) in
            var digest = Digest(.sha1)
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)
            defer { buffer.deallocate() }
            var position: Int64 = 0
            while position < content.size {
                try flag.check()
                let read = try content.read(at: position, into: buffer)
                guard read > 0 else { throw .failed("the content ended early", .inputOutput) }
                digest.update(UnsafeRawBufferPointer(rebasing: buffer[..<read]))
                position += Int64(read)
            }
            return Checksum(.sha1, digest.finish())
        }
    }

    func checksumHeaders(_ sum: Checksum?) -> [(name: String, value: String)] {
        sum.map { [("OC-Checksum", $0.text)] } ?? []
    }

    /// What the server has at a path, and false where it tells of another checksum than the one of what was sent.
    func look(
        _ path: RemotePath,
        after sum: Checksum?
    ) async throws(ProviderError) -> (item: RemoteItem, isRight: Bool) {
        guard let sum else { return (try await look(path), true) }
        let resource = try await properties(path, MultistatusReader.checksumRequest)
        if resource.isPlaceholder { throw .noSuchItem }
        let told = Checksum.all(in: resource.checksums ?? "").filter { $0.algorithm == sum.algorithm }
        return (item(resource, path), told.isEmpty || told.contains(sum))
    }
}
