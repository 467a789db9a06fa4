import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveProviders

/// How many requests each change costs, on every server: what is said of a change must never cost more than this.
@Suite(.serialized, .timeLimit(.minutes(5)))
struct RequestCountTests {
    /// A server behind one that counts.
    struct Kind: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// What one change may cost.
        var bounds: Bounds
        /// The source at a port in front of the server, and the port of the server.
        let open: @Sendable () async throws -> (port: UInt16, source: @Sendable (UInt16) -> String, keep: any Sendable)
    }

    /// The most requests for each kind of change; these are those of a server that heeds conditions on MOVE.
    struct Bounds: Sendable {
        /// Put under a hidden name, listed with all that wait, moved.
        var file = 3
        /// A hundred files of 4 KiB in one new folder, created 32 at a time.
        var folder = 225
        var replacement = 3
        var deletion = 1
        var rename = 4
        /// Of whatever version is there, into another folder.
        var move = 5
        var trash = 2
        var directory = 1

        /// Of one that tells the version of what is put in place, and an id of what is made.
        static let inPlace = Bounds(file: 1, folder: 102, replacement: 1, rename: 3, trash: 3, directory: 2)

        /// Of a bucket whose server knows conditions: the folder is looked at, and after what was sent the claims and what
        /// came of it, each by a listing that many share.
        static let bucket = Bounds(
            file: 4,
            folder: 225,
            replacement: 5,
            deletion: 4,
            rename: 14,
            move: 13,
            trash: 10,
            directory: 3
        )

        /// Of one without: devices exclude each other by objects that they put, list and delete, and look some seconds later
        /// whether those have gone, which may fall into another change: two more than each takes.
        static let claimed = Bounds(
            file: 9,
            folder: 760,
            replacement: 9,
            deletion: 8,
            rename: 16,
            move: 15,
            trash: 12,
            directory: 8
        )

        /// Of one that takes a file away with what is deleted below its name: the folder is claimed too.
        static let wary = {
            var bounds = claimed
            (bounds.rename, bounds.move, bounds.trash) = (20, 19, 16)
            return bounds
        }()

        /// Of one that has locks only, and takes nothing back: what is to go is moved aside, and looked at there.
        static let locking = Bounds(replacement: 6, deletion: 4, rename: 5, trash: 3, directory: 2)
    }

    static let kinds =
        [
            webDAV("Apache", Bounds(), Result { try TestServer.apache() }),
            webDAV("nginx", .locking, Result { try TestServer.nginx() }),
            webDAV("rclone's WebDAV", .locking, Result { try TestServer.rcloneWebDAV() }),
            bucket("SeaweedFS", .bucket, Result { try TestServer.seaweedFS() }),
            bucket("JuiceFS's S3", .claimed, Result { try TestServer.juiceFS() }),
            bucket("rclone's S3", .wary, Result { try TestServer.rcloneS3() }),
            Kind(testDescription: "a scripted cloud", bounds: .inPlace) {
                let cloud = try ScriptedCloud()
                return (cloud.server.port, { "webdav://127.0.0.1:\($0)\(ScriptedCloud.home)" }, cloud)
            },
        ]

    private static func bucket(_ name: String, _ bounds: Bounds, _ server: Result<TestServer, any Error>) -> Kind {
        Kind(testDescription: name, bounds: bounds) {
            let server = try server.get()
            let folder = "\(DocumentID.random())"
            return (
                server.port,
                { server.s3Source(folder).replacingOccurrences(of: ":\(server.port)", with: ":\($0)") }, server
            )
        }
    }

    private static func webDAV(_ name: String, _ bounds: Bounds, _ server: Result<TestServer, any Error>) -> Kind {
        Kind(testDescription: name, bounds: bounds) {
            let server = try server.get()
            let folder = "\(DocumentID.random())"
            try server.makeCollection(folder)
            return (server.port, { "webdav://127.0.0.1:\($0)/\(folder)" }, server)
        }
    }

    /// A started device whose requests are counted.
    private struct Counted {
        let provider: any Provider
        private let front: ScriptedServer
        private let keep: any Sendable

        init(_ kind: Kind) async throws {
            let (port, source, keep) = try await kind.open()
            self.keep = keep
            front = try ScriptedServer { _ in .handOn(port) }
            provider = try ProviderFactory.make(source: source(front.port), access: testAccess)
            try await provider.start()
            try await idle()
        }

        /// Also what nobody waits for counts.
        private func idle() async throws {
            var quiet = 0
            while quiet < 20 {
                quiet = front.isIdle ? quiet + 1 : 0
                try await Task.sleep(for: TimeSpan.milliseconds(5))
            }
        }

        /// Waits until conditions hold for a file's tag, which some servers call weak for a second.
        func settle(_ path: String) async throws {
            guard let dav = provider as? WebDAVProvider else { return }
            let path = dav.reference(path).path
            while EntityTag.isWeak(try await dav.properties(path).tag ?? "") {
                try await Task.sleep(for: TimeSpan.milliseconds(20))
            }
        }

        /// The requests of a change, in their order.
        func requests<R>(_ change: () async throws -> R) async throws -> (R, [String]) {
            let before = front.exchanges.count
            let result = try await change()
            try await idle()
            return (result, front.exchanges[before...].map { "\($0.request.method) \($0.status)" })
        }
    }

    private func expect(_ requests: [String], atMost bound: Int, _ what: String, _ kind: Kind) {
        let summary = requests.count > 20 ? "" : ": \(requests.joined(separator: ", "))"
        print("requests of \(kind.testDescription), \(what): \(requests.count)\(summary)")
        #expect(requests.count <= bound, "\(what): \(requests)")
    }

    @Test(arguments: kinds)
    func `changes cost no more requests than they must`(kind: Kind) async throws {
        let counted = try await Counted(kind)
        let provider = counted.provider
        let bounds = kind.bounds
        let (_, first) = try await counted.requests { try await provider.makeDirectory("directory") }
        expect(first, atMost: bounds.directory, "a directory", kind)
        _ = try await provider.make("directory/warm", "warm")
        let text = String(repeating: "x", count: 4096)
        let (file, second) = try await counted.requests { try await provider.make("directory/file", text) }
        expect(second, atMost: bounds.file, "a file", kind)
        let (replaced, third) = try await counted.requests {
            try await provider.modify(
                provider.reference("directory/file", file),
                base: file.contentVersion,
                metadata: ItemMetadata(),
                content: MemorySource(text + "more")
            )
        }
        expect(third, atMost: bounds.replacement, "a replacement", kind)
        try await counted.settle("directory/file")
        let (moved, fourth) = try await counted.requests {
            try await provider.move(
                provider.reference("directory/file", replaced),
                base: replaced.contentVersion,
                to: provider.reference("directory"),
                name: #require(FileName("renamed"))
            )
        }
        expect(fourth, atMost: bounds.rename, "a rename", kind)
        #expect(try await provider.text("directory/renamed", moved.contentVersion) == text + "more")
        let (again, other) = try await counted.requests {
            try await provider.move(
                provider.reference("directory/renamed", moved),
                base: nil,
                to: .root,
                name: #require(FileName("moved"))
            )
        }
        expect(other, atMost: bounds.move, "a move", kind)
        #expect(again.contentVersion == moved.contentVersion)
        #expect(try await provider.find("moved").id == again.id)
        let (_, fifth) = try await counted.requests {
            try await provider.delete(provider.reference("moved", again), base: again.contentVersion)
        }
        expect(fifth, atMost: bounds.deletion, "a deletion", kind)
        #expect(try await provider.names("directory") == ["warm"])
        if provider.capabilities.trash {
            for token in ["first", "second"] {
                let made = try await provider.make("directory/unwanted", text)
                try await counted.settle("directory/unwanted")
                let (_, sixth) = try await counted.requests {
                    try await provider.trash(
                        provider.reference("directory/unwanted", made),
                        base: made.contentVersion,
                        as: token
                    )
                }
                // The first one may make the folder for it.
                if token == "second" { expect(sixth, atMost: bounds.trash, "a move to the trash", kind) }
            }
        }
    }

    @Test(arguments: kinds)
    func `a folder of a hundred files costs few more than the files`(kind: Kind) async throws {
        let counted = try await Counted(kind)
        let provider = counted.provider
        let text = String(repeating: "x", count: 4096)
        let (made, requests) = try await counted.requests {
            try await provider.makeDirectory("folder")
            return try await withThrowingTaskGroup(of: RemoteItem.self) { group in
                var made: [RemoteItem] = []
                for number in 0..<100 {
                    if number >= 32, let item = try await group.next() { made.append(item) }
                    group.addTask { try await provider.make("folder/file \(number)", text) }
                }
                for try await item in group { made.append(item) }
                return made
            }
        }
        expect(requests, atMost: kind.bounds.folder, "a folder of a hundred files", kind)
        let listed = try await provider.everything("folder")
        // What is acknowledged is what is there.
        #expect(Set(listed.map(\.contentVersion)) == Set(made.map(\.contentVersion)))
        #expect(listed.count == 100)
    }
}
