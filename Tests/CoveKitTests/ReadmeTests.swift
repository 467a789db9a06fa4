import CoveKit
import CoveTestSupport
import Foundation
import Testing

// The example of the catalog's first page.
@MainActor final class Note: Document, @unchecked Sendable {
    var text = ""
    override func contents(forType type: String) async throws -> FileContents { .file(Data(text.utf8)) }
    override func load(fromContents contents: FileContents, ofType type: String) async throws {
        text = String(decoding: contents.data ?? Data(), as: UTF8.self)
    }
}

@MainActor func shop(_ url: URL) async throws {
    let note = Note(fileURL: url)
    try await note.open()  // fetches, reads, loads, and follows the file from now on
    note.text += "\nmilk"
    note.updateChangeCount(.done)  // saved by itself within 10 s, or when another program reads the file
    try await note.close()

    let bought = Data("nothing".utf8)
    let coordinator = FileCoordinator()  // one for each operation
    try await coordinator.coordinate(writingItemAt: url) { url in try bought.write(to: url) }
}

/// What the first page of the library's catalog says of it.
struct ReadmeTests {
    /// A text whatever its spaces and lines.
    private static func words(_ text: String) -> String {
        text.split(whereSeparator: \.isWhitespace).joined(separator: " ")
    }

    @Test func `the example is this one, and works`() async throws {
        let here = URL(fileURLWithPath: #filePath)
        let page = here.appendingPathComponent("../../../Sources/CoveKit/CoveKit.docc/CoveKit.md").standardizedFileURL
        let examples = try swiftExamples(of: page)
        #expect(examples.count == 2 && examples.first?.hasPrefix("// swift-tools-version") == true)
        let example = try #require(examples.last)
        let lines = example.split(separator: "\n").filter { !$0.hasPrefix("import ") }
        #expect(Self.words(try text(here)).contains(Self.words(lines.joined(separator: "\n"))))
        let folder = try Folder()
        let url = try folder.make("list.txt", "eggs")
        try await shop(url)
        #expect(try text(url) == "nothing")
    }

    @Test func `bits are those of the field`() {
        let reading: [FileCoordinator.ReadingOptions] = [
            .withoutChanges, .resolvesSymbolicLink, .immediatelyAvailableMetadataOnly, .forUploading,
        ]
        #expect(reading.map(\.rawValue) == [1, 2, 4, 8])
        let writing: [FileCoordinator.WritingOptions] = [
            .forDeleting, .forMoving, .forMerging, .forReplacing, .contentIndependentMetadataOnly,
        ]
        #expect(writing.map(\.rawValue) == [1, 2, 4, 8, 16])
        let states: [Document.State] = [
            .normal, .closed, .inConflict, .savingError, .editingDisabled, .progressAvailable,
        ]
        #expect(states.map(\.rawValue) == [0, 1, 2, 4, 8, 16])
        #expect([Document.SaveOperation.forCreating, .forOverwriting].map(\.rawValue) == [0, 1])
        #expect([Document.ChangeKind.done, .undone, .redone, .cleared].map(\.rawValue) == [0, 1, 2, 3])
    }

    @Test func `a program links neither engine nor libraries of the mount`() async throws {
        try await blocking {
            for name in ["TextDocument", "ResolveConflict", "FindOrCreate", "DocumentPicker", "CoveKitDriver"] {
                let program = try Command.built(name)
                let libraries = try Command.run("ldd", [program]).output
                #expect(libraries.contains("libFoundation.so"))
                for library in ["fuse", "sqlite", "curl", "expat", "crypto", "ssl"] {
                    #expect(!libraries.contains(library), "\(name) links \(library)")
                }
                let symbols = try Command.run("grep", ["-c", "-a", "10CoveEngine", program], mayFail: true)
                #expect(symbols.output == "0\n")
            }
        }
    }
}
