import CoveClaims
import CoveCore
import CoveProviders
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// The order in which what was changed here is sent.
@Suite(.timeLimit(.minutes(30))) struct QueueTests {
    private func account(
        settle: TimeSpan = .zero,
        ignoring names: [String] = [],
        _ body: @escaping @Sendable (EngineAccount) async throws -> Void
    ) async throws {
        try await blocking {
            let account = try EngineAccount {
                $0.settleTime = settle
                $0.ignoredNames = names
            }
            try await body(account)
            await account.stop()
            #expect(try account.repair() == RepairReport())
        }
    }

    /// Waits without asking for anything to be sent.
    private func waitUntilSent(_ account: EngineAccount) throws {
        do {
            try waitUntil("everything is sent", deadline: 60) {
                let status = account.engine.accountStatus()
                return status.queuedOperations == 0 && status.state == "idle"
            }
        } catch {
            let rows = try account.engine.catalog.read { database throws(Errno) in
                try database.rows("SELECT * FROM journal j LEFT JOIN entries e ON e.id = j.entry") { "\($0.values)" }
            }
            throw CommandFailure("\(error): \(account.engine.accountStatus()), \(rows.prefix(10))")
        }
    }

    @Test func `a folder that was changed after all the files in it holds nothing up`() async throws {
        try await account { account in
            let engine = account.engine
            await engine.pause()
            try account.tree.makeDirectory("pack")
            for number in 0..<1500 { try account.tree.write("pack/f\(number)", [UInt8(number % 250)]) }
            try account.tree.makeDirectory("pack/deep")
            try account.tree.makeDirectory("pack/deep/deeper")
            try account.tree.write("pack/deep/deeper/file", [1])
            // As tar(1) does: the folder's date comes last.
            for folder in ["pack/deep", "pack"] {
                var change = AttributeChange()
                change.modificationTime = .at(Timestamp(seconds: 1_000_000_000, nanoseconds: 0))
                _ = try engine.setAttributes(
                    of: account.tree.resolve(folder),
                    change,
                    hasHandle: false,
                    account.tree.caller
                )
            }
            await engine.resume()
            try waitUntilSent(account)
            let names = try FileManager.default.contentsOfDirectory(atPath: account.source + "/pack")
            #expect(names.count == 1501)
            #expect(FileManager.default.fileExists(atPath: account.source + "/pack/deep/deeper/file"))
        }
    }

    @Test func `a save that takes a document over between two looks is sent once, and is no conflict`() async throws {
        try await account { account in
            let (engine, tree) = (account.engine, account.tree)
            let source = SourceFolder(account.source)
            try tree.write("doc", Array("first".utf8))
            try await account.settle()
            await engine.pause()
            let document = try engine.item(at: RemotePath(unchecked: Array("doc".utf8))).documentID
            try tree.unlink("doc")
            try tree.write("doc", Array("second".utf8))
            let place = Place(.root, Array("doc".utf8))
            let heir = try #require(
                try engine.catalog.read { database throws(Errno) in try database.entry(place.parent, place.name) }
            )
            #expect("\(heir.document)" == document)
            // It was chosen as the new document that it was until it was closed: what is claimed is that one.
            let chosen = QueueRow(key: .entry(heir.id), document: .random(), stamp: .epoch)
            await engine.syncEngine?.push(heir.id, chosen)
            #expect(try source.snapshot() == ["doc": Array("first".utf8)])
            await engine.resume()
            try await account.settle()
            #expect(try source.snapshot() == ["doc": Array("second".utf8)])
        }
    }

    @Test func `files that trade names and are gone at the source are made anew`() async throws {
        try await account { account in
            let (engine, tree) = (account.engine, account.tree)
            let source = SourceFolder(account.source)
            try tree.write("a", Array("one".utf8))
            try tree.write("b", Array("two".utf8))
            try await account.settle()
            await engine.pause()
            try tree.exchange("a", "b")
            for name in ["a", "b"] { try source.remove(name) }
            await engine.resume()
            try await account.settle()
            #expect(try source.snapshot() == ["a": Array("two".utf8), "b": Array("one".utf8)])
        }
    }

    @Test func `what a push met is not taken in by a name that has left the document meanwhile`() async throws {
        try await account { account in
            let (engine, tree) = (account.engine, account.tree)
            try tree.write("doc", Array("first".utf8))
            try await account.settle()
            await engine.pause()
            let doc = Array("doc".utf8)
            let sent = try #require(
                try engine.catalog.read { database throws(Errno) in try database.entry(.root, doc) }
            )
            let remote = try await account.link.lookup(
                FileName(unchecked: doc),
                in: RemoteReference(id: nil, path: .root)
            )
            try tree.rename("doc", "doc.1")
            try tree.write("doc", Array("second".utf8))
            #expect(throws: Errno.busy) {
                try engine.remoteChanges.show(
                    Transition(kind: .replace(entry: sent.id), remote: remote, sent: sent.document)
                )
            }
            await engine.resume()
            try await account.settle()
            let both = ["doc": Array("second".utf8), "doc.1": Array("first".utf8)]
            #expect(try SourceFolder(account.source).snapshot() == both)
            #expect(try tree.list("").keys.sorted() == ["doc", "doc.1"])
        }
    }

    @Test func `whole new files and folders settle sooner than edits`() async throws {
        try await account { account in
            let engine = account.engine
            let tree = account.tree
            try tree.write("old", [1])
            try await account.settle()
            await engine.pause()
            try tree.write("old", [2])
            try tree.makeDirectory("folder")
            try tree.write("whole", [3])
            try tree.write("empty", [])
            try tree.write("written", [4])
            let written = try tree.open("written")
            let now = engine.journalTime() + .seconds(1)
            /// The names of what may go when edits have rested until one moment, and what is new until another.
            func due(_ settled: Timestamp, _ newSettled: Timestamp) throws -> Set<String> {
                try engine.catalog.read { database throws(Errno) in
                    let queue = CatalogQueue(
                        host: engine.host,
                        database: database,
                        settled: settled,
                        newSettled: newSettled,
                        contentSettled: settled,
                        holdsDeletions: false,
                        departed: ([:], [:]),
                        held: HeldNames()
                    )
                    var rows: [QueueRow] = []
                    for stream in [QueueStream.folders, .changes] {
                        try queue.eachDue(stream, at: now) {
                            rows.append($0)
                            return true
                        }
                    }
                    var names: Set<String> = []
                    for row in rows {
                        guard case .entry(let id) = row.key, let entry = try database.entry(id: id),
                            case .ready = try queue.look(at: row, now: now)
                        else { continue }
                        names.insert(String(decoding: entry.name, as: UTF8.self))
                    }
                    return names
                }
            }
            #expect(try due(.epoch, .epoch) == [])
            #expect(try due(.epoch, now) == ["folder", "whole"])
            #expect(try due(now, now) == ["old", "folder", "whole", "empty", "written"])
            try tree.close(written)
            #expect(try due(.epoch, now) == ["folder", "whole", "written"])
            await engine.resume()
            try waitUntilSent(account)
        }
    }

    @Test func `what can't go yet costs no commit`() async throws {
        try await account { account in
            let engine = account.engine
            await engine.pause()
            try account.tree.makeDirectory("pack")
            for number in 0..<300 { try account.tree.write("pack/f\(number)", [1]) }
            // Its folder is tried again in a while.
            let folder = try account.tree.resolve("pack")
            try engine.catalog.write { database throws(Errno) in
                let entry = try database.entry(ofDirectory: folder)
                try database.run(
                    "UPDATE journal SET retry = ? WHERE entry = ?",
                    .milliseconds(.distantFuture),
                    .int(entry?.id ?? 0)
                )
            }
            await engine.resume()
            let before = engine.catalog.commitCount
            let sync = try #require(engine.syncEngine)
            for _ in 0..<50 {
                await sync.pushReady(engine.journalTime())
                while await sync.activePushes > 0 { await Task.yield() }
            }
            #expect(engine.catalog.commitCount - before < 10)
            #expect(engine.accountStatus().queuedOperations == 301)
            await engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
            try waitUntilSent(account)
        }
    }

    @Test func `a folder that was rebuilt here and is gone at the source is made anew`() async throws {
        try await account { account in
            let tree = account.tree
            try tree.makeDirectory("folder")
            try tree.write("folder/file", [1, 2, 3])
            try await account.settle()
            await account.engine.pause()
            try tree.makeDirectory("new")
            try tree.rename("folder/file", "new/file")
            try tree.removeDirectory("folder")
            try tree.rename("new", "folder")
            try FileManager.default.removeItem(atPath: account.source + "/folder")
            await account.engine.resume()
            try waitUntilSent(account)
            #expect(try SourceFolder(account.source).snapshot() == ["folder": nil, "folder/file": [1, 2, 3]])
            #expect(try tree.read("folder/file") == [1, 2, 3])
        }
    }

    @Test func `a folder that took the name of one deleted here is shown once that is gone`() async throws {
        try await account { account in
            let (tree, source) = (account.tree, SourceFolder(account.source))
            try tree.makeDirectory("folder")
            try await account.settle()
            await account.engine.pause()
            try tree.removeDirectory("folder")
            try FileManager.default.removeItem(atPath: account.source + "/folder")
            try source.makeDirectory("folder")
            try source.save("folder/file", [1, 2, 3])
            // What is told after it has been taken in, and so has it been looked at.
            try source.save("later", [4])
            try waitUntil("the later file is here") { try tree.list("")["later"] != nil }
            await account.engine.resume()
            try waitUntil("the other folder is shown") { try tree.list("")["folder"] != nil }
            #expect(try tree.read("folder/file") == [1, 2, 3])
            try await account.settle()
        }
    }

    @Test func `names passed on in a chain and in a ring all get there`() async throws {
        try await account { account in
            for number in 0..<100 { try account.tree.write("f\(number)", Array("\(number)".utf8)) }
            try await account.settle()
            let engine = account.engine
            await engine.pause()
            // A ring of a hundred names.
            try account.tree.rename("f99", "kept")
            for number in (0..<99).reversed() { try account.tree.rename("f\(number)", "f\(number + 1)") }
            try account.tree.rename("kept", "f0")
            await engine.resume()
            try await account.settle()
            for number in 0..<100 {
                let text = try String(contentsOfFile: account.source + "/f\(number)", encoding: .utf8)
                #expect(text == "\((number + 99) % 100)")
            }
            let names = try FileManager.default.contentsOfDirectory(atPath: account.source)
            #expect(names.filter { !$0.hasPrefix(".cove") }.count == 100)
        }
    }

    @Test func `folders turned inside out are sent in the order that can be`() async throws {
        try await account { account in
            for folder in ["a", "a/b", "a/b/c"] { try account.tree.makeDirectory(folder) }
            try account.tree.write("a/b/c/file", [1])
            try await account.settle()
            await account.engine.pause()
            try account.tree.rename("a/b/c", "c")
            try account.tree.rename("a/b", "c/b")
            try account.tree.rename("a", "c/b/a")
            await account.engine.resume()
            try await account.settle()
            #expect(FileManager.default.fileExists(atPath: account.source + "/c/b/a"))
            #expect(FileManager.default.fileExists(atPath: account.source + "/c/file"))
            #expect(!FileManager.default.fileExists(atPath: account.source + "/a"))
        }
    }

    @Test func `what is in a folder that stays here waits for nobody, and goes when the folder does`() async throws {
        try await account(ignoring: ["build"]) { account in
            try account.tree.makeDirectory("build")
            try account.tree.makeDirectory("build/deep")
            for name in ["build/one", "build/deep/two"] { try account.tree.write(name, [1]) }
            try account.tree.write("other", [1])
            try waitUntilSent(account)
            #expect(FileManager.default.fileExists(atPath: account.source + "/other"))
            #expect(!FileManager.default.fileExists(atPath: account.source + "/build"))
            try account.tree.rename("build", "built")
            try waitUntilSent(account)
            #expect(FileManager.default.fileExists(atPath: account.source + "/built/one"))
            #expect(FileManager.default.fileExists(atPath: account.source + "/built/deep/two"))
            // And back: what was never sent, below a folder that is to stay.
            await account.engine.pause()
            try account.tree.makeDirectory("later")
            try account.tree.makeDirectory("later/deep")
            try account.tree.write("later/deep/file", [1])
            try account.tree.rename("later", "build")
            await account.engine.resume()
            try waitUntilSent(account)
            #expect(!FileManager.default.fileExists(atPath: account.source + "/build"))
        }
    }
}
