public import CoveCore

/// Earlier contents that the server keeps, as ownCloud and Nextcloud do.
extension WebDAVProvider {
    /// The earlier contents of a file that the server lists under its id.
    public func versions(of item: RemoteReference) async throws(ProviderError) -> [RemoteVersion] {
        guard let home, try server().keepsVersions else { return [] }
        let current = try await properties(item.path)
        let (id, found) = try await listVersions(of: current, home)
        guard id != nil else { return [] }
        let versions = found.compactMap { resource -> RemoteVersion? in
            guard !resource.isCollection, let name = Self.name(of: resource), let size = resource.size, size >= 0,
                let date = resource.modified
            else { return nil }
            // Some list what the file has now as its newest version.
            if date == current.modified, size == current.size { return nil }
            return RemoteVersion(id: name, size: size, modificationTime: date, contentVersion: nil)
        }
        return versions.sorted { $0.modificationTime > $1.modificationTime }
    }

    private func listVersions(
        of current: DAVResource,
        _ home: DAVHome
    ) async throws(ProviderError) -> (id: String?, found: [DAVResource]) {
        guard let id = current.numericID else { return (nil, []) }
        do throws(ProviderError) {
            let found = try await propfind(home.versions(of: id), depth: 1, MultistatusReader.request, limit: 10_000)
            return (id, found)
        } catch .noSuchItem {
            return (id, [])
        }
    }

    /// The last part of an address, as it was sent; nil for what could lead elsewhere.
    private static func name(of resource: DAVResource) -> String? {
        guard let last = resource.href.split(separator: 0x2F).last, last.count <= 200,
            last.allSatisfy({ (0x21...0x7E).contains($0) && $0 != 0x3F && $0 != 0x23 }), last != [0x2E],
            last != [0x2E, 0x2E]
        else { return nil }
        return String(decoding: last, as: UTF8.self)
    }

    /// Fetches an earlier content.
    public func fetch(
        _ version: RemoteVersion,
        of item: RemoteReference,
        into sink: any ContentSink
    ) async throws(ProviderError) {
        guard let home, let id = try await properties(item.path).numericID else { throw .versionNoLongerAvailable }
        let receiver = RangeReceiver(0..<version.size, into: sink) { (head) throws(ProviderError) in
            guard let size = head.contentRange?.size ?? head.contentLength else { return }
            guard size == version.size else { throw .versionNoLongerAvailable }
        }
        if version.size == 0 { return }
        let request = HTTPRequest("GET", home.versions(of: id, version.id))
        let response = try await client.fetch(request, receiver)
        switch response.status {
        case 200..<300:
            guard receiver.position == version.size else { throw .serverUnreachable("the version broke off") }
        case 404, 410, 416: throw .versionNoLongerAvailable
        default: throw refusal(response, "\(item.path)")
        }
    }
}
