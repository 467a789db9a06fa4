import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// Permissions and attributes that were changed here, and are not sent yet.
@Suite struct UnsentMetadataTests {
    @Test(arguments: [true, false])
    func `what was changed of a file beside its bytes outlives another device's bytes`(isSeenFirst: Bool) async throws {
        try await blocking {
            let account = try EngineAccount { $0.settleTime = .zero }
            let (engine, tree, source) = (account.engine, account.tree, SourceFolder(account.source))
            try tree.write("doc", Array("base".utf8))
            func set(_ name: String, _ value: String) throws {
                let (name, value) = (Array(name.utf8), Array(value.utf8))
                try engine.setExtendedAttribute(tree.resolve("doc"), name, value, flags: 0, tree.caller)
            }
            try set("user.old", "old")
            try await account.settle()
            if isSeenFirst { await engine.pause() } else { try await account.setOffline(true) }
            var change = AttributeChange()
            change.permissions = 0o640
            _ = try engine.setAttributes(of: tree.resolve("doc"), change, hasHandle: false, tree.caller)
            try set("user.new", "new")
            try engine.removeExtendedAttribute(tree.resolve("doc"), Array("user.old".utf8), tree.caller)
            try source.save("doc", Array("theirs".utf8))
            if isSeenFirst {
                await engine.sync(nil, acceptDeletions: false, acceptLocalDeletions: false)
                try waitUntil("the other bytes are here") { (try? tree.read("doc")) == Array("theirs".utf8) }
                await engine.resume()
            } else {
                try await account.setOffline(false)
            }
            try await account.settle()
            let id = try tree.resolve("doc")
            #expect(try tree.read("doc") == Array("theirs".utf8))
            #expect(try engine.attributes(of: id).permissions == 0o640)
            #expect(try engine.extendedAttribute(id, Array("user.new".utf8)) == Array("new".utf8))
            #expect(throws: Errno.self) { try engine.extendedAttribute(id, Array("user.old".utf8)) }
            #expect(try source.snapshot() == ["doc": Array("theirs".utf8)])
            #expect(try System.lstat("\(account.source)/doc").st_mode & 0o7777 == 0o640)
            let there = try System.attribute(Array("\(account.source)/doc".utf8), Array("user.new".utf8))
            #expect(there == Array("new".utf8))
            await account.stop()
        }
    }
}
