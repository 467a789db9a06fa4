internal import CoveCore

/// Takes the bytes of a range from an answer to a GET and gives them to a sink, if they are what was asked for.
///
/// It is used by one transfer at a time; after one that broke off, the next asks from `position` on. libcurl hands out
/// 16 KiB at a time, of which each alone would cost the sink as much as more of them.
final class RangeReceiver: BodyReceiver, @unchecked Sendable {
    private let range: Range<Int64>
    private let sink: any ContentSink
    private let takesCodings: Bool
    private let check: @Sendable (HTTPHead) throws(ProviderError) -> Void
    /// The first byte that the sink does not have.
    private(set) var position: Int64
    /// What stands from `position` on and the sink will have.
    private let gathered: UnsafeMutableRawBufferPointer
    private var gatheredCount = 0
    private var stop: Int64 = 0
    /// Bytes of a whole body that stand before the range.
    private var skipped: Int64 = 0

    /// The check throws when the answer's version is not the one wanted.
    ///
    /// Codings are taken where they are the source's own word for the bytes that it keeps, as they are.
    init(
        _ range: Range<Int64>,
        into sink: any ContentSink,
        takesCodings: Bool = false,
        check: @escaping @Sendable (HTTPHead) throws(ProviderError) -> Void
    ) {
        self.range = range
        self.sink = sink
        self.takesCodings = takesCodings
        self.check = check
        position = range.lowerBound
        gathered = .allocate(byteCount: Int(min(Self.most, Int64(range.count))), alignment: 16)
    }

    deinit { gathered.deallocate() }

    /// The most that is gathered.
    private static let most: Int64 = 64 << 10

    /// The value of the `Range` header of the next request.
    var header: String { "bytes=\(position)-\(range.upperBound - 1)" }

    /// True when all bytes are here that the file has of the range.
    var isComplete: Bool { position >= stop }

    func begin(_ head: HTTPHead) throws(ProviderError) {
        // What does not say what it is a part of tells nothing of the version either.
        if head.status != 200, head.contentRange?.first != position {
            let isSilent = head.contentRange == nil
            let what = isSilent ? "a part and does not say which" : "another part than the one asked for"
            throw .failed("the server sent \(what)", .inputOutput)
        }
        try check(head)
        if !takesCodings, let coding = head["content-encoding"], coding.lowercased() != "identity" {
            throw .failed("the server sends bytes in a coding (\(coding.prefix(40))) that nobody asked for", nil)
        }
        skipped = 0
        gatheredCount = 0
        stop = range.upperBound
        guard let told = head.contentRange else {
            // No part but all of it: whatever the server calls it, its first byte is byte 0.
            skipped = position
            if let length = head.contentLength { stop = min(stop, length) }
            return
        }
        guard told.first == position else {
            throw .failed("the server sent another part than the one asked for", .inputOutput)
        }
        stop = min(stop, told.last + 1)
        if let size = told.size { stop = min(stop, size) }
    }

    func receive(_ bytes: UnsafeRawBufferPointer) throws(ProviderError) {
        let before = Int(min(Int64(bytes.count), skipped))
        skipped -= Int64(before)
        var rest = bytes[before...]
        while !rest.isEmpty {
            let room = min(Int64(gathered.count), range.upperBound - position) - Int64(gatheredCount)
            // A whole body is read no further than needed.
            guard room > 0 else { throw .cancelled }
            let part = rest.prefix(Int(room))
            UnsafeMutableRawBufferPointer(rebasing: gathered[gatheredCount...])
                .copyMemory(from: UnsafeRawBufferPointer(rebasing: part))
            gatheredCount += part.count
            rest = rest[part.endIndex...]
            if gatheredCount == gathered.count { try flush() }
        }
    }

    func flush() throws(ProviderError) {
        guard gatheredCount > 0 else { return }
        let bytes = UnsafeRawBufferPointer(rebasing: gathered[..<gatheredCount])
        gatheredCount = 0
        try sink.write(bytes, at: position)
        position += Int64(bytes.count)
    }
}

extension HTTPClient {
    /// Fetches a range by GET; after a break in the middle it goes on where it was, as long as bytes keep coming.
    ///
    /// The request gets its `Range` header here. Returns the last response, whose status the caller judges.
    func fetch(_ request: HTTPRequest, _ receiver: RangeReceiver) async throws(ProviderError) -> HTTPResponse {
        var breaks = 0
        while true {
            var part = request
            part.headers.append(("Range", receiver.header))
            part.isRepeatable = true
            part.isPatient = true
            part.isBulk = true
            let start = receiver.position
            let answers = answerCount
            do throws(HTTPFailure) {
                return try await attempt(part, to: receiver)
            } catch {
                let wasCalledOff = Task.isCancelled
                // All that was wanted is here; the rest of a whole body is not.
                if error.error == .cancelled, receiver.isComplete, !wasCalledOff {
                    return HTTPResponse(head: HTTPHead(status: 200), body: [])
                }
                if case .serverUnreachable = error.error, receiver.position > start, !wasCalledOff {
                    breaks = receiver.position - start > 1 << 20 ? 0 : breaks + 1
                    if breaks < 5 { continue }
                }
                throw await judge(error, of: request, since: answers)
            }
        }
    }
}
