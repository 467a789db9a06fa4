import CoveCore
import CoveTestSupport
import Testing

@testable import CoveProviders

/// Deletions of what files have moved away from in buckets, which come late or are not answered.
@Suite(.serialized, .timeLimit(.minutes(30)))
struct S3MoveDeletionTests {
    private static let kinds = S3ServerKind.allCases

    @Test(arguments: kinds, [false, true])
    func `a deletion whose answer is lost takes nothing that has come to its place since`(
        kind: S3ServerKind,
        comesBack: Bool
    ) async throws {
        let server = try kind.server()
        let source = try S3Source(server)
        let good = try source.provider()
        try await good.start()
        let (to, from) = (try #require(FileName("to")), try #require(FileName("from")))
        let (port, deletions) = (server.port, S3MoveTests.Counter())
        let front = try ScriptedServer { request in
            guard request.method == "DELETE", request.target.hasSuffix("/from"), deletions.next() == 1 else {
                return .handOn(port)
            }
            BlockingThread.wait {
                // It arrives, and before its answer would have, another device puts something there.
                let key = source.client.address.prefix + Array("from".utf8)
                _ = try? await source.client.send(S3Call("DELETE", key))
                if comesBack {
                    let item = try? await good.find("to")
                    guard let item else { return }
                    let reference = good.reference("to", item)
                    _ = try? await good.move(reference, base: item.contentVersion, to: .root, name: from)
                } else {
                    _ = try? await good.make("from", "another")
                }
            }
            return .hangUp
        }
        let provider = try S3Provider(source.address(through: front))
        try await provider.start()
        let item = try await provider.make("from", "text")
        _ = try? await provider.move(provider.reference("from", item), base: item.contentVersion, to: .root, name: to)
        #expect(deletions.next() > 1)
        let texts = [try? await good.text("from"), try? await good.text("to")]
        #expect(texts.contains("text"), "\(texts)")
    }

    @Test(arguments: kinds)
    func `a machine that sleeps before a move's deletion takes nothing that has come back since`(
        kind: S3ServerKind
    ) async throws {
        let server = try kind.server()
        let source = try S3Source(server)
        let good = try source.provider()
        try await good.start()
        let (to, from) = (try #require(FileName("to")), try #require(FileName("from")))
        let (port, deletions) = (server.port, S3MoveTests.Counter())
        let front = try ScriptedServer { request in
            guard request.method == "DELETE", request.target.hasSuffix("/from"), deletions.next() == 1 else {
                return .handOn(port)
            }
            // Before it arrives another device replaces the original by the copy, which has the same bytes.
            BlockingThread.wait {
                guard let item = try? await good.find("from") else { return }
                try? await good.delete(good.reference("from", item), base: item.contentVersion)
                guard let copy = try? await good.find("to") else { return }
                _ = try? await good.move(good.reference("to", copy), base: copy.contentVersion, to: .root, name: from)
            }
            return .handOn(port)
        }
        let provider = try S3Provider(source.address(through: front))
        try await provider.start()
        let item = try await provider.make("from", "text")
        _ = try? await provider.move(provider.reference("from", item), base: item.contentVersion, to: .root, name: to)
        #expect(deletions.next() > 1)
        let texts = [try? await good.text("from"), try? await good.text("to")]
        #expect(texts.contains("text"), "\(texts)")
    }

    @Test(arguments: kinds)
    func `a move that was cut off is finished though its file has got new metadata since`(
        kind: S3ServerKind
    ) async throws {
        let server = try kind.server()
        let source = try S3Source(server)
        let good = try source.provider()
        try await good.start()
        let (port, line) = (server.port, S3MoveTests.Line())
        let front = try ScriptedServer { request in
            request.method == "DELETE" && request.target.hasSuffix("/from") && !line.isMended ? .hangUp : .handOn(port)
        }
        let provider = try S3Provider(source.address(through: front))
        try await provider.start()
        let item = try await provider.make("from", "text")
        await #expect(throws: ProviderError.self) {
            _ = try await provider.trash(provider.reference("from", item), base: item.contentVersion, as: "token")
        }
        // Its deletion may yet arrive, so that nobody changes it for a while. Elsewhere new metadata makes another version.
        let deadline = ContinuousClock.now + .seconds(kind == .seaweedFS ? 240 : 0)
        var described: RemoteItem?
        repeat {
            described = try? await good.modify(
                good.reference("from", item),
                base: item.contentVersion,
                metadata: ItemMetadata(modificationTime: Timestamp(5)),
                content: nil
            )
        } while described == nil && ContinuousClock.now < deadline
        #expect(described != nil || kind != .seaweedFS)
        line.mend()
        let now = try await good.find("from")
        _ = try await provider.trash(provider.reference("from", now), base: now.contentVersion, as: "token")
        await #expect(throws: ProviderError.noSuchItem) { try await good.find("from") }
    }
}
