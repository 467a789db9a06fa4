import CoveCore
import CoveTestSupport
import Synchronization
import Testing

@testable import CoveProviders

/// What a bucket keeps beside the documents, and with them.
@Suite(.timeLimit(.minutes(5)))
struct S3KeptTests {
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
}
