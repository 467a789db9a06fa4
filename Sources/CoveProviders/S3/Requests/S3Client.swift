internal import CoveCore
internal import Synchronization

/// One request to the bucket, before it is signed.
struct S3Call: Sendable {
    var method: String
    /// The object; nil for the bucket itself.
    var key: [UInt8]?
    var query: [(name: String, value: String)] = []
    var headers: [(name: String, value: String)] = []
    var body = HTTPRequest.Body.none
    /// The SHA-256 of the body.
    var payload = S3Signature.emptyPayload
    /// Asking twice does no harm.
    var isRepeatable = false
    var isBulk = false
    /// How many times the stall limit the server may think before it answers.
    var patience = 1

    init(_ method: String, _ key: [UInt8]? = nil, query: [(name: String, value: String)] = []) {
        self.method = method
        self.key = key
        self.query = query
        isRepeatable = ["GET", "HEAD", "DELETE"].contains(method)
    }
}

/// Signs requests and sends them; corrects the clock and the region as the server says.
final class S3Client: Sendable {
    let address: S3Address
    private let http: HTTPClient
    private let login: @Sendable () async -> Credentials?
    private let state: Mutex<State>
    /// What all requests would cost at Amazon, in billionths of a dollar.
    private let billionths = Atomic(0)

    private struct State {
        var credentials: S3Credentials?
        var region: String
        /// Requests are signed with a time that is ahead of the one here by so much, as the server wanted.
        var offset = TimeSpan.zero
        /// The server's clock is ahead by so much, by its last answer.
        var ahead = TimeSpan.zero
    }

    init(_ address: S3Address, login: @escaping @Sendable () async -> Credentials?, _ http: HTTPClient) {
        self.address = address
        self.login = login
        self.http = http
        state = Mutex(State(region: S3Credentials.region(address)))
    }

    /// The requests so far, and what they cost by Amazon's list price for one region.
    var requests: RequestCounts {
        RequestCounts(total: http.requestCount, millionths: Double(billionths.load(ordering: .relaxed)) / 1000)
    }

    /// A million requests that read an object cost 0.40 dollars, a million that list or change something 5; deletions are free.
    private static func price(of call: S3Call) -> Int {
        if call.method == "DELETE" { return 0 }
        let reads =
            ["GET", "HEAD"].contains(call.method) && call.key != nil && call.query.allSatisfy { $0.name == "versionId" }
        return reads ? 400 : 5000
    }

    /// How long a page of a listing may take.
    var pageLimit: TimeSpan { http.pageLimit }

    /// Makes new connections in the place of those from before.
    func renewConnections() { http.renewConnections() }

    /// Sends, and gives the answer if it is a success; else throws what the server says.
    func send(_ call: S3Call, to receiver: (any BodyReceiver)? = nil) async throws(ProviderError) -> HTTPResponse {
        switch try await ask(call, to: receiver) {
        case .success(let response): return response
        case .failure(let failure): throw failure.error
        }
    }

    /// Sends; what the server refuses is a failure, what keeps the answer away is thrown.
    func ask(
        _ call: S3Call,
        to receiver: (any BodyReceiver)? = nil
    ) async throws(ProviderError) -> Result<HTTPResponse, S3Failure> {
        try await exchange(call) { request throws(ProviderError) in try await self.http.send(request, to: receiver) }
    }

    /// Fetches the bytes of a range.
    func fetch(_ call: S3Call, _ receiver: RangeReceiver) async throws(ProviderError) -> Result<HTTPResponse, S3Failure>
    {
        try await exchange(call) { request throws(ProviderError) in try await self.http.fetch(request, receiver) }
    }

    /// The time at the server, by whose clock what it holds is dated; the one here may be hours wrong.
    var now: Timestamp { System.now() + state.withLock { $0.ahead } }

    private func noteTime(_ head: HTTPHead) {
        guard let there = head["date"].flatMap({ HTTPDate.parse($0) }) else { return }
        let ahead = there - System.now().wholeSecond
        state.withLock { $0.ahead = ahead }
    }

    private func exchange(
        _ call: S3Call,
        _ send: (HTTPRequest) async throws(ProviderError) -> HTTPResponse
    ) async throws(ProviderError) -> Result<HTTPResponse, S3Failure> {
        var corrections = 0
        var attempts = 0
        while true {
            let offset = state.withLock { $0.offset }
            billionths.add(Self.price(of: call), ordering: .relaxed)
            let response = try await send(signed(call))
            // Of much else the answer began long ago.
            if !call.isBulk { noteTime(response.head) }
            if response.head.isSuccess, !Self.hidesFailure(call, response) { return .success(response) }
            var failure = S3Failure(response)
            if call.method == "HEAD", failure.code == .other, [400, 403].contains(failure.status) {
                failure = try await explanation(of: failure)
            }
            attempts += 1
            if failure.code == .internalError && call.isRepeatable || Self.isMoment(call, failure), attempts < 6 {
                // This passes.
                do {
                    try await Task.sleep(
                        for: TimeSpan.random(in: .milliseconds(50)...(.milliseconds(100))).doubled(attempts)
                    )
                } catch {
                    throw .cancelled
                }
                continue
            }
            guard corrections < 2, try await correct(failure, response.head, offset) else { return .failure(failure) }
            corrections += 1
        }
    }

    /// True where a new object found no folder: some servers have folders below, and remove each with its last object.
    private static func isMoment(_ call: S3Call, _ failure: S3Failure) -> Bool {
        call.method == "PUT" && failure.code == .noSuchKey && !call.headers.contains { $0.name == "x-amz-copy-source" }
    }

    /// True for an error that came after the server had promised success: a copy or a completion takes long.
    private static func hidesFailure(_ call: S3Call, _ response: HTTPResponse) -> Bool {
        guard call.method == "PUT" || call.method == "POST", !response.body.isEmpty else { return false }
        return (try? S3Document.read(response.body))?.root == "Error"
    }

    /// An answer to HEAD has no body that says why: a listing of nothing is refused for the same reason, if for any.
    private func explanation(of failure: S3Failure) async throws(ProviderError) -> S3Failure {
        let call = S3Call("GET", query: [("list-type", "2"), ("max-keys", "1"), ("prefix", ".cove-")])
        let response = try await http.send(signed(call))
        if response.head.isSuccess { return failure }
        let other = S3Failure(response)
        return other.code == .accessDenied ? failure : other
    }

    /// Learns from a refusal; true when it is worth asking again.
    private func correct(
        _ failure: S3Failure,
        _ head: HTTPHead,
        _ offset: TimeSpan
    ) async throws(ProviderError) -> Bool {
        if correctTime(failure, head, offset) { return true }
        switch failure.code {
        case .expiredToken, .tokenRefreshRequired, .invalidToken:
            let found = try S3Credentials.find(login: await login(), address: address)
            return state.withLock { state in
                defer { state.credentials = found }
                return state.credentials != found
            }
        default:
            guard [301, 307, 400, 403].contains(failure.status), let region = head["x-amz-bucket-region"],
                region.utf8.allSatisfy({ $0 == 0x2D || (0x30...0x39).contains($0) || (0x61...0x7A).contains($0) })
            else { return false }
            return state.withLock { state in
                defer { state.region = region }
                return state.region != region
            }
        }
    }

    /// Takes the server's clock for what is signed, if that may be why it refused; some say only that they do.
    private func correctTime(_ failure: S3Failure, _ head: HTTPHead, _ used: TimeSpan) -> Bool {
        let isSaid = failure.code == .requestTimeTooSkewed || failure.code == .requestExpired
        guard isSaid || [400, 403].contains(failure.status),
            let there = head["date"].flatMap({ HTTPDate.parse($0) })
        else { return false }
        let offset = there - System.now().wholeSecond
        guard (used - offset).magnitude > .seconds(isSaid ? 1 : 240) else { return false }
        state.withLock { $0.offset = offset }
        return true
    }

    /// Forgets the credentials, so that the next request looks for them again.
    func forgetCredentials() { state.withLock { $0.credentials = nil } }

    private func credentials() async throws(ProviderError) -> S3Credentials {
        if let known = state.withLock({ $0.credentials }) { return known }
        let found = try S3Credentials.find(login: await login(), address: address)
        state.withLock { $0.credentials = found }
        return found
    }

    /// An address by which anybody can get what a call gets, for a while from now.
    func link(_ call: S3Call, lasting life: TimeSpan) async throws(ProviderError) -> String {
        let credentials = try await credentials()
        let (region, offset) = state.withLock { ($0.region, $0.offset) }
        let signature = S3Signature(credentials: credentials, region: region, time: System.now() + offset)
        let place = address.place(of: call.key, in: region)
        let request = S3Signature.Request(
            method: call.method,
            path: place.path,
            query: call.query,
            headers: [("host", place.host)]
        )
        let seconds = max(1, life.wholeSeconds)
        return place.origin + place.path + "?" + signature.query(of: request, lasting: seconds)
    }

    /// Asks for the first byte at such an address as anybody does, without a signature of its own.
    func follow(_ link: String, isEmpty: Bool) async throws(ProviderError) -> HTTPResponse {
        var request = HTTPRequest("GET", link)
        if !isEmpty { request.headers = [("Range", "bytes=0-0")] }
        request.isRepeatable = true
        return try await http.send(request)
    }

    private func signed(_ call: S3Call) async throws(ProviderError) -> HTTPRequest {
        let credentials = try await credentials()
        let (region, offset) = state.withLock { ($0.region, $0.offset) }
        let time = System.now() + offset
        let signature = S3Signature(credentials: credentials, region: region, time: time)
        let place = address.place(of: call.key, in: region)
        var headers = call.headers
        headers.append(("x-amz-date", HTTPDate.compact(signature.time)))
        headers.append(("x-amz-content-sha256", call.payload))
        if let token = credentials.sessionToken { headers.append(("x-amz-security-token", token)) }
        // What proxies may change is not signed.
        let kept = headers.filter { $0.name.hasPrefix("x-amz-") || $0.name == "content-md5" }
        let signed = S3Signature.Request(
            method: call.method,
            path: place.path,
            query: call.query,
            headers: [("host", place.host)] + kept,
            payload: call.payload
        )
        headers.append(("Authorization", signature.authorization(signed)))
        let query = call.query.isEmpty ? "" : "?" + S3Signature.query(call.query)
        var request = HTTPRequest(call.method, place.origin + place.path + query)
        request.headers = headers
        request.body = call.body
        request.isRepeatable = call.isRepeatable
        request.isBulk = call.isBulk
        request.patience = call.patience
        return request
    }
}
