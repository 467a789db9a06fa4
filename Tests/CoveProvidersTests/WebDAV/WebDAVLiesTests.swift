import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveProviders

/// Servers that lie get a clear error; nothing is taken for content that is not.
@Suite(.timeLimit(.minutes(30)))
struct WebDAVLiesTests {
    private func provider(_ answer: @escaping @Sendable (ScriptedServer.Request) -> String) throws -> WebDAVProvider {
        try provider { .bytes(Array(answer($0).utf8)) }
    }

    private func provider(
        _ answer: @escaping @Sendable (ScriptedServer.Request) -> ScriptedServer.Answer
    ) throws -> WebDAVProvider {
        let server = try ScriptedServer(answer)
        let address = try #require(SourceAddress("webdav://127.0.0.1:\(server.port)/dav"))
        var options = HTTPOptions()
        options.stallLimit = .seconds(2)
        options.repetitions = 0
        // The server lives as long as who may ask for its credentials.
        return try WebDAVProvider(
            address,
            options,
            credentials: { [server] in
                _ = server; return nil
            }
        )
    }

    private static func multistatus(_ body: String, length: Int? = nil) -> String {
        let text = "<?xml version=\"1.0\"?><d:multistatus xmlns:d=\"DAV:\">\(body)</d:multistatus>"
        return
            "HTTP/1.1 207 Multi-Status\r\nContent-Length: \(length ?? text.utf8.count)\r\nConnection: close\r\n\r\n\(text)"
    }

    private static func resource(_ href: String, _ properties: String) -> String {
        "<d:response><d:href>\(href)</d:href><d:propstat><d:prop>\(properties)</d:prop>"
            + "<d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>"
    }

    private static let directory = resource("/dav/", "<d:resourcetype><d:collection/></d:resourcetype>")

    private static func file(_ href: String, tag: String = "\"one\"", size: String = "4") -> String {
        resource(href, "<d:resourcetype/><d:getcontentlength>\(size)</d:getcontentlength><d:getetag>\(tag)</d:getetag>")
    }

    @Test(
        arguments: [
            "nonsense", "<a>", "<html><body>It works!</body></html>", "<d:multistatus xmlns:d=\"DAV:\">", "\0\0\0",
            "<?xml version=\"1.0\"?><!DOCTYPE a [<!ENTITY b \"b\"><!ENTITY c \"&b;&b;&b;\">]><a>&c;</a>",
            String(repeating: "<a>", count: 100_000),
        ]
    )
    func `an answer that is no WebDAV is an error`(text: String) async throws {
        let dav = try provider { _ in "HTTP/1.1 207 Multi-Status\r\nContent-Length: \(text.utf8.count)\r\n\r\n\(text)" }
        let error = await #expect(throws: ProviderError.self) { try await dav.everything() }
        switch error {
        // The second: what ends too early may have broken off.
        case .failed, .serverUnreachable: break
        default: Issue.record("\(String(describing: error))")
        }
    }

    @Test func `a listing that breaks off is no listing`() async throws {
        let text = Self.multistatus(Self.directory + Self.file("/dav/a"), length: 100_000)
        let dav = try provider { _ in text }
        await #expect(throws: ProviderError.self) { try await dav.everything() }
    }

    @Test func `what lies elsewhere is not listed, and names are taken apart before they are decoded`() async throws {
        let hrefs = [
            "/dav/good", "/other/bad", "http://elsewhere/bad", "/dav/a/b", "/dav/with%2Fslash", "/dav/%zz", "/dav/..",
        ]
        let text = Self.multistatus(Self.directory + hrefs.map { Self.file($0) }.joined())
        let dav = try provider { _ in text }
        let names = try await dav.everything().map(\.name)
        // The last two are for the engine to refuse, which tells a person.
        #expect(names == [Array("good".utf8), Array("with/slash".utf8), Array("..".utf8)])
    }

    @Test func `an endless listing is read only as far as somebody wants it`() async throws {
        let start = "HTTP/1.1 207 Multi-Status\r\n\r\n<d:multistatus xmlns:d=\"DAV:\">" + Self.directory
        let more = (0..<100).map { _ in Self.file("/dav/again") }.joined()
        let dav = try provider { (_: ScriptedServer.Request) in .endless(Array(start.utf8), Array(more.utf8)) }
        var page: Page?
        for _ in 0..<20 {
            let listing = try await dav.list(.root, page: page)
            #expect(listing.items.count == 1000)
            page = listing.next
            #expect(page != nil)
        }
        await dav.stop()
    }

    @Test(arguments: [("<d:a ", "b='c' "), ("<d:a b='", "b"), ("<d:", "a"), ("<!--", "b"), ("<?a ", "b"), ("<a>", "b")])
    func `what is between two rows ends`(start: String, more: String) throws {
        let scanner = XMLScanner(MultistatusReader { _ in })
        func parse(_ text: String) throws {
            try Array(text.utf8).withUnsafeBytes { bytes in
                try Result { () throws(ProviderError) in try scanner.parse(bytes) }.get()
            }
        }
        try parse("<d:multistatus xmlns:d=\"DAV:\">" + Self.directory + start)
        let plain = String(repeating: more, count: 64 << 10)
        var (count, number) = (0, 0)
        let error = #expect(throws: ProviderError.self) {
            while count < 64 << 20 {
                var part = plain
                if more.contains("=") {
                    // No attribute may be there twice.
                    part = (0..<1000).map { "b\(number + $0)='c' " }.joined()
                    number += 1000
                }
                count += part.utf8.count
                try parse(part)
            }
        }
        #expect(count <= 8 << 20, "\(String(describing: error))")
    }

    @Test func `a page that comes too slowly ends`() async throws {
        let head = Array(("HTTP/1.1 207 Multi-Status\r\n\r\n<d:multistatus xmlns:d=\"DAV:\">" + Self.directory).utf8)
        let rows = Array((0..<900).map { _ in Self.file("/dav/again") }.joined().utf8)
        let server = try ScriptedServer { _ in .slow(head, rows, step: 100, rest: 50) }
        var options = HTTPOptions()
        options.pageLimit = .seconds(1)
        let dav = try WebDAVProvider(
            #require(SourceAddress("webdav://127.0.0.1:\(server.port)/dav")),
            options,
            credentials: { nil }
        )
        // All of it would take a minute.
        await #expect(throws: ProviderError.failed("the server's listing takes too long", .timedOut)) {
            try await dav.everything()
        }
    }

    @Test func `a redirect is told, not followed`() async throws {
        let dav = try provider { _ in
            "HTTP/1.1 302 Found\r\nLocation: http://login.example/portal?token=secret\r\nContent-Length: 0\r\n\r\n"
        }
        let error = await #expect(throws: ProviderError.self) { try await dav.everything() }
        guard case .serverUnreachable(let why) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(why.contains("http://login.example (302)") && !why.contains("secret"))
    }

    /// Asks for bytes 2 to 5 of a file of 8 bytes and version "one".
    private func fetch(_ answer: String) async throws -> Result<[UInt8]?, ProviderError> {
        let dav = try provider { request in
            request.method == "GET" ? answer : Self.multistatus(Self.file("/dav/f", size: "8"))
        }
        let sink = MemorySink()
        do throws(ProviderError) {
            let version = DAVResource.version(tag: "\"one\"", modified: nil, size: 8)
            try await dav.fetch(dav.reference("f"), version: version, range: 2..<6, into: sink)
            return .success(sink.bytes)
        } catch {
            return .failure(error)
        }
    }

    @Test func `the tag of what is there with the size of what was there is a version of its own`() async throws {
        let size = Mutex("0")
        let dav = try provider { request in
            request.method == "GET"
                ? "HTTP/1.1 200 OK\r\nETag: \"one\"\r\nContent-Length: 8\r\n\r\n01234567"
                : Self.multistatus(Self.file("/dav/f", size: size.withLock { $0 }))
        }
        let torn = try await dav.find("f")
        size.withLock { $0 = "8" }
        let whole = try await dav.find("f")
        #expect(torn.size == 0 && whole.size == 8 && torn.contentVersion != whole.contentVersion)
        #expect(DAVResource.tag(of: torn.contentVersion) == DAVResource.tag(of: whole.contentVersion))
        let sink = MemorySink()
        await #expect(throws: ProviderError.versionNoLongerAvailable) {
            try await dav.fetch(dav.reference("f"), version: torn.contentVersion, range: 0..<4, into: sink)
        }
        try await dav.fetch(dav.reference("f"), version: whole.contentVersion, range: 0..<8, into: sink)
        #expect(sink.bytes == Array("01234567".utf8))
    }

    @Test(arguments: ["", "bytes 2-5/9", "bytes 2-5/", "bytes 0-3/8", "bytes 5-2/8", "2-5/8", "bytes */8"])
    func `a part of which the server tells nothing true is an error, and no sign of another version`(
        range: String
    ) async throws {
        let date = "Mon, 02 Jan 2023 04:05:06 GMT"
        let properties =
            "<d:resourcetype/><d:getcontentlength>8</d:getcontentlength>"
            + "<d:getlastmodified>\(date)</d:getlastmodified>"
        let dav = try provider { request in
            guard request.method == "GET" else { return Self.multistatus(Self.resource("/dav/f", properties)) }
            let told = range.isEmpty ? "" : "Content-Range: \(range)\r\n"
            return "HTTP/1.1 206 Partial\r\nLast-Modified: \(date)\r\n\(told)Content-Length: 4\r\n\r\n2345"
        }
        let version = DAVResource.version(tag: nil, modified: HTTPDate.parse(date), size: 8)
        let sink = MemorySink()
        let error = await #expect(throws: ProviderError.self) {
            try await dav.fetch(dav.reference("f"), version: version, range: 2..<6, into: sink)
        }
        #expect(error?.errno == .inputOutput)
        #expect(sink.bytes == [])
    }

    @Test func `a whole body where a part was asked for gives that part`() async throws {
        let answer = "HTTP/1.1 200 OK\r\nETag: \"one\"\r\nContent-Length: 8\r\n\r\n01234567"
        #expect(try await fetch(answer) == .success(Array("2345".utf8)))
    }

    @Test(
        arguments: [
            // Another part, no word of which part, another version, none at all, and less than was promised.
            "206 Partial\r\nETag: \"one\"\r\nContent-Range: bytes 0-3/8\r\nContent-Length: 4\r\n\r\n0123",
            "206 Partial\r\nETag: \"one\"\r\nContent-Length: 4\r\n\r\n2345",
            "206 Partial\r\nETag: \"two\"\r\nContent-Range: bytes 2-5/8\r\nContent-Length: 4\r\n\r\n2345",
            "206 Partial\r\nContent-Range: bytes 2-5/8\r\nContent-Length: 4\r\n\r\n2345",
            "206 Partial\r\nETag: \"one\"\r\nContent-Range: bytes 2-5/8\r\nContent-Length: 4\r\n\r\n23",
            "200 OK\r\nETag: \"two\"\r\nContent-Length: 8\r\n\r\n01234567",
            // A coding that nobody asked for.
            "200 OK\r\nETag: \"one\"\r\nContent-Encoding: gzip\r\nContent-Length: 8\r\n\r\n01234567",
        ]
    )
    func `bytes of which it is not sure what they are are not taken`(answer: String) async throws {
        guard case .failure(let error) = try await fetch("HTTP/1.1 " + answer) else {
            Issue.record("they were taken")
            return
        }
        #expect(error != .cancelled)
    }

    @Test(
        arguments: [
            "OC-Checksum: SHA1:a9993e364706816aba3e25717850c26c9cd0d89d",
            "OC-Checksum: MD5:900150983cd24fb0d6963f7d28e17f72 ADLER32:024d0127",
            "Repr-Digest: sha-256=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:",
            "Digest: unixsum=1, sha-256=ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=",
            "Content-MD5: kAFQmDzST7DWlj99KOF/cg==",
        ]
    )
    func `bytes are compared with the checksum that comes with them`(header: String) async throws {
        for (body, isRight) in [("abc", true), ("abd", false)] {
            let dav = try provider { request in
                request.method == "GET"
                    ? "HTTP/1.1 200 OK\r\nETag: \"one\"\r\n\(header)\r\nContent-Length: 3\r\nConnection: close\r\n\r\n\(body)"
                    : Self.multistatus(Self.file("/dav/f", size: "3"))
            }
            let version = DAVResource.version(tag: "\"one\"", modified: nil, size: 3)
            let (whole, part) = (MemorySink(), MemorySink())
            let outcome: Void? = try? await dav.fetch(dav.reference("f"), version: version, range: 0..<3, into: whole)
            #expect((outcome != nil) == isRight && whole.bytes == (isRight ? Array(body.utf8) : []))
            // Of a part nothing is known.
            try await dav.fetch(dav.reference("f"), version: version, range: 1..<3, into: part)
            #expect(part.bytes == Array(body.utf8.dropFirst()))
        }
    }

    @Test func `only what was asked for is looked at, and a size that is not told is not 0`() async throws {
        let other = Self.file("/dav/other", size: "9") + Self.file("/dav/f", size: "8")
        let dav = try provider { _ in Self.multistatus(other) }
        #expect(try await dav.find("f").size == 8)
        let unknown = Self.resource("/dav/f", "<d:resourcetype/><d:getetag>\"one\"</d:getetag>")
        let silent = try provider { _ in Self.multistatus(unknown) }
        #expect(try await silent.find("f").size == -1)
    }

    @Test func `a server that never answers is given up`() async throws {
        let dav = try provider { (_: ScriptedServer.Request) in
            .endless(Array("HTTP/1.1 207 Multi-Status\r\nX: ".utf8), Array(String(repeating: "x", count: 1000).utf8))
        }
        await #expect(throws: ProviderError.self) { try await dav.everything() }
    }
}
