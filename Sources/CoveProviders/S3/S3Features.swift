internal import CoveCore

/// What a server was seen to do, by trying it under a name of Cove's own.
struct S3Features: Sendable, Equatable {
    /// PUT with `If-None-Match: *` and with `If-Match` is refused when it must be.
    var putsConditionally = false
    /// So is DELETE with `If-Match`.
    var deletesConditionally = false
    /// And a copy onto what is there, with `If-None-Match: *`.
    var copiesConditionally = false
    /// `If-Match` wants the ETag without its quotes.
    var wantsBareTags = false
    /// The ETag of bytes sent in one piece is their MD5.
    var tagIsDigest = false
    /// Which keys it keeps as they are.
    var names = S3Names()
    /// Nothing may be written.
    var isReadOnly = false

    /// The value of a condition on a version.
    func tag(_ version: ContentVersion) -> String {
        let text = "\(version)"
        return wantsBareTags || text.hasPrefix("W/") ? text : "\"\(text)\""
    }
}

/// Tries a server out with a few small requests that leave nothing behind.
struct S3Probe {
    let client: S3Client

    func run() async throws(ProviderError) -> S3Features {
        let key = client.address.prefix + Array(".cove/probe/\(DocumentID.random())/".utf8)
        let plain = key + Array("plain".utf8)
        let odd = [key + Array("back\\slash".utf8), key + Array("directory/".utf8)]
        let result: Result<S3Features, ProviderError>
        do throws(ProviderError) {
            var features = try await attempt(plain)
            if !features.isReadOnly { features.names = try await tryNames(key, odd[0], odd[1]) }
            result = .success(features)
        } catch {
            result = .failure(error)
        }
        // Also after a failure: it may have arrived.
        if (try? result.get())?.isReadOnly != true {
            for key in [plain] + odd { _ = try? await client.ask(S3Call("DELETE", key)) }
        }
        return try result.get()
    }

    private func tryNames(
        _ key: [UInt8],
        _ backslash: [UInt8],
        _ slash: [UInt8]
    ) async throws(ProviderError) -> S3Names {
        for key in [backslash, slash] { _ = try await put(key, "", []) }
        let listed = Set(try await client.list(key, delimiter: false).objects.map(\.key))
        return S3Names(keepsBackslashes: listed.contains(backslash), keepsSlashes: listed.contains(slash))
    }

    private func attempt(_ key: [UInt8]) async throws(ProviderError) -> S3Features {
        var features = S3Features()
        let first: HTTPResponse
        switch try await put(key, "first", [("If-None-Match", "*")]) {
        case .success(let response):
            first = response
            let isRefused = try await isRefused(put(key, "second", [("If-None-Match", "*")]))
            features.putsConditionally = isRefused
        case .failure(let failure):
            if case .notPermitted = failure.error {
                features.isReadOnly = true
                return features
            }
            // Some servers answer a condition with an error of its own.
            switch try await put(key, "first", []) {
            case .success(let response): first = response
            case .failure(let failure):
                guard case .notPermitted = failure.error else { throw failure.error }
                features.isReadOnly = true
                return features
            }
        }
        let version = S3Object.version(first.head["etag"], size: 5, Timestamp(0))
        features.tagIsDigest = version.description == Digest.hash(Array("first".utf8), .md5).hexadecimal
        if features.putsConditionally { try await tryMatches(key, version, &features) }
        try await tryCopies(key, &features)
        try await tryDeletes(key, &features)
        return features
    }

    private static let wrong = ("If-Match", "\"00000000000000000000000000000000\"")

    private func tryMatches(
        _ key: [UInt8],
        _ version: ContentVersion,
        _ features: inout S3Features
    ) async throws(ProviderError) {
        guard try await isRefused(put(key, "second", [Self.wrong])) else {
            features.putsConditionally = false
            return
        }
        if case .success = try await put(key, "first", [("If-Match", features.tag(version))]) { return }
        features.wantsBareTags = true
        if case .success = try await put(key, "first", [("If-Match", features.tag(version))]) { return }
        features.putsConditionally = false
    }

    private func tryCopies(_ key: [UInt8], _ features: inout S3Features) async throws(ProviderError) {
        var call = S3Call("PUT", key)
        call.headers = [
            ("x-amz-copy-source", client.address.copySource(key)), ("x-amz-metadata-directive", "REPLACE"),
            ("If-None-Match", "*"),
        ]
        features.copiesConditionally = try await isRefused(client.ask(call))
    }

    private func tryDeletes(_ key: [UInt8], _ features: inout S3Features) async throws(ProviderError) {
        var call = S3Call("DELETE", key)
        call.headers = [Self.wrong]
        guard try await isRefused(client.ask(call)) else { return }
        features.deletesConditionally = try await client.head(key) != nil
    }

    private func isRefused(_ result: Result<HTTPResponse, S3Failure>) -> Bool {
        guard case .failure(let failure) = result else { return false }
        return failure.isPrecondition
    }

    private func put(
        _ key: [UInt8],
        _ text: String,
        _ condition: [(name: String, value: String)]
    ) async throws(ProviderError) -> Result<HTTPResponse, S3Failure> {
        let bytes = Array(text.utf8)
        var call = S3Call("PUT", key)
        call.headers = condition + [("content-md5", Digest.hash(bytes, .md5).base64)]
        call.body = .bytes(bytes)
        call.payload = Digest.hash(bytes, .sha256).hexadecimal
        return try await client.ask(call)
    }
}
