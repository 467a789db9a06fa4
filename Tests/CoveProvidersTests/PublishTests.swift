import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveProviders

/// Links to one version of a file, which anybody can follow.
@Suite(.serialized, .timeLimit(.minutes(10)))
struct PublishTests {
    private static func curl(_ url: String) async throws -> String {
        try await blocking { try Command.run("curl", ["-sS", "-f", "-m", "20", url]).output }
    }

    private static func isGone(_ url: String) async throws -> Bool {
        try await blocking { try Command.run("curl", ["-sS", "-f", "-m", "20", url], mayFail: true).status != 0 }
    }

    private func modify(_ provider: any Provider, _ name: String, _ text: String) async throws {
        let item = try await provider.find(name)
        _ = try await provider.modify(
            provider.reference(name, item),
            base: item.contentVersion,
            metadata: ItemMetadata(),
            content: MemorySource(text)
        )
    }

    /// Publishes, changes the file and looks again; then what was kept for it goes.
    private func expectLink(_ provider: any Provider, names: () async throws -> [String]) async throws {
        #expect(provider.capabilities.publishes)
        let name = "ä letter+1.txt"
        let item = try await provider.make(name, "as it was")
        let reference = provider.reference(name, item)
        let end = System.now() + .seconds(3600)
        let link = try await provider.publish(reference, version: item.contentVersion, until: end)
        #expect(link.expires == end)
        #expect(try await Self.curl(link.url) == "as it was")
        try await modify(provider, name, "another text")
        #expect(try await Self.curl(link.url) == "as it was")
        // The version is no longer there.
        await #expect(throws: ProviderError.self) {
            _ = try await provider.publish(reference, version: item.contentVersion, until: end)
        }
        let hidden = try await names().filter { $0.hasPrefix(".cove-published/") }
        #expect(hidden.count <= 1, "\(hidden)")
        // Nothing of it is to be seen among the files.
        #expect(try await provider.list(.root, page: nil).items.map(\.name) == [Array(name.utf8)])
    }

    private func expectEnd(
        _ provider: any Provider,
        names: @escaping @Sendable () async throws -> [String]
    ) async throws {
        let item = try await provider.make("short", "for a moment")
        let reference = provider.reference("short", item)
        let link = try await provider.publish(
            reference,
            version: item.contentVersion,
            until: System.now() + .seconds(4)
        )
        #expect(try await Self.curl(link.url) == "for a moment")
        let before = try await names().filter { $0.hasPrefix(".cove-published/") }
        let deadline = ContinuousClock.now + .seconds(60)
        while try await names().filter({ $0.hasPrefix(".cove-published/") }).count >= before.count {
            guard ContinuousClock.now < deadline else { throw CommandFailure("it is not taken back: \(before)") }
            try await Task.sleep(for: TimeSpan.milliseconds(20))
        }
        #expect(try await Self.isGone(link.url))
    }

    @Test(arguments: S3ServerKind.allCases)
    func `a link to a file in a bucket stays with its bytes, and ends`(kind: S3ServerKind) async throws {
        let source = try S3Source(kind.server())
        try await source.source.put("", S3Source.standing)
        let provider = try source.provider()
        try await provider.start()
        try await expectLink(provider) { try await source.source.names() }
        try await expectEnd(provider) { try await source.source.names() }
        let item = try await provider.make("long", "x")
        await #expect(throws: ProviderError.self) {
            let end = System.now() + .seconds(8 * 86_400)
            _ = try await provider.publish(provider.reference("long", item), version: item.contentVersion, until: end)
        }
        await provider.stop()
    }

    @Test func `a server that takes no signed addresses makes no links, and keeps no copy`() async throws {
        let source = try S3Source(S3ServerKind.seaweedFS.server())
        let port = try S3ServerKind.seaweedFS.server().port
        let front = try ScriptedServer { request in
            request.target.contains("X-Amz-Signature") ? ScriptedServer.answer(403) : .handOn(port)
        }
        let provider = try S3Provider(source.address(through: front))
        try await provider.start()
        let item = try await provider.make("f", "x")
        let why = "the server takes no addresses that are signed in advance"
        await #expect(throws: ProviderError.failed(why, .notSupported)) {
            let end = System.now() + .seconds(60)
            _ = try await provider.publish(provider.reference("f", item), version: item.contentVersion, until: end)
        }
        #expect(try await source.source.names().allSatisfy { !$0.hasPrefix(".cove-published/") })
        await provider.stop()
    }

    @Test func `an empty file has a link`() async throws {
        let provider = try S3Source(S3ServerKind.seaweedFS.server()).provider()
        try await provider.start()
        let item = try await provider.make("empty", "")
        let link = try await provider.publish(
            provider.reference("empty", item),
            version: item.contentVersion,
            until: System.now() + .seconds(60)
        )
        #expect(try await Self.curl(link.url) == "")
        await provider.stop()
    }

    @Test func `a Nextcloud's link stays with its bytes, and ends`() async throws {
        let cloud = try ScriptedCloud()
        let asked = cloud.sharesFiles()
        let provider = try ProviderFactory.make(source: cloud.source, access: testAccess)
        try await provider.start()
        let names: @Sendable () async throws -> [String] = {
            cloud.names(PublishedName.folder.description).map { ".cove-published/\($0)" }
        }
        try await expectLink(provider, names: names)
        let share = try #require(asked().first)
        #expect(share.path.hasSuffix("/ä letter+1.txt"))
        // A day later than the end, wherever the server is.
        let days = [24, 48].map { HTTPDate.day(System.now() + .seconds(3600 + $0 * 3600)) }
        #expect(days.contains(share.day))
        try await expectEnd(provider, names: names)
        await provider.stop()
    }

    @Test func `what a server says when it makes no link is told`() async throws {
        let cloud = try ScriptedCloud()
        _ = cloud.sharesFiles(refusing: "Public link sharing is\\ndisabled")
        let provider = try ProviderFactory.make(source: cloud.source, access: testAccess)
        try await provider.start()
        let item = try await provider.make("f", "x")
        await #expect(throws: ProviderError.notPermitted("Public link sharing is disabled")) {
            let end = System.now() + .seconds(60)
            _ = try await provider.publish(provider.reference("f", item), version: item.contentVersion, until: end)
        }
        #expect(cloud.names(PublishedName.folder.description).isEmpty)
        await provider.stop()
    }

    @Test func `a name tells its end and its device, and what is none is left alone`() {
        let end = Timestamp(seconds: 1_800_000_000, nanoseconds: 5)
        let name = PublishedName(until: end, owner: "device")
        #expect(PublishedName(name.fileName.bytes) == name)
        #expect(name.isOf("device") && !name.isOf("other"))
        #expect(!name.isOver(for: "device", at: end - .seconds(1)) && name.isOver(for: "device", at: end))
        #expect(!name.isOver(for: "other", at: end + .seconds(86_400)))
        #expect(name.isOver(for: "other", at: end + .seconds(3 * 86_400)))
        for text in ["", "a-b-c", "\(name.fileName)x", "\(name.fileName)".uppercased() + "-"] {
            #expect(PublishedName(text.utf8) == nil)
        }
        let far = PublishedName(until: .distantFuture, owner: "")
        #expect(PublishedName(far.fileName.bytes) == far)
    }

    @Test func `an address is signed as AWS's example has it`() {
        let signature = S3Signature(
            credentials: S3Credentials(
                accessKey: "AKIAIOSFODNN7EXAMPLE",
                secretKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
            ),
            region: "us-east-1",
            time: Timestamp(seconds: 1_369_353_600, nanoseconds: 0)
        )
        let request = S3Signature.Request(
            method: "GET",
            path: "/test.txt",
            headers: [("host", "examplebucket.s3.amazonaws.com")]
        )
        let expected = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
        #expect(signature.query(of: request, lasting: 86_400).hasSuffix("&X-Amz-Signature=\(expected)"))
    }
}
