import CoveCore
import CoveTestSupport
import Testing

@testable import CoveEngine

/// Packages that two devices changed at once: they are sent file by file.
@Suite struct PackageConflictTests {
    private func text(_ string: String) -> [UInt8] { Array(string.utf8) }

    @Test func `a package that two devices changed has what each did, and copies where both did`() async throws {
        try await blocking {
            let folder = try TemporaryDirectory("package")
            let source = SourceFolder(folder.path)
            try source.makeDirectory("P.rtfd")
            for name in ["a", "b", "both"] { try source.save("P.rtfd/\(name)", text("old")) }
            try await SourceAccount.with("dir://\(folder.path)") { one in
                try await SourceAccount.with("dir://\(folder.path)") { other in
                    for account in [one, other] {
                        #expect(try account.tree.list("P.rtfd").count == 3)
                        for name in ["a", "b", "both"] { #expect(try account.text("P.rtfd/\(name)") == "old") }
                        await account.engine.pause()
                    }
                    try one.tree.write("P.rtfd/a", text("one"))
                    try one.tree.write("P.rtfd/both", text("one"))
                    try other.tree.write("P.rtfd/b", text("other"))
                    try other.tree.write("P.rtfd/both", text("other"))
                    for account in [one, other, one] {
                        await account.engine.resume()
                        #expect(await account.sync().errors == [])
                    }
                    for account in [one, other] {
                        func texts() throws -> [String] {
                            try ["a", "b", "both"].map { try account.text("P.rtfd/\($0)") }
                        }
                        // Each looks at the source when it is asked to.
                        for _ in 0..<10 where try texts() != ["one", "other", "one"] { _ = await account.sync() }
                        #expect(try texts() == ["one", "other", "one"])
                        let files = try account.tree.list("P.rtfd").keys.filter { ConflictName(text($0)) != nil }
                        #expect(try files.map { try account.text("P.rtfd/\($0)") } == ["other"])
                        #expect(try account.tree.list("").keys.sorted() == ["P.rtfd"])
                        #expect(account.engine.conflicts().map(\.path) == ["P.rtfd/both"])
                    }
                }
            }
        }
    }
}
