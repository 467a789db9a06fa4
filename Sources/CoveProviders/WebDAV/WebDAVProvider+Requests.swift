internal import CoveCore

extension HTTPResponse {
    /// What a DELETE wants; 207 tells of something that stayed.
    var isGone: Bool { [200, 202, 204, 404, 410].contains(status) }
}

/// The plain requests that changes are made of.
extension WebDAVProvider {
    /// A hidden name that says what it is for.
    static func hiddenName(_ purpose: String) -> [UInt8] {
        Array(".cove-\(purpose)-\(DocumentID.random().description.prefix(16))".utf8)
    }

    func send(
        _ method: String,
        _ path: RemotePath,
        isDirectory: Bool = false,
        _ headers: [(name: String, value: String)] = []
    ) async throws(ProviderError) -> HTTPResponse {
        var request = HTTPRequest(method, address.url(path, isDirectory: isDirectory))
        request.headers = headers
        return try await client.send(request)
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
        return try await client.send(request)
    }

    func put(
        _ path: RemotePath,
        _ content: any ContentSource,
        _ headers: [(name: String, value: String)]
    ) async throws(ProviderError) -> HTTPResponse {
        var request = HTTPRequest("PUT", address.url(path))
        request.headers = headers + [("Content-Type", "application/octet-stream")]
        request.body = .content(content, 0..<content.size)
        request.isBulk = true
        return try await client.send(request)
    }

    /// Asks for a MOVE, onto a destination that is free, may be overwritten, or is locked.
    func move(
        _ path: RemotePath,
        to target: RemotePath,
        isDirectory: Bool,
        overwrite: Bool,
        lock: DAVLock? = nil,
        method: String = "MOVE"
    ) async throws(ProviderError) -> HTTPResponse {
        let destination = address.url(target, isDirectory: isDirectory)
        var headers = [("Destination", destination), ("Overwrite", overwrite ? "T" : "F")]
        if let lock { headers.append(condition(lock)) }
        return try await send(method, path, isDirectory: isDirectory, headers)
    }

    /// Sends a request on the condition of a version; one that was refused although the version is right is sent again:
    /// some servers call their tags weak for a second, which no condition holds for.
    func conditionally(
        _ path: RemotePath,
        _ base: ContentVersion,
        _ send: () async throws(ProviderError) -> HTTPResponse
    ) async throws(ProviderError) -> HTTPResponse {
        for _ in 0..<10 {
            let response = try await send()
            guard response.status == 412 else { return response }
            let current = try await look(path)
            guard current.contentVersion == base else { throw .conflict(current) }
            do { try await Task.sleep(for: .milliseconds(250)) } catch { throw .cancelled }
        }
        distrustConditions()
        throw .busy
    }
}
