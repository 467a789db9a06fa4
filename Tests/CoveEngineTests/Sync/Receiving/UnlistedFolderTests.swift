import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// Folders that programs only looked into by name.
@Suite struct UnlistedFolderTests {
    @Test(arguments: ["by itself", "by cove sync", "after a restart"])
    func `a file in a folder that nobody ever listed is what the source has`(how: String) async throws {
        try await blocking {
            let account = try EngineAccount()
            let source = SourceFolder(account.source)
            try source.makeDirectory("d")
            try source.makeDirectory("d/below")
            for name in ["changed", "removed", "below/changed"] { try source.save("d/\(name)", Array("old".utf8)) }
            for name in ["changed", "removed", "below/changed"] {
                #expect(try account.tree.read("d/\(name)") == Array("old".utf8))
            }
            if how == "after a restart" { await account.stop() }
            for name in ["changed", "below/changed"] { try source.save("d/\(name)", Array("newer".utf8)) }
            try source.remove("d/removed")
            switch how {
            case "after a restart": try account.reopen()
            case "by cove sync": try await account.settle()
            default: break
            }
            let (engine, tree) = (account.engine, account.tree)
            for name in ["changed", "below/changed"] {
                try waitUntil("\(name) is the new one") { try tree.read("d/\(name)") == Array("newer".utf8) }
            }
            try waitUntil("it is gone") { (try? tree.resolve("d/removed")) == nil }
            let folder = try tree.resolve("d")
            let row = try engine.catalog.read { database throws(Errno) in try database.item(folder) }
            #expect(row?.residency != .whole)
            await account.stop()
        }
    }

    @Test func `a folder that moved at the source is listed again with what left it here only`() async throws {
        try await blocking {
            let account = try EngineAccount()
            for path in ["d", "d/x", "d/x/in", "other"] { try account.tree.makeDirectory(path) }
            try await account.settle()
            let (engine, tree) = (account.engine, account.tree)
            await engine.pause()
            try tree.rename("d/x", "y")
            try tree.rename("other", "d/other")
            let folder = try tree.resolve("d")
            let sync = try #require(engine.syncEngine)
            let changes = try engine.catalog.read { database throws(Errno) in
                try sync.listings(below: folder, database)
            }
            let paths = Set(changes.map { "\($0.directory)" })
            #expect(paths == ["d", "d/x", "d/x/in"])
            await account.stop()
        }
    }

    @Test(.timeLimit(.minutes(1))) func `folders that are in each other for a moment are each listed once`()
        async throws
    {
        try await blocking {
            let account = try EngineAccount()
            for path in ["y", "y/x"] { try account.tree.makeDirectory(path) }
            try await account.settle()
            let (engine, tree) = (account.engine, account.tree)
            await engine.pause()
            try tree.rename("y", "z")
            let (outer, inner) = (try tree.resolve("z"), try tree.resolve("z/x"))
            let sync = try #require(engine.syncEngine)
            let changes = try engine.catalog.write { database throws(Errno) in
                try database.run("UPDATE entries SET remote_parent = ? WHERE item = ?", .item(inner), .item(outer))
                let found = try sync.listings(below: outer, database)
                try database.run("UPDATE entries SET remote_parent = 1 WHERE item = ?", .item(outer))
                return found
            }
            #expect(changes.isEmpty)
            await account.stop()
        }
    }

    @Test func `what comes into a folder that both sides moved, there into one nobody listed, is there`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try account.tree.makeDirectory("d")
            try account.tree.makeDirectory("d/x")
            try await account.settle()
            let (engine, tree, source) = (account.engine, account.tree, SourceFolder(account.source))
            await engine.pause()
            try tree.rename("d/x", "y")
            try source.makeDirectory("n")
            try source.rename("d/x", "n/x")
            try source.makeDirectory("n/x/new")
            try waitUntil("the new folder is here, and all that was told is taken in") {
                let isBusy = engine.syncEngine?.shared.withLock { $0.isBusy } ?? true
                return try !isBusy && tree.list("").keys.contains("n")
            }
            _ = try tree.list("n")
            await engine.resume()
            try waitUntil("all is there") { try tree.list("y").keys.contains("new") }
            try await account.settle()
            #expect(FileManager.default.fileExists(atPath: account.source + "/y/new"))
            await account.stop()
        }
    }
}
