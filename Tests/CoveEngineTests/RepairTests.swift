import CoveCore
import CoveEngine
import CoveTestSupport
import Foundation
import Testing

/// `cove doctor --repair` without the command.
@Suite struct RepairTests {
    private func text(_ string: String) -> [UInt8] { Array(string.utf8) }

    /// An account with sent, unsent and dataless documents, stopped.
    private func account() async throws -> EngineAccount {
        let account = try EngineAccount()
        try SourceFolder(account.source).makeDirectory("d")
        for number in 0..<300 {
            try SourceFolder(account.source).save("d/document \(number)", text("\(number)"))
        }
        try SourceFolder(account.source).save("dataless", text("there"))
        #expect(try account.tree.list("").count == 2)
        #expect(try account.tree.list("d").count == 300)
        try account.tree.write("sent", text("sent"))
        try await account.settle()
        await account.engine.pause()
        try account.tree.makeDirectory("new")
        try account.tree.write("new/unsent", text("unsent"))
        try account.tree.write("sent", text("changed"))
        await account.stop()
        return account
    }

    private func expectNothingLeft(_ account: EngineAccount) throws {
        let left = try account.repair().findings.map { "\($0)" }
        #expect(left == [])
    }

    /// Everything is as it should be, here and there.
    private func expectWhole(_ account: EngineAccount) async throws {
        try account.reopen()
        try await account.settle()
        #expect(try account.tree.read("new/unsent") == text("unsent"))
        #expect(try account.tree.read("sent") == text("changed"))
        #expect(try account.tree.read("dataless") == text("there"))
        #expect(try account.tree.list("d").count == 300)
        #expect(try account.tree.read("d/document 299") == text("299"))
        #expect(try SourceFolder(account.source).snapshot().count == 305)
        await account.stop()
        try expectNothingLeft(account)
    }

    @Test func `a sound catalog is left alone`() async throws {
        try await blocking {
            let account = try await account()
            #expect(try account.repair() == RepairReport())
            try await expectWhole(account)
        }
    }

    @Test(arguments: [
        ("entries", "DELETE FROM items WHERE id IN (SELECT item FROM entries WHERE name = CAST('unsent' AS BLOB))"),
        ("entries", "DELETE FROM items WHERE id IN (SELECT item FROM entries WHERE name = CAST('dataless' AS BLOB))"),
        ("journal", "INSERT INTO journal(entry, changed, attempts, retry, sent) VALUES(9999, 0, 0, 0, 0)"),
        ("unsent", "DELETE FROM journal"),
        ("ranges", "INSERT INTO ranges VALUES(9999, 0, 100)"),
        ("attributes", "INSERT INTO xattrs VALUES(9999, x'61', x'61')"),
        ("links", "UPDATE items SET nlink = 7 WHERE kind = 0"),
        ("links", "UPDATE items SET nlink = 7 WHERE kind = 1"),
        ("documents", "UPDATE entries SET document = (SELECT document FROM entries ORDER BY id LIMIT 1)"),
        ("versions", "UPDATE versions SET item = 9999"),
        ("versions", "UPDATE versions SET size = size + 1"),
        ("content", "UPDATE items SET resident = resident + 5 WHERE resident > 0"),
    ])
    func `tables that contradict each other are mended`(check: String, damage: String) async throws {
        try await blocking {
            let account = try await account()
            try Command.run("sqlite3", ["\(account.state)/catalog.db", damage])
            let report = try account.repair()
            #expect(Set(report.findings.map(\.check)) == [check])
            #expect(report.keptAside == nil)
            try await expectWhole(account)
        }
    }

    @Test func `a folder inside itself is in the top folder again`() async throws {
        try await blocking {
            let account = try await account()
            let loop = "UPDATE entries SET parent = item WHERE name = CAST('new' AS BLOB)"
            try Command.run("sqlite3", ["\(account.state)/catalog.db", loop])
            #expect(try account.repair().findings.contains { $0.check == "folders" })
            try await expectWhole(account)
        }
    }

    @Test func `content that no item knows is kept, and content that is missing is fetched again`() async throws {
        try await blocking {
            let account = try await account()
            try account.reopen()
            #expect(try account.tree.read("d/document 7") == text("7"))
            let id = try account.engine.item(at: RemotePath(unchecked: text("d/document 7"))).itemID
            await account.stop()
            let content = "\(account.state)/content/\(String(id & 0xFF, radix: 16))"
            try FileManager.default.moveItem(atPath: "\(content)/\(id)", toPath: "\(content)/\(id + 0x1_0000)")
            let report = try account.repair()
            #expect(report.findings.map(\.check) == ["content", "content"])
            #expect(report.foundContent == "\(account.state)/lost+found")
            let kept = try Data(contentsOf: URL(fileURLWithPath: "\(account.state)/lost+found/\(id + 0x1_0000)"))
            #expect(kept == Data("7".utf8))
            try account.reopen()
            #expect(try account.tree.read("d/document 7") == text("7"))
            await account.stop()
        }
    }

    /// A state whose content is from another time than its catalog, as a backup may have it.
    @Test(arguments: [0, 3], [true, false])
    func `a changed file whose bytes are gone replaces nothing`(left: Int, isRepaired: Bool) async throws {
        try await blocking {
            let account = try await account()
            try account.reopen()
            await account.engine.pause()
            let id = try account.engine.item(at: RemotePath(unchecked: text("sent"))).itemID
            await account.stop()
            let content = "\(account.state)/content/\(String(id & 0xFF, radix: 16))/\(id)"
            if left == 0 {
                try FileManager.default.removeItem(atPath: content)
            } else {
                #expect(truncate(content, left) == 0)
            }
            if isRepaired { #expect(try account.repair().findings.map(\.check) == ["content"]) }
            try account.reopen()
            if isRepaired {
                try await account.settle()
            } else {
                // It can't be sent, and says so.
                await account.engine.sync(nil, acceptDeletions: true, acceptLocalDeletions: true)
                let report = await account.engine.waitUntilSettled(nil, timeout: .seconds(60))
                #expect(report.errors.map(\.path) == ["sent"], "\(report)")
            }
            #expect(try SourceFolder(account.source).snapshot()["sent"] == text("sent"))
            let names = try SourceFolder(account.source).snapshot().keys.filter { $0.hasPrefix("sent") }.sorted()
            if isRepaired {
                #expect(try account.tree.read("sent") == text("sent"))
                #expect(names.count == (left == 0 ? 1 : 2), "\(names)")
            }
            await account.stop()
        }
    }

    @Test func `a wrong index is made anew`() async throws {
        try await blocking {
            let account = try await account()
            let damage = """
                PRAGMA writable_schema = ON;
                UPDATE sqlite_schema SET sql = 'CREATE INDEX entries_item ON entries(parent)' WHERE name = 'entries_item';
                """
            try Command.run("sqlite3", ["\(account.state)/catalog.db", damage])
            let report = try account.repair()
            #expect(report.findings.map(\.check) == ["indexes"])
            #expect(report.keptAside == nil)
            try account.reopen()
            await account.stop()
        }
    }

    @Test(arguments: 0..<6)
    func `of a catalog with damaged pages what can be read is saved, and the old one is kept`(seed: Int) async throws {
        try await blocking {
            let account = try await account()
            let path = "\(account.state)/catalog.db"
            let size = Int(try System.lstat(path).st_size)
            var random = SeededGenerator(seed: UInt64(seed))
            let file = try System.open(path, O_RDWR)
            // Not its first page: without that it is no database.
            let page = Int.random(in: 1..<(size / 4096), using: &random)
            try random.bytes(4096).withUnsafeBytes { bytes in
                Result<Void, Errno> { () throws(Errno) in try System.pwriteAll(file, bytes, Int64(page) * 4096) }
            }.get()
            System.close(file)
            let report = try account.repair()
            #expect(!report.findings.isEmpty, "page \(page) of \(size / 4096)")
            // All that the source has is there again; what it has not is there, or its bytes are in a folder.
            try account.reopen()
            try await account.settle()
            #expect(try account.tree.list("d").count == 300)
            #expect(try account.tree.read("dataless") == text("there"))
            let files = try account.tree.list("")
            let isThere = try ["new", "recovered"].contains { name in
                try files.contains { key, kind in
                    try key.hasPrefix(name) && kind == .directory && account.tree.list(key)["unsent"] == .file
                }
            }
            let found = (try? System.names(in: "\(account.state)/lost+found")) ?? []
            let bytes = found.map { FileManager.default.contents(atPath: "\(account.state)/lost+found/\($0)") }
            #expect(isThere || bytes.contains(Data("unsent".utf8)) || files["unsent"] != nil, "\(files) \(report)")
            await account.stop()
            try expectNothingLeft(account)
        }
    }

    /// Overwrites the first page of a table.
    private func damage(_ table: String, _ catalog: String) throws {
        let query = "SELECT rootpage FROM sqlite_schema WHERE name = '\(table)'"
        let answer = try Command.run("sqlite3", [catalog, query]).output
        let page = try #require(Int64(answer.prefix { $0.isNumber }))
        let file = try System.open(catalog, O_RDWR)
        try [UInt8](repeating: 0xA5, count: 4096).withUnsafeBytes { bytes in
            Result<Void, Errno> { () throws(Errno) in try System.pwriteAll(file, bytes, (page - 1) * 4096) }
        }.get()
        System.close(file)
    }

    @Test func `what a damaged catalog of an earlier version has is saved too`() async throws {
        try await blocking {
            let account = try await account()
            let catalog = "\(account.state)/catalog.db"
            let version = try Command.run("sqlite3", [catalog, "PRAGMA user_version"]).output.dropLast()
            let earlier = """
                ALTER TABLE items DROP COLUMN born; DROP TABLE unnamed;
                PRAGMA user_version = \(try #require(Int(version)) - 1)
                """
            try Command.run("sqlite3", [catalog, earlier])
            try damage("problems", catalog)
            #expect(try account.repair().keptAside != nil)
            try await expectWhole(account)
        }
    }

    @Test func `what was excluded stays here where a repair can't read what is`() async throws {
        try await blocking {
            final class Rules { var globs = ["*.o"] }
            let rules = Rules()
            let account = try EngineAccount { $0.ignoredNames = rules.globs }
            for name in ["private", "a.o", "sent"] { try account.tree.write(name, text(name)) }
            try await account.engine.setExcluded(RemotePath(unchecked: text("private")), true)
            try await account.settle()
            await account.stop()
            let catalog = "\(account.state)/catalog.db"
            try damage("excluded_places", catalog)
            #expect(try account.repair().findings.contains { $0.check == "exclusions" && $0.count == 2 })
            rules.globs = []
            try account.reopen()
            try await account.settle()
            #expect(try SourceFolder(account.source).snapshot() == ["sent": text("sent")])
            try account.tree.write("new", text("saved"))
            try account.tree.rename("new", "private")
            try await account.settle()
            #expect(try SourceFolder(account.source).snapshot() == ["sent": text("sent")])
            #expect(try account.tree.read("private") == text("saved"))
            #expect(Set(account.engine.excludedItems().map(\.path)) == ["private", "a.o"])
            await account.stop()
        }
    }
}
