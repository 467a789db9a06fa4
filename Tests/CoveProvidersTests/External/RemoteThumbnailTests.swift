import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveProviders

/// Pictures in a remote of rclone's, which any device that reaches it shares.
@Suite struct RemoteThumbnailTests {
    private let picture = ConformanceCheck.picture(shade: 90)
    private let folder: TemporaryDirectory
    private let provider: any Provider

    init() async throws {
        folder = try TemporaryDirectory()
        try FileManager.default.createDirectory(atPath: folder.appending("files"), withIntermediateDirectories: true)
        let remote = ":local:\(folder.appending("files"))"
        let program = FileManager.default.currentDirectoryPath + "/Providers/cove-rclone"
        let script = folder.appending("serve")
        try put("#!/bin/sh\nexec '\(program)'\n", script)
        try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: script)
        let shown = remote.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? remote
        provider = try ProviderFactory.make(
            source: "exec:\(script)?remote=\(shown)",
            access: ProviderFactory.Access(state: nil)
        )
        try await provider.start()
    }

    private func stored(_ path: String) -> String {
        let place = ThumbnailFolder.place(of: RemotePath(unchecked: Array(path.utf8)))
        return folder.appending("files/\(place)")
    }

    @Test func `what is stored is what Cove stores by itself, and is read wherever it comes from`() async throws {
        try await provider.makeDirectory("d ä")
        for path in ["letter.txt", "d ä/ü"] {
            let item = try await provider.make(path, "text")
            let (version, reference) = (item.contentVersion, provider.reference(path, item))
            try await provider.setThumbnail(picture, of: reference, version: version)
            let bytes = try [UInt8](Data(contentsOf: URL(fileURLWithPath: stored(path))))
            #expect(try bytes == ThumbnailFolder.seal(picture, version))
            let other = ConformanceCheck.picture(shade: 10)
            try Data(ThumbnailFolder.seal(other, version)).write(to: URL(fileURLWithPath: stored(path)))
            #expect(try await provider.thumbnail(of: reference, version: version) == other)
        }
        #expect(try await provider.names() == ["d ä", "letter.txt"])
        #expect(try await provider.names("d ä") == ["ü"])
    }

    @Test func `a picture that says of itself of which version it is is not believed`() async throws {
        let item = try await provider.make("f", "text")
        let reference = provider.reference("f", item)
        let lie = try ThumbnailFolder.seal(picture, ContentVersion("other"))
        try await provider.setThumbnail(lie, of: reference, version: item.contentVersion)
        #expect(try await provider.thumbnail(of: reference, version: ContentVersion("other")) == nil)
        #expect(try await provider.thumbnail(of: reference, version: item.contentVersion) == picture)
        await #expect(throws: ProviderError.self) {
            try await provider.setThumbnail([1, 2, 3], of: reference, version: item.contentVersion)
        }
    }

    @Test func `what is stored and is no picture of this version is none`() async throws {
        let item = try await provider.make("f", "text")
        let reference = provider.reference("f", item)
        let sealed = try ThumbnailFolder.seal(picture, item.contentVersion)
        try await provider.setThumbnail(picture, of: reference, version: item.contentVersion)
        var torn = sealed
        torn[60] ^= 1
        let others: [[UInt8]] = [
            [], [1], Array(sealed.dropLast()), Array(sealed.prefix(20)), torn, picture,
            try ThumbnailFolder.seal(picture, ContentVersion("other")),
            sealed.prefix(8) + [0xFF, 0xFF, 0xFF, 0xFF] + sealed.dropFirst(12),
            sealed + [UInt8](repeating: 0, count: 5_000_000),
        ]
        for bytes in others {
            try Data(bytes).write(to: URL(fileURLWithPath: stored("f")))
            #expect(try await provider.thumbnail(of: reference, version: item.contentVersion) == nil)
            // It is not this version's either that would be dropped.
            try await provider.setThumbnail(nil, of: reference, version: item.contentVersion)
            #expect(FileManager.default.fileExists(atPath: stored("f")))
        }
        try Data(sealed).write(to: URL(fileURLWithPath: stored("f")))
        try await provider.setThumbnail(nil, of: reference, version: item.contentVersion)
        #expect(!FileManager.default.fileExists(atPath: stored("f")))
    }

    @Test func `pictures keep no folder from being deleted, and a file in it does`() async throws {
        try await provider.makeDirectory("d")
        let pictures = folder.appending("files/d/.cove-thumbnails/0123")
        try FileManager.default.createDirectory(atPath: pictures, withIntermediateDirectories: true)
        try put("picture", pictures + "/4567.png")
        let item = try await provider.make("d/f", "text")
        await #expect(throws: ProviderError.directoryNotEmpty) {
            try await provider.delete(provider.reference("d"), base: .directory)
        }
        #expect(FileManager.default.fileExists(atPath: pictures + "/4567.png"))
        try await provider.delete(provider.reference("d/f", item), base: item.contentVersion)
        try await provider.delete(provider.reference("d"), base: .directory)
        #expect(try await provider.names().isEmpty)
    }

    @Test func `where the remote is away, nothing is made, and nothing known`() async throws {
        let item = try await provider.make("f", "text")
        let reference = provider.reference("f", item)
        let files = folder.appending("files")
        try FileManager.default.moveItem(atPath: files, toPath: folder.appending("away"))
        let version = item.contentVersion
        let name = try #require(FileName("f"))
        for picture in [picture, nil] {
            await #expect(throws: ProviderError.self) {
                try await provider.setThumbnail(picture, of: reference, version: version)
            }
        }
        await #expect(throws: ProviderError.self) { try await provider.thumbnail(of: reference, version: version) }
        await #expect(throws: ProviderError.self) { try await provider.thumbnails(of: [name], in: .root) }
        #expect(!FileManager.default.fileExists(atPath: files))
    }
}
