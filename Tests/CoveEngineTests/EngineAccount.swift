import CoveCore
import CoveProviders
import CoveTestSupport
import Foundation

@testable import CoveEngine

/// An engine over a folder, with everything in a temporary place.
final class EngineAccount: AccountUnderTest {
    let root: TemporaryDirectory
    let source: String
    private(set) var link: SimulatedLink
    private(set) var engine: Engine
    private(set) var tree: EngineTree
    /// The folder of the state.
    private(set) var state: String
    private var generation = 0
    private var isOffline = false
    private let configure: (inout EngineConfiguration) -> Void
    private let wrap: (any Provider) -> any Provider
    /// The folder that the state folders are in.
    private let states: String
    /// Kept: they hold nothing but their own state folder, which nobody else uses any more.
    private var crashed: [Engine] = []

    /// `states`: where the state is to be, when it is not beside the source.
    convenience init(
        states: String? = nil,
        configure: @escaping (inout EngineConfiguration) -> Void = { _ in }
    ) throws {
        try self.init(states: states, wrap: { $0 }, configure: configure)
    }

    /// `wrap` may watch the source.
    init(
        states: String? = nil,
        wrap: @escaping (any Provider) -> any Provider,
        configure: @escaping (inout EngineConfiguration) -> Void
    ) throws {
        root = try TemporaryDirectory("cove-engine")
        self.states = states ?? root.path
        source = root.appending("source")
        try FileManager.default.createDirectory(atPath: source, withIntermediateDirectories: true)
        self.configure = configure
        self.wrap = wrap
        state = "\(self.states)/state0"
        try FileManager.default.createDirectory(atPath: state, withIntermediateDirectories: true)
        (engine, link) = try EngineAccount.start(state, source, wrap, configure)
        tree = EngineTree(engine)
    }

    private static func start(
        _ state: String,
        _ source: String,
        isOffline: Bool = false,
        ledger: HandleLedger? = nil,
        _ wrap: (any Provider) -> any Provider,
        _ configure: (inout EngineConfiguration) -> Void
    ) throws -> (Engine, SimulatedLink) {
        let configuration = EngineConfiguration.ofTest("dir://\(source)", state: state, configure)
        let link = SimulatedLink(base: wrap(FolderProvider(root: source)), latency: .zero, bandwidth: nil, stall: nil)
        // Before the engine can connect.
        link.setOffline(isOffline)
        let isVerbose = ProcessInfo.processInfo.environment["COVE_TEST_LOG"] != nil
        let log = Log(path: "\(state)/../log", echoToStandardError: isVerbose, minimum: .debug)
        let engine = try Engine(configuration: configuration, provider: link, log: log, ledger: ledger)
        engine.start(kernel: nil, announcer: nil)
        return (engine, link)
    }

    func settle() async throws {
        for _ in 0..<2 {
            var report: SyncReport
            var attempt = 0
            repeat {
                await engine.sync(nil, acceptDeletions: true, acceptLocalDeletions: true)
                // What this device has hidden at the source and does not find is looked for during a minute.
                report = await engine.waitUntilSettled(nil, timeout: .seconds(100))
                attempt += 1
                // A process started meanwhile may hold a descriptor of the source for a moment: then it is busy.
            } while !report.isSettled && !report.errors.isEmpty && attempt < 20
            guard report.isSettled else {
                let rows = """
                    SELECT 'journal', j.*, hex(e.document), e.*, i.* FROM journal j JOIN entries e ON e.id = j.entry
                        JOIN items i ON i.id = e.item;
                    SELECT 'trash', * FROM trash WHERE pending = 1;
                    SELECT 'underway', hex(document), * FROM underway; SELECT 'departing', * FROM departing;
                    """
                let left = try? Command.run("sqlite3", ["-readonly", "\(state)/catalog.db", rows]).output
                let reasons = await engine.syncEngine?.reasons() ?? []
                let there = try? Command.run("find", [source, "-type", "f", "-printf", "%P %s %i\n"]).output
                throw NotSettled(
                    description: """
                        \(report.remaining) left (\(left ?? "")), they wait for \(reasons), \(report.errors), \
                        \(engine.accountStatus()), at the source is
                        \(there ?? "")
                        """
                )
            }
        }
    }

    /// The last lines of the log since the last death.
    var logEnd: String { (try? Command.run("tail", ["-n", "150", "\(state)/../log"]).output) ?? "" }

    struct NotSettled: Error, CustomStringConvertible { let description: String }

    func evict(_ path: String) async -> Bool {
        (try? engine.evict(RemotePath(unchecked: Array(path.utf8)))) != nil
    }

    func download(_ path: String) async throws {
        try await engine.waitForDownload(RemotePath(unchecked: Array(path.utf8))) { _ in }
    }

    func deleteAndRestore(_ path: String) async throws -> String? {
        let before = Set(engine.trash().map(\.documentID))
        let size = try tree.size(path)
        try tree.unlink(path)
        // Of what the source never had, or has another version of, the trash has not got it.
        // Another one may come there at any time, when the source answers that it has what was deleted here meanwhile.
        let found = engine.trash().first { entry in
            entry.path == path && !before.contains(entry.documentID) && entry.size == size
        }
        guard let found else { return nil }
        for _ in 0..<10 {
            do throws(Errno) { return try await engine.restore(found.documentID).description } catch {
                // The source, which has the only bytes, did not answer.
                guard [.busy, .timedOut, .hostUnreachable].contains(error) else {
                    let rows = "SELECT hex(document), * FROM trash; SELECT * FROM underway"
                    let left = try? Command.run("sqlite3", ["-readonly", "\(state)/catalog.db", rows]).output
                    throw NotSettled(description: "\(path), \(found), does not come back: \(error): \(left ?? "")")
                }
                try await settle()
            }
        }
        throw NotSettled(description: "\(path) does not come back")
    }

    func setOffline(_ offline: Bool) async throws {
        isOffline = offline
        link.setOffline(offline)
    }

    /// A restart on what a process that died while it sent would have left; the mounted tests kill a real daemon.
    func crash() async throws { try await die() }

    /// The machine goes down before the bytes of some content files are durable: they may be all zeros afterwards.
    func losePower(keepingBytes: Bool = false) async throws {
        try await restart { state in
            let forget = "UPDATE items SET synced = 0; INSERT OR REPLACE INTO meta VALUES('boot', x'00')"
            try Command.run("sqlite3", ["\(state)/catalog.db", forget])
            if keepingBytes { return }
            let content = FileManager.default.enumerator(atPath: "\(state)/content")
            while let name = content?.nextObject() as? String {
                let file = "\(state)/content/\(name)"
                guard let size = try? System.lstat(file), size.st_mode & S_IFMT == S_IFREG else { continue }
                try Data(count: Int(size.st_size)).write(to: URL(fileURLWithPath: file))
            }
        }
    }

    /// A restart on what a process that died at this moment would have left, and the change makes of it.
    func die(_ change: (String) throws -> Void = { _ in }) async throws {
        link.setOffline(true)
        try await restart(from: keepState(), change)
    }

    /// A copy of the state as it is now.
    ///
    /// Nothing is committed meanwhile, as nothing is between the moments of one death.
    func keepState() throws -> String {
        generation += 1
        let (state, copy) = (state, "\(states)/state\(generation)")
        try engine.contents.catalog.whileStill {
            // What it removes meanwhile makes cp fail.
            for attempt in 1...10 {
                let result = try Command.run("cp", ["-a", state, copy], mayFail: attempt < 10)
                if result.status == 0 { break }
                try FileManager.default.removeItem(atPath: copy)
            }
        }
        return copy
    }

    /// A restart on a copy of the state that is changed before.
    func restart(_ change: (String) throws -> Void) async throws {
        link.setOffline(true)
        await engine.stop()
        try start(on: keepState(), change)
    }

    /// A restart on a state that was kept.
    func restart(from kept: String, _ change: (String) throws -> Void) async throws {
        link.setOffline(true)
        await engine.stop()
        try start(on: kept, change)
    }

    /// The death of this daemon, and the next one of the same mount, which takes over what programs have open.
    func takeOver() async throws {
        let ledger = try HandleLedger(inherited: dup(engine.contents.ledger.descriptor))
        link.setOffline(true)
        await engine.stop()
        try start(on: keepState(), ledger: ledger) { _ in }
    }

    /// The same where the daemon is killed: nothing is saved that was not.
    func dieAndTakeOver(_ change: (String) throws -> Void = { _ in }) async throws {
        let kept = try keepState()
        let path = "\(kept)/handles"
        let ledger = engine.contents.ledger.descriptor
        var bytes = [UInt8](repeating: 0, count: Int(try System.fstat(ledger).st_size))
        try bytes.withUnsafeMutableBytes { _ = try System.pread(ledger, $0, 0) }
        try Data(bytes).write(to: URL(fileURLWithPath: path))
        let copy = try HandleLedger(inherited: System.open(path, O_RDWR))
        link.setOffline(true)
        await engine.stop()
        try start(on: kept, ledger: copy, change)
    }

    private func start(on kept: String, ledger: HandleLedger? = nil, _ change: (String) throws -> Void) throws {
        try change(kept)
        crashed.append(engine)
        state = kept
        (engine, link) = try EngineAccount.start(state, source, isOffline: isOffline, ledger: ledger, wrap, configure)
        tree = EngineTree(engine)
    }

    func stop() async { await engine.stop() }

    /// What a repair of the stopped account finds.
    func repair() throws -> RepairReport {
        try CatalogRepair(stateDirectory: state, log: Log(path: nil, echoToStandardError: false)).run()
    }

    /// Opens the stopped account again.
    func reopen() throws {
        crashed.append(engine)
        (engine, link) = try EngineAccount.start(state, source, wrap, configure)
        tree = EngineTree(engine)
    }
}

extension SyncEngine {
    /// What each row of the queue waits for.
    fileprivate func reasons() -> [String] {
        let now = host.journalTime()
        let found = try? host.catalog.read { database throws(Errno) -> [String] in
            var found: [String] = []
            for id in try database.all("SELECT entry FROM journal", read: { $0.int(0) }) {
                guard let row = try database.journalRow(id) else { continue }
                found.append("\(id): \(try reason(of: row, now, database))")
            }
            for row in try database.trash(pending: true) {
                found.append("trash \(row.id): \(try reason(ofTrash: row, now, database))")
            }
            return found
        }
        return (found ?? []) + ["rests \(schedule.rests), blocked \(schedule.blocked), weight \(activeWeight)"]
    }
}
