import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// What a person keeps out of the cloud.
@Suite(.timeLimit(.minutes(5))) struct ExclusionTests {
    private func text(_ string: String) -> [UInt8] { Array(string.utf8) }

    private func path(_ text: String) -> RemotePath { RemotePath(unchecked: Array(text.utf8)) }

    private func account(_ body: @escaping @Sendable (EngineAccount, SourceFolder) async throws -> Void) async throws {
        try await blocking {
            let account = try EngineAccount()
            do {
                try await body(account, SourceFolder(account.source))
            } catch {
                await account.stop()
                throw error
            }
            await account.stop()
            #expect(try account.repair() == RepairReport())
        }
    }

    @Test func `a file that is excluded goes from the cloud and stays here, until it is included`() async throws {
        try await account { account, source in
            for name in ["a", "b"] { try account.tree.write(name, text(name)) }
            try await account.settle()
            let before = try account.tree.resolve("a")
            try await account.engine.setExcluded(path("a"), true)
            try await account.settle()
            #expect(try source.snapshot() == ["b": text("b")])
            #expect(try account.tree.read("a") == text("a") && account.tree.resolve("a") == before)
            let status = try account.engine.item(at: path("a"))
            #expect(status.state == "local" && !status.isDirty && status.remoteID == nil)
            try account.tree.write("a", text("changed"))
            try await account.settle()
            #expect(try source.snapshot() == ["b": text("b")])
            try await account.crash()
            try await account.settle()
            #expect(try account.tree.read("a") == text("changed") && source.snapshot() == ["b": text("b")])
            try await account.engine.setExcluded(path("a"), false)
            try await account.settle()
            #expect(try source.snapshot() == ["a": text("changed"), "b": text("b")])
        }
    }

    @Test func `what is not here is fetched before it leaves the cloud`() async throws {
        try await account { account, source in
            try source.save("far", text("bytes"))
            try await account.settle()
            #expect(try account.tree.list("").count == 1)
            #expect(throws: Errno.wouldBlock) {
                try account.engine.namespace.setExcluded(account.tree.resolve("far"), true)
            }
            try await account.engine.setExcluded(path("far"), true)
            try await account.settle()
            #expect(try source.snapshot().isEmpty)
            #expect(try account.tree.read("far") == text("bytes"))
        }
    }

    @Test func `what an excluded folder has stays here with it, however deep, and is sent in the end`() async throws {
        try await account { account, source in
            try account.tree.makeDirectory("d")
            try await account.settle()
            // An empty one may be in the cloud.
            try await account.engine.setExcluded(path("d"), true)
            try account.tree.makeDirectory("d/e")
            try account.tree.write("d/e/f", text("deep"))
            try await account.settle()
            #expect(try source.snapshot().isEmpty)
            let status = try account.engine.item(at: path("d/e/f"))
            #expect(status.state == "local" && !status.isDirty)
            try account.tree.rename("d", "moved")
            try await account.settle()
            #expect(try source.snapshot().isEmpty)
            try await account.engine.setExcluded(path("moved"), false)
            try await account.settle()
            #expect(try source.snapshot() == ["moved": nil, "moved/e": nil, "moved/e/f": text("deep")])
            for name in ["moved", "moved/e"] {
                await #expect(throws: Errno.notEmpty) { try await account.engine.setExcluded(path(name), true) }
            }
            #expect(try source.snapshot().count == 3)
        }
    }

    @Test func `saves of an excluded file stay here, however programs save`() async throws {
        try await account { account, source in
            try account.tree.write("f", text("first"))
            try await account.engine.setExcluded(path("f"), true)
            let tree = account.tree
            let saves: [(String, () throws -> Void)] = [
                ("in place", { try tree.write("f", text("in place")) }),
                (
                    "by rename",
                    {
                        try tree.write("f.new", text("by rename"))
                        try tree.rename("f.new", "f")
                    }
                ),
                (
                    "by backup",
                    {
                        try tree.rename("f", "f.bak")
                        try tree.write("f", text("by backup"))
                        try tree.unlink("f.bak")
                    }
                ),
                (
                    "by unlink",
                    {
                        try tree.unlink("f")
                        try tree.write("f", text("by unlink"))
                    }
                ),
                (
                    "by exchange",
                    {
                        try tree.write("f.new", text("by exchange"))
                        try tree.exchange("f.new", "f")
                        try tree.unlink("f.new")
                    }
                ),
                (
                    "by link",
                    {
                        _ = try account.engine.link(tree.resolve("f"), .root, text("f.old"), .unknown)
                        try tree.write("f.new", text("by link"))
                        try tree.rename("f.new", "f")
                        try tree.unlink("f.old")
                    }
                ),
            ]
            for (name, save) in saves {
                try save()
                try await account.settle()
                #expect(try source.snapshot().isEmpty, "saved \(name)")
                #expect(try tree.read("f") == text(name))
                #expect(try account.engine.namespace.isExcluded(tree.resolve("f")), "saved \(name)")
            }
            try tree.rename("f", "g")
            try tree.write("other", text("another document"))
            try await account.settle()
            #expect(try source.snapshot() == ["other": text("another document")])
        }
    }

    @Test(arguments: [true, false])
    func `what is in the cloud is not stranded in a folder that stays here`(isExcluded: Bool) async throws {
        try await blocking { [self] in
            let account = try EngineAccount { $0.ignoredNames = ["stays"] }
            let (tree, source) = (account.tree, SourceFolder(account.source))
            for name in ["a", "b"] { try tree.write(name, text(name)) }
            try tree.makeDirectory("d")
            try await account.settle()
            let stays = isExcluded ? "kept" : "stays"
            try tree.makeDirectory(stays)
            if isExcluded { try await account.engine.setExcluded(path(stays), true) }
            try tree.makeDirectory("\(stays)/deep")
            for (from, to) in [("a", "\(stays)/a"), ("a", "\(stays)/deep/a"), ("d", "\(stays)/d")] {
                #expect(throws: Errno.crossDevice) { try tree.rename(from, to) }
            }
            try tree.write("\(stays)/new", text("new"))
            #expect(throws: Errno.crossDevice) { try tree.exchange("\(stays)/new", "b") }
            // What was never sent moves, whether it is on its way or not, and comes back as a new document.
            for index in 0..<20 {
                try tree.write("f\(index)", [UInt8](repeating: 7, count: 50_000))
                try tree.rename("f\(index)", "\(stays)/deep/f\(index)")
            }
            try tree.rename("\(stays)/new", "new")
            try await account.settle()
            #expect(try source.snapshot() == ["a": text("a"), "b": text("b"), "d": nil, "new": text("new")])
            #expect(try tree.list("\(stays)/deep").count == 20)
            await account.stop()
            #expect(try account.repair() == RepairReport())
        }
    }

    @Test func `what is excluded while it is on its way goes again when it has arrived`() async throws {
        try await account { account, source in
            for index in 0..<20 {
                let name = "f\(index)"
                try account.tree.write(name, [UInt8](repeating: 7, count: 100_000))
                try await account.engine.setExcluded(path(name), true)
            }
            try account.tree.makeDirectory("d")
            try await account.engine.setExcluded(path("d"), true)
            try await account.settle()
            #expect(try source.snapshot().isEmpty)
            #expect(try account.tree.list("").count == 21)
            #expect(try account.engine.catalog.read { database throws(Errno) in try database.underway().count } == 0)
        }
    }

    @Test(arguments: [true, false])
    func `what another device makes of its name takes nothing from it`(isListed: Bool) async throws {
        try await account { account, source in
            if isListed { #expect(try account.tree.list("").isEmpty) }
            try account.tree.write("f", text("mine"))
            try account.tree.makeDirectory("d")
            try await account.engine.setExcluded(path("d"), true)
            try account.tree.write("d/in", text("secret"))
            try await account.settle()
            try await account.engine.setExcluded(path("f"), true)
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
                let isFile = name.hasPrefix("f")
                #expect(try account.tree.read(isFile ? name : name + "/in") == text(isFile ? "mine" : "secret"))
                #expect(try account.engine.namespace.isExcluded(account.tree.resolve(name)))
            }
            #expect(try source.snapshot() == theirs)
        }
    }

    @Test func `a change of another device is not deleted with what is excluded`() async throws {
        try await account { account, source in
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
}
