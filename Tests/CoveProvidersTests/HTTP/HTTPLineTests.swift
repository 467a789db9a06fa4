import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveProviders

/// Lines and servers that are slow, busy, or break.
@Suite(.timeLimit(.minutes(30)))
struct HTTPLineTests {
    private func client(_ change: (inout HTTPOptions) -> Void = { _ in }) throws -> HTTPClient {
        var options = HTTPOptions()
        options.stallLimit = .seconds(2)
        change(&options)
        return try HTTPClient(options)
    }

    private func url(_ server: ScriptedServer, _ name: String = "") -> String {
        "http://127.0.0.1:\(server.port)/\(name)"
    }

    private static func error(_ body: () async throws -> Void) async -> ProviderError? {
        do { try await body() } catch { return error as? ProviderError }
        return nil
    }

    @Test func `a few bytes a second are no progress, and a slow line is`() async throws {
        let head = Array("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nConnection: close\r\n\r\n".utf8)
        let body = [UInt8](repeating: 0x61, count: 1000)
        let server = try ScriptedServer { request in
            request.target == "/slow"
                ? .slow(head, body, step: 100, rest: 500) : .slow(head, body, step: 1, rest: 200)
        }
        let client = try client()
        let slow = try await client.send(HTTPRequest("GET", url(server, "slow")))
        #expect(slow.body.count == 1000)
        let start = ContinuousClock.now
        let error = await Self.error { _ = try await client.send(HTTPRequest("GET", url(server, "trickle"))) }
        #expect(error == .serverUnreachable("it does not answer"))
        // All of it would take 200 s.
        #expect(ContinuousClock.now - start < .seconds(60))
    }

    @Test func `a header that comes byte by byte is no progress`() async throws {
        let server = try ScriptedServer { _ in
            .slow(Array("HTTP/1.1 200 OK\r\nX: ".utf8), [UInt8](repeating: 0x61, count: 1000), step: 1, rest: 200)
        }
        let client = try client()
        let error = await Self.error { _ = try await client.send(HTTPRequest("GET", url(server))) }
        #expect(error == .serverUnreachable("it does not answer"))
    }

    @Test func `what does harm when it is done twice is not sent again on another line`() async throws {
        for isOnce in [false, true] {
            let server = try ScriptedServer { request in
                request.method == "GET" ? .kept(Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8)) : .hangUp
            }
            let client = try client()
            // The line is there for what comes next, and breaks once that has been asked.
            _ = try await client.send(HTTPRequest("GET", url(server)))
            var request = HTTPRequest("MOVE", url(server))
            request.isOnce = isOnce
            let error = await Self.error { _ = try await client.send(request) }
            #expect(error?.isUnanswered == true)
            let moves = server.exchanges.filter { $0.request.method == "MOVE" }.count
            #expect(isOnce ? moves == 1 : moves > 1)
        }
    }

    @Test(arguments: [429, 503])
    func `a server that wants fewer requests says for how long`(status: Int) async throws {
        let answers: [(String?, TimeSpan?)] = [
            (nil, nil), ("7", .seconds(7)), ("-9223372036854775808", .zero), ("9223372036854775807", .seconds(86_400)),
            ("99999999999999999999", nil), ("Sun, 06 Nov 1994 08:49:37 GMT", .zero), ("soon", nil),
            ("Fri, 31 Dec 9999 23:59:59 GMT", .seconds(86_400)),
        ]
        for (text, duration) in answers {
            let lines = text.map { ["Retry-After: \($0)"] } ?? []
            let server = try ScriptedServer { _ in ScriptedServer.answer(status, lines) }
            let response = try await client().send(HTTPRequest("PUT", url(server)))
            #expect(ProviderError(response, doing: "it") == .throttled(retryAfter: duration), "\(text ?? "-")")
            #expect(server.exchanges.count == 1)
        }
    }

    @Test func `who waits for bytes waits for a busy server too`() async throws {
        let left = Atomic(3)
        let server = try ScriptedServer { _ in
            left.subtract(1, ordering: .relaxed).newValue >= 0
                ? ScriptedServer.answer(503) : ScriptedServer.answer(200, [], "bytes")
        }
        let sink = MemorySink()
        let receiver = RangeReceiver(0..<5, into: sink) { _ throws(ProviderError) in }
        _ = try await client().fetch(HTTPRequest("GET", url(server)), receiver)
        #expect(sink.bytes == Array("bytes".utf8))
        // Others are told soon.
        left.store(.max, ordering: .relaxed)
        var request = HTTPRequest("PROPFIND", url(server))
        request.isRepeatable = true
        let before = server.exchanges.count
        let response = try await client().send(request)
        #expect(response.status == 503 && server.exchanges.count - before <= 3)
    }

    @Test(arguments: ["0", "-5", "Sun, 06 Nov 1994 08:49:37 GMT"])
    func `a server that is always ready in a moment is not asked for ever`(retry: String) async throws {
        let asked = Atomic(0)
        // Many more than fit into the time that there is.
        let server = try ScriptedServer { _ in
            asked.add(1, ordering: .relaxed).newValue <= 20
                ? ScriptedServer.answer(503, ["Retry-After: \(retry)"]) : ScriptedServer.answer(200, [], "bytes")
        }
        let client = try client { $0.patience = .seconds(2) }
        let receiver = RangeReceiver(0..<5, into: MemorySink()) { _ throws(ProviderError) in }
        let response = try await client.fetch(HTTPRequest("GET", url(server)), receiver)
        #expect(response.status == 503 && asked.load(ordering: .relaxed) < 20)
    }

    @Test func `a name at which the server breaks off is that name's error`() async throws {
        let server = try ScriptedServer { request in
            if request.target == "/bad" || request.value("destination")?.hasSuffix("/bad") == true { return .hangUp }
            return ScriptedServer.answer(200, [], "good")
        }
        let client = try client()
        var requests = [HTTPRequest("GET", url(server, "bad")), HTTPRequest("MOVE", url(server, "some"))]
        requests[1].headers = [("Destination", url(server, "bad"))]
        for request in requests {
            // The first time it may be the line.
            let first = await Self.error { _ = try await client.send(request) }
            let second = await Self.error { _ = try await client.send(request) }
            let isRight = [first, second].map { $0?.parksAccount }
            #expect(isRight == [request.method == "GET", false])
            #expect(second?.isUnanswered == true, "\(String(describing: second))")
        }
        #expect(try await client.send(HTTPRequest("GET", url(server, "other"))).body == Array("good".utf8))
        // What may be asked again says so at once.
        var request = HTTPRequest("PROPFIND", url(server, "bad"))
        request.isRepeatable = true
        let fresh = try self.client()
        let error = await Self.error { _ = try await fresh.send(request) }
        #expect(error?.parksAccount == false, "\(String(describing: error))")
        // Where nobody answers it is the line.
        let dead = try ScriptedServer { _ in .hangUp }
        for _ in 0..<4 {
            let error = await Self.error { _ = try await client.send(HTTPRequest("GET", url(dead, "bad"))) }
            #expect(error?.parksAccount == true)
        }
    }

    @Test func `a redirect's target is told without what may be secret in it`() async throws {
        let server = try ScriptedServer { _ in
            ScriptedServer.answer(302, ["Location: https://eve:apple@login.example:8443/portal/token?secret=1#more"])
        }
        let response = try await client().send(HTTPRequest("GET", url(server)))
        let text = ProviderError(response, doing: "it").description
        #expect(text.contains(" to https://login.example:8443 (302)"), "\(text)")
        #expect(!text.contains("apple") && !text.contains("eve") && !text.contains("token"))
    }

    @Test
    func `only large bodies ask whether they are wanted, and a server that does not hear that is not asked again`()
        async throws
    {
        for isDeaf in [false, true] {
            let server = try ScriptedServer(isDeaf: isDeaf) { _ in ScriptedServer.answer(201) }
            let client = try client()
            for size in [4096, 1 << 20, 3 << 20, 3 << 20] {
                var request = HTTPRequest("PUT", url(server))
                request.body = .content(MemorySource([UInt8](repeating: 1, count: size)), 0..<Int64(size))
                #expect(try await client.send(request).status == 201)
            }
            #expect(server.exchanges.map(\.request.expects) == [false, false, true, !isDeaf])
        }
    }
}
