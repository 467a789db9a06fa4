import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveProviders

/// Pictures that a server of Nextcloud's kind makes, beside those that devices give it.
@Suite struct WebDAVPreviewTests {
    private static let photo = FileName(unchecked: Array("a.jpg".utf8))
    private let cloud: ScriptedCloud

    init() throws { cloud = try ScriptedCloud() }

    private static func reply(_ status: String, _ type: String, _ body: [UInt8]) -> ScriptedServer.Answer {
        let head = "HTTP/1.1 \(status)\r\nContent-Type: \(type)\r\nContent-Length: \(body.count)\r\n\r\n"
        return .bytes(Array(head.utf8) + body)
    }

    /// A device, once the server says what it is and has a picture of each file but those of which the body has none.
    private func device(
        product: String = "Nextcloud",
        _ picture: @escaping @Sendable (String) -> [UInt8]? = { _ in nil }
    ) async throws -> any Provider {
        cloud.answer { request in
            if request.target == "/status.php" {
                return Self.reply("200 OK", "application/json", Array("{\"productname\":\"\(product)\"}".utf8))
            }
            guard request.target.hasPrefix("/index.php/core/preview?") else { return nil }
            guard request.target.hasSuffix("&x=1024&y=1024&a=1"), let bytes = picture(request.target) else {
                return Self.reply("404 Not Found", "text/html", [])
            }
            return Self.reply("200 OK", "image/png", bytes)
        }
        let dav = try ProviderFactory.make(source: cloud.source, access: testAccess)
        try await dav.start()
        return dav
    }

    private func item(_ name: String, _ dav: any Provider) async throws -> (RemoteReference, ContentVersion) {
        let name = FileName(unchecked: Array(name.utf8))
        let item = try await dav.lookup(name, in: .root)
        return (RemoteReference(id: item.id, path: RemotePath([name])), item.contentVersion)
    }

    @Test func `the server's picture is of the version that was asked for, and one that was given comes first`()
        async throws
    {
        let made = TestPicture.png(width: 64, height: 32, red: 1)
        let given = TestPicture.png(width: 10, height: 10, red: 2)
        let dav = try await device { _ in made }
        #expect(dav.capabilities.makesThumbnails && dav.capabilities.keepsThumbnails)
        cloud.put("a.jpg", [1, 2, 3])
        let (reference, version) = try await item("a.jpg", dav)
        #expect(try await dav.thumbnail(of: reference, version: version) == made)
        #expect(try await dav.thumbnail(of: reference, version: ContentVersion(Array("other".utf8))) == nil)
        try await dav.setThumbnail(given, of: reference, version: version)
        #expect(try await dav.thumbnail(of: reference, version: version) == given)
        #expect(try await dav.thumbnails(of: [Self.photo], in: .root) == [Self.photo])
        // What is given for one version is not taken away for another one.
        try await dav.setThumbnail(nil, of: reference, version: ContentVersion(Array("other".utf8)))
        #expect(try await dav.thumbnail(of: reference, version: version) == given)
        try await dav.setThumbnail(nil, of: reference, version: version)
        #expect(try await dav.thumbnail(of: reference, version: version) == made)
        // The folder of pictures is none of the documents.
        #expect(try await dav.list(.root, page: nil).items.map(\.name) == [Array("a.jpg".utf8)])
    }

    @Test func `a server that has none, or is another one, is asked for none`() async throws {
        let dav = try await device()
        cloud.put("a.txt", [1, 2, 3])
        let (reference, version) = try await item("a.txt", dav)
        #expect(try await dav.thumbnail(of: reference, version: version) == nil)
        let other = try await device(product: "ownCloud") { _ in
            Issue.record("it was asked for a picture")
            return nil
        }
        #expect(!other.capabilities.makesThumbnails && other.capabilities.keepsThumbnails)
        #expect(try await other.thumbnail(of: reference, version: version) == nil)
    }
}
