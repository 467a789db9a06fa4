import CoveCore
import CoveTestSupport
import Synchronization
import Testing

@testable import CoveProviders

/// Directories that move in buckets, which know no directories.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct S3MoveTests {
    private static let kinds = S3ServerKind.allCases

    private func fill(_ provider: S3Provider) async throws {
        for directory in ["from", "from/empty", "from/inner"] { try await provider.makeDirectory(directory) }
        for number in 0..<12 { _ = try await provider.make("from/file \(number)", "text \(number)") }
        _ = try await provider.make("from/inner/deep", "deep")
    }

    private func expectMoved(_ provider: S3Provider, _ kind: S3ServerKind) async throws {
        #expect(try await provider.names() == ["to"])
        let files = (0..<12).map { "file \($0)" }
        #expect(try await provider.names("to") == (["empty", "inner"] + files).sorted())
        for number in 0..<12 { #expect(try await provider.text("to/file \(number)") == "text \(number)") }
        #expect(try await provider.names("to/inner") == ["deep"])
        #expect(try await provider.text("to/inner/deep") == "deep")
        #expect(try await provider.names("to/empty") == [])
    }

    /// Counts from 1.
    private final class Counter: Sendable {
        private let count = Mutex(0)

        func next() -> Int {
            count.withLock { count in
                count += 1
                return count
            }
        }
    }

    /// Lets so many changes through, and no more.
    private func front(_ server: TestServer, changes limit: Int) throws -> ScriptedServer {
        let (port, counter) = (server.port, Counter())
        return try ScriptedServer { request in
            guard ["PUT", "DELETE", "POST"].contains(request.method), !request.target.contains("/.cove/probe/") else {
                return .handOn(port)
            }
            return counter.next() <= limit ? .handOn(port) : .hangUp
        }
    }

    @Test(arguments: kinds, [4, 12, 20, 28, 36])
    func `a move that is cut off is finished, and nothing is lost on the way`(
        kind: S3ServerKind,
        changes: Int
    ) async throws {
        let server = try kind.server()
        let source = try S3Source(server)
        let good = try source.provider()
        try await good.start()
        try await fill(good)
        let prefix = try #require(source.address.split(separator: "?").first)
        let cut = try self.front(server, changes: changes)
        let broken = try S3Provider("\(prefix)?endpoint=http://127.0.0.1:\(cut.port)&region=us-east-1")
        try await broken.start()
        let to = try #require(FileName("to"))
        let isCut: Bool
        do {
            _ = try await broken.move(broken.reference("from"), base: nil, to: .root, name: to)
            isCut = false
        } catch {
            isCut = true
        }
        await broken.stop()
        // Every text is at one place at least.
        for number in 0..<12 {
            let here = try? await good.text("from/file \(number)")
            let there = try? await good.text("to/file \(number)")
            #expect(here == "text \(number)" || there == "text \(number)")
        }
        if isCut {
            if changes.isMultiple(of: 8) {
                _ = try await good.move(good.reference("from"), base: nil, to: .root, name: to)
            } else {
                // The next start does it by itself.
                await good.finishMoves()
            }
        }
        try await expectMoved(good, kind)
    }

    @Test(arguments: kinds)
    func `what changes while its directory moves stays`(kind: S3ServerKind) async throws {
        let server = try kind.server()
        let source = try S3Source(server)
        let good = try source.provider()
        try await good.start()
        try await fill(good)
        let prefix = try #require(source.address.split(separator: "?").first)
        let port = server.port
        // Right before the first deletion another device changes a file.
        let deletions = Counter()
        let front = try ScriptedServer { request in
            if request.method == "DELETE", request.target.contains("/from/file"), deletions.next() == 1 {
                BlockingThread.wait {
                    let item = try? await good.find("from/file 7")
                    guard let item else { return }
                    _ = try? await good.modify(
                        good.reference("from/file 7", item),
                        base: item.contentVersion,
                        metadata: ItemMetadata(),
                        content: MemorySource("changed meanwhile")
                    )
                }
            }
            return .handOn(port)
        }
        let mover = try S3Provider("\(prefix)?endpoint=http://127.0.0.1:\(front.port)&region=us-east-1")
        try await mover.start()
        let to = try #require(FileName("to"))
        _ = try await mover.move(mover.reference("from"), base: nil, to: .root, name: to)
        var texts: [String] = []
        for place in ["from/file 7", "to/file 7"] { if let text = try? await good.text(place) { texts.append(text) } }
        #expect(texts.contains("changed meanwhile") || texts == ["text 7"], "\(texts)")
        for number in 0..<12 where number != 7 { #expect(try await good.text("to/file \(number)") == "text \(number)") }
    }

    @Test(arguments: kinds)
    func `a directory that another program made by a key stays when it is emptied`(kind: S3ServerKind) async throws {
        let source = try S3Source(kind.server())
        let provider = try source.provider()
        try await provider.start()
        try await source.source.put("text", "made/elsewhere")
        #expect(try await provider.names() == ["made"])
        let item = try await provider.find("made/elsewhere")
        try await provider.delete(provider.reference("made/elsewhere", item), base: item.contentVersion)
        #expect(try await provider.names() == ["made"])
        #expect(try await provider.names("made") == [])
        try await provider.delete(provider.reference("made"), base: nil)
        // SeaweedFS lists what was emptied for some minutes more.
        await #expect(throws: ProviderError.noSuchItem) { try await provider.find("made") }
    }
}
