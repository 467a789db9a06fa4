internal import CoveCore

/// What is asked of a server.
struct HTTPRequest: Sendable {
    /// What is sent along.
    enum Body: Sendable {
        case none
        case bytes([UInt8])
        /// A part of a snapshot.
        case content(any ContentSource, Range<Int64>)

        var size: Int64 {
            switch self {
            case .none: 0
            case .bytes(let bytes): Int64(bytes.count)
            case .content(_, let range): range.upperBound - range.lowerBound
            }
        }
    }

    var method: String
    /// Absolute, percent-encoded, without credentials.
    var url: String
    var headers: [(name: String, value: String)] = []
    var body = Body.none
    /// Asking twice does no harm: what fails on the way is asked again.
    var isRepeatable = false
    /// Done twice it does harm: it is not sent again where an answer may only have got lost, not by libcurl either.
    var isOnce = false
    /// A program waits for the bytes: a server that wants fewer requests is given time.
    var isPatient = false
    /// How many times the stall limit the server may think before it answers.
    var patience = 1
    /// Moves many bytes: a few of these go on at a time, so that small requests never queue behind them.
    var isBulk = false

    init(_ method: String, _ url: String) {
        self.method = method
        self.url = url
    }

    /// `https://host:port`.
    var origin: String {
        guard let start = url.firstRange(of: "://") else { return url }
        return String(url[..<(url[start.upperBound...].firstIndex(of: "/") ?? url.endIndex)])
    }

    /// What it is about: where something is to come, else where it is.
    var subject: String { headers.first { $0.name == "Destination" }?.value ?? url }
}

extension HTTPRequest {
    /// False for what only looks.
    var mayChange: Bool { !["GET", "HEAD", "PROPFIND", "OPTIONS", "REPORT"].contains(method) }

    /// What was asked and what came of it, in a line for the log: addresses, conditions, sizes.
    func summary(_ outcome: Result<HTTPResponse, HTTPFailure>) -> String {
        func short(_ url: String) -> String { url.hasPrefix(origin) ? String(url.dropFirst(origin.count)) : url }
        var parts = [method, short(url)]
        for (name, value) in headers {
            switch name.lowercased() {
            case "destination": parts.append("to \(short(value))")
            case "x-amz-copy-source": parts.append("from \(value)")
            case "if-match", "if-none-match", "overwrite", "if": parts.append("\(name): \(value)")
            default: break
            }
        }
        if body.size > 0 { parts.append("\(body.size) bytes") }
        switch outcome {
        case .success(let response): parts.append("-> \(response.status)")
        case .failure(let failure): parts.append("-> \(failure.error)")
        }
        return parts.joined(separator: " ")
    }
}

/// The first part of an answer.
struct HTTPHead: Sendable {
    var status: Int
    /// Names in lower case.
    private(set) var headers: [(name: String, value: String)] = []

    init(status: Int = 0) { self.status = status }

    /// The first value of a header, by its lower-case name.
    subscript(_ name: String) -> String? { headers.first { $0.name == name }?.value }

    /// All values of a header.
    func all(_ name: String) -> [String] { headers.filter { $0.name == name }.map(\.value) }

    mutating func add(_ name: String, _ value: String) { headers.append((name, value)) }

    var isSuccess: Bool { (200..<300).contains(status) }

    /// The number in `Content-Length`; nil where there is none that makes sense.
    var contentLength: Int64? { self["content-length"].flatMap { Int64($0) }.flatMap { $0 >= 0 ? $0 : nil } }

    /// How long the server wants to be left alone, at most a day; nil where it does not say.
    var retryAfter: TimeSpan? {
        guard let text = self["retry-after"] else { return nil }
        if let seconds = Int64(text) { return min(max(.zero, .seconds(seconds)), .seconds(86_400)) }
        guard let date = HTTPDate.parse(text) else { return nil }
        let now = self["date"].flatMap { HTTPDate.parse($0) } ?? System.now()
        return min(max(.zero, date - now), .seconds(86_400))
    }

    /// The first byte and the whole size in `Content-Range`; nil where there is none that makes sense.
    var contentRange: (first: Int64, last: Int64, size: Int64?)? {
        guard let value = self["content-range"], value.lowercased().hasPrefix("bytes ") else { return nil }
        let parts = value.dropFirst("bytes ".count).split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2 else { return nil }
        let ends = parts[0].split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, let first = Int64(ends[0]), let last = Int64(ends[1]), first >= 0, last >= first,
            last < .max
        else { return nil }
        return (first, last, Int64(parts[1]))
    }
}

/// An answer whose body is in memory.
struct HTTPResponse: Sendable {
    var head: HTTPHead
    /// At most `HTTPTransfer.bodyLimit` bytes; empty when a receiver took them.
    var body: [UInt8]

    var status: Int { head.status }
}

/// Takes the body of a successful answer as it comes, on the thread of the event loop.
protocol BodyReceiver: AnyObject, Sendable {
    /// True while it takes no more; the line rests then until it calls what `connect` gave it.
    var isFull: Bool { get }
    /// Comes first, with what makes a resting line go on.
    func connect(_ resume: @escaping @Sendable () -> Void)
    /// The first part is here. Throws when the body is not wanted.
    func begin(_ head: HTTPHead) throws(ProviderError)
    /// Takes the next bytes. Throws when the rest is not wanted.
    func receive(_ bytes: UnsafeRawBufferPointer) throws(ProviderError)
    /// No more has come for now: what was held back to gather more of it goes on.
    func flush() throws(ProviderError)
}

extension BodyReceiver {
    var isFull: Bool { false }
    func connect(_ resume: @escaping @Sendable () -> Void) {}
    func flush() throws(ProviderError) {}
}
