public import CoveCore
internal import Synchronization

extension WebDAVProvider {
    /// Lists a directory by PROPFIND with a depth of 1, page by page while the answer comes in.
    public func list(_ directory: RemoteReference, page: Page?) async throws(ProviderError) -> Listing {
        let listing: DAVListing
        if let page {
            guard let found = listings.take(page) else { throw .pageExpired }
            listing = found
        } else {
            listing = DAVListing(self, directory.path)
        }
        let (items, isLast) = try await listing.next()
        return Listing(items: items, next: isLast ? nil : listings.put(listing))
    }

    /// Asks for the properties of one name.
    public func lookup(_ name: FileName, in directory: RemoteReference) async throws(ProviderError) -> RemoteItem {
        if name.isReserved, !name.isPassing { throw .noSuchItem }
        let names = (try? server().names) ?? KeptNames()
        // Where one name may stand for another, the server answers for that, too: only a listing tells.
        guard names.folded(name) != nil || names.problem(with: name) != nil else {
            return try await look(directory.path.appending(name))
        }
        guard let found = try await view(directory.path, for: [name]).resource(name) else { throw .noSuchItem }
        return item(found, directory.path.appending(name))
    }

    /// Throws when the server could not keep a new name, or would not show it: it would look deleted, or be there twice.
    func checkName(_ path: RemotePath) async throws(ProviderError) {
        guard let name = path.name, !name.isReserved else { return }
        let server = try server()
        if server.hidesDotNames, name.bytes.first == 0x2E {
            throw .unsupported("\(name): the server does not list names that begin with a dot")
        }
        if address.isMistakable(name) { throw .unsupported("\(name): a name that Cove keeps for itself") }
        if let problem = server.names.problem(with: name) { throw .unsupported("\(name): \(problem)") }
        guard server.names.folded(name) != nil else { return }
        if let twin = try await view(path.parent, for: [name]).twins[name] {
            throw .unsupported("\(name): the server takes it for \(twin)")
        }
    }

    /// What the server has at a path now.
    func look(_ path: RemotePath) async throws(ProviderError) -> RemoteItem {
        let resource = try await properties(path, itemRequest)
        if resource.isPlaceholder { throw .noSuchItem }
        return item(resource, path)
    }

    /// What the server has at a path; nil when there is nothing.
    func lookIfPresent(_ path: RemotePath) async throws(ProviderError) -> RemoteItem? {
        do throws(ProviderError) { return try await look(path) } catch .noSuchItem { return nil }
    }

    /// What is asked of an item: of Nextcloud also with whom it is shared.
    var itemRequest: [UInt8] { tellsSharing ? MultistatusReader.sharingRequest : MultistatusReader.request }

    /// The same with checksums.
    var checksumRequest: [UInt8] { tellsSharing ? MultistatusReader.fullRequest : MultistatusReader.checksumRequest }

    private var tellsSharing: Bool { (try? server())?.makesShares == true }

    func item(_ resource: DAVResource, _ path: RemotePath) -> RemoteItem {
        let isDirectory = resource.isCollection
        let sharing = resource.sharing
        // Whom it is given to changes neither its date nor its tag.
        let shared = sharing.map { " \($0.role.rawValue) \($0.permissions.rawValue)" } ?? ""
        return RemoteItem(
            id: RemoteID(id(resource, path)),
            name: path.name?.bytes ?? [],
            kind: isDirectory ? .directory : .file,
            // Of an unknown size nothing can be fetched: the engine refuses it.
            size: isDirectory ? 0 : resource.size ?? -1,
            contentVersion: resource.contentVersion,
            // Of a directory only a tag that rises with all that is in it says anything.
            metadataVersion: MetadataVersion(
                isDirectory
                    ? Self.short((resource.tag ?? "") + shared, 120) : "\(resource.modified?.seconds ?? 0)\(shared)"
            ),
            metadata: ItemMetadata(modificationTime: isDirectory ? nil : resource.modified),
            sharing: sharing,
            created: resource.created
        )
    }

    private func id(_ resource: DAVResource, _ path: RemotePath) -> [UInt8] {
        resource.fileID.map { Array("i\(Self.short($0, 200))".utf8) } ?? id(of: path)
    }

    /// A server's text, or its hash where it has more than some bytes: the beginning may be that of another one, too.
    private static func short(_ text: String, _ most: Int) -> String {
        text.utf8.count <= most ? text : "h" + Digest.hash(Array(text.utf8), .sha256).hexadecimal
    }

    /// What stands for a path where the server has no ids.
    func id(of path: RemotePath) -> [UInt8] {
        // The longest are told apart by their hash.
        path.bytes.count < 400 ? [0x70] + path.bytes : [0x68] + Digest.hash(path.bytes, .sha256)
    }

    func properties(
        _ path: RemotePath,
        isDirectory: Bool = false,
        _ body: [UInt8] = MultistatusReader.request
    ) async throws(ProviderError) -> DAVResource {
        let found = try await propfind(path, isDirectory: isDirectory, depth: 0, body)
        let itself = found.first { resource in
            if case .itself = address.place(of: resource.href, in: path) { true } else { false }
        }
        // Alone it is what was asked for, whatever the server calls it.
        guard let resource = itself ?? (found.count == 1 ? found.first : nil) else {
            throw .failed("\(path): the server tells of something else", nil)
        }
        if let error = resource.refusal("\(path)") { throw error }
        return resource
    }

    func propfind(
        _ path: RemotePath,
        isDirectory: Bool,
        depth: Int,
        _ body: [UInt8]
    ) async throws(ProviderError) -> [DAVResource] {
        let receiver = MultistatusReceiver(client.pageLimit)
        try await propfind(path, isDirectory: isDirectory, depth: depth, body, to: receiver)
        return receiver.resources
    }

    /// Asks; the receiver has taken a whole answer when this returns.
    func propfind(
        _ path: RemotePath,
        isDirectory: Bool,
        depth: Int,
        _ body: [UInt8],
        to receiver: MultistatusReceiver
    ) async throws(ProviderError) {
        var request = HTTPRequest("PROPFIND", address.url(path, isDirectory: isDirectory))
        request.headers = [("Depth", "\(depth)"), ("Content-Type", "application/xml; charset=utf-8")]
        request.body = .bytes(body)
        request.isRepeatable = true
        let response = try await client.send(request, to: receiver)
        if !isDirectory, (300..<400).contains(response.status),
            response.head["location"]?.hasSuffix("/") == true
        {
            // Some servers send whoever forgets the slash of a directory back to put it.
            return try await propfind(path, isDirectory: true, depth: depth, body, to: receiver)
        }
        // So Apache answers for what is below a file, and for a file that is taken for a directory.
        if response.status == 400, try await isBehindFile(path, isDirectory: isDirectory) { throw .noSuchItem }
        guard response.status == 207 else { throw refusal(response, "\(path)") }
        try receiver.finish()
    }

    /// True where a file has the name of a directory on the way to an item, or the item's own if that is to be a directory.
    private func isBehindFile(_ path: RemotePath, isDirectory: Bool) async throws(ProviderError) -> Bool {
        guard !path.isRoot else { return false }
        if isDirectory {
            do {
                return try await !properties(path).isCollection
            } catch .noSuchItem {
                return true
            }
        }
        return try await isBehindFile(path.parent, isDirectory: true)
    }

    /// The error of a request that was to put something at a path: where its folder is missing, each server says that in its
    /// own way.
    func refusal(_ response: HTTPResponse, making path: RemotePath) async throws(ProviderError) -> ProviderError {
        if Self.mayTellOfMissing(response.status),
            try await lookIfPresent(path.parent)?.kind != .directory
        {
            return .noSuchItem
        }
        return refusal(response, "\(path)")
    }

    /// The error of a request that was about an item: where that is gone, with its folder or for one of another kind, each server
    /// says that in its own way.
    func refusal(_ response: HTTPResponse, at path: RemotePath) async throws(ProviderError) -> ProviderError {
        if Self.mayTellOfMissing(response.status), try await lookIfPresent(path) == nil { return .noSuchItem }
        return refusal(response, "\(path)")
    }

    /// True for what a server may answer where an item or a folder is missing, or another kind has its name.
    ///
    /// Those are many; what is left out says something of the request or of the moment.
    private static func mayTellOfMissing(_ status: Int) -> Bool {
        status == 500 || (400..<500).contains(status) && ![401, 407, 408, 412, 413, 425, 429].contains(status)
    }

    /// The error of a status nobody at the call expected; one of 401 says how the server wants to be logged in to.
    func refusal(_ response: HTTPResponse, _ what: String) -> ProviderError {
        guard response.status == 401 else { return ProviderError(response, doing: what) }
        if client.isDowngrade(response.head) {
            return .notAuthenticated(
                "the server, which took a proof of the password before, wants the password itself over a line that others "
                    + "can read; mount webdavs:// instead"
            )
        }
        let ways = response.head.all("www-authenticate").map { $0.prefix { $0 != " " } }.joined(separator: ", ")
        return .notAuthenticated("the server wants a password (\(ways)) and accepts none that it got; run cove login")
    }
}
