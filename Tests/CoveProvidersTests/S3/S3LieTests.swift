import CoveCore
import CoveTestSupport
import Synchronization
import Testing

@testable import CoveProviders

/// Servers that lie: a clear error, no wrong byte, and an end.
@Suite(.timeLimit(.minutes(30)))
struct S3LieTests {
    private typealias Answer = ScriptedServer.Answer

    static let text = "the true content"
    static let tag = Digest.hash(Array(text.utf8), .md5).hexadecimal
    private static let date = "Last-Modified: Sat, 21 Nov 2026 13:48:07 GMT"

    private static func error(_ status: Int, _ code: String, _ headers: [String] = []) -> Answer {
        ScriptedServer.answer(status, headers, "<Error><Code>\(code)</Code><Message>told so</Message></Error>")
    }

    static let emptyListing = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"

    /// A server that is honest to a start, and holds one file; everything else is the test's.
    func server(
        _ lie: @escaping @Sendable (ScriptedServer.Request) -> ScriptedServer.Answer?
    ) async throws -> (ScriptedServer, S3Provider) {
        let objects = Mutex<[String: [UInt8]]>([:])
        let server = try ScriptedServer { request in
            if request.target.contains(".cove/probe/") {
                return objects.withLock { Self.probed(request, &$0) }
            }
            if request.target.contains("prefix=.cove%2Fprobe") {
                let keys = objects.withLock { $0.keys.map { "<Contents><Key>\($0)</Key><Size>64</Size></Contents>" } }
                return ScriptedServer.answer(200, [], "<ListBucketResult>\(keys.joined())</ListBucketResult>")
            }
            return lie(request) ?? ScriptedServer.answer(200, [], Self.emptyListing)
        }
        let provider = try S3Provider("s3://bucket?endpoint=http://127.0.0.1:\(server.port)&region=here")
        return (server, provider)
    }

    /// Answers the probe as a server that knows no conditions, whose ETags are hashes, and that keeps checksums and most names.
    private static func probed(_ request: ScriptedServer.Request, _ objects: inout [String: [UInt8]]) -> Answer {
        let name = "x-amz-checksum-sha256: "
        if request.method == "PUT", let line = request.lines.first(where: { $0.hasPrefix(name) }),
            line != name + Digest.hash(request.body, .sha256).base64
        {
            return error(400, "BadDigest")
        }
        if request.method == "HEAD", request.target.hasSuffix("/summed") {
            return ScriptedServer.answer(200, [name + Digest.hash(Array("first".utf8), .sha256).base64])
        }
        let key = String(request.target.dropFirst("/bucket/".count))
        if request.method == "GET", let bytes = objects[key] {
            return ScriptedServer.answer(200, [], String(decoding: bytes, as: UTF8.self))
        }
        let isLost = key.hasSuffix("/") || key.hasSuffix("/back%5Cslash")
        if request.method == "PUT", !isLost { objects[key] = request.body }
        guard request.method == "PUT" else { return ScriptedServer.answer(request.method == "DELETE" ? 204 : 404) }
        return ScriptedServer.answer(200, ["ETag: \"\(Digest.hash(request.body, .md5).hexadecimal)\""])
    }

    private func fetch(_ answer: Answer, range: Range<Int64>? = nil) async throws -> Result<[UInt8]?, ProviderError> {
        let (server, provider) = try await server { request in
            request.method == "GET" && request.target.hasPrefix("/bucket/file") ? answer : nil
        }
        try await provider.start()
        let sink = MemorySink()
        do throws(ProviderError) {
            try await provider.fetch(
                provider.reference("file"),
                version: S3Object.version(Self.tag, size: Int64(Self.text.utf8.count), Timestamp(0)),
                range: range ?? 0..<Int64(Self.text.utf8.count),
                into: sink
            )
            #expect(!server.exchanges.isEmpty)
            return .success(sink.bytes)
        } catch {
            #expect(sink.bytes == [] || Array(Self.text.utf8).starts(with: sink.bytes ?? []))
            return .failure(error)
        }
    }

    @Test func `the whole instead of a part is as good`() async throws {
        let whole = ScriptedServer.answer(200, ["ETag: \"\(Self.tag)\"", Self.date], Self.text)
        #expect(try await fetch(whole).get() == Array(Self.text.utf8))
        #expect(try await fetch(whole, range: 4..<8).get() == Array("true".utf8))
        // Called a part, as some do.
        let named = ["Content-Range: bytes 4-7/16", "ETag: \"\(Self.tag)\"", Self.date]
        #expect(try await fetch(ScriptedServer.answer(200, named, "true"), range: 4..<8).get() == Array("true".utf8))
    }

    @Test func `bytes that are not the object's are not given`() async throws {
        let head = ["ETag: \"\(Self.tag)\"", Self.date]
        let other = ScriptedServer.answer(200, head, "the fake content")
        await #expect(throws: ProviderError.self) { try fetched(await fetch(other)) }
        let elsewhere = ScriptedServer.answer(206, head + ["Content-Range: bytes 0-3/16"], "the ")
        await #expect(throws: ProviderError.self) { try fetched(await fetch(elsewhere, range: 4..<8)) }
        let nowhere = ScriptedServer.answer(206, head, "true")
        await #expect(throws: ProviderError.self) { try fetched(await fetch(nowhere, range: 4..<8)) }
        let changed = ScriptedServer.answer(200, ["ETag: \"\(DocumentID.random())\"", Self.date], Self.text)
        #expect(try await fetch(changed) == .failure(.versionNoLongerAvailable))
        let hashed = ScriptedServer.answer(200, head + ["x-amz-checksum-sha256: AAAA"], Self.text)
        await #expect(throws: ProviderError.self) { try fetched(await fetch(hashed)) }
    }

    @Test(arguments: ["", "bytes 4-7/17", "bytes 0-3/16", "bytes 7-4/16", "4-7/16"])
    func `a part of which the server tells nothing true is no sign of another version`(range: String) async throws {
        let date = "Last-Modified: Mon, 02 Jan 2023 04:05:06 GMT"
        let told = range.isEmpty ? [] : ["Content-Range: \(range)"]
        let (server, provider) = try await server { request in
            guard request.target.hasPrefix("/bucket/file") else { return nil }
            if request.method == "HEAD" {
                return .bytes(Array("HTTP/1.1 200 OK\r\n\(date)\r\nContent-Length: 16\r\n\r\n".utf8))
            }
            return request.method == "GET" ? ScriptedServer.answer(206, [date] + told, "true") : nil
        }
        try await provider.start()
        let time = try #require(HTTPDate.parse("Mon, 02 Jan 2023 04:05:06 GMT"))
        let version = ContentVersion("~\(time.seconds)-16")
        let sink = MemorySink()
        let error = await #expect(throws: ProviderError.self) {
            try await provider.fetch(provider.reference("file"), version: version, range: 4..<8, into: sink)
        }
        #expect(error?.errno == .inputOutput)
        #expect(sink.bytes == [] && !server.exchanges.isEmpty)
    }

    @Test(arguments: ["sha256", "sha1", "crc64nvme", "crc32c", "crc32"])
    func `bytes without the checksum that the server tells are not given`(kind: String) async throws {
        let bytes = Array(Self.text.utf8)
        let sums = [
            "sha256": Digest.hash(bytes, .sha256), "sha1": Digest.hash(bytes, .sha1),
            "crc64nvme": CyclicCode.crc64nvme.check(bytes), "crc32c": CyclicCode.crc32c.check(bytes),
            "crc32": CyclicCode.crc32.check(bytes),
        ]
        let right = try #require(sums[kind]).base64
        let wrong = String(right.reversed().drop { $0 == "=" }.reversed()).lowercased() + "="
        // An object in parts has a tag that is no hash. Some servers tell the sum of the whole in answer to HEAD alone.
        let head = ["ETag: \"\(Self.tag)-2\"", Self.date]
        for (sum, isRight) in [(right, true), (wrong, false)] {
            for isInHead in [false, true] {
                let (server, provider) = try await server { request in
                    guard request.target.hasPrefix("/bucket/file") else { return nil }
                    let told = head + (isInHead && request.method == "GET" ? [] : ["x-amz-checksum-\(kind): \(sum)"])
                    return ScriptedServer.answer(200, told, Self.text)
                }
                try await provider.start()
                let sink = MemorySink()
                var isGiven = true
                do {
                    try await provider.fetch(
                        provider.reference("file"),
                        version: S3Object.version("\(Self.tag)-2", size: Int64(bytes.count), Timestamp(0)),
                        range: 0..<Int64(bytes.count),
                        into: sink
                    )
                } catch {
                    isGiven = false
                }
                #expect(isGiven == isRight)
                #expect(sink.bytes == (isRight ? bytes : []))
                let isAsked = server.exchanges.contains {
                    $0.request.method == "HEAD" && $0.request.target.hasSuffix("file")
                }
                // What is wrong is looked at again in any case.
                #expect(!isRight || isAsked == isInHead)
            }
        }
    }

    @Test func `the checks of cyclic codes are those that everybody has`() {
        let bytes = Array("123456789".utf8)
        #expect(CyclicCode.crc32.check(bytes).hexadecimal == "cbf43926")
        #expect(CyclicCode.crc32c.check(bytes).hexadecimal == "e3069283")
        #expect(CyclicCode.crc64nvme.check(bytes).hexadecimal == "ae8b14860a799888")
    }

    @Test func `a body that ends early or never is an error or cut`() async throws {
        let first = "HTTP/1.1 200 OK\r\nETag: \"\(Self.tag)\"\r\nContent-Length: 16\r\n\r\nthe true"
        await #expect(throws: ProviderError.self) { try fetched(await fetch(.bytes(Array(first.utf8)))) }
        let endless = "HTTP/1.1 200 OK\r\nETag: \"\(Self.tag)\"\r\nConnection: close\r\n\r\n"
        let more = [UInt8](repeating: 0x61, count: 1 << 16)
        await #expect(throws: ProviderError.self) { try fetched(await fetch(.endless(Array(endless.utf8), more))) }
        let long = "HTTP/1.1 206 OK\r\nETag: \"\(Self.tag)\"\r\nContent-Range: bytes 4-7/16\r\n\r\ntrue"
        let cut = try await fetch(.endless(Array(long.utf8), more), range: 4..<8)
        #expect(try cut.get() == Array("true".utf8))
    }

    private func fetched(_ result: Result<[UInt8]?, ProviderError>) throws { _ = try result.get() }

    @Test(
        arguments: [
            "<html>hello</html>", "\u{1}\u{2}garbage", "", "<ListBucketResult>",
            "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
        ]
    )
    func `a listing that is none is an error`(text: String) async throws {
        let flag = Flag()
        let (server, provider) = try await server { _ in
            flag.value ? ScriptedServer.answer(200, [], text) : nil
        }
        try await provider.start()
        flag.set()
        await #expect(throws: ProviderError.self) { try await provider.names() }
        #expect(!server.exchanges.isEmpty)
    }

    private final class Flag: Sendable {
        private let state = Mutex(false)

        var value: Bool { state.withLock { $0 } }
        func set() { state.withLock { $0 = true } }
    }

    @Test func `endless listings end`() async throws {
        let flag = Flag()
        let row = "<Contents><Key>a</Key><Size>1</Size></Contents>"
        let first = "HTTP/1.1 200 OK\r\n\r\n<ListBucketResult>"
        let (server, provider) = try await server { request in
            guard flag.value else { return nil }
            guard request.target.contains("prefix=pages") else {
                return .endless(Array(first.utf8), Array(String(repeating: row, count: 500).utf8))
            }
            let next = "<IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken>"
            return ScriptedServer.answer(200, [], "<ListBucketResult>\(row)\(next)</ListBucketResult>")
        }
        try await provider.start()
        flag.set()
        await #expect(throws: ProviderError.self) { try await provider.names() }
        await #expect(throws: ProviderError.self) { try await provider.names("pages") }
        #expect(server.exchanges.count < 200)
    }

    @Test(arguments: ["the same token", "two in turn", "new ones and the same names", "new ones and no names"])
    func `pages that bring nothing new end`(tokens: String) async throws {
        let flag = Flag()
        let count = Atomic(0)
        let (server, provider) = try await server { request in
            guard flag.value, request.target.contains("prefix=pages") else { return nil }
            let number = count.add(1, ordering: .relaxed).newValue
            let rows = tokens.hasSuffix("no names") ? "" : "<Contents><Key>pages/a</Key><Size>1</Size></Contents>"
            let token = tokens == "the same token" ? 1 : tokens == "two in turn" ? number % 2 : number
            let next = "<IsTruncated>true</IsTruncated><NextContinuationToken>\(token)</NextContinuationToken>"
            return ScriptedServer.answer(200, [], "<ListBucketResult>\(rows)\(next)</ListBucketResult>")
        }
        try await provider.start()
        flag.set()
        await #expect(throws: ProviderError.self) { try await provider.names("pages") }
        #expect(count.load(ordering: .relaxed) <= 110 && !server.exchanges.isEmpty)
    }

    @Test func `a page that comes too slowly ends`() async throws {
        let head = Array("HTTP/1.1 200 OK\r\n\r\n<ListBucketResult>".utf8)
        let rows = Array(String(repeating: "<Contents><Key>a</Key><Size>1</Size></Contents>", count: 5000).utf8)
        let server = try ScriptedServer { _ in .slow(head, rows, step: 100, rest: 50) }
        var options = HTTPOptions()
        options.pageLimit = .seconds(1)
        let address = try S3Address(
            #require(SourceAddress("s3://bucket?endpoint=http://127.0.0.1:\(server.port)&region=here"))
        )
        let client = S3Client(address, login: { testCredentials }, try HTTPClient(options))
        // All of it would take two minutes.
        await #expect(throws: ProviderError.failed("the server's listing takes too long", .timedOut)) {
            _ = try await client.list([], delimiter: true)
        }
    }

    @Test func `names that nothing can have do no harm`() async throws {
        let flag = Flag()
        let keys = ["..", ".", "a/b", "/", "a\u{9}b", String(repeating: "n", count: 300), "good"]
        let rows = keys.map { "<Contents><Key>\($0)</Key><Size>1</Size></Contents>" }.joined()
        let prefixes =
            "<CommonPrefixes><Prefix>../</Prefix></CommonPrefixes><CommonPrefixes><Prefix>/</Prefix>"
            + "</CommonPrefixes><CommonPrefixes><Prefix>noslash</Prefix></CommonPrefixes>"
        let (server, provider) = try await server { _ in
            flag.value ? ScriptedServer.answer(200, [], "<ListBucketResult>\(rows)\(prefixes)</ListBucketResult>") : nil
        }
        try await provider.start()
        flag.set()
        let usable = try await provider.everything().filter { FileName.problem(with: $0.name) == nil }
        #expect(usable.map(\.name) == ["a\u{9}b", "good"].map { Array($0.utf8) })
        #expect(!server.exchanges.isEmpty)
    }

    @Test func `refusals say what they are`() async throws {
        func start(_ answer: Answer) async throws -> ProviderError? {
            let (server, provider) = try await server { _ in answer }
            let error = await #expect(throws: ProviderError.self) { try await provider.start() }
            #expect(server.exchanges.count >= 1)
            return error
        }
        for code in ["InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"] {
            guard case .notAuthenticated = try await start(Self.error(403, code)) else {
                Issue.record("\(code)")
                continue
            }
        }
        guard case .notPermitted = try await start(Self.error(403, "AccessDenied")) else {
            Issue.record("AccessDenied")
            return
        }
        let elsewhere = ["Location: http://127.0.0.1:1/elsewhere"]
        for status in [429, 503] {
            let error = try await start(Self.error(status, "SlowDown", ["Retry-After: 7"]))
            #expect(error == .throttled(retryAfter: .seconds(7)))
        }
        for answer in [
            Self.error(404, "NoSuchBucket"),
            Self.error(301, "PermanentRedirect", elsewhere),
            ScriptedServer.answer(307, elsewhere),
        ] {
            guard case .serverUnreachable = try await start(answer) else {
                Issue.record("\(answer)")
                continue
            }
        }
        for code in S3Failure.Code.allCases {
            let body = Array("<Error><Code>\(code.rawValue)</Code></Error>".utf8)
            let failure = S3Failure(HTTPResponse(head: HTTPHead(status: 418), body: body))
            #expect(failure.code == code)
            #expect(!failure.error.description.isEmpty)
        }
    }

    @Test func `a wrong region and a wrong clock are corrected as the server says`() async throws {
        let (regions, regional) = try await server { request in
            let signature = request.lines.first { $0.hasPrefix("Authorization:") } ?? ""
            if signature.contains("/eu-there/") { return nil }
            return Self.error(400, "AuthorizationHeaderMalformed", ["x-amz-bucket-region: eu-there"])
        }
        // The server's answers to the probe do not look at the region.
        try await regional.start()
        let refused = regions.exchanges.filter { $0.status == 400 && !$0.request.target.contains("/.cove/probe/") }
        #expect(refused.count == 1)
        // One server says so, and one says no more than that it refuses.
        for (status, code) in [(403, "RequestTimeTooSkewed"), (400, "AccessDenied")] {
            let (clocks, late) = try await server { request in
                let date = request.lines.first { $0.hasPrefix("x-amz-date:") } ?? ""
                if date.contains("20301121T1") { return nil }
                return Self.error(status, code, ["Date: Thu, 21 Nov 2030 13:00:00 GMT"])
            }
            try await late.start()
            let refused = clocks.exchanges.filter { exchange in
                exchange.status == status && !exchange.request.target.contains("/.cove/probe/")
            }
            #expect(refused.count == 1)
        }
    }

    @Test func `a head that breaks off is no answer`() async throws {
        for text in ["HTTP/1.1 40", "HTTP/1.1 404 Not Found\r\nDate:", "HTTP/1.1 200 OK\r\nETag: \"ab"] {
            let (server, provider) = try await server { request in
                request.method == "HEAD" ? .bytes(Array(text.utf8)) : nil
            }
            try await provider.start()
            let error = await #expect(throws: ProviderError.self) { try await provider.find("file") }
            #expect(error?.isUnanswered == true, "\(text): \(String(describing: error))")
            #expect(server.exchanges.contains { $0.request.method == "HEAD" })
        }
    }
}
