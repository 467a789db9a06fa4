import CoveCore
import CoveTestSupport
import Foundation
import Synchronization

@testable import CoveEngine

/// An account whose queue is looked at by nobody but the test, at times of the test's own.
struct QueueScene: @unchecked Sendable {
    let account: EngineAccount
    private let isReadOnly: Flag

    var tree: EngineTree { account.tree }
    var status: AccountStatus { account.engine.accountStatus() }
    var sync: SyncEngine {
        get throws {
            guard let sync = engine.syncEngine else { throw CommandFailure("the engine is not started") }
            return sync
        }
    }
    private var engine: Engine { account.engine }

    /// A row of the queue, and the path it is told by.
    struct Held: Sendable {
        var id: Int64
        var path: String
        var queued: QueueRow
    }

    /// Runs a body with an account that has a file and a folder at its source.
    static func run(_ body: @escaping @Sendable (QueueScene) async throws -> Void) async throws {
        try await blocking {
            let isReadOnly = Flag()
            let account = try EngineAccount {
                $0.settleTime = .seconds(3600)
                $0.isReadOnly = isReadOnly.isSet
            }
            let scene = QueueScene(account, isReadOnly)
            try scene.endWatching()
            try account.tree.write("old", [1, 2, 3])
            try account.tree.makeDirectory("folder")
            try account.tree.write("folder/inner", [1])
            // What sending changes rests as well, for as long as nobody asks again.
            try waitUntil("it is connected", deadline: 60) { account.engine.accountStatus().state != "offline" }
            repeat {
                await account.engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
                let report = await account.engine.waitUntilSettled(nil, timeout: .milliseconds(100))
                guard report.errors.isEmpty else { throw CommandFailure("\(report)") }
            } while account.engine.accountStatus().state != "idle"
            try await scene.takeOver()
            try await body(scene)
            await account.stop()
        }
    }

    private final class Flag: @unchecked Sendable { var isSet = false }
    private init(_ account: EngineAccount, _ isReadOnly: Flag) {
        self.account = account
        self.isReadOnly = isReadOnly
    }

    /// From here on only the test looks for a standstill: the engine's first look has been made, and no other comes.
    private func endWatching() throws {
        let sync = try sync
        try waitUntil("the first look") { !sync.shared.withLock { $0.progress.mark.isEmpty } }
        sync.shared.withLock { state in
            state.progress.looked = System.monotonic() + .seconds(86_400)
            state.progress.mark = []
        }
    }

    /// From here on only the test has the queue looked at.
    private func takeOver() async throws {
        let sync = try sync
        await sync.stop()
        sync.shared.withLock { $0.isConnected = true }
    }

    func write(_ body: (Database) throws(Errno) -> Void) throws { try engine.catalog.write(body) }

    /// What waits of an entry.
    func row(_ path: String) throws -> Held {
        try engine.catalog.read { database throws(Errno) -> Held in
            guard let entry = try database.entry(atPath: RemotePath(unchecked: Array(path.utf8))),
                let row = try database.journalRow(entry.id)
            else { throw .noSuchEntry }
            let queued = QueueRow(key: .entry(entry.id), document: row.document, stamp: row.changed)
            return Held(id: entry.id, path: path, queued: queued)
        }
    }

    /// The deletion that waits of what had a path.
    func deletion(_ path: String) throws -> Held {
        try engine.catalog.read { database throws(Errno) -> Held in
            guard let row = try database.trash(pending: true).first(where: { "\($0.path)" == path }) else {
                throw .noSuchEntry
            }
            let queued = QueueRow(key: .trash(row.id), document: row.document, stamp: row.deleted)
            return Held(id: row.id, path: path, queued: queued)
        }
    }

    /// Dates back what waits, or one of it.
    func age(_ time: TimeSpan, of path: String? = nil) throws {
        let entry = try path.map { try row($0).id } ?? -1
        let span = Int64(time.seconds * 1000)
        try write { database throws(Errno) in
            try database.run(
                "UPDATE journal SET changed = changed - ?1 WHERE ?2 = -1 OR entry = ?2",
                .int(span),
                .int(entry)
            )
            if entry == -1 {
                try database.run("UPDATE trash SET deleted = deleted - ? WHERE pending = 1", .int(span))
            }
        }
    }

    private func forget(_ path: String) throws {
        let id = try row(path).id
        try write { database throws(Errno) in try database.dequeue(id) }
    }

    /// Has the queue looked at when all that waits has rested for a while, and what is started end.
    private func push() async throws {
        let now = engine.journalTime()
        // What was changed so far counts as much that is going on.
        try await sync.pushReady(now)
        try age(.seconds(7200))
        try await sync.pushReady(now + .seconds(1))
        while try await sync.activePushes > 0 { await Task.yield() }
    }

    /// Another row is started and comes to its end.
    func letAnotherGo() async throws {
        let row = QueueRow(key: .entry(-1), document: .random(), stamp: .distantFuture)
        try await sync.noteOvertaken(by: row)
        try await sync.noteProgress(row)
    }

    /// Makes a row wait for a reason.
    func hold(_ reason: WaitReason) async throws -> Held {
        let later = engine.journalTime() + .seconds(3600)
        switch reason {
        case .readOnly, .notPolled:
            try tree.write("file", [1])
            try await account.setOffline(true)
            isReadOnly.isSet = reason == .readOnly
            try await account.restart { _ in }
            try endWatching()
            try await takeOver()
            try age(.seconds(7200))
        case .diskFailed:
            try tree.write("file", [1])
            try age(.seconds(7200))
            let row = try row("file")
            _ = try? engine.disk.writing("a test") { () throws(Errno) in throw .inputOutput }
            try await sync.pushReady(engine.journalTime())
            return row
        case .throttled:
            try tree.write("file", [1])
            try age(.seconds(7200))
            try await sync.throttle(try row("file").queued, .seconds(300))
            try await sync.pushReady(engine.journalTime())
        case .transfers:
            try tree.write("file", [1])
            try age(.seconds(7200))
            while try await sync.activeWeight < Int(32) { _ = try await sync.beginPush(.random()) }
            try await sync.pushReady(engine.journalTime())
        case .onItsWay:
            try tree.write("file", [1])
            try age(.seconds(7200))
            _ = try await sync.beginPush(try row("file").queued.document)
            try await sync.pushReady(engine.journalTime())
        case .settling:
            try tree.write("file", [1])
            try await sync.pushReady(engine.journalTime())
        case .openForWriting, .openOrClaimed:
            try tree.write("file", [1])
            let file = try tree.open("file")
            if reason == .openOrClaimed { try tree.write(file, at: 0, [2]) }
            guard reason == .openForWriting else {
                try await push()
                break
            }
            // A whole new file rests for a shorter time, unless a program has it open.
            try await sync.pushReady(engine.journalTime() + .seconds(1800))
            try age(.seconds(7200))
            let row = try row("file")
            try await sync.postpone(row.queued, .seconds(600), sync.schedule.rests[row.queued.key]?.reason ?? .unknown)
        case .beingChanged:
            var change = AttributeChange()
            change.permissions = 0o600
            let id = try tree.resolve("old")
            _ = try engine.setAttributes(of: id, change, hasHandle: false, tree.caller)
            try Data("changed".utf8).write(to: URL(fileURLWithPath: "\(account.source)/old"))
            try await push()
            return try row("old")
        case .stillRead:
            let item = try tree.resolve("old")
            try tree.unlink("old")
            let row = try deletion("old")
            engine.contents.departing.add(item, of: row.queued.document)
            try await push()
            return try deletion("old")
        case .successor:
            try tree.unlink("old")
            _ = try engine.create(.root, Array("old".utf8), mode: 0o100644, flags: O_WRONLY, tree.caller)
            try forget("old")
            try await push()
            return try deletion("old")
        case .databaseLog:
            try tree.write("file", [1])
            try tree.write("file-wal", [1])
            try await push()
        case .folder, .lostFolder:
            try tree.makeDirectory("new")
            try tree.makeDirectory("new/below")
            try tree.write("new/below/file", [1])
            try forget("new")
            let path = reason == .folder ? "new/below/file" : "new/below"
            // Not looked at: where nothing can go, the queue puts right who waits for what.
            try age(.seconds(7200), of: path)
            return try row(path)
        case .contents:
            try tree.rename("folder/inner", "inner")
            try tree.removeDirectory("folder")
            try forget("inner")
            try await push()
            return try deletion("folder")
        case .approval:
            for number in 0...SyncEngine.deletionBrake { try tree.write("\(number)", [1]) }
            try await sendAll()
            for number in 0...SyncEngine.deletionBrake { try tree.unlink("\(number)") }
            try await push()
            return try deletion("0")
        case .otherChange:
            try tree.makeDirectory("folder/below")
            try await sendAll()
            try tree.rename("folder/below", "below")
            try tree.rename("folder", "below/folder")
            let other = try row("below")
            try write { database throws(Errno) in try database.postpone(other.id, retry: later) }
            try age(.seconds(60), of: "below/folder")
            try await push()
            return try row("below/folder")
        case .blocked:
            let folder = try tree.resolve("folder")
            _ = try sync.shared.withLock { $0.reservations.begin(.random(), QueueNeeds(moving: folder)) }
            try tree.write("folder/file", [1])
            try await push()
            return try row("folder/file")
        case .ring, .deletedSought, .sought, .unreadable:
            // What the schedule finds of sixty folders in each other, of a damaged row, or a push of a source that does not tell where a
            // directory is, is said to the queue as here.
            try tree.write("file", [1])
            try age(.seconds(7200))
            try await sync.postpone(try row("file").queued, .seconds(5), reason)
        case .retry:
            try tree.write("file", [1])
            let id = try row("file").id
            try write { database throws(Errno) in try database.postpone(id, retry: later) }
            try await push()
        case .unknown:
            try tree.write("file", [1])
            try age(.seconds(7200))
        }
        return try row("file")
    }

    /// Sends all that waits.
    private func sendAll() async throws {
        while status.queuedOperations > 0 { try await push() }
    }
}
