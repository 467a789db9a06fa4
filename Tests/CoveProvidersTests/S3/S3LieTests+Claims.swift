import CoveCore
import CoveTestSupport
import Synchronization
import Testing

@testable import CoveProviders

/// Servers that lie where this device claims a name before it sends a file.
extension S3LieTests {
    @Test func `claims are as old as the server's clock says`() async throws {
        let seen = Seen()
        // Far from the time here.
        let date = "Date: Thu, 21 Nov 2030 13:00:00 GMT"
        let rows = [("old", "2030-11-21T12:40:00.000Z"), ("fresh", "2030-11-21T12:59:00.000Z")].map { name, time in
            "<Contents><Key>.cove/claims/\(name)</Key><Size>0</Size><LastModified>\(time)</LastModified></Contents>"
        }
        let (server, provider) = try await server { request in
            if request.target.contains("prefix=.cove%2Fclaims") {
                let isHeld = seen.next() <= 2
                let listing = "<ListBucketResult>\(isHeld ? rows.joined() : "")</ListBucketResult>"
                return ScriptedServer.answer(200, [date], listing)
            }
            switch request.method {
            case "HEAD": return ScriptedServer.answer(404, [date])
            case "GET": return ScriptedServer.answer(200, [date], Self.emptyListing)
            default: return ScriptedServer.answer(200, [date, "ETag: \"\(Self.tag)\""])
            }
        }
        try await provider.start()
        _ = try? await provider.make("file", Self.text)
        let deleted = server.exchanges.filter { $0.request.method == "DELETE" }.map(\.request.target)
        #expect(deleted.contains("/bucket/.cove/claims/old"))
        #expect(!deleted.contains("/bucket/.cove/claims/fresh"))
        #expect(seen.count > 2)
    }

    private final class Seen: Sendable {
        private let state = Mutex(0)

        var count: Int { state.withLock { $0 } }
        func next() -> Int {
            state.withLock { state in
                state += 1
                return state
            }
        }
    }

    /// The listing of the claims that were put.
    private final class Claims: Sendable {
        private let rows = Mutex("")

        var listing: String { rows.withLock { "<ListBucketResult>\($0)</ListBucketResult>" } }
        func add(_ target: String) {
            let row = "<Contents><Key>\(target.dropFirst("/bucket/".count))</Key><Size>0</Size></Contents>"
            rows.withLock { $0 += row }
        }
    }

    @Test func `bytes that the server did not keep are an error`() async throws {
        let claims = Claims()
        let (server, provider) = try await server { request in
            if request.method == "PUT", request.target.hasPrefix("/bucket/.cove/claims/") { claims.add(request.target) }
            if request.target.contains("prefix=.cove%2Fclaims") {
                return ScriptedServer.answer(200, [], claims.listing)
            }
            switch (request.method, request.target) {
            case ("PUT", "/bucket/file"): return ScriptedServer.answer(200, ["ETag: \"\(Self.tag)\""])
            case ("HEAD", "/bucket/file"): return ScriptedServer.answer(404)
            default: return request.method == "GET" ? nil : ScriptedServer.answer(200)
            }
        }
        try await provider.start()
        await #expect(throws: ProviderError.self) { _ = try await provider.make("file", "text") }
        #expect(server.exchanges.contains { $0.request.method == "PUT" && $0.request.target == "/bucket/file" })
    }
}
