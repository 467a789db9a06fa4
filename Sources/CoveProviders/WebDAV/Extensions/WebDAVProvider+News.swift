public import CoveCore

/// Word that devices leave for each other.
extension WebDAVProvider {
    /// Gets the board.
    public func news(unless version: ContentVersion?) async throws(ProviderError) -> News? {
        var request = HTTPRequest("GET", address.url(NewsFile.path))
        request.headers = NewsFile.condition(version) + [("Cache-Control", "no-cache")]
        request.isRepeatable = true
        let response = try await client.send(request)
        // Where two versions of one second may have one tag, all of it is asked for each time.
        let tag = capabilities.coarseVersions ? nil : response.head["etag"]
        if response.head.isSuccess { return NewsFile.read(response.body, tag: tag) }
        switch response.status {
        case 304: return nil
        case 404, 410: return NewsFile.absent
        default: throw refusal(response, "\(NewsFile.path)")
        }
    }

    /// Puts the board.
    public func leaveNews(_ board: NewsBoard, as device: String) async throws(ProviderError) {
        var board = board
        let response = try await put(
            NewsFile.path,
            board.encode(for: device),
            [("Content-Type", "application/json")]
        )
        guard response.head.isSuccess else { throw refusal(response, "\(NewsFile.path)") }
    }
}
