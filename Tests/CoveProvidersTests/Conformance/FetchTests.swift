import CoveCore
import CoveProviders
import CoveTestSupport
import Foundation
import Testing

/// How the bytes of a fetch come over a bad line.
struct FetchTests {
    @Test
    func `what has come is given on before more comes, and a broken fetch goes on where it was`() async throws {
        let server = try TestServer.apache()
        let proxy = try FaultProxy(to: server.port)
        let bytes = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ $0 >> 8) }
        try Data(bytes).write(to: URL(fileURLWithPath: server.files).appendingPathComponent("file"))
        let provider = try ProviderFactory.make(source: "webdav://127.0.0.1:\(proxy.port)/", access: testAccess)
        try await provider.start()
        let item = try #require(try await provider.everything().first)
        proxy.set { $0.stallAfter = 100_000 }
        proxy.dropAll()

        let (writes, written) = AsyncStream<Void>.makeStream()
        let sink = MemorySink { (_) throws(ProviderError) in written.yield() }
        async let fetched: Void = provider.fetch(
            provider.reference("file", item),
            version: item.contentVersion,
            range: 0..<Int64(bytes.count),
            into: sink
        )
        let deadline = Task {
            try await Task.sleep(for: .seconds(20))
            written.finish()
        }
        // All that the line let through but the headers.
        var hasCome = false
        for await _ in writes where (sink.bytes?.count ?? 0) > 98_000 {
            hasCome = true
            break
        }
        deadline.cancel()
        #expect(hasCome)
        proxy.set { $0.stallAfter = nil }
        proxy.dropAll()
        try await fetched
        #expect(sink.bytes == bytes)
    }
}
