import CoveCore
import CoveTestSupport
import Synchronization
import Testing

@testable import CoveProviders

/// What copies and uploads in parts meet: servers look at their conditions a moment before they write.
@Suite(.serialized, .timeLimit(.minutes(5)))
struct S3RaceTests {
    /// Two devices on one empty prefix; the first sends what is above 64 KiB in parts.
    private struct Devices {
        let here: S3Provider
        let there: S3Provider

        init(_ kind: S3ServerKind) async throws {
            let source = try S3Source(kind.server())
            here = try S3Provider(source.address, pieceSize: 64 << 10)
            there = try source.provider()
            try await here.start()
            try await there.start()
        }
    }

    private static let rounds = 20
    private static let large = String(repeating: "large", count: 20 << 10)

    /// What became of an attempt once nobody was in its way any more; nil where another one came first.
    private func outcome<R: Sendable>(_ body: () async throws -> R) async throws -> R? {
        for _ in 0..<50 {
            do {
                return try await body()
            } catch ProviderError.busy {
                try await Task.sleep(for: TimeSpan.milliseconds(50))
            } catch ProviderError.filenameCollision {
                return nil
            } catch ProviderError.conflict {
                return nil
            } catch ProviderError.noSuchItem {
                return nil
            }
        }
        throw ProviderError.busy
    }

    private func replace(_ provider: S3Provider, _ path: String, _ base: RemoteItem, _ text: String) async throws
        -> RemoteItem
    {
        try await provider.modify(
            provider.reference(path, base),
            base: base.contentVersion,
            metadata: ItemMetadata(),
            content: MemorySource(text)
        )
    }

    private func describe(_ provider: S3Provider, _ path: String, _ base: RemoteItem) async throws -> RemoteItem {
        try await provider.modify(
            provider.reference(path, base),
            base: base.contentVersion,
            metadata: ItemMetadata(permissions: 0o600),
            content: nil
        )
    }

    /// Files that are there for longer than the second in which nothing about them is changed.
    private func oldFiles(_ devices: Devices) async throws -> [RemoteItem] {
        var files: [RemoteItem] = []
        for round in 0..<Self.rounds { files.append(try await devices.here.make("file \(round)", "base \(round)")) }
        return files
    }

    @Test(arguments: S3ServerKind.allCases)
    func `a new mode does not bring old bytes back`(kind: S3ServerKind) async throws {
        let devices = try await Devices(kind)
        for (round, base) in try await oldFiles(devices).enumerated() {
            let path = "file \(round)"
            async let replaced = outcome { try await replace(devices.there, path, base, "new \(round)") }
            async let described = outcome { try await describe(devices.here, path, base) }
            let (new, same) = try await (replaced, described)
            #expect(new != nil || same != nil)
            #expect(same == nil || same?.contentVersion == base.contentVersion)
            #expect(try await devices.here.text(path) == (new == nil ? "base" : "new") + " \(round)")
        }
    }

    @Test(arguments: S3ServerKind.allCases)
    func `a new mode does not bring a deleted file back`(kind: S3ServerKind) async throws {
        let devices = try await Devices(kind)
        for (round, base) in try await oldFiles(devices).enumerated() {
            let path = "file \(round)"
            async let deleted: Bool? = outcome {
                try await devices.there.delete(devices.there.reference(path, base), base: base.contentVersion)
                return true
            }
            async let described = outcome { try await describe(devices.here, path, base) }
            let (isGone, same) = try await (deleted, described)
            #expect(isGone != nil || same != nil)
            #expect(try await devices.here.names().contains(path) == (isGone == nil))
        }
    }

    @Test func `a file that is made between a mover's look and its copy is not lost`() async throws {
        let server = try S3ServerKind.seaweedFS.server()
        let source = try S3Source(server)
        let port = server.port
        let line = try ScriptedServer { _ in .handOn(port) }
        let there = try S3Provider(source.address(through: line))
        try await there.start()
        let making = Mutex<Task<RemoteItem?, any Error>?>(nil)
        let front = try ScriptedServer { request in
            guard request.method == "PUT", request.value("x-amz-copy-source") != nil else { return .handOn(port) }
            // As if it knew no condition of copies.
            guard request.target.hasSuffix("/name") else {
                return ScriptedServer.answer(200, [], "<CopyObjectResult></CopyObjectResult>")
            }
            making.withLock { task in
                task = task ?? Task { try await outcome { try await there.make("name", "made") } }
            }
            let isSent = Result {
                try waitUntil("the other device's file is there") {
                    line.exchanges.contains {
                        $0.request.method == "PUT" && $0.request.target.hasSuffix("/name") && $0.status == 200
                    }
                }
            }
            return (try? isSent.get()) == nil ? .hangUp : .handOn(port)
        }
        let here = try S3Provider(source.address(through: front))
        try await here.start()
        let old = try await here.make("old", "moved")
        let moved = try await outcome {
            try await here.move(
                here.reference("old", old),
                base: old.contentVersion,
                to: .root,
                name: #require(FileName("name"))
            )
        }
        let task = try #require(making.withLock { $0 })
        let made = try await task.value
        #expect((made == nil) != (moved == nil))
        #expect(try await there.text("name") == (made == nil ? "moved" : "made"))
    }

    @Test(arguments: S3ServerKind.allCases)
    func `of two moves to one name exactly one wins`(kind: S3ServerKind) async throws {
        let devices = try await Devices(kind)
        for round in 0..<Self.rounds {
            let name = try #require(FileName("name \(round)"))
            func move(_ provider: S3Provider, _ path: String, _ item: RemoteItem) async throws -> RemoteItem {
                try await provider.move(
                    provider.reference(path, item),
                    base: item.contentVersion,
                    to: .root,
                    name: name
                )
            }
            let one = try await devices.here.make("one \(round)", "one \(round)")
            let other = try await devices.here.make("two \(round)", "two \(round)")
            async let first = outcome { try await move(devices.here, "one \(round)", one) }
            async let second = outcome { try await move(devices.there, "two \(round)", other) }
            let moved = try await (first, second)
            try #require((moved.0 == nil) != (moved.1 == nil), "\(round): \(moved)")
            let (won, lost) = moved.1 == nil ? ("one", "two") : ("two", "one")
            #expect(try await devices.here.text("\(name)") == "\(won) \(round)")
            #expect(try await devices.here.text("\(lost) \(round)") == "\(lost) \(round)")
        }
    }

    @Test(arguments: S3ServerKind.allCases)
    func `of a file in parts and one in one piece exactly one gets a name`(kind: S3ServerKind) async throws {
        let devices = try await Devices(kind)
        for round in 0..<Self.rounds {
            async let parts = outcome { try await devices.here.make("file \(round)", Self.large) }
            async let piece = outcome { try await devices.there.make("file \(round)", "piece") }
            let made = try await (parts, piece)
            try #require((made.0 == nil) != (made.1 == nil), "\(round): \(made)")
            #expect(try await devices.here.text("file \(round)") == (made.1 == nil ? Self.large : "piece"))
        }
    }

    @Test(arguments: S3ServerKind.allCases)
    func `of new bytes in parts and in one piece exactly one takes the place of a version`(
        kind: S3ServerKind
    ) async throws {
        let devices = try await Devices(kind)
        for (round, base) in try await oldFiles(devices).enumerated() {
            let path = "file \(round)"
            async let parts = outcome { try await replace(devices.here, path, base, Self.large) }
            async let piece = outcome { try await replace(devices.there, path, base, "piece") }
            let made = try await (parts, piece)
            try #require((made.0 == nil) != (made.1 == nil), "\(round): \(made)")
            #expect(try await devices.here.text(path) == (made.1 == nil ? Self.large : "piece"))
        }
    }

    @Test(arguments: S3ServerKind.allCases)
    func `a directory that moves replaces nothing that is made where it comes to`(kind: S3ServerKind) async throws {
        let devices = try await Devices(kind)
        for round in 0..<Self.rounds / 2 {
            let (from, to) = ("from \(round)", "to \(round)")
            try await devices.here.makeDirectory(from)
            for name in ["a", "b", "c", "d"] { _ = try await devices.here.make("\(from)/\(name)", "moved \(name)") }
            async let moved = outcome {
                try await devices.here.move(
                    devices.here.reference(from),
                    base: nil,
                    to: .root,
                    name: #require(FileName(to))
                )
            }
            var made: RemoteItem?
            // The first that is copied makes the directory.
            for _ in 0..<1000 {
                do {
                    made = try await devices.there.make("\(to)/d", "made")
                    break
                } catch ProviderError.noSuchItem {
                    continue
                } catch ProviderError.busy {
                    continue
                } catch ProviderError.filenameCollision {
                    break
                }
            }
            _ = try await moved
            #expect(try await devices.here.text("\(to)/d") == (made == nil ? "moved d" : "made"))
            if made != nil { #expect(try await devices.here.text("\(from)/d") == "moved d") }
            for name in ["a", "b", "c"] { #expect(try await devices.here.text("\(to)/\(name)") == "moved \(name)") }
        }
    }
}
