import CoveCore
import CoveProviders
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// Folders whose listing takes long, and many requests.
@Suite struct LongListingTests {
    /// A folder `d` of pages with so many names each, behind a slow line; counts how often each page is asked for.
    private final class Pages {
        let engine: Engine
        let tree: EngineTree
        private let asked: Counts
        private let folders: [TemporaryDirectory]

        private final class Counts: Sendable { let counts = Mutex<[RemotePath: Int]>([:]) }

        init(
            _ count: Int,
            names: Int = 1,
            latency: TimeSpan = .zero,
            _ change: (inout EngineConfiguration) -> Void = { _ in }
        ) throws {
            folders = [try TemporaryDirectory("long"), try TemporaryDirectory("long-state")]
            let source = folders[0].path
            try SourceFolder(source).makeDirectory("d")
            let pages = (0..<count).map { page in
                let items = (0..<names).map { LongListingTests.item("file-\(page)-\($0)") }
                return Listing(items: items, next: nil)
            }
            let asked = Counts()
            let base = MeddledProvider(
                FolderProvider(root: source),
                show: { path in
                    asked.counts.withLock { $0[path, default: 0] += 1 }
                    return path.isRoot ? nil : pages
                },
                alter: { $0.stableIDs = false },
                isSilent: true
            )
            self.asked = asked
            engine = try Engine(
                configuration: .ofTest("dir://\(source)", state: folders[1].path, change),
                provider: SimulatedLink(base: base, latency: latency),
                log: Log(path: nil, echoToStandardError: false)
            )
            tree = EngineTree(engine)
            engine.start(kernel: nil, announcer: nil)
        }

        func asked(for path: String) -> Int {
            asked.counts.withLock { $0[RemotePath(unchecked: Array(path.utf8))] ?? 0 }
        }
    }

    private static func item(_ name: String) -> RemoteItem {
        RemoteItem(
            id: RemoteID("d/\(name)"),
            name: Array(name.utf8),
            kind: .file,
            size: 1,
            contentVersion: ContentVersion("v"),
            metadataVersion: MetadataVersion("m"),
            metadata: ItemMetadata()
        )
    }

    @Test(arguments: 0..<4) func `a name that was looked up before is not listed twice`(known: Int) async throws {
        try await blocking {
            let pages = try Pages(3, names: 4)
            let id = try pages.tree.resolve("d/file-1-\(known)")
            #expect(try pages.tree.list("d").count == 12)
            #expect(try pages.tree.resolve("d/file-1-\(known)") == id)
            await pages.engine.stop()
        }
    }

    @Test func `a listing takes as long as it takes, while names come in`() async throws {
        try await blocking {
            let pages = try Pages(20, latency: .milliseconds(150)) { $0.stallLimit = .seconds(1) }
            #expect(try pages.tree.list("d").count == 20)
            await pages.engine.stop()
        }
    }

    @Test func `a source that tells page after page holds nobody for good`() async throws {
        try await blocking {
            let pages = try Pages(250, latency: .milliseconds(40)) { $0.stallLimit = .milliseconds(200) }
            #expect(throws: Errno.timedOut) { try pages.tree.list("d") }
            await pages.engine.stop()
        }
    }

    @Test func `a folder whose names come in for the first time is not listed beside that`() async throws {
        try await blocking {
            let pages = try Pages(100, latency: .milliseconds(20)) { $0.pollInterval = .milliseconds(100) }
            #expect(try pages.tree.list("").count == 1)
            let before = pages.asked(for: "")
            #expect(try pages.tree.list("d").count == 100)
            #expect(pages.asked(for: "d") <= 100)
            // Others were looked at meanwhile.
            #expect(pages.asked(for: "") > before)
            await pages.engine.stop()
        }
    }

    @Test func `who has listed a folder of many pages need not look at it again at once`() {
        var budget = RequestBudget()
        func time(_ seconds: Double) -> MonotonicTime { MonotonicTime(0) + .seconds(Int64(seconds)) }
        budget.fill(at: time(0), rate: 2, limit: 30)
        #expect(budget.isLeftForLarge)
        for _ in 0..<2 { budget.spare(ItemID(7), 1001) }
        #expect(budget.large == [ItemID(7)] && !budget.isLeftForLarge && budget.isLeft)
        budget.fill(at: time(999), rate: 2, limit: 30)
        #expect(!budget.isLeftForLarge)
        // Twice did not count twice.
        budget.fill(at: time(1002), rate: 2, limit: 30)
        #expect(budget.isLeftForLarge)
    }

    @Test(arguments: [(0, 1), (1, 1), (1000, 1), (1001, 2), (2000, 2), (2001, 3)])
    func `a page counts for as many requests as it would be elsewhere`(items: Int, cost: Int) {
        let listing = Listing(items: Array(repeating: Self.item("a"), count: items), next: nil)
        #expect(RequestBudget.cost(of: listing) == cost)
    }

    @Test func `all names that were seen are known, and hardly any other`() {
        var names = SeenNames()
        for number in 0..<100_000 { names.insert(Array("name-\(number)".utf8)) }
        #expect((0..<100_000).allSatisfy { names.contains(Array("name-\($0)".utf8)) })
        #expect((0..<1000).allSatisfy { !names.contains(Array("other-\($0)".utf8)) })
        #expect(!SeenNames().contains([]))
    }
}
