import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// Calls whose transaction fails, at any of its changes, as on a full disk: all is as before, in memory too, and the same call
/// does later what it would have done.
@Suite struct FailedCommitTests {
    /// A call on an account that sends nothing; `f`, `g` and `d/x` are the source's, and here.
    struct Scenario: Sendable, CustomTestStringConvertible {
        let name: String
        /// What comes before the call.
        var before: @Sendable (Actor) throws -> Void = { _ in }
        let call: @Sendable (Actor) throws -> Void

        var testDescription: String { name }
    }

    /// Does what the kernel asks for.
    final class Actor {
        let account: EngineAccount
        private(set) var open: [String: ItemID] = [:]
        var tree: EngineTree { account.tree }
        var engine: Engine { account.engine }

        init(_ account: EngineAccount) { self.account = account }

        /// Makes a file and writes to it; it stays open.
        func make(_ name: String) throws {
            let made = try engine.create(.root, Array(name.utf8), mode: 0o100644, flags: O_RDWR, tree.caller)
            open[name] = made.id
            try tree.write(made.id, at: 0, Array("new \(name)".utf8))
        }

        /// The same, and closes it.
        func save(_ name: String) throws {
            try make(name)
            try close(name)
        }

        func flush(_ name: String) throws { try engine.flush(handle(name)) }

        func hold(_ path: String, _ flags: Int32 = O_RDONLY) throws { open[path] = try tree.open(path, flags) }

        func write(_ name: String) throws { try tree.write(handle(name), at: 1, [65]) }

        /// Closes a file that was made.
        func close(_ name: String) throws {
            try tree.close(handle(name))
            open[name] = nil
        }

        private func handle(_ name: String) throws -> ItemID { try #require(open[name]) }

        func closeAll() throws { for name in open.keys.sorted() { try close(name) } }
    }

    static let scenarios = [
        Scenario(name: "a name is left") { try $0.tree.rename("f", "f~") },
        Scenario(name: "a name is left for another folder") { try $0.tree.rename("f", "d/f") },
        Scenario(name: "a close at a name that was left") { actor in
            try actor.tree.rename("f", "f~")
            try actor.make("f")
        } call: {
            try $0.flush("f")
        },
        Scenario(name: "a close at a name that was removed") { actor in
            try actor.tree.unlink("f")
            try actor.make("f")
        } call: {
            try $0.flush("f")
        },
        Scenario(name: "a new file comes to a name that was left") { actor in
            try actor.save("t")
            try actor.tree.rename("f", "f~")
        } call: {
            try $0.tree.rename("t", "f")
        },
        Scenario(name: "a new file comes to a name that was removed") { actor in
            try actor.save("t")
            try actor.tree.unlink("f")
        } call: {
            try $0.tree.rename("t", "f")
        },
        Scenario(name: "a new file replaces a document") {
            try $0.save("t")
        } call: {
            try $0.tree.rename("t", "f")
        },
        Scenario(name: "a new file replaces one that is read") { actor in
            try actor.hold("g")
            try actor.save("t")
        } call: {
            try $0.tree.rename("t", "g")
        },
        Scenario(name: "a new file and a document are exchanged") {
            try $0.save("t")
        } call: {
            try $0.tree.exchange("t", "f")
        },
        Scenario(name: "two documents are exchanged") { try $0.tree.exchange("f", "d/x") },
        Scenario(name: "a document replaces another") { try $0.tree.rename("f", "d/x") },
        Scenario(name: "a document is removed") { try $0.tree.unlink("f") },
        Scenario(name: "a new file is removed") {
            try $0.save("t")
        } call: {
            try $0.tree.unlink("t")
        },
        Scenario(name: "a document that is read, and not all here, is removed") {
            try $0.hold("g")
        } call: {
            try $0.tree.unlink("g")
        },
        Scenario(name: "a directory is removed") {
            try $0.tree.unlink("d/x")
        } call: {
            try $0.tree.removeDirectory("d")
        },
        Scenario(name: "a directory is moved") { try $0.tree.rename("d", "e") },
        Scenario(name: "a directory is made") { try $0.tree.makeDirectory("n") },
        Scenario(name: "a file is made") { try $0.make("n") },
        Scenario(name: "a document is written to") {
            try $0.hold("f", O_RDWR)
        } call: {
            try $0.write("f")
        },
        Scenario(name: "a document that was written to is closed") { actor in
            try actor.hold("f", O_RDWR)
            try actor.write("f")
        } call: {
            try $0.flush("f")
        },
        Scenario(name: "a document gets a second name") { actor in
            let (parent, name) = try actor.tree.split("l")
            _ = try actor.engine.link(try actor.tree.resolve("f"), parent, name, actor.tree.caller)
        },
    ]

    private struct World: Equatable {
        /// Whose document each name stands for: the name that it had at first, or nothing for a new one.
        var documents: [String: String] = [:]
        var bytes: [String: [UInt8]] = [:]
        /// Names in memory that wait for an heir, and items whose bytes are needed.
        var waiting: Set<String> = []
        var departing: Set<ItemID> = []
    }

    /// An account in which nothing is sent, and the documents by their identities.
    private func account() async throws -> (Actor, [String: String]) {
        let account = try EngineAccount { $0.tombstoneTime = .seconds(3600) }
        let source = SourceFolder(account.source)
        for name in ["f", "g", "d/x"] {
            if name.contains("/") { try source.makeDirectory("d") }
            try source.save(name, Array("old \(name)".utf8) + [UInt8](repeating: 0, count: name == "g" ? 3 << 20 : 0))
        }
        let actor = Actor(account)
        #expect(try actor.tree.list("") == ["f": .file, "g": .file, "d": .directory])
        #expect(try actor.tree.list("d") == ["x": .file])
        for name in ["f", "d/x"] { _ = try actor.tree.read(name) }
        await account.engine.pause()
        try await account.setOffline(true)
        return (actor, Dictionary(uniqueKeysWithValues: try rows(actor).map { ($0.document, $0.path) }))
    }

    private func rows(_ actor: Actor) throws -> [(path: String, document: String, item: ItemID)] {
        try actor.engine.catalog.read { database throws(Errno) in
            var found: [(String, String, ItemID)] = []
            for id in try database.all("SELECT id FROM entries", read: { $0.int(0) }) {
                guard let entry = try database.entry(id: id) else { continue }
                found.append(("\(try database.path(of: entry))", "\(entry.document)", entry.item))
            }
            return found
        }
    }

    private func look(_ actor: Actor, _ known: [String: String]) throws -> World {
        var world = World()
        for row in try rows(actor) {
            world.documents[row.path] = known[row.document] ?? ""
            if row.path != "g", let bytes = try? actor.tree.read(row.path) { world.bytes[row.path] = bytes }
        }
        let waiting = actor.engine.namespace.tombstones.waiting()
        world.waiting = Set(
            (Array(waiting.entries.values) + Array(waiting.trash.values)).map {
                String(decoding: $0.name, as: UTF8.self)
            }
        )
        for item in actor.engine.contents.live.all() where actor.engine.contents.departing.document(of: item.id) != nil
        {
            world.departing.insert(item.id)
        }
        return world
    }

    /// The catalog's own sum and the one in memory.
    private func resident(_ actor: Actor) throws -> [Int64] {
        let sum = try actor.engine.catalog.read { database throws(Errno) in
            try database.first("SELECT coalesce(sum(resident), 0) FROM items WHERE resident > 0") { $0.int(0) }
        }
        return [try #require(sum), actor.engine.contents.cache.withLock { $0.resident }]
    }

    @Test(arguments: scenarios)
    func `a call that fails has done nothing, and succeeds later`(_ scenario: Scenario) async throws {
        try await blocking {
            let (control, known) = try await account()
            try scenario.before(control)
            try scenario.call(control)
            try control.closeAll()
            let wanted = try look(control, known)
            await control.account.stop()
            for count in 1... {
                let (actor, known) = try await account()
                let fault = try Fault(actor.engine)
                try scenario.before(actor)
                let before = try look(actor, known)
                try fault.arm(count)
                var hasFailed = false
                do { try scenario.call(actor) } catch { hasFailed = true }
                try fault.arm(nil)
                if hasFailed {
                    #expect(try look(actor, known) == before, "change \(count) failed")
                    try scenario.call(actor)
                }
                try actor.closeAll()
                #expect(try look(actor, known) == wanted, "change \(count) failed at first")
                try waitUntil("the bytes here are counted: \(try resident(actor))") {
                    let sums = try resident(actor)
                    return sums[0] == sums[1]
                }
                await actor.account.stop()
                if !hasFailed {
                    #expect(count > 1)
                    return
                }
            }
        }
    }
}

/// Makes transactions fail.
private final class Fault {
    private let database: Database

    init(_ engine: Engine) throws {
        database = try Database(path: engine.catalog.path, disk: engine.disk, log: engine.log)
        try database.execute("CREATE TABLE fault(count INTEGER NOT NULL); INSERT INTO fault VALUES(-1)")
        for table in [
            "items", "entries", "journal", "trash", "conflicts", "changes", "departing", "versions", "xattrs",
        ] {
            for change in ["INSERT", "UPDATE", "DELETE"] {
                try database.execute(
                    """
                    CREATE TRIGGER fault_\(table)_\(change) AFTER \(change) ON \(table) BEGIN
                        UPDATE fault SET count = count - 1;
                        SELECT RAISE(ABORT, 'a test') FROM fault WHERE count = 0;
                    END
                    """
                )
            }
        }
    }

    /// From now on each transaction fails at that change, counted from 1, which its end takes back; nil: none does.
    func arm(_ count: Int?) throws { try database.execute("UPDATE fault SET count = \(count ?? -1)") }
}
