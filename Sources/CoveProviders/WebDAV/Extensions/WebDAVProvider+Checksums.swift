public import CoveCore

/// Checksums that go along with a file, as ownCloud and Nextcloud keep them.
extension WebDAVProvider {
    /// The hash that goes along with a content, where the server keeps one.
    func checksum(of content: any ContentSource) async throws(ProviderError) -> Checksum? {
        guard try server().keepsChecksums else { return nil }
        return try await work.run { flag throws(ProviderError) in try Checksum.of(content, .sha1, flag) }
    }

    /// What the server tells of the hash of a file, the strongest of several, or what its tag is where that is one.
    public func matches(
        _ item: RemoteReference,
        version: ContentVersion,
        _ content: any ContentSource
    ) async throws(ProviderError) -> Bool? {
        let resource = try await properties(item.path, MultistatusReader.checksumRequest)
        let current = self.item(resource, item.path)
        guard !resource.isPlaceholder, current.kind == .file else { throw .noSuchItem }
        guard current.contentVersion.isSame(as: version) else { throw .versionNoLongerAvailable }
        guard current.size == content.size else { return false }
        var told = Checksum.all(in: resource.checksums ?? "").max { $0.value.count < $1.value.count }
        if told == nil, try server().tagIsDigest, let tag = DAVResource.tag(of: current.contentVersion)?.text,
            tag.utf8.count == 32
        {
            told = [UInt8](hexadecimal: tag).map { Checksum(.md5, $0) }
        }
        guard let told else { return nil }
        return try await work.run { flag throws(ProviderError) in
            try Checksum.of(content, told.algorithm, flag) == told
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
        let resource = try await properties(path, checksumRequest)
        if resource.isPlaceholder { throw .noSuchItem }
        let told = Checksum.all(in: resource.checksums ?? "").filter { $0.algorithm == sum.algorithm }
        return (item(resource, path), told.isEmpty || told.contains(sum))
    }
}
