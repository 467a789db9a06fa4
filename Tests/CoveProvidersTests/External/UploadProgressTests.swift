import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveProviders

/// How much of a content has reached the cloud, as a provider's process says it.
@Suite(.timeLimit(.minutes(2)))
struct UploadProgressTests {
    /// Content that remembers how much of it is said to be there.
    private final class Heard: ContentSource {
        let base: MemorySource
        let arrivals = Mutex<[Int64]>([])

        init(_ bytes: [UInt8]) { base = MemorySource(bytes) }

        var size: Int64 { base.size }

        func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ProviderError) -> Int {
            try base.read(at: offset, into: buffer)
        }

        func copy(to descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int {
            try base.copy(to: descriptor, at: offset, count: count)
        }

        func note(arrived bytes: Int64) { arrivals.withLock { $0.append(bytes) } }
    }

    private static let name = FileName(unchecked: Array("f".utf8))

    /// What is heard of an upload of ten bytes of which a process says these, as Python has them; then it sends them again after
    /// its answer.
    private static func arrivals(of words: String) async throws -> [Int64] {
        let folder = try TemporaryDirectory()
        let script = """
            def answer(id, header):
                if "end" not in header:
                    return
                words = [\(words)]
                for word in words:
                    send({"id": id, "alive": True, "sent": word})
                send({"id": id, "result": {"item": file}})
                for word in words:
                    send({"id": id, "alive": True, "sent": word})
            serve(answer)
            """
        let provider = try ServedSource.python(
            BrokenProviderTests.tools.replacing("#!/usr/bin/python3", with: "") + script,
            at: folder.appending("provider")
        )
        let content = Heard(Array(repeating: 7, count: 10))
        let file = ItemTemplate(kind: .file, metadata: ItemMetadata())
        do throws(ProviderError) {
            _ = try await provider.create(file, name: Self.name, in: .root, content: content)
        } catch {
            await provider.stop()
            throw error
        }
        await provider.stop()
        return content.arrivals.withLock { $0 }
    }

    @Test func `what has arrived is heard, never more than there is, and nothing after the answer`() async throws {
        #expect(try await Self.arrivals(of: "0, 3, 10, 99, 2**62, 5") == [0, 0, 3, 10, 10, 10, 5])
        #expect(try await Self.arrivals(of: "") == [0])
    }

    @Test(arguments: ["-1", "'x'", "1.5", "True", "[]", "2**63", "None"])
    func `what is no number of bytes ends the process`(word: String) async throws {
        let error = await #expect(throws: ProviderError.self) { try await Self.arrivals(of: "1, " + word) }
        #expect("\(error as Any)".contains("no number of bytes"), "\(error as Any)")
    }

    @Test func `a source that is served says what it has passed on`() async throws {
        let folder = try TemporaryDirectory()
        let files = folder.appending("files")
        try FileManager.default.createDirectory(atPath: files, withIntermediateDirectories: true)
        let provider = try ServedSource.provider("dir://\(files)", beside: folder.appending("p"))
        let content = Heard((0..<5 << 20).map { UInt8(truncatingIfNeeded: $0 >> 8) })
        let file = ItemTemplate(kind: .file, metadata: ItemMetadata())
        _ = try await provider.create(file, name: Self.name, in: .root, content: content)
        let all = content.arrivals.withLock { $0 }
        // What was begun again, as on a machine that is busy, begins at nothing.
        let arrivals = Array(all.suffix(from: all.lastIndex(of: 0) ?? 0))
        #expect(
            arrivals.first == 0 && arrivals == arrivals.sorted() && arrivals.contains { $0 >= 4 << 20 }
                && arrivals.count <= 7,
            "\(all)"
        )
        await provider.stop()
    }
}
