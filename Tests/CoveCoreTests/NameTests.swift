import CoveCore
import CoveTestSupport
import Testing

@Suite struct NameTests {
    @Test(arguments: ["a", "ä", "...", ".hidden", "a b", "\n", String(repeating: "x", count: 255)])
    func `a directory may hold these names`(name: String) {
        #expect(FileName(name)?.bytes == Array(name.utf8))
    }

    @Test(arguments: ["", ".", "..", "a/b", "/", "a\0b", String(repeating: "x", count: 256)])
    func `a directory may not hold these names`(name: String) {
        #expect(FileName(name) == nil)
        #expect(FileName.problem(with: Array(name.utf8)) != nil)
    }

    @Test func `a name need not be UTF-8`() {
        #expect(FileName(validating: [0xFF, 0xFE])?.bytes == [0xFF, 0xFE])
    }

    @Test func `only .cove and .cove- are reserved`() {
        for name in [".cove", ".cove-incoming-1"] { #expect(FileName(name)?.isReserved == true) }
        for name in ["cove", ".cov", ".cover", ".coven-x", "a.cove"] { #expect(FileName(name)?.isReserved == false) }
    }

    @Test func `a text is put before the extension`() {
        #expect(FileName("a.txt")?.inserting(" 2").description == "a 2.txt")
        #expect(FileName("a")?.inserting(" 2").description == "a 2")
        #expect(FileName(".bashrc")?.inserting(" 2").description == ".bashrc 2")
        #expect(FileName("a.tar.gz")?.inserting(" 2").description == "a.tar 2.gz")
    }

    @Test func `putting a text in never makes a name too long or cuts a character`() {
        let long = String(repeating: "ä", count: 125) + ".txt"
        let name = FileName(long)?.inserting(" (conflict)")
        #expect((name?.bytes.count ?? 256) <= 255)
        #expect(name.flatMap { String(validating: $0.bytes, as: UTF8.self) }?.hasSuffix(" (conflict).txt") == true)
    }

    @Test func `paths join and split`() {
        let names = ["a", "b c", "d"].compactMap { FileName($0) }
        let path = RemotePath(names)
        #expect(path.bytes == Array("a/b c/d".utf8))
        #expect(path.names == names)
        #expect(path.name == names.last)
        #expect(path.parent.description == "a/b c")
        #expect(RemotePath.root.appending(names[0]).parent == .root)
        #expect(RemotePath.root.name == nil && RemotePath.root.description == "/")
        #expect(RemotePath.root.parent == .root)
    }

    @Test func `inside means at or below, by whole names`() {
        func path(_ text: String) -> RemotePath { RemotePath(unchecked: Array(text.utf8)) }
        #expect(path("a/b").isInside(path("a")))
        #expect(path("a").isInside(path("a")))
        #expect(path("a").isInside(.root))
        #expect(!path("ab").isInside(path("a")))
        #expect(!path("a").isInside(path("a/b")))
    }

    @Test func `document ids survive their text`() throws {
        for _ in 0..<100 {
            let id = DocumentID.random()
            #expect(DocumentID(id.description) == id)
        }
        #expect(DocumentID(high: 0, low: 1).description == String(repeating: "0", count: 31) + "1")
        #expect(DocumentID("xyz") == nil)
        #expect(DocumentID(String(repeating: "g", count: 32)) == nil)
    }

    @Test func `a hidden name tells since when, and what the item was called`() throws {
        let document = DocumentID.random()
        let time = Timestamp(seconds: 1_700_000_000, nanoseconds: 5)
        let name = try #require(FileName("Letter - 2.txt"))
        let passing = PassingName(document, since: time, original: name)
        #expect(passing.name.isPassing && passing.name.isReserved)
        #expect(PassingName(passing.name) == passing && passing.document == document)
        #expect(passing.original == name && passing.since?.seconds == 1_700_000_000)
        // A long name is cut, but no character of it.
        let long = try #require(FileName(String(repeating: "ü", count: 127)))
        let short = PassingName(document, since: time, original: long)
        #expect(short.name.bytes.count <= 255)
        #expect(short.original?.description == String(repeating: "ü", count: (short.original?.bytes.count ?? 0) / 2))
        // What earlier versions and others write.
        for text in ["\(document)", "", "\(document)-zz-x", "\(document)--x", "\(document)-ffffffffffffff-x", "x"] {
            let old = try #require(FileName(".cove-moving-\(text)"))
            let parsed = try #require(PassingName(old))
            #expect(parsed.since == nil && parsed.original == nil)
        }
        let reserved = try #require(FileName(".cove-moving-\(document)-1-.cove"))
        #expect(PassingName(reserved)?.original == nil)
        #expect(PassingName(name) == nil)
    }
}
