import CoveCore
import CoveTestSupport
import Testing

@testable import CoveProviders

/// Buckets that keep what is replaced.
@Suite(.serialized, .timeLimit(.minutes(30)))
struct S3VersionTests {
    /// A provider of a prefix in a bucket with versions.
    private func provider() async throws -> (S3Provider, S3Client) {
        let server = try S3ServerKind.seaweedFS.server()
        let address = "s3://versioned/\(DocumentID.random())?endpoint=http://127.0.0.1:\(server.port)&region=us-east-1"
        let client = S3Client(try S3Address(address), login: { testCredentials }, try HTTPClient())
        _ = try await client.ask(S3Call("PUT"))
        var call = S3Call("PUT", query: [("versioning", "")])
        let text = Array("<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>".utf8)
        call.body = .bytes(text)
        call.payload = Digest.hash(text, .sha256).hexadecimal
        _ = try await client.send(call)
        let provider = try S3Provider(address)
        try await provider.start()
        return (provider, client)
    }

    private func save(_ provider: S3Provider, _ name: String, _ text: String) async throws {
        let item = try await provider.find(RemotePath([FileName(unchecked: Array(name.utf8))]))
        guard let item else {
            _ = try await provider.make(name, text)
            return
        }
        _ = try await provider.modify(
            provider.reference(name, item),
            base: item.contentVersion,
            metadata: ItemMetadata(),
            content: MemorySource(text)
        )
    }

    @Test func `what was replaced is listed and fetched`() async throws {
        let (provider, client) = try await provider()
        #expect(provider.capabilities.versions)
        // The start leaves nothing, not even what is hidden.
        #expect(try await client.versions(client.address.prefix, after: nil).rows.isEmpty)
        let texts = ["one", "the second", "3", "now"]
        for text in texts { try await save(provider, "a b+c", text) }
        for name in ["a b+c d", "a b+c/inner"] where !name.contains("/") { try await save(provider, name, "other") }
        let versions = try await provider.versions(of: provider.reference("a b+c"))
        #expect(versions.map(\.size) == [1, 10, 3])
        #expect(Set(versions.map(\.id)).count == 3)
        var read: [String] = []
        for version in versions {
            let sink = MemorySink()
            try await provider.fetch(version, of: provider.reference("a b+c"), into: sink)
            read.append(String(decoding: sink.bytes ?? [], as: UTF8.self))
        }
        #expect(read == ["3", "the second", "one"])
        var gone = versions[0]
        gone.id = "00000000000000000000000000000000"
        await #expect(throws: ProviderError.versionNoLongerAvailable) {
            try await provider.fetch(gone, of: provider.reference("a b+c"), into: MemorySink())
        }
        // Of a file that is deleted and made again all are there.
        let item = try #require(try await provider.find(RemotePath([FileName(unchecked: Array("a b+c".utf8))])))
        try await provider.delete(provider.reference("a b+c", item), base: item.contentVersion)
        try await save(provider, "a b+c", "again")
        #expect(try await provider.versions(of: provider.reference("a b+c")).map(\.size) == [3, 1, 10, 3])
    }

    @Test func `an erasure leaves nothing of what the bucket keeps, but its note`() async throws {
        let (provider, client) = try await provider()
        for text in ["one", "two"] { try await save(provider, "f", text) }
        let item = try await provider.find("f")
        _ = try await provider.trash(provider.reference("f", item), base: item.contentVersion, as: "t")
        try await provider.noteErasure(Array("a note".utf8))
        try await provider.noteErasure(Array("another note".utf8))
        #expect(try await client.versions(client.address.prefix, after: nil).rows.count > 4)
        try await provider.eraseRest()
        let left = try await client.versions(client.address.prefix, after: nil).rows
        #expect(left.map { String(decoding: $0.key.suffix(12), as: UTF8.self) } == [".cove-erased"])
        #expect(try await provider.erasure() == Array("another note".utf8))
    }

    @Test func `a bucket without versions says so`() async throws {
        for kind in S3ServerKind.allCases {
            let provider = try S3Source(kind.server()).provider()
            try await provider.start()
            #expect(!provider.capabilities.versions)
        }
    }
}
