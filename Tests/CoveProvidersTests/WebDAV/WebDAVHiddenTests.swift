import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveProviders

/// What Cove keeps in hidden folders of a server, when it is much.
@Suite(.timeLimit(.minutes(5)))
struct WebDAVHiddenTests {
    private let cloud: ScriptedCloud
    private let dav: WebDAVProvider

    init() async throws {
        cloud = try ScriptedCloud()
        dav = try WebDAVProvider(
            try #require(SourceAddress(cloud.source)),
            HTTPOptions(),
            credentials: { testCredentials }
        )
        try await dav.start()
    }

    @Test func `all that is hidden is erased beside however much that is not`() async throws {
        for number in 0..<100 {
            cloud.put(".cove-\(number)", [1])
            cloud.put(".coverage-\(number)", [1])
        }
        cloud.put("\(ErasureNote.name)", [1])
        try await dav.eraseRest()
        #expect(cloud.names() == ([ErasureNote.name.description] + (0..<100).map { ".coverage-\($0)" }).sorted())
    }

    @Test func `of many links each ends, also beside one that can't be deleted`() async throws {
        cloud.makeFolder(".cove-published")
        let names = (0..<100).map {
            PublishedName(until: Timestamp(seconds: Int64($0), nanoseconds: 0), owner: "other")
        }
        for name in names { cloud.makeFolder(".cove-published/\(name.fileName)") }
        let bad = names[3].fileName.description
        cloud.answer { request in
            request.method == "DELETE" && request.target.contains(bad) ? ScriptedServer.answer(403) : nil
        }
        let next = try #require(await dav.sweepPublished())
        #expect(cloud.names(".cove-published") == [bad])
        #expect(next > System.now() && next < System.now() + .seconds(3600))
        cloud.answer(nil)
        #expect(await dav.sweepPublished() == nil)
        #expect(cloud.names(".cove-published") == [])
    }

    @Test func `of a folder with many files it is known which have pictures`() async throws {
        let names = try (0..<100).map { try #require(FileName("\($0)")) }
        for name in names { cloud.put("\(name)", [1]) }
        let version = try await dav.find("7").contentVersion
        let picture = TestPicture.png(width: 10, height: 10, red: 2)
        for name in names { try await dav.setThumbnail(picture, of: dav.reference("\(name)"), version: version) }
        #expect(try await dav.thumbnails(of: names, in: .root) == Set(names))
    }
}
