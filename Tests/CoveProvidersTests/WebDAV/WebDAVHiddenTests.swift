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

    @Test func `the name of what is being deleted is text, and not too long`() throws {
        for text in ["a", "\u{E4}", "\u{65E5}", "\u{1F600}"] {
            for start in ["", "a", "ab", "abc"] {
                let name = start + String(repeating: text, count: (255 - start.utf8.count) / text.utf8.count)
                let path = RemotePath([try #require(FileName(name))])
                let aside = Leftover.deleting(path, ContentVersion("v"))
                #expect((190...200).contains(aside.bytes.count))
                #expect(String(validating: aside.bytes, as: UTF8.self) != nil)
                guard case .deleting(_, _, let kept) = Leftover.kind(aside) else {
                    Issue.record("\(aside) is none")
                    continue
                }
                #expect(name.utf8.starts(with: kept) && kept.count > 150)
            }
        }
        // What is no text at all keeps most of its bytes, too.
        let odd = RemotePath([FileName(unchecked: [UInt8](repeating: 0x80, count: 255))])
        #expect(Leftover.deleting(odd, .directory).bytes.count > 190)
    }
}
