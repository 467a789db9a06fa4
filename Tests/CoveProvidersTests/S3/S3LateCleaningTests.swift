import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveProviders

/// SeaweedFS deletes a folder minutes after its last object went, by its name alone: a file that has taken the name goes.
@Suite(.timeLimit(.minutes(5)))
struct S3LateCleaningTests {
    private static func start(_ source: S3Source, lateCleaning: Int) async throws -> S3Provider {
        let provider = try source.provider(lateCleaning: lateCleaning)
        try await provider.start()
        return provider
    }

    /// Makes a directory with a file in it, and deletes both.
    private static func makeAndDelete(_ path: String, _ device: S3Provider) async throws {
        try await device.makeDirectory(path)
        let item = try await device.make("\(path)/x", "old")
        try await device.delete(device.reference("\(path)/x", item), base: item.contentVersion)
        try await device.delete(device.reference(path), base: .directory)
    }

    /// The claims on a key.
    private static func claims(_ path: String, _ source: S3Source) async throws -> Int {
        let prefix = source.client.address.prefix
        let hash = Digest.hash(prefix + Array(path.utf8), .sha256).hexadecimal.prefix(32)
        return try await source.client.list(prefix + Array(".cove/claims/\(hash)".utf8), delimiter: false).objects.count
    }

    /// Makes a file as often as that is refused for the moment.
    private static func make(_ path: String, _ device: S3Provider) async throws {
        var content = MemorySource("new")
        // Each attempt sends the same snapshot.
        content.identity = Array(path.utf8)
        while true {
            do {
                _ = try await device.create(
                    ItemTemplate(kind: .file, metadata: ItemMetadata()),
                    name: #require(FileName(path)),
                    in: device.reference(""),
                    content: content
                )
                return
            } catch ProviderError.busy {}
        }
    }

    @Test func `a file is not taken for sent while the server may still delete the folder of its name`() async throws {
        let server = try TestServer.seaweedFS(cleansAfter: "1s")
        let source = try S3Source(server)
        let here = try await Self.start(source, lateCleaning: 60)
        let there = try await Self.start(source, lateCleaning: 60)
        for path in ["deleted", "also deleted"] { try await Self.makeAndDelete(path, here) }
        try await here.makeDirectory("moved")
        _ = try await here.make("moved/x", "old")
        let item = try await here.find("moved")
        _ = try await here.move(
            here.reference("moved", item),
            base: item.contentVersion,
            to: here.reference(""),
            name: #require(FileName("away"))
        )
        // When the server has deleted this folder it has looked at all that were emptied before.
        let folder = source.client.address.prefix + Array("last/".utf8)
        func empty() async throws {
            for method in ["PUT", "DELETE"] {
                _ = try await source.client.send(S3Call(method, folder + Array("x".utf8)))
            }
        }
        try await empty()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (path, device) in [("deleted", there), ("also deleted", here), ("moved", there)] {
                group.addTask { try await Self.make(path, device) }
            }
            try await group.waitForAll()
        }
        let deadline = System.monotonic() + .seconds(150)
        var emptied = System.monotonic()
        while try await source.client.list(source.client.address.prefix, delimiter: true).prefixes.contains(folder) {
            try #require(System.monotonic() < deadline, "the server deletes no folders")
            // On a busy machine it forgets a folder that it was told of; it looks every half minute.
            if System.monotonic() - emptied > .seconds(40) {
                try await empty()
                emptied = System.monotonic()
            }
            try await Task.sleep(for: TimeSpan.milliseconds(100))
        }
        for path in ["deleted", "also deleted", "moved"] { #expect(try await there.text(path) == "new") }
        #expect(try await there.text("away/x") == "old")
        for device in [here, there] { await device.stop() }
        withExtendedLifetime(server) {}
    }

    @Test func `a folder of the same name comes and goes meanwhile, on any device`() async throws {
        let source = try S3Source(S3ServerKind.seaweedFS.server())
        let here = try await Self.start(source, lateCleaning: 180)
        let there = try await Self.start(source, lateCleaning: 180)
        for device in [here, here, there, here] { try await Self.makeAndDelete("folder", device) }
        #expect(try await Self.claims("folder", source) > 0)
        await #expect(throws: ProviderError.busy) { _ = try await there.make("folder", "file") }
        for device in [here, there] { await device.stop() }
    }

    @Test(arguments: S3ServerKind.allCases)
    func `a folder that a server remembers though nothing is in it is no other one than none`(
        kind: S3ServerKind
    ) async throws {
        let source = try S3Source(kind.server())
        try await source.source.put("", S3Source.standing)
        let device = try await Self.start(source, lateCleaning: 0)
        let prefix = source.client.address.prefix
        /// Another program makes the only object of a folder, and perhaps deletes it.
        func plant(_ key: String, _ methods: [String]) async throws {
            for method in methods { _ = try await source.client.send(S3Call(method, prefix + Array(key.utf8))) }
        }
        try await plant("listed/x", ["PUT", "DELETE"])
        try await plant("outer/inner/x", ["PUT", "DELETE"])
        // Whoever lists what the server shows is told the same as who looks it up, uses, moves or deletes it.
        #expect(try await (device.names() == []) == (kind != .seaweedFS))
        for path in ["outer", "listed"] where try await device.names().contains(path) {
            #expect(try await device.find(path).kind == .directory)
            #expect(try await device.names(path) == (path == "outer" ? ["inner"] : []))
        }
        if kind == .seaweedFS {
            #expect(try await device.names("outer/inner") == [])
            _ = try await device.make("outer/inner/y", "text")
            let item = try await device.find("listed")
            let listed = device.reference("listed", item)
            let name = try #require(FileName("moved"))
            _ = try await device.move(listed, base: item.contentVersion, to: .root, name: name)
            #expect(try await device.names() == ["moved", "outer"])
            try await plant("moved/x", ["PUT", "DELETE"])
            try await device.delete(device.reference("moved"), base: .directory)
            #expect(try await device.names() == ["outer"])
        }
        try await plant("made/x", ["PUT", "DELETE"])
        // What is in these is gone, and folders are remembered in them.
        for path in ["deep", "deeper"] {
            try await plant("\(path)/a/b/x", ["PUT", "DELETE"])
            try await plant("\(path)/c/x", ["PUT", "DELETE"])
        }
        if kind == .seaweedFS {
            await #expect(throws: ProviderError.noSuchItem) {
                try await device.delete(device.reference("deep"), base: .directory)
            }
            let deeper = device.reference("deeper", try await device.find("deeper"))
            let name = try #require(FileName("away"))
            _ = try await device.move(deeper, base: .directory, to: .root, name: name)
            let names = try await device.names()
            #expect(names == ["away", "made", "outer"])
        }
        do {
            try await device.makeDirectory("made")
        } catch ProviderError.filenameCollision(let other) {
            #expect(kind == .seaweedFS && other?.kind == .directory)
        }
        #expect(try await device.names("made") == [])
        _ = try await device.make("made/y", "text")
        try await plant("kept/x", ["PUT"])
        let item = try await device.find("kept/x")
        try await device.delete(device.reference("kept/x", item), base: item.contentVersion)
        #expect(try await device.names("kept") == [])
        #expect(try await device.text("made/y") == "text")
        await device.stop()
    }

    @Test(arguments: [S3ServerKind.juiceFS, .rclone])
    func `elsewhere a file takes the name of a folder at once`(kind: S3ServerKind) async throws {
        let source = try S3Source(kind.server())
        try await source.source.put("", S3Source.standing)
        let here = try await Self.start(source, lateCleaning: 180)
        try await Self.makeAndDelete("folder", here)
        _ = try await here.make("folder", "file")
        #expect(try await here.text("folder") == "file")
        await here.stop()
    }
}
