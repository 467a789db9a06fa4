public import CoveCore

/// Word that devices leave for each other.
extension S3Provider {
    private var newsKey: [UInt8] { address.prefix + NewsFile.name.bytes }

    /// Gets the board.
    public func news(unless version: ContentVersion?) async throws(ProviderError) -> News? {
        var call = S3Call("GET", newsKey)
        call.headers = NewsFile.condition(version)
        switch try await client.ask(call) {
        case .success(let response): return NewsFile.read(response.body, tag: response.head["etag"])
        case .failure(let failure):
            if failure.status == 304 { return nil }
            guard failure.status == 404, failure.code != .noSuchBucket else { throw failure.error }
            return NewsFile.absent
        }
    }

    /// Puts the board.
    public func leaveNews(_ board: NewsBoard, as device: String) async throws(ProviderError) {
        var board = board
        let bytes = board.encode(for: device)
        var call = S3Call("PUT", newsKey)
        call.body = .bytes(bytes)
        call.payload = Digest.hash(bytes, .sha256).hexadecimal
        call.isRepeatable = true
        _ = try await client.send(call)
    }
}
