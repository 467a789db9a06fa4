import CoveCore
import CoveProviders
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// A device that is migrated after another one has made the account one of apps.
@Suite(.timeLimit(.minutes(5))) struct MigratedDeviceTests {
    @Test func `what others have made is there when the migration is over, before anything is polled`() async throws {
        try await blocking {
            let first = try EngineAccount()
            let box = try #require(AppIdentifier("com.acme.More"))
            let state = try TemporaryDirectory("migrated")
            // Slow enough for nothing to be polled before the line is cut.
            let link = SimulatedLink(
                base: FolderProvider(root: first.source),
                latency: .milliseconds(200),
                bandwidth: nil,
                stall: nil
            )
            let configuration = EngineConfiguration.ofTest("dir://\(first.source)", state: state.path) {
                $0.generation = .legacy
            }
            let engine = try Engine(
                configuration: configuration,
                provider: link,
                log: Log(path: nil, echoToStandardError: false)
            )
            engine.start(kernel: nil, announcer: nil)
            await engine.connected.pass()
            #expect(try EngineTree(engine).list("").isEmpty)
            _ = try await first.engine.migrate()
            try await first.settle()
            await engine.sync(nil, acceptDeletions: true, acceptLocalDeletions: true)
            try waitUntil("the migration is noticed", deadline: 60) { engine.context.generation.isHeld }
            _ = try await first.engine.createContainer(box, for: box, name: "More", isPublic: true)
            try await first.settle()
            _ = try await engine.migrate()
            link.setOffline(true)
            let found = await engine.containers()
            #expect(found.map(\.record.identifier) == [box])
            #expect(found.map(\.folder?.description) == ["More"])
            #expect(try EngineTree(engine).list("").keys.sorted() == ["More"])
            await engine.stop()
            await first.stop()
        }
    }
}
