import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// Saves and moves of what is excluded, and what other devices do to it.
@Suite(.timeLimit(.minutes(5))) struct ExcludedSaveTests {
    @Test func `saves of an excluded file stay here, however programs save and how long it takes`() async throws {
        // No document takes over a name that was left.
        try await excludingAccount(configure: { $0.tombstoneTime = .zero }) { account, source, watch in
            try account.tree.write("f", text("first"))
            try await account.engine.setExcluded(path("f"), true)
            let link = { (from: String, to: String) throws in
                _ = try account.engine.link(account.tree.resolve(from), .root, text(to), .unknown)
            }
            let saves: [(String, (EngineTree) async throws -> Void)] = [
                ("in place", { try $0.write("f", text("secret in place")) }),
                (
                    "by rename",
                    {
                        try $0.write(".#new", text("secret by rename"))
                        try $0.rename(".#new", "f")
                    }
                ),
                (
                    "by backup of another name",
                    {
                        try $0.rename("f", "backup")
                        try await account.settle()
                        try $0.write("f", text("secret by backup of another name"))
                        try await account.settle()
                        try $0.unlink("backup")
                    }
                ),
                (
                    "by unlink",
                    {
                        try $0.unlink("f")
                        try await account.settle()
                        try $0.write("f", text("secret by unlink"))
                    }
                ),
                (
                    "by exchange",
                    {
                        try $0.write(".#new", text("secret by exchange"))
                        try $0.exchange(".#new", "f")
                        try await account.settle()
                        try $0.rename(".#new", "left")
                        try $0.unlink("left")
                    }
                ),
                (
                    "by link",
                    {
                        try link("f", "old")
                        try await account.settle()
                        try $0.write(".#new", text("secret by link"))
                        try $0.rename(".#new", "f")
                        try $0.write("old", text("secret of the old one"))
                        try await account.settle()
                        try $0.unlink("old")
                    }
                ),
                (
                    "over a death",
                    {
                        try $0.rename("f", "f.bak")
                        try await account.die()
                        try account.tree.write("f", text("secret over a death"))
                    }
                ),
            ]
            for (name, save) in saves {
                try await save(account.tree)
                try await account.settle()
                #expect(try source.snapshot().isEmpty, "saved \(name)")
                #expect(try account.tree.read("f") == text("secret \(name)"))
                #expect(try account.engine.namespace.isExcluded(account.tree.resolve("f")), "saved \(name)")
                #expect(!watch.has(text("secret")), "saved \(name)")
            }
            // A folder that is made anew.
            try account.tree.makeDirectory("build")
            try await account.engine.setExcluded(path("build"), true)
            try account.tree.removeDirectory("build")
            try account.tree.makeDirectory("build")
            try account.tree.write("build/o", text("secret"))
            try account.tree.write("other", text("another document"))
            try await account.settle()
            #expect(try source.snapshot() == ["other": text("another document")] && !watch.has(text("secret")))
        }
    }

    @Test func `an excluded document stays the document that it was, however it is saved`() async throws {
        try await excludingAccount { account, _, _ in
            let tree = account.tree
            try tree.write("f", text("first"))
            try await account.settle()
            let document = try account.engine.item(at: path("f")).documentID
            try await account.engine.setExcluded(path("f"), true)
            for number in 0..<3 {
                switch number {
                case 0:
                    try tree.write("f.new", text("\(number)"))
                    try tree.rename("f.new", "f")
                case 1:
                    try tree.write("f.new", text("\(number)"))
                    try tree.exchange("f.new", "f")
                default:
                    try tree.rename("f", "f~")
                    try tree.write("f", text("\(number)"))
                }
                #expect(try tree.read("f") == text("\(number)"))
                #expect(try account.engine.item(at: path("f")).documentID == document, "save \(number)")
            }
        }
    }

    @Test func `what takes an excluded name, or gets an excluded item, leaves the cloud`() async throws {
        try await excludingAccount { account, source, watch in
            let tree = account.tree
            for name in ["f", "g", "h"] { try tree.write(name, text(name)) }
            try await account.settle()
            try await account.engine.setExcluded(path("f"), true)
            try tree.write("f", text("secret"))
            // Over a document of the cloud; and one of the cloud over it.
            try tree.rename("f", "g")
            try tree.rename("h", "f")
            try tree.write("f", text("secret of f"))
            try await account.settle()
            #expect(try source.snapshot().isEmpty && !watch.has(text("secret")))
            #expect(try tree.read("g") == text("secret") && tree.read("f") == text("secret of f"))
            try tree.write("k", text("k"))
            try await account.settle()
            #expect(throws: Errno.crossDevice) { try tree.exchange("k", "f") }
            // A name of the same bytes would go on to be sent.
            _ = try account.engine.link(tree.resolve("k"), .root, text("k2"), .unknown).id
            try await account.settle()
            #expect(throws: Errno.crossDevice) { try tree.rename("k", "f") }
            #expect(try tree.read("k") == text("k"))
            try account.tree.unlink("f")
            try await account.engine.setExcluded(path("f"), false)
            try tree.write("f", text("open"))
            try await account.settle()
            #expect(try source.snapshot()["f"] == text("open"))
        }
    }

    @Test(arguments: [true, false])
    func `what is in the cloud is not stranded in a folder that stays here`(isExcluded: Bool) async throws {
        try await excludingAccount(configure: { $0.ignoredNames = ["stays"] }) { account, source, watch in
            let tree = account.tree
            for name in ["a", "b", "c", "w"] { try tree.write(name, text(name)) }
            try tree.makeDirectory("d")
            try await account.settle()
            let stays = isExcluded ? "kept" : "stays"
            try tree.makeDirectory(stays)
            if isExcluded { try await account.engine.setExcluded(path(stays), true) }
            try tree.makeDirectory("\(stays)/deep")
            try await account.setOffline(true)
            // It waits in a folder that waits.
            try tree.makeDirectory("n")
            try tree.rename("c", "n/c")
            for (from, to) in [("a", "\(stays)/a"), ("a", "\(stays)/deep/a"), ("d", "\(stays)/d"), ("n", "\(stays)/n")]
            {
                #expect(throws: Errno.crossDevice) { try tree.rename(from, to) }
            }
            if !isExcluded { try tree.removeDirectory("stays/deep"); try tree.removeDirectory("stays") }
            if !isExcluded { #expect(throws: Errno.crossDevice) { try tree.rename("n", "stays") } }
            if !isExcluded { for name in ["stays", "stays/deep"] { try tree.makeDirectory(name) } }
            try tree.write("\(stays)/new", text("new"))
            #expect(throws: Errno.crossDevice) { try tree.exchange("\(stays)/new", "b") }
            if isExcluded {
                #expect(throws: Errno.crossDevice) {
                    _ = try account.engine.link(tree.resolve("b"), tree.resolve("kept"), text("b"), .unknown)
                }
                // A folder that is excluded while moves into it wait takes them along.
                try tree.makeDirectory("m")
                try tree.makeDirectory("m/deep")
                try tree.rename("w", "m/deep/w")
                try await account.engine.setExcluded(path("m"), true)
            }
            try await account.setOffline(false)
            // What was never sent moves, whether it is on its way or not, and comes back as a new document.
            for index in 0..<20 {
                try tree.write("f\(index)", [UInt8](repeating: 7, count: 50_000))
                try tree.rename("f\(index)", "\(stays)/deep/f\(index)")
            }
            try tree.rename("\(stays)/new", "new")
            try await account.settle()
            var expected: [String: [UInt8]?] = ["a": text("a"), "b": text("b"), "d": nil, "n": nil]
            expected["n/c"] = text("c")
            expected["new"] = text("new")
            if !isExcluded { expected["w"] = text("w") }
            #expect(try source.snapshot() == expected)
            #expect(try tree.list("\(stays)/deep").count == 20)
            if isExcluded { #expect(try tree.read("m/deep/w") == text("w")) }
        }
    }

    @Test func `what an earlier version stranded leaves the cloud at a start, or is named`() async throws {
        let isReadOnly = Flag()
        try await excludingAccount(
            configure: {
                $0.ignoredNames = ["stays"]
                $0.isReadOnly = isReadOnly.value.load(ordering: .relaxed)
            }
        ) { account, source, _ in
            for name in ["a", "b"] { try account.tree.write(name, text(name)) }
            try account.tree.makeDirectory("stays")
            try await account.settle()
            #expect(await account.evict("b"))
            isReadOnly.value.store(true, ordering: .relaxed)
            try await account.restart { state in
                let move = """
                    UPDATE entries SET remote_parent = 1, remote_name = name,
                        parent = (SELECT item FROM entries WHERE name = CAST('stays' AS BLOB)) WHERE remote_id IS NOT NULL;
                    INSERT OR IGNORE INTO journal(entry, changed, attempts, retry, sent)
                        SELECT id, 0, 0, 0, 0 FROM entries WHERE remote_id IS NOT NULL;
                    DELETE FROM meta WHERE key = 'stranded'
                    """
                try Command.run("sqlite3", ["\(state)/catalog.db", move])
            }
            // A start that may change nothing leaves it for one that may.
            isReadOnly.value.store(false, ordering: .relaxed)
            try await account.restart { state in
                let planned =
                    "SELECT count(*) FROM trash WHERE pending; SELECT count(*) FROM entries WHERE remote_id IS NOT NULL"
                let found = try Command.run("sqlite3", ["\(state)/catalog.db", planned]).output
                #expect(found == "0\n2\n")
            }
            await account.engine.sync(nil, acceptDeletions: true, acceptLocalDeletions: true)
            try waitUntil("it is gone there") { try source.snapshot() == ["b": text("b")] }
            #expect(try account.tree.read("stays/a") == text("a") && account.tree.read("stays/b") == text("b"))
            try account.tree.rename("stays/b", "b")
            try await account.settle()
            #expect(try source.snapshot() == ["b": text("b")])
        }
    }

    @Test(arguments: [true, false])
    func `what another device makes of its name takes nothing from it`(isListed: Bool) async throws {
        try await excludingAccount { account, source, watch in
            if isListed { #expect(try account.tree.list("").isEmpty) }
            try account.tree.write("f", text("mine"))
            try account.tree.makeDirectory("d")
            for name in ["d", "f"] { try await account.engine.setExcluded(path(name), true) }
            for name in ["d/in", "f"] { try account.tree.write(name, text("secret")) }
            try await account.settle()
            try source.save("f", text("theirs"))
            try source.makeDirectory("d")
            try source.save("d/in", text("open"))
            let theirs: [String: [UInt8]?] = ["f": text("theirs"), "d": nil, "d/in": text("open")]
            for _ in 0..<2 {
                // The first one has it listed.
                _ = try account.tree.list("")
                try await account.settle()
            }
            #expect(try account.tree.read("f") == text("theirs") && account.tree.read("d/in") == text("open"))
            let names = try account.tree.list("").keys.filter { $0.contains("(conflict") }
            #expect(names.count == 2, "\(names)")
            for name in names {
                #expect(try account.tree.read(name.hasPrefix("f") ? name : name + "/in") == text("secret"))
                #expect(try account.engine.namespace.isExcluded(account.tree.resolve(name)))
                try account.tree.write(name.hasPrefix("f") ? name : name + "/in", text("secret, and more"))
            }
            try account.tree.write("f", text("theirs, changed"))
            try await account.settle()
            #expect(try source.snapshot() == theirs.merging(["f": text("theirs, changed")]) { $1 })
            #expect(!watch.has(text("secret")))
        }
    }

    @Test func `a change of another device that comes late makes no copy and removes nothing`() async throws {
        try await excludingAccount { account, source, _ in
            for name in ["f", "g"] { try account.tree.write(name, text("mine")) }
            try account.tree.makeDirectory("d")
            try await account.settle()
            let entries = try account.engine.catalog.read { database throws(Errno) in
                try ["f", "g"].map { name throws(Errno) in try database.entry(.root, text(name)) }.compactMap { $0?.id }
            }
            let directory = try account.tree.resolve("d")
            for name in ["f", "g", "d"] { try await account.engine.setExcluded(path(name), true) }
            try account.tree.write("f", text("secret"))
            let remote = RemoteItem(
                id: RemoteID([1]),
                name: text("f"),
                kind: .file,
                size: 6,
                contentVersion: ContentVersion([1]),
                metadataVersion: MetadataVersion([1]),
                metadata: ItemMetadata()
            )
            let seen = account.engine.clock.monotonic()
            for kind in [
                Transition.Kind.replace(entry: entries[0]), .remove(entry: entries[1]), .metadata(entry: entries[0]),
                .insert(parent: directory, name: text("f")),
                .move(entry: entries[1], parent: directory, name: text("f")),
            ] {
                #expect(throws: Errno.busy) {
                    try account.engine.remoteChanges.commit(
                        Transition(kind: kind, remote: remote, seen: seen),
                        staged: nil
                    )
                }
            }
            try await account.settle()
            #expect(try account.tree.list("").keys.sorted() == ["d", "f", "g"])
            #expect(try account.tree.read("f") == text("secret") && account.tree.read("g") == text("mine"))
            #expect(try source.snapshot().isEmpty)
        }
    }

    @Test func `a change of another device is not deleted with what is excluded`() async throws {
        try await excludingAccount { account, source, _ in
            try account.tree.write("f", text("mine"))
            try await account.settle()
            try await account.setOffline(true)
            try await account.engine.setExcluded(path("f"), true)
            try source.save("f", text("theirs, later"))
            try await account.setOffline(false)
            try await account.settle()
            #expect(try source.snapshot().values.map { $0 ?? [] } == [text("theirs, later")])
            _ = try account.tree.list("")
            try await account.settle()
            let contents = try account.tree.list("").keys.map { try account.tree.read($0) }
            #expect(Set(contents) == [text("mine"), text("theirs, later")])
        }
    }

    @Test func `what is restored to a folder that stays here stays here`() async throws {
        try await excludingAccount { account, source, watch in
            try account.tree.makeDirectory("d")
            for name in ["d/pending", "d/done", "d/far", "f"] { try account.tree.write(name, text(name)) }
            try await account.settle()
            #expect(await account.evict("d/far"))
            for name in ["d/done", "d/far"] { try account.tree.unlink(name) }
            try await account.settle()
            try await account.setOffline(true)
            try account.tree.unlink("d/pending")
            try await account.engine.setExcluded(path("d"), true)
            try await account.engine.setExcluded(path("f"), true)
            for name in ["d/done", "d/pending"] {
                let entry = try #require(account.engine.trash().first { $0.path == name })
                #expect(try await account.engine.restore(entry.documentID) == path(name))
                try account.tree.write(name, text("secret"))
            }
            try await account.setOffline(false)
            try await account.settle()
            let far = try #require(account.engine.trash().first { $0.path == "d/far" })
            await #expect(throws: Errno.crossDevice) { _ = try await account.engine.restore(far.documentID) }
            #expect(try source.snapshot().isEmpty && !watch.has(text("secret")))
            #expect(
                try account.tree.read("d/done") == text("secret") && account.tree.read("d/pending") == text("secret")
            )
            // What the cloud had of it comes back beside it.
            let former = try #require(account.engine.trash().first { $0.path == "f" })
            let restored = try await account.engine.restore(former.documentID)
            try await account.settle()
            #expect(try restored != path("f") && source.snapshot().values.map { $0 ?? [] } == [text("f")])
            #expect(try account.engine.item(at: path("f")).state == "local")
        }
    }

    @Test func `a name that nobody asked for is forgotten two minutes after it was left`() async throws {
        try await excludingAccount { account, source, _ in
            try account.tree.write("f", text("secret"))
            try await account.engine.setExcluded(path("f"), true)
            try account.tree.rename("f", "g")
            try account.tree.rename("g", "h")
            #expect(account.engine.excludedItems().map(\.path) == ["f", "g", "h"])
            let now = account.engine.namespace.journalTime()
            let sweep = { (time: Timestamp) throws in
                try account.engine.catalog.write { database throws(Errno) in
                    try database.forgetVacated(now: time, since: time - Namespace.vacatedTime)
                }
            }
            try sweep(now)
            try sweep(now + .seconds(119))
            #expect(account.engine.excludedItems().count == 3)
            try sweep(now + .seconds(121))
            #expect(account.engine.excludedItems().map(\.path) == ["f", "h"])
            #expect(account.engine.excludedItems().map(\.isThere) == [false, true])
            try account.tree.write("g", text("open"))
            try await account.settle()
            #expect(try source.snapshot() == ["g": text("open")])
        }
    }
}

/// Something that a test turns on and off between two starts.
private final class Flag: Sendable {
    let value = Atomic(false)
}
