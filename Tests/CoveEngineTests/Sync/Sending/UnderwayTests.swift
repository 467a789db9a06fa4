import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// What was sent before the daemon died, and changed before the next one sends again.
@Suite struct UnderwayTests {
    /// What was sent, and whether the source kept its date.
    struct Sent: CustomTestStringConvertible, Sendable {
        var isNew: Bool
        var keepsDate: Bool

        static let all = [true, false].flatMap { isNew in [true, false].map { Sent(isNew: isNew, keepsDate: $0) } }

        var testDescription: String {
            "\(isNew ? "a new file" : "a change") with \(keepsDate ? "its" : "another") date"
        }
    }

    func text(_ string: String) -> [UInt8] { Array(string.utf8) }

    /// An account that is paused, whose document has arrived at the source without an answer.
    ///
    /// `other`: what another program has put in its place, as long and of the same date.
    func account(
        _ sent: Sent,
        at path: String = "f",
        other: String? = nil,
        content: String = "sent"
    ) async throws -> EngineAccount {
        let account = try EngineAccount()
        if let slash = path.firstIndex(of: "/") { try account.tree.makeDirectory(String(path[..<slash])) }
        if !sent.isNew { try account.tree.write(path, text("base")) }
        try await account.settle()
        await account.engine.pause()
        try account.tree.write(path, text(content))
        let before = try account.keepState()
        await account.engine.resume()
        try await account.settle()
        #expect(try SourceFolder(account.source).snapshot()[path] == text(content))
        let number = text(content).withUnsafeBytes { SentBytes.sum($0) }
        // A source that keeps no dates has another one.
        let time = sent.keepsDate ? "i.mtime" : "i.mtime + 2000000000"
        let row = """
            INSERT INTO underway SELECT e.document, e.parent, e.name, 0, e.remote_id IS NULL, i.size, i.id, i.generation,
                \(time), \(number) FROM entries e JOIN items i ON i.id = e.item WHERE i.kind = 0;
            UPDATE journal SET sent = 1
            """
        try await account.setOffline(true)
        try await account.restart(from: before) { state in
            try Command.run("sqlite3", ["-cmd", ".timeout 5000", "\(state)/catalog.db", row])
            if let other { try replace(path, in: account.source, by: text(other)) }
        }
        await account.engine.pause()
        try await account.setOffline(false)
        // It has looked what became of it, and waits.
        try waitUntil("the source is reached", deadline: 60) { account.engine.syncEngine?.isConnected == true }
        return account
    }

    /// Puts a new file in a file's place, with its date.
    private func replace(_ path: String, in folder: String, by bytes: [UInt8]) throws {
        let status = try System.lstat("\(folder)/\(path)")
        #expect(status.st_size == bytes.count)
        try SourceFolder(folder).save(path, bytes)
        var dates = [status.st_atim, status.st_mtim]
        guard utimensat(AT_FDCWD, "\(folder)/\(path)", &dates, 0) == 0 else { throw Errno.current }
    }

    func expect(_ account: EngineAccount, _ files: [String: String]) async throws {
        await account.engine.resume()
        try await account.settle()
        let found = try SourceFolder(account.source).snapshot().mapValues { String(decoding: $0 ?? [], as: UTF8.self) }
        #expect(found == files)
        #expect(try account.tree.list("").keys.sorted() == files.keys.sorted())
        for (path, content) in files { #expect(try account.tree.read(path) == text(content)) }
        #expect(try account.engine.catalog.read { database throws(Errno) in try database.underway().count } == 0)
        await account.stop()
    }

    @Test(arguments: Sent.all)
    func `a document that has arrived and is renamed is at one place`(sent: Sent) async throws {
        try await blocking {
            let account = try await account(sent)
            try account.tree.rename("f", "g")
            try await expect(account, ["g": "sent"])
        }
    }

    @Test(arguments: Sent.all)
    func `a document that has arrived and is deleted is gone`(sent: Sent) async throws {
        try await blocking {
            let account = try await account(sent)
            try account.tree.unlink("f")
            try await expect(account, [:])
        }
    }

    @Test(arguments: Sent.all)
    func `a folder that is deleted with a document that has arrived is gone`(sent: Sent) async throws {
        try await blocking {
            let account = try await account(sent, at: "d/f")
            try account.tree.unlink("d/f")
            try account.tree.removeDirectory("d")
            try await expect(account, [:])
        }
    }

    @Test(arguments: Sent.all)
    func `a document that has arrived, is renamed and changed is one`(sent: Sent) async throws {
        try await blocking {
            let account = try await account(sent)
            try account.tree.rename("f", "g")
            try account.tree.write("g", text("changed"))
            try account.tree.write("f", text("another"))
            try await expect(account, ["f": "another", "g": "changed"])
        }
    }

    @Test(arguments: Sent.all)
    func `a document that has arrived and is replaced has the new bytes alone`(sent: Sent) async throws {
        try await blocking {
            let account = try await account(sent)
            try account.tree.write("f.part", text("replaced"))
            try account.tree.rename("f.part", "f")
            try await expect(account, ["f": "replaced"])
        }
    }

    @Test(arguments: Sent.all)
    func `a document that has arrived and takes another one's name is there alone`(sent: Sent) async throws {
        try await blocking {
            let account = try await account(sent)
            try account.tree.write("g", text("other"))
            try account.tree.rename("f", "g")
            try await expect(account, ["g": "sent"])
        }
    }

    @Test(arguments: Sent.all)
    func `a new document does not collide with one that has arrived and makes room while it is open`(
        sent: Sent
    ) async throws {
        try await blocking {
            let account = try await account(sent)
            let id = try account.tree.open("f")
            try account.tree.rename("f", "f.1")
            try account.tree.write("f", text("another"))
            await account.engine.resume()
            await account.engine.sync(nil, acceptDeletions: true, acceptLocalDeletions: true)
            _ = await account.engine.waitUntilSettled(nil, timeout: .seconds(60))
            try account.tree.close(id)
            try await expect(account, ["f": "another", "f.1": "sent"])
        }
    }

    @Test(arguments: Sent.all)
    func `a document that has arrived is told of once`(sent: Sent) async throws {
        try await blocking {
            let account = try await account(sent)
            try await expect(account, ["f": "sent"])
        }
    }

    @Test(arguments: Sent.all)
    func `another one's document in the place of what was sent is not deleted with it, whatever its date`(
        sent: Sent
    ) async throws {
        try await blocking {
            let account = try await account(sent, other: "tnes")
            try account.tree.unlink("f")
            try await expect(account, ["f": "tnes"])
        }
    }

    @Test(arguments: Sent.all)
    func `another one's document in the place of what was sent is not replaced as that, whatever its date`(
        sent: Sent
    ) async throws {
        try await blocking {
            let account = try await account(sent, other: "tnes")
            try account.tree.write("f", text("changed"))
            await account.engine.resume()
            try await account.settle()
            let contents = try SourceFolder(account.source).snapshot().values.map { $0 ?? [] }
            #expect(Set(contents) == [text("tnes"), text("changed")])
            await account.stop()
        }
    }

    @Test func `a document goes to where one was sent that is gone`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try await account.settle()
            await account.engine.pause()
            try account.tree.write("f", text("another"))
            try account.engine.catalog.write { database throws(Errno) in
                let place = Place(.root, text("f"))
                guard let entry = try database.entry(place.parent, place.name) else { throw .noSuchEntry }
                let row = try database.existingItem(entry.item)
                try database.beginUnderway(UnderwayRow(.random(), isNew: true, to: place, row))
            }
            try await expect(account, ["f": "another"])
        }
    }

    @Test(arguments: ["there", "other", "nowhere"])
    func `a link that leads elsewhere is not taken for the one that was sent`(target: String) throws {
        var row = ItemRow(kind: .symbolicLink, permissions: 0o777, user: 0, group: 0, now: .epoch)
        (row.target, row.size) = (text("there"), 5)
        let sent = UnderwayRow(.random(), isNew: true, to: Place(.root, text("l")), row)
        let remote = RemoteItem(
            id: RemoteID([1]),
            name: text("l"),
            kind: .symbolicLink,
            size: 0,
            contentVersion: ContentVersion([1]),
            metadataVersion: MetadataVersion([1]),
            metadata: ItemMetadata(),
            linkTarget: text(target)
        )
        #expect(sent.isLike(remote) == (target == "there"))
    }

    @Test func `what was refused and comes to its place later is another device's`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try account.tree.write("f", text("base"))
            try await account.settle()
            await account.engine.pause()
            try account.tree.write("f", text("here"))
            try source.save("f", text("there, longer"))
            await account.engine.resume()
            try await account.settle()
            let copy = try #require(try account.tree.list("").keys.first { $0.contains("conflict") })
            #expect(try account.tree.read("f") == text("there, longer") && account.tree.read(copy) == text("here"))
            let count = try account.engine.catalog.read { database throws(Errno) in try database.underway().count }
            #expect(count == 0)
            // Another device settles it by the copy.
            try source.rename(copy, "f")
            try await account.settle()
            #expect(try source.snapshot()["f"] == text("here"))
            #expect(try account.tree.read("f") == text("here"))
            await account.stop()
        }
    }

    @Test func `what was sent of a document that another one's identity takes is looked for`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try account.tree.write("f", text("base"))
            try await account.settle()
            await account.engine.pause()
            try account.tree.write("tmp", text("new"))
            try SourceFolder(account.source).save("tmp", text("new"))
            try account.engine.catalog.write { database throws(Errno) in
                guard let entry = try database.entry(.root, text("tmp")) else { throw .noSuchEntry }
                var sent = UnderwayRow(entry, to: entry.place, try database.existingItem(entry.item))
                (sent.item, sent.sum) = (entry.item, SentBytes.sum(text("new")))
                try database.beginUnderway(sent)
            }
            // A backup, and the new file at the document's name.
            try account.tree.rename("f", "f.bak")
            try account.tree.rename("tmp", "f")
            try await expect(account, ["f": "new", "f.bak": "base"])
        }
    }

    @Test func `a new file that gets a name of this machine while it is sent keeps its way back`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let (engine, tree) = (account.engine, account.tree)
            try await account.settle()
            await engine.pause()
            try tree.write("f", text("sent"))
            let sync = try #require(engine.syncEngine)
            let found = try engine.catalog.read { database throws(Errno) in try database.entry(.root, text("f")) }
            let entry = try #require(found)
            let row = try engine.catalog.read { database throws(Errno) in try database.existingItem(entry.item) }
            let journal = try engine.catalog.read { database throws(Errno) in try database.journalRow(entry.id) }
            try SourceFolder(account.source).save("f", text("sent"))
            try tree.rename("f", ".~lock.f#")
            let plan = SyncEngine.PushPlan(
                entry: entry,
                row: row,
                changed: try #require(journal).changed,
                wasSent: false,
                attempts: 0,
                directory: .root,
                metadata: ItemMetadata()
            )
            let remote = try await engine.provider.lookup(FileName(unchecked: text("f")), in: .root)
            _ = try await sync.acknowledge(plan, remote, generation: row.generation, bytes: 4)
            try tree.rename(".~lock.f#", "g")
            try tree.write("g", text("more"))
            try await expect(account, ["g": "more"])
        }
    }

    @Test func `of what never arrived nothing is left to look for`() async throws {
        try await blocking {
            let account = try await account(Sent(isNew: true, keepsDate: false))
            try FileManager.default.removeItem(atPath: account.source + "/f")
            try account.tree.unlink("f")
            try await expect(account, [:])
        }
    }
}
