import CoveCore
import CoveProviders
import CoveTestSupport
import Synchronization
import Testing

@testable import CoveEngine

/// A source whose answers end before the file does.
@Suite(.timeLimit(.minutes(2))) struct ShortFetchTests {
    @Test func `contents of which a part was compared are not taken for the same`() async throws {
        try await blocking {
            let (folder, state) = (try TemporaryDirectory("short"), try TemporaryDirectory("short-state"))
            let (here, there) = (Array("one and here".utf8), Array("one and then".utf8))
            let source = SourceFolder(folder.path)
            let cuts = Mutex(2)
            let provider = MeddledProvider(
                FolderProvider(root: folder.path),
                cutFetch: { range in
                    let isCut = cuts.withLock { left in
                        left -= 1
                        return left >= 0
                    }
                    return isCut ? range.lowerBound..<min(range.upperBound, 8) : range
                }
            )
            let engine = try Engine(
                configuration: EngineConfiguration.ofTest("dir://\(folder.path)", state: state.path),
                provider: provider,
                log: Log(path: nil, echoToStandardError: false)
            )
            let tree = EngineTree(engine)
            engine.start(kernel: nil, announcer: nil)
            await engine.connected.pass()
            #expect(try tree.list("").isEmpty)
            await engine.pause()
            try tree.write("f", here)
            try source.save("f", there)
            await engine.resume()
            for _ in 0..<3 {
                await engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
                _ = await engine.waitUntilSettled(nil, timeout: .seconds(30))
            }
            let contents = try source.snapshot().values.compactMap(\.self)
            #expect(contents.count == 2 && contents.contains(here) && contents.contains(there))
            #expect(cuts.withLock { $0 } < 2, "nothing was compared")
            await engine.stop()
        }
    }
}
