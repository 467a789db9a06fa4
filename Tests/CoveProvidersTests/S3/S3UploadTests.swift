import CoveCore
import CoveTestSupport
import Glibc
import Synchronization
import Testing

@testable import CoveProviders

/// Big files on their way to a bucket.
@Suite(.serialized, .timeLimit(.minutes(5)))
struct S3UploadTests {
    /// Bytes that are made where they are read; an identity names them.
    private struct Pattern: ContentSource {
        let size: Int64
        var identity: [UInt8]?
        var onRead: @Sendable (Int64) throws(ProviderError) -> Void = { _ throws(ProviderError) in }

        func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ProviderError) -> Int {
            try onRead(offset)
            let count = Int(min(Int64(buffer.count), size - offset))
            var filled = 0
            while filled < count {
                let page = (offset + Int64(filled)) / 4096
                let end = min(count, Int((page + 1) * 4096 - offset))
                let byte = UInt8(truncatingIfNeeded: (page &* 0x9E37_79B9) >> 7)
                UnsafeMutableRawBufferPointer(rebasing: buffer[filled..<end]).initializeMemory(
                    as: UInt8.self,
                    repeating: byte
                )
                filled = end
            }
            return count
        }

        func copy(to descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int { 0 }
    }

    /// Compares what comes with a pattern.
    private final class Comparison: ContentSink {
        private let pattern: Pattern
        private let state = Mutex<(count: Int64, differs: Bool)>((0, false))

        init(_ pattern: Pattern) { self.pattern = pattern }

        var isSame: Bool { state.withLock { $0.count == pattern.size && !$0.differs } }

        func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(ProviderError) {
            let expected = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 8)
            defer { expected.deallocate() }
            _ = try pattern.read(at: offset, into: expected)
            guard let there = bytes.baseAddress, let here = expected.baseAddress else { return }
            let isEqual = memcmp(there, here, bytes.count) == 0
            state.withLock { state in
                state.count += Int64(bytes.count)
                state.differs = state.differs || !isEqual
            }
        }

        func copy(from descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int { 0 }
    }

    /// One prefix of a server, behind others that count: the first hangs up after so many parts, the second never.
    private struct Counted {
        let state: TemporaryDirectory
        private let fronts: [ScriptedServer]
        private let prefix = "\(DocumentID.random())"

        init(_ server: TestServer, parts limit: Int) throws {
            let port = server.port
            state = try TemporaryDirectory()
            let seen = Seen()
            fronts = try [limit, .max].map { limit in
                try ScriptedServer { request in
                    guard request.method == "PUT", request.target.contains("partNumber=") else { return .handOn(port) }
                    return seen.next() <= limit ? .handOn(port) : .hangUp
                }
            }
        }

        private final class Seen: Sendable {
            private let count = Mutex(0)

            func next() -> Int {
                count.withLock { count in
                    count += 1
                    return count
                }
            }
        }

        func provider(front: Int, pieceSize: Int64 = 5 << 20) throws -> S3Provider {
            let endpoint = "http://127.0.0.1:\(fronts[front].port)"
            let address = "s3://\(TestServer.bucket)/\(prefix)?endpoint=\(endpoint)&region=us-east-1"
            return try S3Provider(address, uploads: state.appending("uploads"), pieceSize: pieceSize)
        }

        /// Nothing that was let through is on its way any more.
        var isIdle: Bool { fronts.allSatisfy(\.isIdle) }

        private var exchanges: [ScriptedServer.Exchange] { fronts.flatMap(\.exchanges) }

        /// The parts that the server acknowledged, each as often as it was.
        var parts: [String] {
            exchanges.filter { $0.request.method == "PUT" && $0.status == 200 }.compactMap { exchange in
                exchange.request.target.firstRange(of: "partNumber=").map {
                    String(exchange.request.target[$0.upperBound...].prefix { $0.isNumber })
                }
            }
        }

        func count(_ method: String, _ text: String) -> Int {
            exchanges.count { $0.request.method == method && $0.request.target.contains(text) }
        }
    }

    private static let servers = [S3ServerKind.seaweedFS, .juiceFS, .rclone]

    @Test(arguments: servers)
    func `a big file that is cut off goes on, and no part is sent twice`(kind: S3ServerKind) async throws {
        let source = try Counted(kind.server(), parts: 5)
        let pattern = Pattern(size: 200 << 20, identity: Array("snapshot".utf8))
        let name = try #require(FileName("big"))
        let template = ItemTemplate(kind: .file, metadata: ItemMetadata(modificationTime: Timestamp(5)))
        let first = try source.provider(front: 0, pieceSize: 16 << 20)
        try await first.start()
        await #expect(throws: ProviderError.self) {
            try await first.create(template, name: name, in: .root, content: pattern)
        }
        await first.stop()
        // A part that was given up may arrive yet.
        try waitUntil("all has arrived") { source.isIdle }
        let before = source.parts
        // A server that is slow may not have taken all five that were let through.
        #expect((1...5).contains(before.count))
        #expect(try await first.names() == [])
        // Another process: nothing is known but what was noted.
        let second = try source.provider(front: 1, pieceSize: 16 << 20)
        try await second.start()
        let item = try await second.create(template, name: name, in: .root, content: pattern)
        let count = source.parts.count
        print("\(kind): \(before.count) parts before, \(count - before.count) after, of 13")
        #expect(item.size == pattern.size)
        #expect(source.parts.count == 13 && Set(source.parts).count == 13)
        #expect(source.count("POST", "?uploads") == 1)
        let comparison = Comparison(pattern)
        try await second.fetch(
            second.reference("big", item),
            version: item.contentVersion,
            range: 0..<item.size,
            into: comparison
        )
        #expect(comparison.isSame)
        #expect(try await second.find("big").contentVersion == item.contentVersion)
        #expect(second.journal.all().isEmpty)
    }

    @Test(arguments: servers)
    func `parts of other bytes are dropped`(kind: S3ServerKind) async throws {
        let source = try Counted(kind.server(), parts: 2)
        let name = try #require(FileName("big"))
        let template = ItemTemplate(kind: .file, metadata: ItemMetadata())
        let cut = try source.provider(front: 0)
        try await cut.start()
        await #expect(throws: ProviderError.self) {
            let pattern = Pattern(size: 21 << 20, identity: Array("old".utf8))
            _ = try await cut.create(template, name: name, in: .root, content: pattern)
        }
        let provider = try source.provider(front: 1)
        try await provider.start()
        let pattern = Pattern(size: (21 << 20) + 1, identity: Array("new".utf8))
        let item = try await provider.create(template, name: name, in: .root, content: pattern)
        #expect(item.size == pattern.size)
        #expect(source.parts.count == 2 + 5)
        #expect(source.count("DELETE", "uploadId=") == 1)
        #expect(provider.journal.all().isEmpty)
        // A replacement in parts is conditional as well.
        let replaced = try await provider.modify(
            provider.reference("big", item),
            base: item.contentVersion,
            metadata: ItemMetadata(),
            content: Pattern(size: 11 << 20)
        )
        #expect(replaced.size == 11 << 20)
        await #expect(throws: ProviderError.self) {
            _ = try await provider.modify(
                provider.reference("big", item),
                base: item.contentVersion,
                metadata: ItemMetadata(),
                content: Pattern(size: 12 << 20)
            )
        }
        #expect(try await provider.find("big").contentVersion == replaced.contentVersion)
        await expectCollision { _ = try await provider.create(template, name: name, in: .root, content: pattern) }
    }

    @Test(arguments: servers)
    func `an upload whose answer got lost is recognised`(kind: S3ServerKind) async throws {
        let source = try Counted(kind.server(), parts: .max)
        let template = ItemTemplate(kind: .file, metadata: ItemMetadata())
        let (first, second) = (try source.provider(front: 0), try source.provider(front: 1))
        try await first.start()
        try await second.start()
        for size in [Int64(100), 11 << 20] {
            let pattern = Pattern(size: size, identity: Array("snapshot \(size)".utf8))
            let name = try #require(FileName("file \(size)"))
            let made = try await first.create(template, name: name, in: .root, content: pattern)
            let again = try await second.create(template, name: name, in: .root, content: pattern)
            #expect(again.contentVersion == made.contentVersion)
            await expectCollision {
                let other = Pattern(size: size, identity: Array("other".utf8))
                _ = try await second.create(template, name: name, in: .root, content: other)
            }
        }
    }

    private func expectCollision(_ body: () async throws -> Void) async {
        let error = await #expect(throws: ProviderError.self) { try await body() }
        guard case .filenameCollision = error else {
            Issue.record("\(String(describing: error))")
            return
        }
    }
}
