import CoveCore
import CoveTestSupport
import Testing

@testable import CoveProviders

/// Directories that move in buckets while other devices work at the same names.
@Suite(.serialized, .timeLimit(.minutes(30)))
struct S3MoveRaceTests {
    private static let kinds = S3ServerKind.allCases

    /// A device that has begun to move the directory, and has come no further than to the note of it.
    private func noted(
        _ source: S3Source,
        _ server: TestServer
    ) async throws -> (provider: S3Provider, front: ScriptedServer, line: S3MoveTests.Line) {
        let (port, line) = (server.port, S3MoveTests.Line())
        let front = try ScriptedServer { request in
            guard ["PUT", "DELETE", "POST"].contains(request.method), !line.isMended else { return .handOn(port) }
            let isNote = request.target.contains("/.cove/moves/")
            return isNote || request.target.contains("/.cove/probe/") ? .handOn(port) : .hangUp
        }
        let provider = try S3Provider(source.address(through: front))
        try await provider.start()
        let to = try #require(FileName("to"))
        await #expect(throws: ProviderError.self) {
            _ = try await provider.move(provider.reference("from"), base: nil, to: .root, name: to)
        }
        #expect(try await provider.movesUnderway() != [])
        return (provider, front, line)
    }

    @Test(arguments: kinds)
    func `names that are taken where a directory goes keep nothing but their own files from going`(
        kind: S3ServerKind
    ) async throws {
        let server = try kind.server()
        let source = try S3Source(server)
        let good = try await S3MoveTests.filled(source)
        let (provider, front, line) = try await noted(source, server)
        // A directory has a file's name, one with nothing in it another's, and a file that of a directory.
        for directory in ["to", "to/file 3", "to/file 5"] { try await good.makeDirectory(directory) }
        _ = try await good.make("to/file 3/other", "other")
        _ = try await good.make("to/inner", "a file")
        line.mend()
        // What may land of the requests that were cut off is waited for.
        let deadline = ContinuousClock.now + .seconds(60)
        var failure: (any Error)?
        repeat {
            do {
                _ = try await provider.names("to")
                failure = nil
            } catch {
                failure = error
            }
        } while failure != nil && ContinuousClock.now < deadline
        #expect(failure == nil)
        #expect(try await good.movesUnderway() == [])
        for number in 0..<12 {
            let here = try? await good.text("from/file \(number)")
            let there = try? await good.text("to/file \(number)")
            #expect([here, there].contains("text \(number)"), "\(number)")
            if ![3, 5].contains(number) { #expect(here == nil) }
        }
        let deep = [try? await good.text("from/inner/deep"), try? await good.text("to/inner/deep")]
        #expect(deep.contains("deep"))
        #expect(try await good.text("to/file 3/other") == "other")
        #expect(try await good.text("to/inner") == "a file")
        #expect(try await good.names("to").contains("file 4"))
        withExtendedLifetime(front) {}
    }

    @Test(arguments: kinds)
    func `a move that can't be finished keeps nobody from reading, and ends`(kind: S3ServerKind) async throws {
        let server = try kind.server()
        let source = try S3Source(server)
        let good = try await S3MoveTests.filled(source)
        let item = try await good.find("from/file 5")
        let port = server.port
        // It can't copy one of the files.
        let front = try ScriptedServer { request in
            request.method == "PUT" && request.target.contains("to/file%203")
                ? ScriptedServer.answer(500, [], "<Error><Code>InternalError</Code></Error>") : .handOn(port)
        }
        let provider = try S3Provider(source.address(through: front), patience: .zero)
        try await provider.start()
        let to = try #require(FileName("to"))
        await #expect(throws: ProviderError.self) {
            _ = try await provider.move(provider.reference("from"), base: nil, to: .root, name: to)
        }
        // Nothing is deleted before all is copied.
        let sink = MemorySink()
        let reference = provider.reference("from/file 5", item)
        try await provider.fetch(reference, version: item.contentVersion, range: 0..<item.size, into: sink)
        #expect(sink.bytes == Array("text 5".utf8))
        var refusals = 0
        while refusals < 100, (try? await provider.names("from")) == nil { refusals += 1 }
        #expect(refusals > 0 && refusals < 100)
        // It is left alone then, and told of no more once that is so for long.
        #expect(try await provider.movesUnderway() == [])
        #expect(try await good.movesUnderway() == [])
        await provider.finishMoves()
        for number in 0..<12 { #expect(try await good.text("from/file \(number)") == "text \(number)") }
    }

    @Test(arguments: kinds, [false, true])
    func `a move that is finished late takes nothing that has come back since`(
        kind: S3ServerKind,
        movesDirectory: Bool
    ) async throws {
        let server = try kind.server()
        let source = try S3Source(server)
        let late = try source.provider()
        try await late.start()
        let good = try await S3MoveTests.filled(source)
        let port = server.port
        let deletions = S3MoveTests.Counter()
        let front = try ScriptedServer { request in
            let isOriginal = request.method == "DELETE" && request.target.contains("/to/file")
            if isOriginal, deletions.next() == 1 { BlockingThread.wait { await late.finishMoves() } }
            return .handOn(port)
        }
        let other = try S3Provider(source.address(through: front))
        // Whoever starts later would finish it by itself.
        try await other.start()
        // All has moved, and that this is so is not known: the note of it stays.
        let cut = try ScriptedServer { request in
            request.method == "DELETE" && request.target.contains("/.cove/moves/") ? .hangUp : .handOn(port)
        }
        let mover = try S3Provider(source.address(through: cut))
        try await mover.start()
        let (to, from) = (try #require(FileName("to")), try #require(FileName("from")))
        await #expect(throws: ProviderError.self) {
            _ = try await mover.move(mover.reference("from"), base: nil, to: .root, name: to)
        }
        #expect(try await good.names("to").count == 14)
        // Another device brings it back, and right before the originals go, the first move is finished once more.
        if movesDirectory {
            _ = try? await other.move(other.reference("to"), base: nil, to: .root, name: from)
        } else {
            try await other.makeDirectory("from")
            for number in 0..<12 {
                let name = try #require(FileName("file \(number)"))
                let item = try await good.find("to/file \(number)")
                let reference = other.reference("to/file \(number)", item)
                let directory = RemoteReference(id: nil, path: RemotePath(unchecked: Array("from".utf8)))
                _ = try? await other.move(reference, base: item.contentVersion, to: directory, name: name)
            }
        }
        #expect(deletions.next() > 1)
        for number in 0..<12 {
            let texts = [try? await good.text("from/file \(number)"), try? await good.text("to/file \(number)")]
            #expect(texts.contains("text \(number)"), "\(number)")
        }
    }

    @Test func `a move that begins is at no moment taken for one that was cut off`() async throws {
        let provider = try S3Provider("s3://key@bucket")
        let move = provider.directoryMove(RemotePath(unchecked: [0x61]), RemotePath(unchecked: [0x62]))
        let begun = Task {
            for _ in 0..<50_000 {
                provider.begin(move)
                provider.forget(move)
            }
        }
        var mistakes = 0
        for _ in 0..<50_000 where !provider.unfinishedMoves.isEmpty { mistakes += 1 }
        await begun.value
        #expect(mistakes == 0)
        // Whoever finishes what was cut off may have known an older one of the same names.
        provider.begin(move)
        provider.forgetCutOff(move)
        provider.pause(move)
        #expect(provider.unfinishedMoves.count == 1)
        provider.forgetCutOff(move)
        #expect(provider.unfinishedMoves.isEmpty)
    }
}
