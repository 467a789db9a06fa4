internal import CoveCore

/// One answer to ListObjectsV2, taken apart while it comes.
final class S3Listing: BodyReceiver, @unchecked Sendable {
    /// More than any server puts on a page when it is asked for a thousand.
    private static let rowLimit = 10_000

    private(set) var objects: [S3Object] = []
    private(set) var prefixes: [[UInt8]] = []
    /// Where the next page starts; nil after the last.
    private(set) var next: String?
    private var rows: [(name: String, fields: S3Document.Fields)] = []
    private var scanner: XMLScanner?
    private var document: S3Document?
    private var page: PageLimit

    /// All of it may take so long.
    init(_ time: TimeSpan) { page = PageLimit(time) }

    func begin(_ head: HTTPHead) throws(ProviderError) {
        rows = []
        page.begin()
        let document = S3Document(rows: ["Contents", "CommonPrefixes"]) {
            [unowned self] name, fields throws(ProviderError) in
            guard rows.count < Self.rowLimit else { throw .failed("the server's listing has no end", nil) }
            rows.append((name, fields))
        }
        self.document = document
        scanner = XMLScanner(document)
    }

    func receive(_ bytes: UnsafeRawBufferPointer) throws(ProviderError) {
        try page.take(bytes)
        try scanner?.parse(bytes)
    }

    /// Reads what has come.
    func finish() throws(ProviderError) {
        guard let scanner, let document else { throw .failed("the server sent no listing", nil) }
        try scanner.finish()
        guard document.root == "ListBucketResult" else {
            throw .failed("the server sent \(document.root.prefix(100)) for a listing", nil)
        }
        let isEncoded = document["EncodingType"] == "url"
        objects.reserveCapacity(rows.count)
        for (name, fields) in rows {
            guard let raw = fields[name == "Contents" ? "Key" : "Prefix"], let key = Self.key(raw, isEncoded) else {
                throw .failed("the server's listing has a key that can't be read", nil)
            }
            guard name == "Contents" else {
                prefixes.append(key)
                continue
            }
            guard let object = S3Object(row: fields, key: key) else {
                throw .failed("the server's listing has an object without a size", nil)
            }
            objects.append(object)
        }
        rows = []
        guard document["IsTruncated"] == "true" else { return }
        guard let token = document["NextContinuationToken"], !token.isEmpty else {
            throw .failed("the server's listing breaks off", nil)
        }
        next = token
    }

    /// A key as a document has it.
    static func key(_ raw: [UInt8], _ isEncoded: Bool) -> [UInt8]? {
        guard isEncoded, raw.contains(where: { $0 == 0x2B || $0 == 0x25 }) else { return raw }
        return PercentEncoding.decode(raw.map { $0 == 0x2B ? 0x20 : $0 })
    }
}

extension S3Client {
    /// Lists keys in their order, from the start, from where a page has ended, or after a key.
    func list(
        _ prefix: [UInt8],
        delimiter: Bool,
        from token: String? = nil,
        after start: String? = nil,
        limit: Int = 1000
    ) async throws(ProviderError) -> S3Listing {
        var call = S3Call("GET", query: [("list-type", "2"), ("max-keys", "\(limit)"), ("encoding-type", "url")])
        call.query.append(("prefix", String(decoding: prefix, as: UTF8.self)))
        if delimiter { call.query.append(("delimiter", "/")) }
        if let token { call.query.append(("continuation-token", token)) }
        if let start { call.query.append(("start-after", start)) }
        let listing = S3Listing(pageLimit)
        switch try await ask(call, to: listing) {
        case .success: break
        case .failure(let failure):
            guard token != nil, failure.status == 400 else { throw failure.error }
            throw .pageExpired
        }
        try listing.finish()
        return listing
    }

    /// True when any key begins so.
    func hasAny(_ prefix: [UInt8], delimiter: Bool = false) async throws(ProviderError) -> Bool {
        let listing = try await list(prefix, delimiter: delimiter, limit: 1)
        return !listing.objects.isEmpty || !listing.prefixes.isEmpty
    }

    /// Asks for an object; nil when it is not there.
    func head(_ key: [UInt8]) async throws(ProviderError) -> S3Object? {
        switch try await ask(S3Call("HEAD", key)) {
        case .success(let response): return try S3Object(key: key, head: response.head)
        case .failure(let failure):
            guard failure.status == 404, failure.code != .noSuchBucket else { throw failure.error }
            return nil
        }
    }
}
