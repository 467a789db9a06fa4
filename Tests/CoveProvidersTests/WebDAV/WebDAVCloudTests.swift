import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveProviders

/// What some servers have beyond WebDAV, against a scripted one that follows the public protocol.
@Suite(.timeLimit(.minutes(30)))
struct WebDAVCloudTests {
    private let cloud: ScriptedCloud
    private let folder: TemporaryDirectory

    init() throws {
        cloud = try ScriptedCloud()
        folder = try TemporaryDirectory("chunks")
    }

    private func device(_ options: (inout HTTPOptions) -> Void = { _ in }) async throws -> WebDAVProvider {
        var http = HTTPOptions()
        http.stallLimit = .seconds(5)
        options(&http)
        let dav = try WebDAVProvider(
            try #require(SourceAddress(cloud.source)),
            http,
            uploads: folder.path,
            pieceSize: 1 << 20,
            credentials: { nil }
        )
        try await dav.start()
        return dav
    }

    private func name(_ text: String) throws -> FileName { try #require(FileName(text)) }

    /// Bytes of which each MiB is another.
    private static let content = (0..<(11 << 19)).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ $0 >> 12) }

    private struct Snapshot: ContentSource {
        let content: MemorySource
        let identity: [UInt8]?
        var size: Int64 { content.size }

        func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ProviderError) -> Int {
            try content.read(at: offset, into: buffer)
        }

        func copy(to descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int {
            try content.copy(to: descriptor, at: offset, count: count)
        }
    }

    /// The numbers of the chunks that arrived, in their order.
    private var chunks: [Int] {
        cloud.server.exchanges.compactMap { exchange in
            let request = exchange.request
            guard request.method == "PUT", request.target.contains("/uploads/"), exchange.status == 201,
                // The one that is tried out has one byte.
                !request.lines.contains("OC-Total-Length: 1")
            else { return nil }
            return Int(request.target.split(separator: "/").last ?? "")
        }
    }

    @Test func `what the server can do is found out`() async throws {
        let dav = try await device()
        let server = try dav.server()
        #expect(server.takesChunks && server.keepsChecksums && server.keepsVersions && server.keepsDates)
        #expect(dav.capabilities.versions && dav.capabilities.risingDirectoryVersions && dav.capabilities.stableIDs)
        #expect(cloud.names() == [])
        try await eventually { cloud.uploads == 0 }
    }

    @Test func `tags that change because another device is there are not taken for rising ones`() async throws {
        let cloud = try ScriptedCloud(tagsRise: false)
        cloud.answer { _ in
            cloud.put("noise", [1])
            return nil
        }
        let dav = try ProviderFactory.make(source: cloud.source, access: testAccess)
        try await dav.start()
        #expect(!dav.capabilities.risingDirectoryVersions)
        cloud.answer(nil)
    }

    @Test func `a large file goes in chunks, with its date and its checksum`() async throws {
        let dav = try await device()
        let date = Timestamp(seconds: 1_234_567_890, nanoseconds: 0)
        let made = try await dav.create(
            ItemTemplate(kind: .file, metadata: ItemMetadata(modificationTime: date)),
            name: name("big"),
            in: .root,
            content: MemorySource(Self.content)
        )
        #expect(cloud.bytes("big") == Self.content)
        #expect(made.size == Int64(Self.content.count) && made.metadata.modificationTime == date)
        #expect(chunks.sorted() == [1, 2, 3, 4, 5, 6])
        let other = try await dav.modify(
            dav.reference("big", made),
            base: made.contentVersion,
            metadata: ItemMetadata(),
            content: MemorySource(Self.content.reversed())
        )
        #expect(cloud.bytes("big") == Self.content.reversed() && other.id == made.id)
        let sum = Checksum(.sha1, Digest.hash(Self.content.reversed(), .sha1))
        #expect(try await dav.look(RemotePath([name("big")]), after: sum).isRight)
        #expect(try await !dav.look(RemotePath([name("big")]), after: Checksum(.sha1, [1])).isRight)
        try await eventually { cloud.uploads == 0 }
    }

    @Test func `chunks become no file where another device was quicker`() async throws {
        let dav = try await device()
        let made = try await dav.make("big", "base")
        cloud.put("big", Array("other".utf8))
        await #expect(throws: ProviderError.self) {
            try await dav.modify(
                dav.reference("big", made),
                base: made.contentVersion,
                metadata: ItemMetadata(),
                content: MemorySource(Self.content)
            )
        }
        await #expect(throws: ProviderError.self) {
            try await dav.create(
                ItemTemplate(kind: .file, metadata: ItemMetadata()),
                name: name("big"),
                in: .root,
                content: MemorySource(Self.content)
            )
        }
        #expect(cloud.bytes("big") == Array("other".utf8))
        try await eventually { cloud.uploads == 0 }
        #expect(dav.journal.all().isEmpty)
    }

    @Test func `an upload that broke off goes on with the chunks that are missing`() async throws {
        let first = try await device()
        let stop = Atomic(false)
        let template = ItemTemplate(kind: .file, metadata: ItemMetadata())
        let cloud = cloud
        var content = MemorySource(Self.content)
        content.onRead = { () throws(ProviderError) in
            if stop.load(ordering: .acquiring) { throw .cancelled }
        }
        let broken = Snapshot(content: content, identity: [1])
        let place = try name("big")
        // The line breaks once three chunks are there.
        cloud.answer { request in
            guard request.method == "PUT", request.target.contains("/uploads/") else { return nil }
            guard let number = Int(request.target.split(separator: "/").last ?? ""), number > 3 else { return nil }
            stop.store(true, ordering: .releasing)
            return .hangUp
        }
        await #expect(throws: ProviderError.self) {
            try await first.create(template, name: place, in: .root, content: broken)
        }
        cloud.answer(nil)
        let before = chunks
        #expect(before.count >= 1 && before.count <= 3 && cloud.bytes("big") == nil)
        let second = try await device()
        let whole = Snapshot(content: MemorySource(Self.content), identity: [1])
        _ = try await second.create(template, name: place, in: .root, content: whole)
        #expect(cloud.bytes("big") == Self.content)
        #expect(chunks.sorted() == [1, 2, 3, 4, 5, 6], "each was sent once")
        #expect(second.journal.all().isEmpty)
    }

    @Test func `what arrived although the answer got lost is not sent again`() async throws {
        let dav = try await device()
        let template = ItemTemplate(kind: .file, metadata: ItemMetadata())
        let place = try name("big")
        let content = Snapshot(content: MemorySource(Self.content), identity: [1])
        let other = Snapshot(content: MemorySource(Self.content.reversed()), identity: [2])
        cloud.loseAnswer { $0.method == "MOVE" && $0.target.hasSuffix(".file") }
        await #expect(throws: ProviderError.self) {
            try await dav.create(template, name: place, in: .root, content: content)
        }
        let made = try await dav.create(template, name: place, in: .root, content: content)
        let change = { () async throws -> RemoteItem in
            try await dav.modify(
                dav.reference("big", made),
                base: made.contentVersion,
                metadata: ItemMetadata(),
                content: other
            )
        }
        await #expect(throws: ProviderError.self) { try await change() }
        let changed = try await change()
        #expect(try await dav.find("big") == changed)
        #expect(cloud.bytes("big") == Self.content.reversed())
        #expect(chunks.count == 12)
        #expect(dav.journal.all().isEmpty)
    }

    @Test func `an upload that goes on for days is not dropped for its age`() async throws {
        let dav = try await device()
        let cloud = cloud
        let isThere = Atomic(false)
        let mayGoOn = Atomic(false)
        cloud.answer { request in
            guard request.method == "PUT", request.target.hasSuffix("/00004") else { return nil }
            isThere.store(true, ordering: .releasing)
            while !mayGoOn.load(ordering: .acquiring) { usleep(1000) }
            return nil
        }
        let (template, place) = (ItemTemplate(kind: .file, metadata: ItemMetadata()), try name("big"))
        let content = Snapshot(content: MemorySource(Self.content), identity: [1])
        async let made = dav.create(template, name: place, in: .root, content: content)
        try await eventually { isThere.load(ordering: .acquiring) }
        var record = try #require(dav.journal.all().first)
        record.started -= 3 * 86_400
        try age(record, dav)
        await dav.dropOldChunks()
        mayGoOn.store(true, ordering: .releasing)
        #expect(try await made.size == Int64(Self.content.count))
        #expect(cloud.bytes("big") == Self.content && chunks.sorted() == [1, 2, 3, 4, 5, 6])
        // Once it does not go on any more, it is.
        try age(record, dav)
        await dav.dropOldChunks()
        #expect(dav.journal.all().isEmpty)
    }

    /// Has a record looked as if it had been written when it says that the upload began.
    private func age(_ record: UploadRecord, _ dav: WebDAVProvider) throws {
        try dav.journal.save(record)
        dav.journal.refresh(record.key, at: record.started)
    }

    @Test func `an upload that is gone on with is young again`() async throws {
        let dav = try await device()
        cloud.answer { request in
            request.method == "MOVE" && request.target.hasSuffix(".file") ? ScriptedServer.answer(500) : nil
        }
        let (template, place) = (ItemTemplate(kind: .file, metadata: ItemMetadata()), try name("big"))
        let content = Snapshot(content: MemorySource(Self.content), identity: [1])
        for isLater in [false, true] {
            await #expect(throws: ProviderError.self) {
                try await dav.create(template, name: place, in: .root, content: content)
            }
            var record = try #require(dav.journal.all().first)
            #expect(record.started > System.now().seconds - 3600)
            record.started -= 3 * 86_400
            if !isLater { try age(record, dav) }
        }
        await dav.dropOldChunks()
        #expect(dav.journal.all().count == 1)
    }

    @Test func `chunks of another snapshot are not gone on with`() async throws {
        let dav = try await device()
        let template = ItemTemplate(kind: .file, metadata: ItemMetadata())
        let place = try name("big")
        cloud.answer { request in
            request.method == "MOVE" && request.target.hasSuffix(".file") ? ScriptedServer.answer(500) : nil
        }
        await #expect(throws: ProviderError.self) {
            let content = Snapshot(content: MemorySource(Self.content), identity: [1])
            return try await dav.create(template, name: place, in: .root, content: content)
        }
        cloud.answer(nil)
        let other = Snapshot(content: MemorySource(Self.content.reversed()), identity: [2])
        _ = try await dav.create(template, name: place, in: .root, content: other)
        #expect(cloud.bytes("big") == Self.content.reversed())
        try await eventually { cloud.uploads == 0 }
    }

    @Test func `bytes with a wrong checksum are no content`() async throws {
        let dav = try await device()
        _ = try await dav.make("file", "right bytes")
        #expect(try await dav.text("file") == "right bytes")
        cloud.damage { _, bytes in [bytes[0] ^ 1] + bytes.dropFirst() }
        let item = try await dav.find("file")
        let sink = MemorySink()
        let error = await #expect(throws: ProviderError.self) {
            try await dav.fetch(dav.reference("file"), version: item.contentVersion, range: 0..<item.size, into: sink)
        }
        guard case .failed(let why, _) = error, why.contains("checksum") else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(sink.bytes == [])
    }

    @Test func `bytes that the server kept otherwise are noticed`() async throws {
        let dav = try await device()
        cloud.tellChecksums { _ in "SHA1:" + String(repeating: "0", count: 40) }
        let text = String(repeating: "text", count: 100_000)
        let error = await #expect(throws: ProviderError.self) { try await dav.make("file", text) }
        guard case .failed(let why, _) = error, why.contains("other bytes") else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    @Test func `earlier contents are listed, without the present one, and fetched`() async throws {
        let dav = try await device()
        for (date, text) in [(1000, "one"), (2000, "two, longer"), (3000, "three")] {
            cloud.put("file", Array(text.utf8), modified: Int64(date))
        }
        let item = try await dav.find("file")
        let versions = try await dav.versions(of: dav.reference("file", item))
        #expect(versions.map(\.size) == [11, 3])
        #expect(versions.map(\.modificationTime.seconds) == [2000, 1000])
        for (version, text) in zip(versions, ["two, longer", "one"]) {
            let sink = MemorySink()
            try await dav.fetch(version, of: dav.reference("file", item), into: sink)
            #expect(sink.bytes == Array(text.utf8))
        }
        let gone = RemoteVersion(id: "17", size: 3, modificationTime: Timestamp(0), contentVersion: nil)
        await #expect(throws: ProviderError.versionNoLongerAvailable) {
            try await dav.fetch(gone, of: dav.reference("file", item), into: MemorySink())
        }
        _ = try await dav.make("new", "text")
        #expect(try await dav.versions(of: dav.reference("new")).isEmpty)
    }

    @Test func `an upload of another device is left alone, however old its bytes are`() async throws {
        let dav = try await device()
        let now = Int64(time(nil))
        let young = StagedName(for: try name("new"), owner: "00000000").name
        let old = ".cove-upload-\(String(now - 3 * 86_400, radix: 16))-x"
        cloud.put("\(young)", [1], modified: 1000)
        cloud.put(old, [1], modified: 1000)
        cloud.put("file", [1])
        #expect(try await dav.names() == ["file"])
        try await eventually { !cloud.names().contains(old) }
        #expect(cloud.names().contains("\(young)"))
    }

    @Test func `an answer to PUT that nobody at the server gave is not believed`() async throws {
        let dav = try await device()
        let made = try await dav.make("file", "base")
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nLogin", "HTTP/1.1 204 No Content\r\nETag: \"9999\"\r\n\r\n",
        ] {
            // A login page that is there for one request.
            cloud.answer { $0.method == "PUT" ? .bytes(Array(answer.utf8)) : nil }
            let outcome = try? await dav.modify(
                dav.reference("file", made),
                base: made.contentVersion,
                metadata: ItemMetadata(),
                content: MemorySource("changed")
            )
            #expect(outcome == nil)
            cloud.answer(nil)
        }
        #expect(cloud.bytes("file") == Array("base".utf8))
    }

    /// Waits for what goes on in the background; the suite's time limit is the deadline.
    private func eventually(_ isSo: () -> Bool) async throws {
        while !isSo() { try await Task.sleep(for: .milliseconds(10)) }
    }
}
