import CoveCore
import CoveProviders
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// What a source tells of no more, though its change feed never said that it has gone.
@Suite struct UntoldRemovalTests {
    @Test func `a file whose bytes are not there is looked for in its folder`() async throws {
        try await blocking {
            let (folder, state) = (try TemporaryDirectory("untold"), try TemporaryDirectory("untold-state"))
            try SourceFolder(folder.path).save("f", Array("text".utf8))
            let hasGone = Atomic<Bool>(false)
            let provider = MeddledProvider(
                FolderProvider(root: folder.path),
                refuseFetch: { _ in hasGone.load(ordering: .acquiring) ? .noSuchItem : nil },
                show: { _ in hasGone.load(ordering: .acquiring) ? [Listing(items: [], next: nil)] : nil }
            )
            let engine = try Engine(
                configuration: EngineConfiguration.ofTest("dir://\(folder.path)", state: state.path),
                provider: provider,
                log: Log(path: nil, echoToStandardError: false)
            )
            engine.start(kernel: nil, announcer: nil)
            let tree = EngineTree(engine)
            #expect(try tree.list("") == ["f": .file])
            _ = await engine.waitUntilSettled(nil, timeout: .seconds(30))
            hasGone.store(true, ordering: .releasing)
            #expect(throws: Errno.self) { try tree.read("f") }
            try waitUntil("it is shown no more") { try tree.list("") == [:] }
            await engine.stop()
        }
    }

    @Test func `a file that another device replaces in two steps stays the same document`() async throws {
        try await blocking {
            let (folder, state) = (try TemporaryDirectory("steps"), try TemporaryDirectory("steps-state"))
            let source = SourceFolder(folder.path)
            try source.save("f", Array("text".utf8))
            let isReplaced = Atomic<Bool>(false)
            let provider = MeddledProvider(
                FolderProvider(root: folder.path),
                { moment, path in
                    // The second step comes once the engine has found the file gone.
                    guard moment == .afterMiss, path.description == "f" else { return }
                    if !isReplaced.exchange(true, ordering: .acquiringAndReleasing) {
                        try? source.save("f", Array("other".utf8))
                    }
                },
                alter: { ($0.replacesAtOnce, $0.stableIDs) = (false, false) }
            )
            let engine = try Engine(
                configuration: EngineConfiguration.ofTest("dir://\(folder.path)", state: state.path),
                provider: provider,
                log: Log(path: nil, echoToStandardError: false)
            )
            engine.start(kernel: nil, announcer: nil)
            let tree = EngineTree(engine)
            func document() throws -> DocumentID? {
                try engine.catalog.read { database throws(Errno) in try database.entry(.root, Array("f".utf8))?.document
                }
            }
            #expect(try tree.read("f") == Array("text".utf8))
            _ = await engine.waitUntilSettled(nil, timeout: .seconds(30))
            let known = try document()
            try FileManager.default.removeItem(atPath: folder.appending("f"))
            try waitUntil("the new content is here") { (try? tree.read("f")) == Array("other".utf8) }
            #expect(known != nil)
            #expect(try document() == known)
            // What is really gone goes.
            try FileManager.default.removeItem(atPath: folder.appending("f"))
            try waitUntil("it is shown no more") { try tree.list("") == [:] }
            await engine.stop()
        }
    }
}
