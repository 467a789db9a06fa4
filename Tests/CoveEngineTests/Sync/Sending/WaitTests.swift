import CoveCore
import CoveProviders
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// What `cove sync --wait` waits for, and what it calls failed.
@Suite(.timeLimit(.minutes(4))) struct WaitTests {
    /// Runs a body with an account whose source refuses to make some things, and may do something at that moment.
    private func account(
        refusing refuse: @escaping @Sendable (RemotePath, SourceFolder) -> ProviderError?,
        _ body: @escaping @Sendable (Engine, EngineTree, SourceFolder) async throws -> Void
    ) async throws {
        try await blocking {
            let (folder, state) = (try TemporaryDirectory("wait"), try TemporaryDirectory("wait-state"))
            let source = SourceFolder(folder.path)
            let configuration = EngineConfiguration.ofTest("dir://\(folder.path)", state: state.path) {
                $0.pollInterval = .seconds(3600)
            }
            let provider = MeddledProvider(FolderProvider(root: folder.path), refuse: { refuse($0, source) })
            let engine = try Engine(
                configuration: configuration,
                provider: provider,
                log: Log(path: nil, echoToStandardError: false)
            )
            try source.makeDirectory("d")
            try source.save("d/old", Array("old".utf8))
            engine.start(kernel: nil, announcer: nil)
            do { try await body(engine, EngineTree(engine), source) } catch {
                await engine.stop()
                throw error
            }
            await engine.stop()
        }
    }

    @Test(arguments: [false, true])
    func `what is sent again because its folder was away for a moment has not failed`(isGone: Bool) async throws {
        let attempts = Mutex(0)
        try await account { path, source in
            guard path.bytes == Array("d/new".utf8) else { return nil }
            let attempt = attempts.withLock { count in
                count += 1
                return count
            }
            // Another device deletes it, or only moves it away and back.
            if isGone, attempt == 1 { try? FileManager.default.removeItem(atPath: "\(source.path)/d") }
            return attempt <= 4 ? .noSuchItem : nil
        } _: { engine, tree, source in
            #expect(try tree.list("d").keys.sorted() == ["old"])
            await engine.pause()
            try tree.write("d/new", Array("new".utf8))
            await engine.resume()
            await engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
            let report = await engine.waitUntilSettled(nil, timeout: .seconds(60))
            #expect(report == SyncReport(isSettled: true, remaining: 0, errors: []))
            #expect(attempts.withLock { $0 } > 4)
            let there = try source.snapshot().keys.filter { $0.hasPrefix("d/") }.sorted()
            #expect(there == (isGone ? ["d/new"] : ["d/new", "d/old"]))
        }
    }

    @Test func `what goes on failing ends the wait, and is told`() async throws {
        try await account { path, _ in
            path.bytes == Array("d/new".utf8) ? .noSuchItem : nil
        } _: { engine, tree, _ in
            #expect(try tree.list("d").keys.sorted() == ["old"])
            try tree.write("d/new", Array("new".utf8))
            await engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
            let report = await engine.waitUntilSettled(nil, timeout: .seconds(60))
            #expect(!report.isSettled && report.remaining == 1)
            #expect(report.errors.map(\.path) == ["d/new"])
            #expect(report.errors.first?.message.hasPrefix("its folder is no longer at the source") == true)
        }
    }

    @Test func `what could not be fetched, and then was, is told of no more`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let path = RemotePath(unchecked: Array("far".utf8))
            try SourceFolder(account.source).save("far", [UInt8](repeating: 7, count: 100_000))
            #expect(try account.tree.list("") == ["far": .file])
            account.link.setOffline(true)
            #expect(throws: Errno.self) { _ = try account.tree.read("far") }
            #expect(try account.engine.item(at: path).error != nil)
            account.link.setOffline(false)
            try waitUntil("it can be read") { (try? account.tree.read("far"))?.count == 100_000 }
            try waitUntil("all is here") { try account.engine.item(at: path).state == "materialized" }
            #expect(try account.engine.item(at: path).error == nil)
            _ = try account.engine.evict(path)
            #expect(try account.engine.item(at: path).error == nil)
            await account.stop()
        }
    }

    @Test func `what was moved into a folder that is gone at the source goes there once that is known`() async throws {
        try await blocking {
            let account = try EngineAccount(
                wrap: { MeddledProvider($0, isSilent: true) },
                configure: { ($0.settleTime, $0.pollInterval) = (.zero, .seconds(3600)) }
            )
            let (tree, source) = (account.tree, SourceFolder(account.source))
            try tree.makeDirectory("folder")
            try tree.write("doc", Array("text".utf8))
            try await account.settle()
            // Nothing tells of it.
            try source.remove("folder")
            try tree.rename("doc", "folder/doc")
            try waitUntil("it is there", deadline: 30) {
                try source.snapshot() == ["folder": nil, "folder/doc": Array("text".utf8)]
            }
            await account.stop()
        }
    }
}
