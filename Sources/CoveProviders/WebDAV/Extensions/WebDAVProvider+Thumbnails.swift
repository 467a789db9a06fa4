public import CoveCore

/// Pictures: those that Nextcloud makes, on other servers as `ThumbnailFolder` has them.
extension WebDAVProvider {
    private static let side = 1024

    /// Which files have one, of whatever version.
    public func thumbnails(
        of names: [FileName],
        in directory: RemoteReference
    ) async throws(ProviderError) -> Set<FileName> {
        var found: Set<FileName> = []
        if try server().makesThumbnails {
            let pictured = Set(
                try await pick(in: directory.path, MultistatusReader.previewRequest) { name, resource in
                    resource.hasPreview == true ? name : nil
                }
            )
            found = Set(names.filter { pictured.contains($0.bytes) })
        }
        do throws(ProviderError) {
            let present = try await pick(in: ThumbnailFolder.folder(of: directory.path)) { name, _ in name }
            return found.union(ThumbnailFolder.files(of: names, among: Set(present)))
        } catch .noSuchItem {
            return found
        }
    }

    /// The one of a version.
    ///
    /// What a device has given comes before what Nextcloud makes, which is of what a file has now: the version is looked at
    /// again behind it.
    public func thumbnail(
        of item: RemoteReference,
        version: ContentVersion
    ) async throws(ProviderError) -> [UInt8]? {
        let stored = try await get(address.url(ThumbnailFolder.place(of: item.path)))
        if let picture = stored.flatMap({ ThumbnailFolder.open($0, version) }) { return picture }
        guard try server().makesThumbnails, let home, let id = try await properties(item.path).numericID,
            let url = home.preview(of: id, side: Self.side), let picture = try await get(url),
            try await look(item.path).contentVersion.isSame(as: version)
        else { return nil }
        return picture
    }

    /// Puts one, whatever is there: another one can be made of the document.
    public func setThumbnail(
        _ picture: [UInt8]?,
        of item: RemoteReference,
        version: ContentVersion
    ) async throws(ProviderError) {
        let path = ThumbnailFolder.place(of: item.path)
        guard let picture else {
            let stored = try await get(address.url(path))
            guard stored.flatMap({ ThumbnailFolder.open($0, version) }) != nil else { return }
            let response = try await send("DELETE", path)
            guard response.isGone else { throw refusal(response, "\(path)") }
            return
        }
        let bytes = try ThumbnailFolder.seal(picture, version)
        var response = try await put(path, bytes, [("Content-Type", "image/png")])
        // Each server says in its own way that the folder is missing.
        if [403, 404, 405, 409, 500].contains(response.status) {
            for folder in [path.parent.parent, path.parent] { _ = try await send("MKCOL", folder, isDirectory: true) }
            response = try await put(path, bytes, [("Content-Type", "image/png")])
        }
        guard response.head.isSuccess else { throw refusal(response, "\(path)") }
    }

    /// The bytes at an address; nil where there are none.
    private func get(_ url: String) async throws(ProviderError) -> [UInt8]? {
        var request = HTTPRequest("GET", url)
        request.isRepeatable = true
        let response = try await client.send(request)
        if response.head.isSuccess { return response.body }
        // Below a folder that is missing, and where a name is that of something else, servers answer as they like.
        if [400, 403, 404, 405, 409, 410].contains(response.status) { return nil }
        throw refusal(response, url)
    }
}
