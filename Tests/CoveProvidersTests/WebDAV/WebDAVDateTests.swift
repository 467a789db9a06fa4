import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveProviders

/// The date of a file is set at a server, while another device changes the file.
@Suite(.timeLimit(.minutes(5)))
struct WebDAVDateTests {
    private static let date = Timestamp(seconds: 1_500_000_000, nanoseconds: 0)
    private let cloud: ScriptedCloud
    private let dav: any Provider

    init() async throws {
        cloud = try ScriptedCloud()
        dav = try ProviderFactory.make(source: cloud.source, access: testAccess)
        try await dav.start()
    }

    private func setDate(_ item: RemoteItem) async throws(ProviderError) -> RemoteItem {
        try await dav.modify(
            dav.reference("file", item),
            base: item.contentVersion,
            metadata: ItemMetadata(modificationTime: Self.date),
            content: nil
        )
    }

    /// Has the other device's bytes taken for another version than the one whose date was set.
    private func expectConflict(_ item: RemoteItem) async throws {
        let error = await #expect(throws: ProviderError.self) { try await setDate(item) }
        cloud.answer(nil)
        cloud.rewrite(nil)
        guard case .conflict(let other) = error else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(try await dav.find("file").contentVersion == other?.contentVersion)
        #expect(other?.contentVersion != item.contentVersion)
    }

    @Test func `bytes that come before the date keep their own`() async throws {
        let item = try await dav.make("file", "base")
        let cloud = cloud
        cloud.answer { request in
            if request.method == "PROPPATCH" { cloud.put("file", Array("next".utf8), modified: 1000) }
            return nil
        }
        try await expectConflict(item)
        #expect(try await dav.find("file").metadata.modificationTime?.seconds == 1000)
    }

    /// What another device puts: with a date of its own, and of another size with the same date.
    @Test(arguments: [("next", 1000), ("longer", date.seconds)])
    func `bytes that come after the date are another version`(text: String, modified: Int64) async throws {
        let item = try await dav.make("file", "base")
        let cloud = cloud
        cloud.rewrite { request, _ in
            if request.method == "PROPPATCH" { cloud.put("file", Array(text.utf8), modified: modified) }
        }
        try await expectConflict(item)
        #expect(cloud.bytes("file") == Array(text.utf8))
    }

    @Test(arguments: [false, true]) func `the same bytes are the same file, also where the date makes another tag`(
        makesTag: Bool
    ) async throws {
        let item = try await dav.make("file", "base")
        let cloud = cloud
        let sum = Checksum(.sha1, Digest.hash(Array("base".utf8), .sha1)).text
        cloud.rewrite { request, _ in
            guard makesTag, request.method == "PROPPATCH" else { return }
            cloud.put("file", Array("base".utf8), modified: Self.date.seconds, checksum: sum)
        }
        let dated = try await setDate(item)
        #expect(dated.metadata.modificationTime == Self.date && dated.size == 4)
        #expect((dated.contentVersion == item.contentVersion) == !makesTag)
        #expect(try await dav.find("file") == dated)
    }
}
