internal import CoveCore

/// The pages of a listing of a bucket: each has to bring something new, and there is an end to them.
struct S3Pages: Sendable {
    /// So many pages may follow each other that bring nothing new.
    private static let idleLimit = 100
    private static let limit = 100_000

    /// Where the next page starts; nil for the first one.
    private(set) var token: String?
    /// The hashes of all tokens so far.
    private var tokens: Set<Int> = []
    private var rows = 0
    private var idle = 0
    /// The hash of the last page that had something.
    private var last = 0

    /// Takes a page in; false when it was the last one.
    ///
    /// Throws when the pages lead nowhere.
    mutating func advance(_ page: S3Listing) throws(ProviderError) -> Bool {
        guard let next = page.next else { return false }
        let count = page.objects.count + page.prefixes.count
        rows += count
        var hasher = Hasher()
        for object in page.objects { hasher.combine(object.key) }
        hasher.combine(page.prefixes)
        let hash = hasher.finalize()
        idle = count == 0 || hash == last ? idle + 1 : 0
        if count > 0 { last = hash }
        guard tokens.insert(next.hashValue).inserted, idle < Self.idleLimit, tokens.count < Self.limit,
            rows <= PageLimit.items
        else { throw .failed("the server's listing has no end", nil) }
        token = next
        return true
    }
}

extension S3Client {
    /// Lists all keys that begin so, or those up to the next slash, a page at a time.
    func eachPage(
        of prefix: [UInt8],
        delimiter: Bool = false,
        _ body: (S3Listing) async throws(ProviderError) -> Void
    ) async throws(ProviderError) {
        var pages = S3Pages()
        var listing: S3Listing
        repeat {
            listing = try await list(prefix, delimiter: delimiter, from: pages.token)
            try await body(listing)
        } while try pages.advance(listing)
    }
}
