import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// What waiting for the queue means where a server refuses some of it, or asks for patience.
@Suite(.timeLimit(.minutes(30))) struct QueueCloudTests {
    private func account(
        standstill: TimeSpan = .seconds(60),
        _ body: @escaping @Sendable (ScriptedCloud, Engine, EngineTree) async throws -> Void
    ) async throws {
        try await blocking {
            let cloud = try ScriptedCloud(tagsRise: true)
            let folder = try TemporaryDirectory("queue")
            let configuration = EngineConfiguration.ofTest(cloud.source, state: folder.path) {
                $0.stallLimit = .seconds(5)
                $0.standstillTime = standstill
            }
            let engine = try Engine.onSource(configuration)
            engine.start(kernel: nil, announcer: nil)
            try await body(cloud, engine, EngineTree(engine))
            await engine.stop()
        }
    }

    /// What `cove sync --wait` does.
    private func sync(_ engine: Engine) async -> SyncReport {
        await engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
        return await engine.waitUntilSettled(nil, timeout: .seconds(90))
    }

    @Test func `waiting goes on for what can be sent, whatever has failed`() async throws {
        try await account { cloud, engine, tree in
            let refusals = Atomic(0)
            cloud.answer { request in
                guard request.method == "PUT" || request.method == "MOVE" else { return nil }
                if request.target.contains("bad") { return ScriptedServer.answer(403) }
                // The others have their turn after it has failed.
                guard refusals.add(1, ordering: .relaxed).newValue < 20 else { return nil }
                return ScriptedServer.answer(423)
            }
            await engine.pause()
            try tree.write("bad", [1])
            for number in 0..<20 { try tree.write("good\(number)", [1]) }
            await engine.resume()
            let report = await sync(engine)
            #expect(!report.isSettled && report.remaining == 1, "\(report)")
            #expect(report.errors.map(\.path) == ["bad"])
            for number in 0..<20 { #expect(cloud.bytes("good\(number)") == [1]) }
        }
    }

    @Test func `a server that asks for patience is waited for, and makes no error`() async throws {
        try await account { cloud, engine, tree in
            let begin = System.monotonic()
            cloud.answer { request in
                guard request.method == "PUT", System.monotonic() - begin < .seconds(4) else { return nil }
                return ScriptedServer.answer(503)
            }
            for number in 0..<5 { try tree.write("file\(number)", [1]) }
            try waitUntil("all is sent", deadline: 60) { engine.accountStatus().queuedOperations == 0 }
            #expect(engine.accountStatus().errors.isEmpty)
            for number in 0..<5 { #expect(cloud.bytes("file\(number)") == [1]) }
        }
    }

    @Test func `a symbolic link that the source can't hold stays here, without an error`() async throws {
        try await account { cloud, engine, tree in
            _ = try engine.makeSymbolicLink(.root, Array("link".utf8), target: Array("target".utf8), tree.caller)
            try tree.write("file", [1])
            let report = await sync(engine)
            #expect(report.isSettled && report.errors.isEmpty, "\(report)")
            #expect(engine.accountStatus().state == "idle")
            #expect(try tree.list("") == ["link": .symbolicLink, "file": .file])
            #expect(cloud.bytes("file") == [1] && cloud.bytes("link") == nil)
        }
    }

    @Test func `a queue that stands still says so, and what keeps it`() async throws {
        try await account(standstill: .seconds(2)) { cloud, engine, tree in
            // Connected: what a server is found to be like is found out by uploads, too.
            #expect(await sync(engine).isSettled)
            cloud.answer { request in
                request.method == "PUT" ? ScriptedServer.answer(503, ["Retry-After: 3600"]) : nil
            }
            try tree.write("file", [1])
            try waitUntil("it is told", deadline: 60) { engine.accountStatus().standstill != nil }
            let standstill = engine.accountStatus().standstill
            #expect(standstill?.path == "file")
            #expect(standstill?.reason.contains("asks for patience") == true, "\(String(describing: standstill))")
            let findings = await engine.diagnose().filter { $0.check == "queue" }
            #expect(findings.map(\.level) == ["problem"])
        }
    }
}
