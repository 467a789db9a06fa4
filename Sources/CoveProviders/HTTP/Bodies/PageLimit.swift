internal import CoveCore

/// What a page of a listing may cost, whatever a server has to say: time, and bytes.
struct PageLimit {
    /// Many times what any server needs for a page.
    private static let bytes = 64 << 20
    /// More than any directory has that can be used.
    static let items = 2_000_000

    private let time: TimeSpan
    private var start = MonotonicTime.distantFuture
    private var count = 0

    init(_ time: TimeSpan) { self.time = time }

    /// A page begins: time and bytes count anew.
    mutating func begin() {
        start = System.monotonic()
        count = 0
    }

    /// Throws when the bytes that have just come are too many, or come too late.
    mutating func take(_ bytes: UnsafeRawBufferPointer) throws(ProviderError) {
        count += bytes.count
        guard count <= Self.bytes else { throw .failed("the server's listing does not end", nil) }
        guard System.monotonic() - start <= time else {
            throw .failed("the server's listing takes too long", .timedOut)
        }
    }
}
