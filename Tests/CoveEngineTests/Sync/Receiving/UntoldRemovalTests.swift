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

    @Test func `what is in a folder that is renamed while it is looked at has gone with it`() async throws {
        try await blocking {
            let state = try TemporaryDirectory("moving-state")
            let server = try TestServer.apache()
            let source = SourceFolder(server.files)
            for folder in ["top", "top/big", "top/big/below", "top/big/below/deep"] { try source.makeDirectory(folder) }
            for index in 0..<5 { try source.save("top/big/below/deep/\(index)", Array("text".utf8)) }
            try source.save("top/big/file", Array("text".utf8))
            let address = "webdav://\(TestServer.user)@127.0.0.1:\(server.port)/"
            let login = Credentials(user: TestServer.user, password: TestServer.password)
            let configuration = EngineConfiguration.ofTest(address, state: state.path) {
                $0.pollInterval = .seconds(3600)
            }
            let access = ProviderFactory.Access(stallLimit: configuration.stallLimit, credentials: { login })
            let base = try ProviderFactory.make(source: address, access: access)
            let isDue = Atomic<Bool>(false)
            let provider = MeddledProvider(
                base,
                show: { directory in
                    // What is above it was listed before that.
                    if directory.description == "top/big/below/deep",
                        isDue.exchange(false, ordering: .acquiringAndReleasing)
                    {
                        try? source.rename("top/big", "top/other")
                    }
                    return nil
                }
            )
            let engine = try Engine(
                configuration: configuration,
                provider: provider,
                log: Log(path: nil, echoToStandardError: false)
            )
            engine.start(kernel: nil, announcer: nil)
            let tree = EngineTree(engine)
            for folder in ["", "top", "top/big", "top/big/below", "top/big/below/deep"] { _ = try tree.list(folder) }
            _ = await engine.waitUntilSettled(nil, timeout: .seconds(30))
            func ids(_ top: String) throws -> [ItemID] {
                try ["", "/below", "/below/deep", "/below/deep/3"].map { try tree.resolve("top/\(top)\($0)") }
            }
            let known = try ids("big")
            #expect(try tree.read("top/big/below/deep/3") == Array("text".utf8))
            isDue.store(true, ordering: .releasing)
            await engine.sync(nil, acceptDeletions: true, acceptLocalDeletions: true)
            try waitUntil("it is renamed while it is looked at") { !isDue.load(ordering: .acquiring) }
            _ = await engine.waitUntilSettled(nil, timeout: .seconds(30))
            await engine.sync(nil, acceptDeletions: true, acceptLocalDeletions: true)
            try waitUntil("it has its new name alone") { try tree.list("top") == ["other": .directory] }
            #expect(try ids("other") == known)
            await engine.stop()
            withExtendedLifetime(server) {}
        }
    }
}
