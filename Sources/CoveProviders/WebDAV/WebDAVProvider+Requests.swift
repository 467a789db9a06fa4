internal import CoveCore

extension HTTPResponse {
    /// What a DELETE wants; 207 tells of something that stayed.
    var isGone: Bool { [200, 202, 204, 404, 410].contains(status) }
}

/// The plain requests that changes are made of.
extension WebDAVProvider {
    /// Where this device tries out what the server does: a name that its next daemon knows, should this one be killed.
    var probeFolder: RemotePath { RemotePath([FileName(unchecked: Array(".cove-probe-\(owner)".utf8))]) }

    func send(
        _ method: String,
        _ path: RemotePath,
        isDirectory: Bool = false,
        _ headers: [(name: String, value: String)] = []
    ) async throws(ProviderError) -> HTTPResponse {
        var request = HTTPRequest(method, address.url(path, isDirectory: isDirectory))
        request.headers = headers
        return try await ask(request)
    }

    /// Sends a request, and notes an answer that may be of this moment only.
    func ask(_ request: HTTPRequest) async throws(ProviderError) -> HTTPResponse {
        do throws(ProviderError) {
            let response = try await client.send(request)
            let mayPass = [401, 407, 408, 425, 429].contains(response.status) || response.status >= 500
            let isUnasked = response.status == 412 && !request.isConditional
            if mayPass && response.status != 501 || isUnasked { noteDoubt() }
            return response
        } catch {
            noteDoubt()
            throw error
        }
    }

    /// Puts bytes; for what must not be done twice.
    func put(
        _ path: RemotePath,
        _ bytes: [UInt8],
        _ headers: [(name: String, value: String)]
    ) async throws(ProviderError) -> HTTPResponse {
        var request = HTTPRequest("PUT", address.url(path))
        request.headers = headers
        request.body = .bytes(bytes)
        return try await ask(request)
    }

    func put(
        _ path: RemotePath,
        _ content: any ContentSource,
        _ headers: [(name: String, value: String)]
    ) async throws(ProviderError) -> HTTPResponse {
        var request = HTTPRequest("PUT", address.url(path))
        request.headers = headers + [("Content-Type", "application/octet-stream")]
        request.body = .content(content, 0..<content.size)
        request.isBulk = content.size > 256 << 10
        return try await client.send(request)
    }

    /// Asks for a MOVE, onto a destination that is free, or may be overwritten.
    func move(
        _ path: RemotePath,
        to target: RemotePath,
        isDirectory: Bool,
        overwrite: Bool,
        _ conditions: [(name: String, value: String)] = [],
        method: String = "MOVE"
    ) async throws(ProviderError) -> HTTPResponse {
        let destination = address.url(target, isDirectory: isDirectory)
        var request = HTTPRequest(method, address.url(path, isDirectory: isDirectory))
        request.headers = [("Destination", destination), ("Overwrite", overwrite ? "T" : "F")] + conditions
        // Some servers delete what is there before they look whether there is anything to move: sent again after its answer
        // got lost, it would take away what it has moved.
        request.isOnce = overwrite
        return try await ask(request)
    }

    /// The header that has a request done only to a version; none where the server could not tell it.
    func condition(_ version: ContentVersion) -> [(name: String, value: String)] {
        guard let server = try? server(), let tag = DAVResource.tag(of: version) else { return [] }
        return [("If-Match", server.condition(tag))]
    }

    /// The header that has a MOVE done only if it replaces a version.
    func condition(replacing version: ContentVersion, at path: RemotePath) -> [(name: String, value: String)] {
        guard let server = try? server(), let tag = DAVResource.tag(of: version) else { return [] }
        return [("If", "<\(address.url(path))> ([\(server.condition(tag))])")]
    }

    /// Sends a request on the condition of a version; one that was refused although the version is right is sent again:
    /// some servers call their tags weak for a second, which no condition holds for.
    func conditionally(
        _ path: RemotePath,
        _ base: ContentVersion,
        _ send: () async throws(ProviderError) -> HTTPResponse
    ) async throws(ProviderError) -> HTTPResponse {
        for _ in 0..<6 {
            let response = try await send()
            guard response.status == 412 else { return response }
            let current = try await properties(path)
            let item = item(current, path)
            guard !current.isPlaceholder else { throw .noSuchItem }
            guard item.contentVersion.isSame(as: base) else { throw .conflict(item) }
            let rest = EntityTag.isWeak(current.tag ?? "") ? TimeSpan.milliseconds(1050) : .milliseconds(250)
            do { try await Task.sleep(for: rest) } catch { throw .cancelled }
        }
        distrustConditions()
        throw .busy
    }
}

extension HTTPRequest {
    /// True where a header says what must be so for it to be done.
    fileprivate var isConditional: Bool { headers.contains { $0.name.hasPrefix("If") || $0.name == "Overwrite" } }
}
