import CoveCore
import CoveProviders
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// What becomes of documents whose surroundings change at the provider.
@Suite struct RemoteChangeTests {
    private func text(_ string: String) -> [UInt8] { Array(string.utf8) }

    @Test func `a program that met a replaced file is let to the new one first`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try SourceFolder(account.source).save("doc", text("old"))
            let id = try account.tree.resolve("doc")
            #expect(try account.tree.read("doc") == text("old"))
            try SourceFolder(account.source).save("doc", text("newer"))
            try await account.settle()
            #expect(throws: Errno.stale) { try account.engine.open(id, flags: O_RDONLY, account.tree.caller) }
            #expect(!account.engine.contents.walkers.isEmpty)
            #expect(try account.tree.read("doc") == text("newer"))
            #expect(account.engine.contents.walkers.isEmpty)
            // One that never comes is not waited for long.
            #expect(throws: Errno.stale) { try account.engine.open(id, flags: O_RDONLY, account.tree.caller) }
            account.engine.contents.awaitWalkers()
            #expect(!account.engine.contents.walkers.isEmpty)
            // Nor for ever when others keep coming.
            account.engine.contents.walkers.insert(Contents.Walker(told: .distantFuture), for: 1)
            account.engine.contents.awaitWalkers()
            #expect(!account.engine.contents.walkers.isEmpty)
            await account.stop()
        }
    }

    @Test func `a document deleted twice without its bytes here is in the trash twice`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try source.save("doc", text("first"))
            let path = RemotePath(unchecked: text("doc"))
            #expect(try account.tree.list("").keys.sorted() == ["doc"])
            let document = try account.engine.item(at: path).documentID
            // The deletion is on its way when a file takes the name, and goes on as the document.
            try await account.setOffline(true)
            try account.tree.unlink("doc")
            let (engine, tree) = (account.engine, account.tree)
            let row = try #require(
                try engine.catalog.read { database throws(Errno) in try database.trash(pending: true) }.first
            )
            try tree.write("doc", text("second"))
            #expect(try engine.item(at: path).documentID == document)
            try source.makeDirectory(".cove")
            try source.makeDirectory(".cove/trash")
            try source.rename("doc", ".cove/trash/\(document)")
            try await engine.syncEngine?.endDeletion(row.id, place: text(document), of: row)
            try await account.setOffline(false)
            try await account.settle()
            #expect(try source.snapshot() == ["doc": text("second")])
            #expect(await account.evict("doc"))
            try tree.unlink("doc")
            try await account.settle()
            #expect(try source.snapshot() == [:])
            #expect(engine.trash().map(\.size).sorted() == [5, 6])
            #expect(await engine.emptyTrash(olderThan: nil) == 2)
            #expect(try FileManager.default.contentsOfDirectory(atPath: account.source + "/.cove/trash") == [])
            await account.stop()
        }
    }

    @Test func `what took the name of a document that was changed here and moved there is shown`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try source.makeDirectory("d")
            try source.save("d/f", text("old"))
            #expect(try account.tree.list("d") == ["f": .file])
            let entry = try #require(
                try account.engine.catalog.read { database throws(Errno) in
                    try database.entry(account.tree.resolve("d"), Array("f".utf8))
                }
            )
            await account.engine.pause()
            try account.tree.write("d/f", text("mine"))
            try account.engine.catalog.write { database throws(Errno) in try database.markSent(entry.id, true) }
            try account.tree.rename("d/f", "d/h")
            func isTold(_ change: () throws -> Void) throws {
                let told = account.engine.namespace.takenChanges.load(ordering: .acquiring)
                try change()
                try waitUntil("it is told") { account.engine.namespace.takenChanges.load(ordering: .acquiring) != told }
            }
            // It leaves its name, which another file takes, and comes up after that was told.
            try isTold {
                let aside = account.root.appending("aside")
                try FileManager.default.linkItem(atPath: account.source + "/d/f", toPath: aside)
                try source.save("d/f", text("theirs"))
            }
            try isTold {
                let aside = account.root.appending("aside")
                try FileManager.default.moveItem(atPath: aside, toPath: account.source + "/d/g")
            }
            try waitUntil("it is here") { try account.tree.list("d").keys.sorted() == ["f", "h"] }
            await account.engine.resume()
            try await account.settle()
            #expect(try account.tree.read("d/f") == text("theirs"))
            #expect(try source.snapshot() == ["d": nil, "d/f": text("theirs"), "d/h": text("mine")])
            await account.stop()
        }
    }

    @Test func `the children of a folder renamed here and deleted there go to the trash`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try source.makeDirectory("d")
            try source.save("d/a", text("a"))
            #expect(try account.tree.read("d/a") == text("a"))
            try await account.setOffline(true)
            try account.tree.rename("d", "e")
            try source.remove("d")
            try await account.setOffline(false)
            try await account.settle()
            #expect(try source.snapshot() == ["e": nil])
            #expect(try account.tree.list("e").isEmpty)
            #expect(account.engine.trash().map(\.size) == [1])
            await account.stop()
        }
    }

    @Test func `what was moved into a folder survives the folder's deletion there`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            for name in ["c", "d"] { try source.makeDirectory(name) }
            try source.save("c/x", text("x"))
            #expect(try account.tree.list("c").count == 1 && account.tree.list("d").isEmpty)
            try await account.setOffline(true)
            try account.tree.rename("c/x", "d/x")
            try source.remove("d")
            try await account.setOffline(false)
            try await account.settle()
            #expect(try account.tree.read("d/x") == text("x"))
            #expect(try source.snapshot() == ["c": nil, "d": nil, "d/x": text("x")])
            await account.stop()
        }
    }

    @Test func `a folder moved into another one keeps its documents when that one is deleted there`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            for name in ["c", "c/below", "d"] { try source.makeDirectory(name) }
            for name in ["c/x", "c/below/y", "d/z"] { try source.save(name, text(name)) }
            for name in ["c/x", "c/below/y", "d/z"] { #expect(try account.tree.read(name) == text(name)) }
            try await account.setOffline(true)
            try account.tree.rename("c", "d/e")
            try source.remove("d")
            try await account.setOffline(false)
            try await account.settle()
            #expect(try account.tree.read("d/e/x") == text("c/x"))
            #expect(try account.tree.read("d/e/below/y") == text("c/below/y"))
            let expected = ["d": nil, "d/e": nil, "d/e/x": text("c/x"), "d/e/below": nil]
            #expect(try source.snapshot() == expected.merging(["d/e/below/y": text("c/below/y")]) { $1 })
            await account.stop()
        }
    }

    @Test func `a change told of the place a folder has left meanwhile is found at its new one`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try source.makeDirectory("d")
            try source.save("d/x", text("x"))
            #expect(try account.tree.list("d") == ["x": .file])
            let seen = System.monotonic()
            try account.tree.rename("d", "e")
            try account.tree.makeDirectory("d")
            try await account.settle()
            // As if it had been made just now, before the folder moved.
            try account.engine.catalog.write { database throws(Errno) in
                try database.run("DELETE FROM entries WHERE name = ?", .blob(Array("x".utf8)))
            }
            #expect(try account.tree.list("e").isEmpty && account.tree.list("d").isEmpty)
            let told = RemoteChange.removed(RemotePath(unchecked: text("d/x")))
            await account.engine.syncEngine?.take([SyncEngine.Seen(change: told, time: seen)])
            try waitUntil("it is here") { try account.tree.list("e") == ["x": .file] }
            await account.stop()
        }
    }

    @Test func `a change told of a folder that is not known there yet brings the folder`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            for name in ["d", "d/below"] { try source.makeDirectory(name) }
            try source.save("d/below/x", text("x"))
            for name in ["", "d", "d/below"] { #expect(try account.tree.list(name).count == 1) }
            try await account.settle()
            // As if the folder had come just now, and what is told of it came first.
            try account.engine.catalog.write { database throws(Errno) in
                try database.run("DELETE FROM entries WHERE name IN (?, ?)", .blob(Array("d".utf8)), .blob([0x78]))
            }
            #expect(try account.tree.list("").isEmpty)
            let told = RemoteChange.directoryChanged(RemotePath(unchecked: text("d/below")))
            await account.engine.syncEngine?.take([SyncEngine.Seen(change: told, time: System.monotonic())])
            #expect(try account.tree.read("d/below/x") == text("x"))
            await account.stop()
        }
    }

    @Test func `what two looks at the source saw is taken in once`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try source.save("doc", text("old"))
            #expect(try account.tree.list("") == ["doc": .file])
            try source.save("doc", text("newer"))
            try await account.settle()
            let name = FileName(unchecked: text("doc"))
            let remote = try await account.link.lookup(name, in: RemoteReference(id: nil, path: .root))
            let (engine, item) = (account.engine, try account.tree.resolve("doc"))
            let entry = try #require(
                try engine.catalog.read { database throws(Errno) in try database.entries(of: item) }.first
            )
            for kind in [Transition.Kind.replace(entry: entry.id), .insert(parent: .root, name: name.bytes)] {
                let transition = Transition(kind: kind, remote: remote, seen: System.monotonic())
                #expect(throws: Errno.busy) { try engine.remoteChanges.show(transition) }
            }
            #expect(try account.tree.resolve("doc") == item && account.tree.list("") == ["doc": .file])
            #expect(try account.tree.read("doc") == text("newer"))
            await account.stop()
        }
    }

    @Test func `another folder under the same name brings its own documents`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try source.makeDirectory("d")
            try source.save("d/old", text("old"))
            #expect(try account.tree.list("d").count == 1)
            try await account.setOffline(true)
            try source.rename("d", "../elsewhere")
            try source.makeDirectory("d")
            try source.save("d/new", text("new"))
            try await account.setOffline(false)
            try await account.settle()
            #expect(try account.tree.list("d") == ["new": .file])
            try source.save("d/newer", text("newer"))
            try await account.settle()
            #expect(try account.tree.read("d/newer") == text("newer"))
            await account.stop()
        }
    }

    @Test func `a folder replaced by a file counts with all that was in it`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try source.makeDirectory("d")
            for index in 0..<150 { try source.save("d/\(index)", text("\(index)")) }
            #expect(try account.tree.list("d").count == 150)
            try await account.setOffline(true)
            try source.rename("d", "../elsewhere")
            try source.save("d", text("file"))
            try await account.setOffline(false)
            await account.engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
            _ = await account.engine.waitUntilSettled(nil, timeout: .seconds(30))
            #expect(account.engine.accountStatus().state == "waiting-for-approval")
            #expect(try account.tree.list("d").count == 150)
            try await account.settle()
            #expect(try account.tree.read("d") == text("file"))
            await account.stop()
        }
    }

    @Test func `approval is for what waits, not for what comes later`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            for index in 0..<150 { try source.save("\(index)", text("\(index)")) }
            #expect(try account.tree.list("").count == 150)
            try await account.settle()
            for _ in 0..<2 {
                try await account.setOffline(true)
                for index in 0..<150 { try source.rename("\(index)", "../\(index)") }
                try await account.setOffline(false)
                await account.engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
                _ = await account.engine.waitUntilSettled(nil, timeout: .seconds(30))
                #expect(account.engine.accountStatus().state == "waiting-for-approval")
                #expect(try account.tree.list("").count == 150)
                // They come back: nothing waits any more.
                for index in 0..<150 { try source.rename("../\(index)", "\(index)") }
                await account.engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
                #expect(await account.engine.waitUntilSettled(nil, timeout: .seconds(30)).isSettled)
            }
            await account.stop()
        }
    }

    @Test func `a dataless file whose dates were changed here can be read`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try SourceFolder(account.source).save("t", text("bytes"))
            let id = try account.tree.resolve("t")
            var change = AttributeChange()
            change.modificationTime = .at(Timestamp(1_577_836_800_000_000_000))
            _ = try account.engine.setAttributes(of: id, change, hasHandle: false, account.tree.caller)
            try await account.settle()
            #expect(try account.tree.read("t") == text("bytes"))
            await account.stop()
        }
    }

    @Test func `changes during a first listing are not missed`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try source.makeDirectory("d")
            for index in 0..<3000 { try source.save("d/\(index)", text("\(index)")) }
            nonisolated(unsafe) let tree = account.tree
            let listing = Task.detached { try await blocking { try tree.list("d") } }
            for index in 3000..<3100 { try source.save("d/\(index)", text("\(index)")) }
            _ = try await listing.value
            try await account.settle()
            #expect(try account.tree.list("d").count == 3100)
            await account.stop()
        }
    }

    @Test func `bytes lost with the power replace nothing at the provider`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try account.tree.write("doc", text("base"))
            try account.tree.write("clean", text("clean"))
            try await account.settle()
            try await account.setOffline(true)
            try account.tree.write("doc", text("edited"))
            try await account.losePower()
            try await account.setOffline(false)
            try await account.settle()
            #expect(try account.tree.read("clean") == text("clean"))
            #expect(try account.tree.read("doc") == text("base"))
            #expect(try source.snapshot().count == 3)
            #expect(account.engine.conflicts().count == 1)
            await account.stop()
        }
    }

    @Test func `a document that gives way to another is listed beside that one`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            for name in ["a", "b"] { try source.save(name, text(name)) }
            #expect(try account.tree.read("a") == text("a"))
            #expect(try account.tree.list("").count == 2)
            try await account.setOffline(true)
            try account.tree.rename("a", "c")
            try source.save("c", text("other"))
            try await account.setOffline(false)
            try await account.settle()
            let copy = try #require(try account.tree.list("").keys.first { $0.contains("conflict") })
            let conflicts = account.engine.conflicts()
            #expect(conflicts.map(\.path) == ["c"] && conflicts.map(\.copyPath) == [copy])
            try account.tree.unlink(copy)
            #expect(account.engine.conflicts().isEmpty)
            await account.stop()
        }
    }
}
