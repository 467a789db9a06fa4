import CoveCore
import CoveTestSupport
import Synchronization
import Testing

@testable import CoveProviders

/// Who has changed a file last, as it is kept with the object.
@Suite(.serialized, .timeLimit(.minutes(30)))
struct S3EditorTests {
    /// Takes bytes, and who made them.
    private final class EditorSink: ContentSink {
        let bytes = MemorySink()
        private let state = Mutex<[String]>([])

        var editors: [String] { state.withLock { $0 } }

        func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(ProviderError) {
            try self.bytes.write(bytes, at: offset)
        }

        func copy(from descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int {
            try bytes.copy(from: descriptor, at: offset, count: count)
        }

        func note(editor: String, of version: ContentVersion) { state.withLock { $0.append("\(editor) \(version)") } }
    }

    private func save(_ provider: S3Provider, _ text: String, over item: RemoteItem) async throws -> RemoteItem {
        try await provider.modify(
            provider.reference("f", item),
            base: item.contentVersion,
            metadata: ItemMetadata(),
            content: MemorySource(text)
        )
    }

    @Test func `a look at an object and its bytes tell who wrote it, whatever moves or describes it`() async throws {
        let source = try S3Source(try S3ServerKind.seaweedFS.server())
        let ada = try S3Provider(source.address, editor: "Ada's läptop")
        let grace = try S3Provider(source.address, editor: "grace", pieceSize: 64 << 10)
        let nobody = try S3Provider(source.address)
        for provider in [ada, grace, nobody] { try await provider.start() }
        let path = RemotePath([FileName(unchecked: Array("f".utf8))])

        #expect(try await ada.make("f", "one").editor == "Ada's läptop")
        let made = try #require(try await grace.find(path))
        #expect(made.editor == "Ada's läptop")
        // A listing tells none: nothing is asked of each object for it.
        #expect(try await grace.list(.root, page: nil).items.first { $0.name == Array("f".utf8) }?.editor == nil)
        let sink = EditorSink()
        try await grace.fetch(grace.reference("f", made), version: made.contentVersion, range: 0..<3, into: sink)
        #expect(sink.editors == ["Ada's läptop \(made.contentVersion)"])

        // In one piece and in parts.
        #expect(try await save(grace, "two", over: made).editor == "grace")
        let small = try #require(try await ada.find(path))
        #expect(small.editor == "grace")
        let large = try await save(grace, String(repeating: "x", count: 200_000), over: small)
        #expect(large.editor == "grace" && large.size == 200_000)

        // Who gives it another mode or another place has not changed what is in it.
        let described = try await ada.modify(
            ada.reference("f", large),
            base: large.contentVersion,
            metadata: ItemMetadata(permissions: 0o600),
            content: nil
        )
        #expect(described.editor == "grace")
        let name = FileName(unchecked: Array("g".utf8))
        let moved = try await ada.move(
            ada.reference("f", described),
            base: described.contentVersion,
            to: .root,
            name: name
        )
        #expect(try await nobody.find(RemotePath([name]))?.editor == "grace")

        // A device without a name takes the former one's away.
        let last = try await nobody.modify(
            nobody.reference("g", moved),
            base: moved.contentVersion,
            metadata: ItemMetadata(),
            content: MemorySource("three")
        )
        #expect(last.editor == nil)
        #expect(try await ada.find(RemotePath([name]))?.editor == nil)
    }

    @Test func `what others write there is no name, or one that is only shown`() throws {
        func editor(_ value: String) throws -> String? {
            var head = HTTPHead(status: 200)
            head.add("content-length", "1")
            head.add(S3Object.editorHeader, value)
            let object = try S3Object(key: Array("f".utf8), head: head)
            return object.item(at: RemotePath([FileName(unchecked: Array("f".utf8))])).editor
        }
        #expect(try editor("%zz") == nil)
        #expect(try editor("a%00%1Bb") == "a\u{0}\u{1B}b")
        #expect(try editor("%FF") == "\u{FFFD}")
        #expect("a\u{0}\u{1B}b".shownName.unicodeScalars.allSatisfy { $0.value >= 0x20 })
        #expect(("e" + String(repeating: "\u{301}", count: 1000)).shownName.unicodeScalars.count == 100)
    }
}
