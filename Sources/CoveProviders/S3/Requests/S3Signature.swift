internal import CoveCore

/// AWS Signature Version 4: in the `Authorization` header, over a payload that is hashed first, or in an address.
struct S3Signature {
    let credentials: S3Credentials
    let region: String
    let time: Timestamp

    /// The hash of a request without a body.
    static let emptyPayload = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

    /// What a server reads of the request; the path and the query are percent-encoded already.
    struct Request {
        var method: String
        var path: String
        var query: [(name: String, value: String)] = []
        /// All headers to be signed, the host among them.
        var headers: [(name: String, value: String)]
        /// The body's SHA-256 in hexadecimal.
        var payload = S3Signature.emptyPayload
    }

    /// The value of the `Authorization` header.
    func authorization(_ request: Request) -> String {
        let (names, signature) = sign(request)
        return
            "AWS4-HMAC-SHA256 Credential=\(credentials.accessKey)/\(scope),SignedHeaders=\(names),Signature=\(signature)"
    }

    /// The query of an address by which anybody can ask for the same, for so many seconds from the signature's time.
    func query(of request: Request, lasting seconds: Int64) -> String {
        var request = request
        request.payload = "UNSIGNED-PAYLOAD"
        let names = request.headers.map { $0.name.lowercased() }.sorted().joined(separator: ";")
        request.query += [
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"), ("X-Amz-Credential", "\(credentials.accessKey)/\(scope)"),
            ("X-Amz-Date", HTTPDate.compact(time)), ("X-Amz-Expires", "\(seconds)"), ("X-Amz-SignedHeaders", names),
        ]
        if let token = credentials.sessionToken { request.query.append(("X-Amz-Security-Token", token)) }
        return Self.query(request.query) + "&X-Amz-Signature=" + sign(request).signature
    }

    private func sign(_ request: Request) -> (names: String, signature: String) {
        let headers = request.headers.map { ($0.name.lowercased(), Self.trimmed($0.value)) }.sorted { $0.0 < $1.0 }
        let names = headers.map(\.0).joined(separator: ";")
        let canonical = [
            request.method, request.path, Self.query(request.query),
            headers.map { "\($0.0):\($0.1)\n" }.joined(), names, request.payload,
        ].joined(separator: "\n")
        let hash = Digest.hash(Array(canonical.utf8), .sha256).hexadecimal
        let text = "AWS4-HMAC-SHA256\n\(HTTPDate.compact(time))\n\(scope)\n\(hash)"
        return (names, Digest.hmac(Array(text.utf8), key: key).hexadecimal)
    }

    /// The query as it is signed and sent: sorted by name.
    static func query(_ items: [(name: String, value: String)]) -> String {
        items.map { (PercentEncoding.encode($0.name.utf8), PercentEncoding.encode($0.value.utf8)) }
            .sorted { $0 < $1 }
            .map { "\($0.0)=\($0.1)" }
            .joined(separator: "&")
    }

    private var scope: String { "\(date)/\(region)/s3/aws4_request" }

    private var date: Substring { HTTPDate.compact(time).prefix(8) }

    private var key: [UInt8] {
        var key = Array("AWS4\(credentials.secretKey)".utf8)
        for part in [String(date), region, "s3", "aws4_request"] { key = Digest.hmac(Array(part.utf8), key: key) }
        return key
    }

    /// Without white space at the ends, and with one space for several.
    private static func trimmed(_ value: String) -> String {
        value.split(separator: " ", omittingEmptySubsequences: true).joined(separator: " ")
    }
}
