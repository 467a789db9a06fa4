import CoveCore
import CoveTestSupport
import Testing

@testable import CoveEngine

/// Names that stay on this device.
@Suite struct LocalNameTests {
    private func text(_ string: String) -> [UInt8] { Array(string.utf8) }

    @Test(arguments: [
        ".doc.txt.swp", ".doc.txt.swo", ".doc.txt.swa", ".doc.txt.swx", ".doc.swpx", ".swp", ".bashrc.swp", ".#doc.txt",
        "#doc.txt#",
        "#*mail*#", "doc.txt~", "doc.txt.~3~", ".~lock.letter.odt#", "lu31396urp8.tmp", "lu7a.tmp",
        ".goutputstream-Y7M4Y3", ".nfs00000000001f2a3b00000004", ".fuse_hidden000000070000000c",
        ".letter.rtfd.cove-save-0",
    ])
    func `scratch files of programs stay here`(name: String) {
        #expect(NamePatterns([]).matches(text(name), .file))
        #expect(NamePatterns([]).matches(text(name), .directory) == name.contains("cove-save"))
    }

    @Test(arguments: [
        "film.swf", "x.swt", "x.swp", "a.sw", "x.swift", ".a.swift", ".x.swt", ".a.svg", "4913", "#1", "#", "##", "~",
        ".#",
        "lunch.tmp", "lu.tmp", "lu2026 menu.tmp", "lu12.TMP", ".goutputstream-", ".goutputstream-notes", ".nfsrc",
        ".nfs",
        ".nfs-exports", ".fuse_hidden.conf", ".~lock.#", "~$letter.docx", "a.cove-save-1", ".a.cove-save-10",
    ])
    func `documents whose names resemble those are sent`(name: String) {
        #expect(!NamePatterns([]).matches(text(name), .file))
    }

    @Test func `a person's globs hold for files and directories`() {
        let patterns = NamePatterns(["node_modules", "*.o"])
        for name in ["node_modules", "a.o"] {
            #expect(patterns.matches(text(name), .file) && patterns.matches(text(name), .directory))
        }
        #expect(!patterns.matches(text("+(a).o.c"), .file) && !NamePatterns(["+(a)"]).matches(text("aa"), .file))
    }

    @Test func `a scratch file of the source is found in a directory never listed`() async throws {
        try await blocking {
            let account = try EngineAccount()
            try SourceFolder(account.source).makeDirectory("d")
            try SourceFolder(account.source).save("d/doc~", text("older"))
            #expect(try account.tree.read("d/doc~") == text("older"))
            await account.stop()
        }
    }

    @Test func `what stayed here is sent once its name stays here no more`() async throws {
        try await blocking {
            final class Rules { var globs = ["*.o", "build"] }
            let rules = Rules()
            let account = try EngineAccount { $0.ignoredNames = rules.globs }
            let source = SourceFolder(account.source)
            for (name, content) in [("a.o", "object"), ("a.c", "code"), ("a.c~", "older")] {
                try account.tree.write(name, text(content))
            }
            try account.tree.makeDirectory("build")
            try account.tree.makeDirectory("build/deep")
            try account.tree.write("build/deep/b.c", text("made"))
            try await account.settle()
            #expect(try source.snapshot() == ["a.c": text("code")])
            // What is in a folder that stays here waits for nothing.
            for path in ["a.o", "build", "build/deep", "build/deep/b.c"] {
                let status = try account.engine.item(at: RemotePath(unchecked: text(path)))
                #expect(status.state == "local" && !status.isDirty, "\(path)")
            }
            rules.globs = []
            try await account.restart { _ in }
            try await account.settle()
            #expect(
                try source.snapshot() == [
                    "a.c": text("code"), "a.o": text("object"), "build": nil, "build/deep": nil,
                    "build/deep/b.c": text("made"),
                ]
            )
            await account.stop()
        }
    }
}
