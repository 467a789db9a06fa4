import CoveCore
import CoveTestSupport
import Foundation

@testable import CoveEngine

/// An engine over any source, which looks for changes when a test asks for it.
struct SourceAccount {
    let engine: Engine
    let tree: EngineTree
    private let folder: TemporaryDirectory

    /// Runs a body with an account that is started, and stops it.
    static func with(_ source: String, _ body: (SourceAccount) async throws -> Void) async throws {
        let account = try SourceAccount(source)
        account.engine.start(kernel: nil, announcer: nil)
        do { try await body(account) } catch {
            await account.engine.stop()
            throw error
        }
        await account.engine.stop()
    }

    private init(_ source: String) throws {
        folder = try TemporaryDirectory("account")
        let configuration = EngineConfiguration.ofTest(source, state: folder.path) {
            $0.pollInterval = .seconds(3600)
        }
        engine = try .onSource(configuration)
        tree = EngineTree(engine)
    }

    /// Sends and takes in what changed, with no deletion approved.
    func sync() async -> AccountStatus {
        await engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
        _ = await engine.waitUntilSettled(nil, timeout: .seconds(60))
        try? waitUntil("nothing goes on", deadline: 60) {
            let status = engine.accountStatus()
            return status.state != "syncing" || !status.errors.isEmpty
        }
        return engine.accountStatus()
    }

    func text(_ path: String) throws -> String { String(decoding: try tree.read(path), as: UTF8.self) }

    func document(_ path: String) throws -> String {
        try engine.item(at: RemotePath(unchecked: Array(path.utf8))).documentID
    }
}
