import CoveCore
import CoveTestSupport
import Synchronization
import Testing

@testable import CoveProviders

/// What a bucket keeps beside the documents, and with them.
@Suite(.timeLimit(.minutes(5)))
struct S3KeptTests {
    private func put(_ name: String, _ bytes: [UInt8], _ headers: [(String, String)], _ source: S3Source) async throws {
        var call = S3Call("PUT", source.client.address.prefix + Array(name.utf8))
        call.headers = headers
        call.body = .bytes(bytes)
        call.payload = Digest.hash(bytes, .sha256).hexadecimal
        _ = try await source.client.send(call)
    }

    @Test(arguments: S3ServerKind.allCases)
    func `what only begins like a hidden name is not erased`(kind: S3ServerKind) async throws {
        let source = try S3Source(kind.server())
        let provider = try source.provider()
        try await provider.start()
        let kept = [".coveragerc", ".covered/file", "other"]
        let note = ErasureNote.name.description
        for name in kept + [".cove/trash/one", ".cove-news", ".cove-thumbnails/a/b.png", note] {
            try await source.source.put("x", name)
        }
        try await provider.eraseRest()
        #expect(try await source.source.names().sorted() == (kept + [note]).sorted())
        await provider.stop()
    }

    @Test func `a server that lists what was not asked for has only hidden objects erased`() async throws {
        let keys = [
            ".cove/a", ".cove-b", ".coveragerc", "p/.cove/in", "p/.cove-own", "p/.coveragerc", "p/file", "q/.cove-c",
        ]
        let rows = keys.map { "<Contents><Key>\($0)</Key><Size>1</Size></Contents>" }.joined()
        let server = try ScriptedServer { request in
            if request.method == "DELETE" { return ScriptedServer.answer(204) }
            let listing = "<ListBucketResult><IsTruncated>false</IsTruncated>\(rows)</ListBucketResult>"
            return ScriptedServer.answer(200, [], listing)
        }
        let address = "s3://bucket/p?endpoint=http://127.0.0.1:\(server.port)&region=here&late-cleaning=0"
        try await S3Provider(address).eraseRest()
        let gone = server.exchanges.filter { $0.request.method == "DELETE" }.map(\.request.target)
        #expect(Set(gone) == ["/bucket/p/.cove/in", "/bucket/p/.cove-own"])
    }

    @Test func `an object that was stored in a coding is read as it is stored, and replaced without it`() async throws {
        // The others keep no such word.
        let source = try S3Source(S3ServerKind.seaweedFS.server())
        let provider = try source.provider()
        try await provider.start()
        let bytes = (0..<1000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        try await put("page", bytes, [("content-encoding", "gzip"), ("content-language", "de")], source)
        let item = try await provider.find("page")
        let key = source.client.address.prefix + Array("page".utf8)
        #expect(try await source.client.head(key)?.headers?["content-encoding"] == "gzip")
        let sink = MemorySink()
        try await provider.fetch(
            provider.reference("page", item),
            version: item.contentVersion,
            range: 0..<item.size,
            into: sink
        )
        #expect(sink.bytes == bytes)
        let replaced = try await provider.modify(
            provider.reference("page", item),
            base: item.contentVersion,
            metadata: ItemMetadata(),
            content: MemorySource("plain text")
        )
        #expect(try await provider.text("page", replaced.contentVersion) == "plain text")
        let headers = try await source.client.head(key)?.headers
        #expect(headers?["content-encoding"] == nil && headers?["content-language"] == "de")
        await provider.stop()
    }
}
