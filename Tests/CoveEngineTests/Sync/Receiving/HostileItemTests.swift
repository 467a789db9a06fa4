import CoveCore
import CoveProviders
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// Items as a source should not tell of them.
@Suite(.timeLimit(.minutes(10))) struct HostileItemTests {
    private static func item(_ name: String, id: String, _ metadata: ItemMetadata = ItemMetadata()) -> RemoteItem {
        RemoteItem(
            id: RemoteID(id),
            name: Array(name.utf8),
            kind: .file,
            size: 3,
            contentVersion: ContentVersion("v"),
            metadataVersion: MetadataVersion("m"),
            metadata: metadata
        )
    }

    private static func start(
        on provider: any Provider,
        _ folder: TemporaryDirectory,
        _ state: TemporaryDirectory
    ) throws -> (Engine, EngineTree) {
        let configuration = EngineConfiguration.ofTest("dir://\(folder.path)", state: state.path) {
            $0.pollInterval = .milliseconds(30)
        }
        let log = Log(path: nil, echoToStandardError: false)
        let engine = try Engine(configuration: configuration, provider: provider, log: log)
        engine.start(kernel: nil, announcer: nil)
        return (engine, EngineTree(engine))
    }

    @Test(arguments: [1, 2], [false, true])
    func `of two items with one id the first stays, and of the other it is told`(
        pages: Int,
        isKnown: Bool
    ) async throws {
        try await blocking {
            let (folder, state) = (try TemporaryDirectory("twins"), try TemporaryDirectory("twins-state"))
            try SourceFolder(folder.path).makeDirectory("d")
            func listings(_ second: String) -> [Listing] {
                let items = [Self.item("a", id: "one"), Self.item("b", id: second), Self.item("c", id: "three")]
                if pages == 1 { return [Listing(items: items, next: nil)] }
                return [Listing(items: [items[0]], next: nil), Listing(items: Array(items[1...]), next: nil)]
            }
            let told = Mutex(listings(isKnown ? "two" : "one"))
            let looks = Atomic(0)
            let provider = MeddledProvider(
                FolderProvider(root: folder.path),
                show: { path in
                    if path.isRoot { return nil }
                    looks.add(1, ordering: .relaxed)
                    return told.withLock { $0 }
                },
                isSilent: true
            )
            let (engine, tree) = try Self.start(on: provider, folder, state)
            func names() throws -> [String] { try tree.list("d").keys.sorted() }
            #expect(try names() == (isKnown ? ["a", "b", "c"] : ["a", "c"]))
            let first = try engine.item(at: RemotePath(unchecked: Array("d/a".utf8))).documentID
            if isKnown { told.withLock { $0 = listings("one") } }
            try waitUntil("it is told of the second") { engine.accountStatus().errors.map(\.path) == ["d/b"] }
            let before = looks.load(ordering: .relaxed)
            try waitUntil("it is listed again and again") {
                let now = try engine.item(at: RemotePath(unchecked: Array("d/a".utf8))).documentID
                let shown = try names()
                #expect(now == first && shown.contains("a") && shown.contains("c"))
                return looks.load(ordering: .relaxed) > before + 10
            }
            told.withLock { $0 = listings("another") }
            try waitUntil("the second is there when it has an id of its own") {
                try names() == ["a", "b", "c"] && engine.accountStatus().errors.isEmpty
            }
            await engine.stop()
        }
    }

    @Test func `of a source's attributes those are kept that a program could have set`() async throws {
        @Sendable func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }
        let longest = bytes("user.") + [UInt8](repeating: 0x61, count: 250)
        let good: [[UInt8]: [UInt8]] = [
            bytes("user.a"): [1], longest: [2], bytes("user.large"): [UInt8](repeating: 3, count: 65536),
            bytes("user.cove.tags"): [4], bytes("user.empty"): [],
        ]
        let bad: [[UInt8]: [UInt8]] = [
            bytes("user."): [1], longest + [0x61]: [1], bytes("user.a\0b"): [1], bytes("trusted.a"): [1], []: [1],
        ]
        // What programs are not shown is sent back to a source all the same.
        let unseen: [[UInt8]: [UInt8]] = [
            bytes("user.cove.unheard-of"): [1], bytes("user.larger"): [UInt8](repeating: 3, count: 65537),
        ]
        #expect(Namespace.admissible(good) == good)
        #expect(Namespace.admissible(good.merging(bad) { first, _ in first }) == good)
        let many = Dictionary(uniqueKeysWithValues: (100_000..<120_000).map { (bytes("user.\($0)"), [UInt8(1)]) })
        // Both ways in: what is new, and what changes.
        try await blocking {
            let (folder, state) = (try TemporaryDirectory("attributes"), try TemporaryDirectory("attributes-state"))
            try SourceFolder(folder.path).makeDirectory("d")
            let told = Mutex(
                ItemMetadata(extendedAttributes: good.merging(bad.merging(unseen) { $1 }) { first, _ in first })
            )
            let provider = MeddledProvider(
                FolderProvider(root: folder.path),
                show: { path in
                    guard !path.isRoot else { return nil }
                    let metadata = told.withLock { $0 }
                    var item = Self.item("f", id: "f", metadata)
                    item.metadataVersion = MetadataVersion("\(metadata.extendedAttributes?.count ?? 0)")
                    return [Listing(items: [item], next: nil)]
                },
                alter: { $0.extendedAttributes = true },
                isSilent: true
            )
            let (engine, tree) = try Self.start(on: provider, folder, state)
            func names() throws -> Set<[UInt8]> {
                let names = try engine.extendedAttributeNames(tree.resolve("d/f"), tree.caller)
                return Set(names.split(separator: 0).map { Array($0) })
            }
            #expect(try tree.list("d").count == 1)
            #expect(try names() == Set(good.keys))
            told.withLock { $0.extendedAttributes?[bytes("user.new")] = [5] }
            try waitUntil("a change is seen") { try names().contains(bytes("user.new")) }
            #expect(try names() == Set(good.keys).union([bytes("user.new")]))
            let item = try tree.resolve("d/f")
            let kept = try engine.catalog.read { database throws(Errno) in
                try database.all("SELECT name FROM xattrs WHERE item = ?", .item(item)) { $0.blob(0) }
            }
            #expect(Set(kept).isSuperset(of: unseen.keys) && Set(kept).isDisjoint(with: bad.keys))
            // As many as listxattr(2) can tell.
            told.withLock { $0.extendedAttributes = many }
            try waitUntil("as many are told as can be", deadline: 60) {
                let told = try engine.extendedAttributeNames(item, tree.caller).count
                #expect(told <= 65536)
                return told > 65000
            }
            await engine.stop()
        }
    }
}
