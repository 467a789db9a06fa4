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
}
