import CoveCore
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// Bytes that a document has again while others of it are on their way to the provider, where they replace those bytes.
@Suite struct ReplacedBytesTests {
    enum WayBack: CaseIterable { case rename, exchange }

    @Test(arguments: WayBack.allCases)
    func `bytes that are being replaced at the source are not dropped here`(way: WayBack) async throws {
        try await blocking {
            let held = HeldAnswer(of: "f", refusing: "g")
            let account = try EngineAccount(wrap: held.wrap) { $0.settleTime = .zero }
            let tree = account.tree
            try tree.write("f", Array("the only one".utf8))
            try await account.settle()
            held.arm()
            try tree.write("g", Array("new".utf8))
            try tree.exchange("g", "f")
            try waitUntil("the source has the new bytes") { held.hasArrived }
            #expect(try SourceFolder(account.source).snapshot()["f"] == Array("new".utf8))
            switch way {
            case .rename: try tree.rename("g", "f")
            case .exchange: try tree.exchange("g", "f")
            }
            #expect(await account.evict("f") == false, "the source has these bytes no more")
            #expect(try tree.read("f") == Array("the only one".utf8))
            held.answer()
            try await account.settle()
            #expect(try tree.read("f") == Array("the only one".utf8))
            var files = ["f": "the only one"]
            if way == .exchange { files["g"] = "new" }
            #expect(
                try SourceFolder(account.source).snapshot().mapValues { String(decoding: $0 ?? [], as: UTF8.self) }
                    == files
            )
            #expect(await account.evict("f"), "now it has them")
            #expect(try tree.read("f") == Array("the only one".utf8))
            await account.stop()
        }
    }

    @Test func `bytes that were being replaced when the power failed are kept beside the document`() async throws {
        try await blocking {
            let held = HeldAnswer(of: "f", refusing: "g")
            let account = try EngineAccount(wrap: held.wrap) { $0.settleTime = .zero }
            try account.tree.write("f", Array("the only one".utf8))
            try await account.settle()
            held.arm()
            try account.tree.write("g", Array("new".utf8))
            try account.tree.exchange("g", "f")
            try waitUntil("the source has the new bytes") { held.hasArrived }
            try account.tree.rename("g", "f")
            try await account.losePower(keepingBytes: true)
            held.answer()
            try await account.settle()
            let files = try SourceFolder(account.source).snapshot().mapValues {
                String(decoding: $0 ?? [], as: UTF8.self)
            }
            #expect(files.count == 2 && files["f"] == "new" && files.values.contains("the only one"), "\(files)")
            for (path, content) in files { #expect(try account.tree.read(path) == Array(content.utf8)) }
            await account.stop()
        }
    }

    @Test func `a file saved while the deletion before it is on its way is not looked for`() async throws {
        try await blocking {
            let held = HeldAnswer(of: "f")
            let account = try EngineAccount(wrap: held.wrap) { $0.settleTime = .zero }
            try account.tree.write("f", Array("before".utf8))
            try await account.settle()
            held.arm()
            try account.tree.unlink("f")
            try waitUntil("the source has the deletion") { held.hasArrived }
            try account.tree.write("f", Array("after".utf8))
            let misses = held.misses
            held.answer()
            try await account.settle()
            #expect(try SourceFolder(account.source).snapshot() == ["f": Array("after".utf8)])
            #expect(held.misses == misses)
            await account.stop()
        }
    }

    @Test func `bytes that a document has no more are not sent`() async throws {
        try await blocking {
            let account = try EngineAccount()
            let (tree, engine) = (account.tree, account.engine)
            let sync = try #require(engine.syncEngine)
            try tree.write("f", Array("the only one".utf8))
            try await account.settle()
            await engine.pause()
            try tree.write("g", Array("new".utf8))
            try tree.exchange("g", "f")
            let (entry, row) = try #require(
                try engine.catalog.read { database throws(Errno) -> (EntryRow, ItemRow)? in
                    guard let entry = try database.entry(atPath: RemotePath(unchecked: Array("f".utf8))) else {
                        return nil
                    }
                    return (entry, try database.existingItem(entry.item))
                }
            )
            var sent = UnderwayRow(entry, to: entry.place, row)
            sent.item = row.id
            // A push was planned, and now the document has its old bytes, which may be dropped here.
            try tree.exchange("g", "f")
            #expect(await account.evict("f"))
            let planned = sent
            #expect(throws: Errno.wouldBlock) { try sync.record(underway: planned) }
            await engine.resume()
            try await account.settle()
            #expect(try tree.read("f") == Array("the only one".utf8))
            #expect(try tree.read("g") == Array("new".utf8))
            await account.stop()
        }
    }
}
