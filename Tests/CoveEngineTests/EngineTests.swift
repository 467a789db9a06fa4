import CoveCore
import CoveEngine
import CoveTestSupport
import Foundation
import Testing

@Suite struct EngineTests {
    private func text(_ string: String) -> [UInt8] { Array(string.utf8) }

    @Test func `a listed file is dataless until it is read, and one read fetches it once`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try SourceFolder(account.source).save("a.txt", text("hello"))
            let names = try account.tree.list("")
            #expect(names == ["a.txt": .file])
            let before = try account.engine.item(at: RemotePath(unchecked: text("a.txt")))
            #expect(before.state == "dataless")
            #expect(before.localBytes == 0)
            let id = try account.tree.resolve("a.txt")
            #expect(try account.engine.attributes(of: id).blocks == 1)
            #expect(account.engine.statistics().downloadsStarted == 0)
            #expect(try account.tree.read("a.txt") == text("hello"))
            #expect(try account.tree.read("a.txt") == text("hello"))
            #expect(account.engine.statistics().downloadsStarted == 1)
            #expect(account.engine.statistics().bytesDownloaded == 5)
            await account.stop()
        }
    }

    @Test func `bytes that are gone at the source are not a missing file`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try SourceFolder(account.source).save("a.txt", text("hello"))
            #expect(try account.tree.list("") == ["a.txt": .file])
            await account.engine.pause()
            try SourceFolder(account.source).remove("a.txt")
            #expect(throws: Errno.stale) { try account.tree.read("a.txt") }
            await account.stop()
        }
    }

    @Test func `a lookup in a directory never listed asks for that one name`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try SourceFolder(account.source).makeDirectory("d")
            try SourceFolder(account.source).save("d/a.txt", text("a"))
            try SourceFolder(account.source).save("d/b.txt", text("b"))
            #expect(try account.tree.read("d/a.txt") == text("a"))
            #expect(throws: Errno.noSuchEntry) { try account.tree.resolve("d/c.txt") }
            #expect(try account.tree.list("d").keys.sorted() == ["a.txt", "b.txt"])
            await account.stop()
        }
    }

    @Test func `a middle read of a large file fetches a window, not the file`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let path = "\(account.source)/big"
            #expect(FileManager.default.createFile(atPath: path, contents: nil))
            #expect(truncate(path, 1 << 30) == 0)
            let id = try account.tree.open("big", O_RDONLY)
            let bytes = try account.tree.read(id, at: 512 << 20, count: 4096)
            #expect(bytes == [UInt8](repeating: 0, count: 4096))
            #expect(account.engine.statistics().bytesDownloaded <= 8 << 20)
            account.engine.release(id, flags: O_RDONLY)
            await account.stop()
        }
    }

    @Test func `cutting a dataless file downloads nothing`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try SourceFolder(account.source).save("a.txt", text("hello"))
            try account.tree.write("a.txt", text("new"))
            #expect(account.engine.statistics().bytesDownloaded == 0)
            try await account.settle()
            #expect(try SourceFolder(account.source).snapshot() == ["a.txt": text("new")])
            await account.stop()
        }
    }

    @Test func `a write into a dataless file keeps the bytes around it`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let old = [UInt8]((0..<300_000).map { UInt8(truncatingIfNeeded: $0) })
            try SourceFolder(account.source).save("a", old)
            try account.tree.overwrite("a", at: 100_000, [1, 2, 3], mapped: false)
            var wanted = old
            wanted.replaceSubrange(100_000..<100_003, with: [1, 2, 3])
            try await account.settle()
            #expect(try account.tree.read("a") == wanted)
            #expect(try SourceFolder(account.source).snapshot() == ["a": wanted])
            await account.stop()
        }
    }

    @Test func `twenty saves of each kind leave one document and one update each`() async throws {
        try await blocking {
            let account = try EngineAccount { $0.settleTime = .seconds(2) }
            let tree = account.tree
            try tree.write("doc", text("first"))
            try await account.settle()
            let document = try account.engine.item(at: RemotePath(unchecked: text("doc"))).documentID
            let before = account.engine.statistics()
            for index in 0..<20 {
                try tree.write("sedabc", text("rename \(index)"))
                try tree.rename("sedabc", "doc")
                try await account.settle()
                try tree.rename("doc", "doc~")
                try tree.write("doc", text("backup \(index)"))
                try await account.settle()
                try tree.unlink("doc")
                try tree.write("doc", text("unlink \(index)"))
                try await account.settle()
                try tree.write(".doc.X1", text("exchange \(index)"))
                try tree.exchange(".doc.X1", "doc")
                try tree.unlink(".doc.X1")
                try await account.settle()
            }
            let after = account.engine.statistics()
            #expect(try account.engine.item(at: RemotePath(unchecked: text("doc"))).documentID == document)
            #expect(after.contentUpdates - before.contentUpdates == 80)
            #expect(after.deletions == before.deletions)
            #expect(after.moves == before.moves)
            #expect(try SourceFolder(account.source).snapshot() == ["doc": text("exchange 19")])
            await account.stop()
        }
    }

    @Test func `an edit on both sides keeps both contents`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try SourceFolder(account.source).save("doc.txt", text("base"))
            #expect(try account.tree.read("doc.txt") == text("base"))
            try await account.setOffline(true)
            try account.tree.write("doc.txt", text("mine"))
            try SourceFolder(account.source).save("doc.txt", text("theirs"))
            try await account.setOffline(false)
            try await account.settle()
            let there = try SourceFolder(account.source).snapshot()
            #expect(there.count == 2)
            #expect(there["doc.txt"] == text("theirs"))
            let copy = try #require(there.keys.first { $0 != "doc.txt" })
            #expect(copy.hasPrefix("doc (conflict from here ") && copy.hasSuffix(").txt"))
            #expect(there[copy] == text("mine"))
            #expect(try account.tree.read("doc.txt") == text("theirs"))
            #expect(try account.tree.read(copy) == text("mine"))
            #expect(account.engine.conflicts().map(\.copyPath) == [copy])
            await account.stop()
        }
    }

    @Test func `an open handle keeps its version to the end`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try SourceFolder(account.source).save("doc", text("old"))
            let id = try account.tree.open("doc", O_RDONLY)
            #expect(try account.tree.read(id) == text("old"))
            try SourceFolder(account.source).save("doc", text("newer"))
            try await account.settle()
            #expect(try account.tree.read(id) == text("old"))
            #expect(try account.tree.read("doc") == text("newer"))
            account.engine.release(id, flags: O_RDONLY)
            await account.stop()
        }
    }

    @Test func `a late write to a replaced item becomes a conflict copy`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try SourceFolder(account.source).save("doc", text("old"))
            let id = try account.tree.open("doc", O_RDWR)
            #expect(try account.tree.read(id) == text("old"))
            try SourceFolder(account.source).save("doc", text("newer"))
            try await account.settle()
            try account.tree.append(id, text(" and late"))
            try account.tree.close(id)
            try await account.settle()
            let there = try SourceFolder(account.source).snapshot()
            #expect(there["doc"] == text("newer"))
            #expect(there.values.contains(text("old and late")))
            await account.stop()
        }
    }

    @Test func `deleting on one side and editing on the other keeps the edit`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try SourceFolder(account.source).save("mine", text("a"))
            try SourceFolder(account.source).save("theirs", text("b"))
            _ = try account.tree.list("")
            try await account.setOffline(true)
            try account.tree.write("mine", text("edited here"))
            try account.tree.unlink("theirs")
            try SourceFolder(account.source).remove("mine")
            try SourceFolder(account.source).save("theirs", text("edited there"))
            try await account.setOffline(false)
            try await account.settle()
            #expect(
                try SourceFolder(account.source).snapshot()
                    == ["mine": text("edited here"), "theirs": text("edited there")]
            )
            #expect(try account.tree.list("").keys.sorted() == ["mine", "theirs"])
            await account.stop()
        }
    }

    @Test func `evicted bytes come back, and what is not sent or is open or pinned stays`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let path = RemotePath(unchecked: text("a"))
            try account.tree.write("a", text("content"))
            try await account.setOffline(true)
            try account.tree.append("a", text("!"))
            #expect(throws: EvictionError.self) { try account.engine.evict(path) }
            try await account.setOffline(false)
            try await account.settle()
            let id = try account.tree.open("a", O_RDONLY)
            #expect(throws: EvictionError.self) { try account.engine.evict(path) }
            account.engine.release(id, flags: O_RDONLY)
            try account.engine.setPinned(path, true)
            #expect(throws: EvictionError.self) { try account.engine.evict(path) }
            try account.engine.setPinned(path, false)
            #expect(try account.engine.evict(path) == 8)
            #expect(try account.engine.item(at: path).state == "dataless")
            #expect(account.engine.statistics().residentBytes == 0)
            #expect(try account.tree.read("a") == text("content!"))
            await account.stop()
        }
    }

    @Test func `a deleted document can be restored, with its bytes here or only there`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try SourceFolder(account.source).makeDirectory("d")
            try SourceFolder(account.source).save("d/here", text("here"))
            try SourceFolder(account.source).save("d/there", text("there"))
            #expect(try account.tree.read("d/here") == text("here"))
            _ = try account.tree.list("d")
            try account.tree.unlink("d/here")
            try account.tree.unlink("d/there")
            try account.tree.removeDirectory("d")
            try await account.settle()
            #expect(try SourceFolder(account.source).snapshot().isEmpty)
            let trash = account.engine.trash()
            #expect(trash.map(\.location).sorted() == ["local", "remote"])
            for entry in trash {
                // The folder is made again first, and sent before what is only in the source's trash can return.
                if (try? await account.engine.restore(entry.documentID)) == nil {
                    try await account.settle()
                    _ = try await account.engine.restore(entry.documentID)
                }
            }
            try await account.settle()
            #expect(
                try SourceFolder(account.source).snapshot()
                    == ["d": nil, "d/here": text("here"), "d/there": text("there")]
            )
            #expect(account.engine.trash().isEmpty)
            await account.stop()
        }
    }

    @Test func `a source that lost more than half of over a hundred documents waits for approval`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            for index in 0..<120 { try source.save("f\(index)", text("\(index)")) }
            #expect(try account.tree.list("").count == 120)
            // In two portions, neither of which is many.
            for (portion, left) in [(0..<60, 60), (60..<110, 60)] {
                try await account.setOffline(true)
                for index in portion { try source.remove("f\(index)") }
                try await account.setOffline(false)
                await account.engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
                let report = await account.engine.waitUntilSettled(nil, timeout: .seconds(30))
                #expect(report.isSettled == (portion.lowerBound == 0))
                #expect(try account.tree.list("").count == left)
            }
            // Those of both portions are told.
            let status = account.engine.accountStatus()
            #expect(status.state == "waiting-for-approval")
            #expect(status.reason?.contains("no longer has 110 documents") == true, "\(status)")
            try await account.settle()
            #expect(try account.tree.list("").count == 10)
            await account.stop()
        }
    }

    @Test func `deleting more than half of over a hundred documents here waits for approval`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            for index in 0..<120 { try source.save("f\(index)", text("\(index)")) }
            #expect(try account.tree.list("").count == 120)
            try await account.setOffline(true)
            // Once it knows that, none begins while there are few.
            await account.engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
            try waitUntil("it is offline") { account.engine.accountStatus().state == "offline" }
            for index in 0..<110 { try account.tree.unlink("f\(index)") }
            try await account.setOffline(false)
            await account.engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
            let report = await account.engine.waitUntilSettled(nil, timeout: .seconds(30))
            #expect(!report.isSettled)
            #expect(try source.snapshot().count == 120)
            try await account.settle()
            #expect(try source.snapshot().count == 10)
            await account.stop()
        }
    }

    @Test func `a database is sent when the log beside it rests`() async throws {
        try await blocking {
            let account = try EngineAccount { $0.openFileRest = .seconds(3600) }
            let source = SourceFolder(account.source)
            try account.tree.write("notes.db-wal", text("log"))
            try account.tree.write("notes.db", text("pages"))
            await account.engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
            let report = await account.engine.waitUntilSettled(nil, timeout: .seconds(2))
            #expect(!report.isSettled)
            #expect(try source.snapshot()["notes.db"] == nil)
            try account.tree.unlink("notes.db-wal")
            try await account.settle()
            #expect(try source.snapshot() == ["notes.db": text("pages")])
            await account.stop()
        }
    }

    @Test func `offline work survives a restart and is sent afterwards`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try SourceFolder(account.source).save("doc", text("base"))
            #expect(try account.tree.read("doc") == text("base"))
            try await account.setOffline(true)
            try account.tree.write("doc", text("offline"))
            try account.tree.makeDirectory("new")
            try account.tree.write("new/file", text("created offline"))
            try account.tree.rename("new", "renamed")
            try await account.crash()
            #expect(try account.tree.read("doc") == text("offline"))
            #expect(try account.tree.read("renamed/file") == text("created offline"))
            try await account.setOffline(false)
            try await account.settle()
            #expect(
                try SourceFolder(account.source).snapshot()
                    == ["doc": text("offline"), "renamed": nil, "renamed/file": text("created offline")]
            )
            await account.stop()
        }
    }

    @Test func `two uploaded documents swap their names at the source too`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try account.tree.write("a", text("A"))
            try account.tree.write("b", text("B"))
            try await account.settle()
            try account.tree.exchange("a", "b")
            try await account.settle()
            #expect(try SourceFolder(account.source).snapshot() == ["a": text("B"), "b": text("A")])
            await account.stop()
        }
    }

    @Test func `a cache over its limit drops the clean content used longest ago`() async throws {
        try await blocking {
            let account = try EngineAccount { $0.cacheLimit = 1 << 20 }
            let source = SourceFolder(account.source)
            for index in 0..<8 { try source.save("f\(index)", [UInt8](repeating: UInt8(index), count: 400_000)) }
            for index in 0..<8 { #expect(try account.tree.read("f\(index)").count == 400_000) }
            // Eviction runs beside the reads: the next read past the limit starts it again.
            let deadline = ContinuousClock.now + .seconds(20)
            while account.engine.statistics().residentBytes > 1 << 20, ContinuousClock.now < deadline {
                _ = try account.tree.read("f0")
                await Task.yield()
            }
            #expect(account.engine.statistics().residentBytes <= 1 << 20)
            await account.stop()
        }
    }

    @Test func `a partial file whose last bytes came just before a death is whole`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try SourceFolder(account.source).save("a", text("hello"))
            #expect(try account.tree.read("a") == text("hello"))
            let id = try account.tree.resolve("a").rawValue
            try await account.restart { state in
                let change = "UPDATE items SET state = 2 WHERE id = \(id); INSERT INTO ranges VALUES(\(id), 0, 5)"
                try Command.run("sqlite3", ["\(state)/catalog.db", change])
            }
            try account.tree.overwrite("a", at: 0, text("j"), mapped: false)
            try await account.settle()
            #expect(try SourceFolder(account.source).snapshot()["a"] == text("jello"))
            await account.stop()
        }
    }
}
