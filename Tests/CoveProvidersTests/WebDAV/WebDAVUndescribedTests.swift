import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveProviders

/// Items of which a server says in its answer about several that it does not describe them now, or never does.
@Suite(.timeLimit(.minutes(5)))
struct WebDAVUndescribedTests {
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

    /// How a server tells of something that it does not describe.
    enum Way: CaseIterable {
        case status, properties, name
    }

    /// From now on something is not described, by a status.
    private static func hide(_ name: String, in cloud: ScriptedCloud, _ way: Way, _ status: Int = 403) {
        cloud.rewrite { request, reply in
            guard request.method == "PROPFIND", reply.statusLine.contains(" 207 ") else { return }
            reply.rewriteText { text in
                text.components(separatedBy: "<d:response>").map { part in
                    guard part.contains("/\(name)</d:href>") || part.contains("/\(name)/</d:href>"),
                        let end = part.range(of: "</d:href>"), let tail = part.range(of: "</d:response>")
                    else { return part }
                    let rest = part[tail.lowerBound...]
                    switch way {
                    case .status: return part[..<end.upperBound] + "<d:status>HTTP/1.1 \(status) No</d:status>" + rest
                    case .properties: return part.replacingOccurrences(of: "1.1 200 OK", with: "1.1 \(status) No")
                    case .name: return part.replacingOccurrences(of: "/\(name)</d:href>", with: "/%zz</d:href>")
                    }
                }.joined(separator: "<d:response>")
            }
        }
    }

    @Test(arguments: Way.allCases, [403, 404, 423, 500])
    func `a folder with something that is not described is not empty`(way: Way, status: Int) async throws {
        try await dav.makeDirectory("folder")
        cloud.put("folder/file", [1])
        Self.hide("file", in: cloud, way, status)
        await #expect(throws: ProviderError.directoryNotEmpty) {
            try await dav.delete(dav.reference("folder"), base: .directory)
        }
        #expect(cloud.bytes("folder/file") == [1])
    }

    @Test func `what comes while an empty folder is moved aside, and is not described, comes back with it`()
        async throws
    {
        try await dav.makeDirectory("folder")
        let cloud = cloud
        cloud.answer { request in
            if request.method == "MOVE" {
                cloud.put("folder/file", [1])
                Self.hide("file", in: cloud, .status)
            }
            return nil
        }
        await #expect(throws: ProviderError.directoryNotEmpty) {
            try await dav.delete(dav.reference("folder"), base: .directory)
        }
        #expect(cloud.bytes("folder/file") == [1])
    }

    @Test(arguments: [true, false])
    func `a deletion that broke off in a folder is ended before the folder goes`(isMeant: Bool) async throws {
        try await dav.makeDirectory("folder")
        let file = try await dav.make("folder/file", "text")
        let path = dav.reference("folder/file").path
        // Else another version was moved aside, and is to come back.
        let aside = Leftover.deleting(path, isMeant ? file.contentVersion : ContentVersion("e\"other\" 4"))
        let moved = try await dav.move(path, to: path.parent.appending(aside), isDirectory: false, overwrite: false)
        #expect(moved.status == 201)
        if isMeant {
            try await dav.delete(dav.reference("folder"), base: .directory)
            #expect(cloud.names() == [])
        } else {
            await #expect(throws: ProviderError.directoryNotEmpty) {
                try await dav.delete(dav.reference("folder"), base: .directory)
            }
            #expect(cloud.bytes("folder/file") == Array("text".utf8))
        }
    }

    @Test func `uploads on their way keep no folder`() async throws {
        try await dav.makeDirectory("folder")
        let name = try #require(FileName("new"))
        cloud.put("folder/\(StagedName(for: name, owner: "00000000").name)", [1])
        cloud.makeFolder("folder/.cove-thumbnails")
        cloud.makeFolder("folder/.cove-uploads")
        cloud.put("folder/.cove-uploads/\(StagedName(for: name, owner: "00000000", isInside: true).name)", [1])
        try await dav.delete(dav.reference("folder"), base: .directory)
        #expect(cloud.names() == [])
        // A name that only looks so is the user's.
        try await dav.makeDirectory("folder")
        cloud.put("folder/cove-upload-notes", [1])
        await #expect(throws: ProviderError.directoryNotEmpty) {
            try await dav.delete(dav.reference("folder"), base: .directory)
        }
        #expect(cloud.names("folder") == ["cove-upload-notes"])
    }

    @Test(arguments: [Way.status, .properties], [403, 401, 423, 429, 500, 503])
    func `what is not described is not gone`(way: Way, status: Int) async throws {
        _ = try await dav.make("file", "bytes")
        _ = try await dav.make("other", "bytes")
        Self.hide("file", in: cloud, way, status)
        let error = await #expect(throws: ProviderError.self) { try await dav.find("file") }
        let isPassing = status == 423 || status == 429 || status >= 500
        switch error {
        case .busy: #expect(isPassing)
        case .notPermitted: #expect(!isPassing)
        default: Issue.record("\(String(describing: error))")
        }
        await #expect(throws: ProviderError.self) {
            let version = ContentVersion("e\"1\" 5")
            _ = try await dav.matches(dav.reference("file"), version: version, MemorySource("bytes"))
        }
        // One file that can't be described does not hide all others.
        #expect(try await dav.names() == ["other"])
        cloud.rewrite(nil)
        #expect(try await dav.names() == ["file", "other"])
    }

    @Test func `what is not described is not gone where only a listing tells`() async throws {
        let cloud = try ScriptedCloud()
        cloud.changeNames { $0.lowercased() }
        let dav = try ProviderFactory.make(source: cloud.source, access: testAccess)
        try await dav.start()
        _ = try await dav.make("file", "bytes")
        Self.hide("file", in: cloud, .status, 423)
        await #expect(throws: ProviderError.busy) { try await dav.find("file") }
        await #expect(throws: ProviderError.noSuchItem) { try await dav.find("none") }
        #expect(cloud.bytes("file") == Array("bytes".utf8))
    }

    @Test(arguments: [404, 410]) func `what the server says is gone is gone`(status: Int) async throws {
        _ = try await dav.make("file", "bytes")
        Self.hide("file", in: cloud, .status, status)
        await #expect(throws: ProviderError.noSuchItem) { try await dav.find("file") }
        #expect(try await dav.names() == [])
    }

    // MARK: what was sent

    private static func shorten(_ text: String) -> String {
        text.replacing(#/<d:getcontentlength>\d+</#) { _ in "<d:getcontentlength>1234<" }
    }

    @Test func `an upload of which the server kept less under its tag has failed`() async throws {
        let text = String(repeating: "text", count: 100_000)
        cloud.rewrite { request, reply in
            guard request.method == "PROPFIND", request.target.hasSuffix("/big") else { return }
            reply.rewriteText { Self.shorten($0) }
        }
        let error = await #expect(throws: ProviderError.self) { try await dav.make("big", text) }
        guard case .failed(let why, _) = error, why.contains("other bytes") else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    @Test func `a size that is told late is waited for`() async throws {
        let text = String(repeating: "text", count: 100_000)
        let asked = Atomic(0)
        cloud.rewrite { request, reply in
            guard request.method == "PROPFIND", request.target.hasSuffix("/big"),
                asked.add(1, ordering: .relaxed).newValue == 1
            else { return }
            reply.rewriteText { Self.shorten($0) }
        }
        let made = try await dav.make("big", text)
        #expect(made.size == Int64(text.utf8.count))
        #expect(try await dav.find("big").contentVersion == made.contentVersion)
    }
}
