import CoveCore
import CoveTestSupport
import Glibc
import Synchronization
import Testing

@testable import CoveEngine

/// Conflicts that other devices found in folders that nobody here has listed.
@Suite struct PresentedConflictTests {
    private static let copy = "F (conflict from other 2026-01-01 120000)"

    /// What a session's presenters are told.
    private final class Ear: Sendable {
        private let heard = Mutex<[String]>([])

        func hear(_ message: CoordinationInterface.Message) -> Bool {
            heard.withLock { $0.append("\(message.kind) \((try? message.path.remotePath())?.description ?? "")") }
            return true
        }

        func waitForConflict(of path: String) throws {
            try waitUntil("the conflict of \(path) is told, but \(heard.withLock { $0 })", deadline: 20) {
                heard.withLock { $0.contains("didGainVersion \(path)") }
            }
        }
    }

    private func text(_ string: String) -> [UInt8] { Array(string.utf8) }
    private func path(_ string: String) -> RemotePath { RemotePath(unchecked: text(string)) }

    /// An account of whose source nothing is known, with a file that is in conflict in each folder.
    private func account(_ folders: [String]) throws -> EngineAccount {
        let account = try EngineAccount()
        let source = SourceFolder(account.source)
        for folder in folders {
            try source.makeDirectory(folder)
            for name in ["F", Self.copy] { try source.save("\(folder)/\(name)", text(name)) }
        }
        return account
    }

    private func attend(_ engine: Engine, _ ear: Ear) throws -> Int {
        try engine.attend(process: getpid(), resuming: nil) { ear.hear($0) }.session
    }

    private func present(_ engine: Engine, _ path: String?, session: Int) throws -> String {
        try engine.addPresenter(
            session: session,
            at: path.map { self.path($0) },
            implements: [CoordinationInterface.MessageKind.didGainVersion.rawValue],
            observes: []
        )
    }

    @Test func `who presented a file without a connection is told of its conflicts once there is one`() async throws {
        try await blocking {
            let account = try account(["known", "unknown"])
            let (engine, ear) = (account.engine, Ear())
            // Its name is known, what else is there is not.
            _ = try account.tree.resolve("known/F")
            try await account.setOffline(true)
            await engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
            try waitUntil("it is offline") { engine.accountStatus().state == "offline" }
            let session = try attend(engine, ear)
            for folder in ["known", "unknown"] { _ = try present(engine, "\(folder)/F", session: session) }
            try await account.setOffline(false)
            for folder in ["known", "unknown"] { try ear.waitForConflict(of: "\(folder)/F") }
            engine.endSession(session)
            await account.stop()
        }
    }

    @Test func `who presents another file is told of that one's conflicts`() async throws {
        try await blocking {
            let account = try account(["known", "unknown"])
            let (engine, ear) = (account.engine, Ear())
            _ = try account.tree.resolve("known/F")
            let session = try attend(engine, ear)
            let presenter = try present(engine, nil, session: session)
            for folder in ["known", "unknown"] {
                try engine.movePresenter(presenter, session: session, to: path("\(folder)/F"))
                try ear.waitForConflict(of: "\(folder)/F")
            }
            engine.endSession(session)
            await account.stop()
        }
    }

    @Test func `who presents a file that nobody has asked for is told of its conflicts`() async throws {
        try await blocking {
            let account = try account(["unknown"])
            let (engine, ear) = (account.engine, Ear())
            let session = try attend(engine, ear)
            _ = try present(engine, "unknown/F", session: session)
            try ear.waitForConflict(of: "unknown/F")
            engine.endSession(session)
            await account.stop()
        }
    }
}
