internal import CoveCore

/// A user's collections beside the files: where a source is `…/files/USER/…`, uploads in chunks, earlier versions and the
/// server's own trash may be beside it, as ownCloud and Nextcloud have them.
struct DAVHome: Sendable {
    private let base: String
    private let user: String
    /// What the addresses of the web pages begin with, without `index.php`; nil where the address does not tell.
    private let front: String?
    /// Where the source is below the user's files.
    let inside: [[UInt8]]

    /// Nil where the address says nothing of the kind.
    init?(_ address: DAVAddress) {
        let names = address.root.split(separator: 0x2F).map { Array($0) }
        guard let files = names.firstIndex(of: Array("files".utf8)), files + 1 < names.count else { return nil }
        let before = names[..<files].map { "/" + PercentEncoding.encode($0) }.joined()
        base = address.origin + before
        user = PercentEncoding.encode(names[files + 1])
        inside = Array(names[(files + 2)...])
        front = names.firstIndex(of: Array("remote.php".utf8)).map { index in
            address.origin + names[..<index].map { "/" + PercentEncoding.encode($0) }.joined()
        }
    }

    /// Where uploads in chunks are made, or one of them, or something in it.
    func uploads(_ upload: String? = nil, _ part: String = "") -> String {
        "\(base)/uploads/\(user)/" + (upload.map { "\($0)/\(part)" } ?? "")
    }

    /// Where the earlier versions are of the file with an id, or one of them.
    func versions(of file: String? = nil, _ version: String = "") -> String {
        "\(base)/versions/\(user)/versions/" + (file.map { "\(PercentEncoding.encode($0.utf8))/\(version)" } ?? "")
    }

    /// Where Nextcloud says what it is.
    var status: String? { front.map { $0 + "/status.php" } }

    /// Where Nextcloud makes links to files.
    var shares: String? { front.map { $0 + "/ocs/v2.php/apps/files_sharing/api/v1/shares" } }

    /// Where Nextcloud has a picture of the file with an id, with at most so many pixels in a row and a column.
    func preview(of file: String, side: Int) -> String? {
        front.map { front in
            "\(front)/index.php/core/preview?fileId=\(PercentEncoding.encode(file.utf8))&x=\(side)&y=\(side)&a=1"
        }
    }
}

/// Trying out what a server has beyond WebDAV.
extension DAVServer {
    mutating func probeExtensions(
        _ provider: WebDAVProvider,
        in folder: RemotePath
    ) async throws(ProviderError) {
        guard let home = provider.home else { return }
        keepsVersions = try await provider.exists(home.versions())
        makesThumbnails = try await isNextcloud(provider, home)
        makesShares = makesThumbnails
        guard try await provider.exists(home.uploads()) else { return }
        takesChunks = try await chunks(provider, folder.appending(FileName(unchecked: [0x63])))
    }

    private func isNextcloud(_ provider: WebDAVProvider, _ home: DAVHome) async throws(ProviderError) -> Bool {
        guard let url = home.status else { return false }
        let response = try await provider.client.send(HTTPRequest("GET", url))
        guard response.head.isSuccess, case .object(let status) = try? JSONValue(parsing: response.body),
            case .string(let product) = status["productname"]
        else { return false }
        return product.contains("Nextcloud")
    }

    /// True when chunks become a file, and only on the conditions that are asked for.
    private func chunks(_ provider: WebDAVProvider, _ path: RemotePath) async throws(ProviderError) -> Bool {
        let content = ProbeContent()
        func assembling(_ condition: WebDAVProvider.Assembly) async throws(ProviderError) -> Int {
            let upload = WebDAVProvider.uploadName()
            defer { Task { await provider.dropChunks(upload) } }
            let made = try await provider.beginChunks(upload, to: path)
            guard made.head.isSuccess else { return made.status }
            let put = try await provider.putChunk(1, of: content, 0..<content.size, upload, to: path)
            guard put.head.isSuccess else { return put.status }
            return try await provider.assemble(upload, content.size, to: path, condition, []).status
        }
        guard (200..<300).contains(try await assembling(.absent)) else { return false }
        let first = try await provider.properties(path)
        guard first.size == content.size, let tag = DAVResource.tag(of: first.contentVersion) else { return false }
        let taken = try await assembling(.absent)
        let wrong = try await assembling(.tag(DAVServer.wrongTag))
        let right = try await assembling(.tag(condition(tag)))
        return taken == 412 && wrong == 412 && (200..<300).contains(right)
    }
}

private struct ProbeContent: ContentSource {
    var size: Int64 { 1 }

    func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ProviderError) -> Int {
        buffer.copyBytes(from: [0x37])
        return 1
    }

    func copy(to descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int { 0 }
}

extension WebDAVProvider {
    /// True when there is a collection at an address beside the files.
    func exists(_ url: String) async throws(ProviderError) -> Bool {
        do throws(ProviderError) {
            return try await !propfind(url, depth: 0, MultistatusReader.request).isEmpty
        } catch {
            if error.parksAccount { throw error }
            return false
        }
    }

    /// Asks for the properties at an address beside the files.
    func propfind(_ url: String, depth: Int, _ body: [UInt8], limit: Int = 64) async throws(ProviderError)
        -> [DAVResource]
    {
        var request = HTTPRequest("PROPFIND", url)
        request.headers = [("Depth", "\(depth)"), ("Content-Type", "application/xml; charset=utf-8")]
        request.body = .bytes(body)
        request.isRepeatable = true
        let receiver = MultistatusReceiver(client.pageLimit, limit: limit)
        let response = try await client.send(request, to: receiver)
        guard response.status == 207 else { throw refusal(response, "asking the server") }
        try receiver.finish()
        return receiver.resources
    }
}
