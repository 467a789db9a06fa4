import CoveCore
import CoveTestSupport
import Foundation
import Synchronization

@testable import CoveEngine

/// One of several devices that do at random what programs and people do.
final class StormDevice: @unchecked Sendable {
    let name: String
    let engine: Engine
    private let tree: EngineTree
    private let ledger: StormLedger
    private let folder: TemporaryDirectory
    /// Used by one task at a time.
    private var random: SeededGenerator
    /// Queries that go on all the time.
    private var watches: [LiveWatch] = []
    private var counter = 0

    init(_ name: String, _ source: String, _ ledger: StormLedger, _ random: SeededGenerator) throws {
        self.name = name
        self.ledger = ledger
        self.random = random
        folder = try TemporaryDirectory("storm-state")
        let configuration = EngineConfiguration.ofTest(source, state: folder.path, host: name) {
            $0.account = name
            $0.settleTime = .milliseconds(20)
            $0.pollInterval = .milliseconds(500)
        }
        let log = Log(path: folder.appending("log"), echoToStandardError: false, minimum: .debug)
        engine = try .onSource(configuration, log: log)
        tree = EngineTree(engine)
    }

    var statePath: String { folder.path }

    func start() throws {
        engine.start(kernel: nil, announcer: nil)
        watches = try [("TRUEPREDICATE", QueryKey.allCases), ("FSName CONTAINS '1' AND FSSize > 5", [.path])].map {
            LiveWatch(engine, QueryRequest(try QueryPredicate(parsing: $0), attributes: $1))
        }
    }

    func stop() async {
        for watch in watches { await watch.stop() }
        await engine.stop()
    }

    /// What queries have told that go on is what they find when they are asked now.
    func compareQueries() async throws {
        for watch in watches {
            if let difference = try await watch.difference(from: engine) {
                throw CommandFailure("\(name): a query that goes on has told otherwise: \(difference)")
            }
        }
    }

    /// Works for a while; what another device does may make any step fail.
    func run(for time: TimeSpan) async throws {
        let end = System.monotonic() + time
        while System.monotonic() < end {
            do {
                switch Int.random(in: 0..<20, using: &random) {
                case 0...5: try create()
                case 6...9: try edit()
                case 10: try saveByRenaming()
                case 11: try delete()
                case 12, 13: try moveFile()
                case 14, 15: try rebuild()
                case 16: try rotate()
                case 17: try swapKinds()
                case 18: try renameFolder()
                default:
                    await engine.pause()
                    for _ in 0..<Int.random(in: 1...6, using: &random) {
                        try? [create, edit, rebuild, moveFile, delete].randomElement(using: &random)?()
                    }
                    try await compareQueries()
                    await engine.resume()
                }
            } catch is Errno {}
            _ = poll(nil, 0, Int32.random(in: 0...60, using: &random))
        }
        await engine.resume()
    }

    /// All files with their bytes and all directories.
    func snapshot() throws -> [String: [UInt8]?] {
        var result: [String: [UInt8]?] = [:]
        var folders = [""]
        while let folder = folders.popLast() {
            for (name, kind) in try tree.list(folder) {
                let path = folder.isEmpty ? name : "\(folder)/\(name)"
                if kind == .directory {
                    folders.append(path)
                    result[path] = .some(nil)
                } else {
                    result[path] = try tree.read(path)
                }
            }
        }
        return result
    }

    // MARK: steps

    private func text() -> [UInt8] {
        counter += 1
        // All have one length: to write one over another is to replace it.
        return Array("\(name)-\(String(repeating: "0", count: 8 - "\(counter)".count))\(counter)".utf8)
    }

    private func anyFolder() throws -> String {
        let folders = try tree.list("").filter { $0.value == .directory }.keys.sorted()
        guard folders.count > 1 || !random.oneIn(3), let any = folders.randomElement(using: &random) else {
            let new = "D\(Int.random(in: 0..<4, using: &random))"
            try tree.makeDirectory(new)
            return new
        }
        return any
    }

    private func anyFile() throws -> String {
        let folder = try anyFolder()
        let files = try tree.list(folder).filter { $0.value == .file }.keys.sorted()
        guard let file = files.randomElement(using: &random) else { throw Errno.noSuchEntry }
        return "\(folder)/\(file)"
    }

    private func make(_ path: String, _ how: String) throws {
        let (parent, last) = try tree.split(path)
        let text = text()
        let file = try engine.create(parent, last, mode: 0o100644, flags: O_WRONLY | O_EXCL, tree.caller).id
        try tree.write(file, at: 0, text)
        ledger.wrote(text, "\(how) \(path)")
        try engine.flush(file)
        engine.release(file, flags: O_WRONLY)
    }

    private func create() throws { try make("\(anyFolder())/f\(Int.random(in: 0..<12, using: &random))", "created") }

    /// Reads a file and writes over it, by one handle: nothing that was not seen is overwritten.
    private func edit() throws {
        let path = try anyFile()
        let file = try tree.open(path)
        defer { try? tree.close(file) }
        let seen = try tree.read(file, at: 0, count: 100)
        let text = text()
        guard seen.count == text.count else { return }
        try tree.write(file, at: 0, text)
        ledger.wrote(text, "edited \(path)")
        ledger.gaveUp(seen)
    }

    /// Reads a file, and does away with it as it was read: what came since is not given up.
    ///
    /// No change of the source is shown between the last look and the step: a program would take what it had not seen along.
    private func giveUp(
        _ path: String,
        after preparing: () throws -> Void = {},
        by doing: (_ parent: ItemID, _ name: [UInt8]) throws -> Void
    ) throws {
        let file = try tree.open(path, O_RDONLY)
        defer { engine.release(file, flags: O_RDONLY) }
        let seen = try tree.read(file)
        try preparing()
        let (parent, name) = try tree.split(path)
        guard let sync = engine.syncEngine else { throw Errno.busy }
        try sync.announceQueue.sync {
            let there = try engine.catalog.read { database throws(Errno) in try database.entry(parent, name)?.item }
            guard there == file else { throw Errno.busy }
            try doing(parent, name)
        }
        ledger.gaveUp(seen)
    }

    private func saveByRenaming() throws {
        let path = try anyFile()
        try giveUp(path, after: { try make(path + ".new", "saved") }) { parent, name in
            try engine.rename(parent, name + Array(".new".utf8), parent, name, flags: 0, tree.caller)
            ledger.note("\(self.name) saved over \(path)")
        }
    }

    private func delete() throws { try delete(anyFile()) }

    private func delete(_ path: String) throws {
        try giveUp(path) { parent, name in
            try engine.unlink(parent, name, tree.caller)
            ledger.note("\(self.name) deleted \(path)")
        }
    }

    /// renameat2(2) with RENAME_NOREPLACE.
    private func move(_ from: String, to: String) throws {
        let (parent, name) = try tree.split(from)
        let (newParent, newName) = try tree.split(to)
        try engine.rename(parent, name, newParent, newName, flags: 1, tree.caller)
        ledger.note("\(self.name) moved \(from) to \(to)")
    }

    /// A name that no other step gives.
    private func fresh() -> String {
        counter += 1
        return "\(name)-\(counter)"
    }

    private func moveFile() throws { try move(anyFile(), to: "\(anyFolder())/\(fresh())") }

    /// `mkdir D.new; mv D/f D.new; rm -r D; mv D.new D`.
    private func rebuild() throws {
        let folder = try anyFolder()
        let new = "\(folder).new"
        try tree.makeDirectory(new)
        for file in try tree.list(folder).filter({ $0.value == .file }).keys.sorted() where !random.oneIn(3) {
            try move("\(folder)/\(file)", to: "\(new)/\(file)")
        }
        try removeAll(folder)
        try move(new, to: folder)
    }

    private func removeAll(_ folder: String) throws {
        for (name, kind) in try tree.list(folder) {
            let path = "\(folder)/\(name)"
            if kind == .directory {
                try removeAll(path)
            } else {
                try delete(path)
            }
        }
        try tree.removeDirectory(folder)
    }

    /// `mv a t; mv b a; mv t b`.
    private func rotate() throws {
        let (first, second) = (try anyFile(), try anyFile())
        guard first != second else { return }
        let aside = "\(first).\(fresh())"
        try move(first, to: aside)
        try move(second, to: first)
        try move(aside, to: second)
    }

    /// A file takes a folder's name for a while.
    private func swapKinds() throws {
        let folder = try anyFolder()
        let aside = "\(folder).\(fresh())"
        try move(folder, to: aside)
        try make(folder, "put in the place of a folder as")
        if random.oneIn(2) { _ = poll(nil, 0, Int32.random(in: 0...300, using: &random)) }
        try move(folder, to: "\(aside)/\(fresh())")
        try move(aside, to: folder)
    }

    private func renameFolder() throws {
        try move(anyFolder(), to: "R\(fresh())")
    }
}
