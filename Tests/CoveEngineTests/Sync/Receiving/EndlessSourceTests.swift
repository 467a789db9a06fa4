import CoveCore
import CoveProviders
import CoveTestSupport
import Foundation
import Synchronization
import Testing

@testable import CoveEngine

/// Sources whose pages, changes or expired anchors never end.
@Suite(.timeLimit(.minutes(10))) struct EndlessSourceTests {
    /// How a source goes on and on.
    enum Way: String, CaseIterable, Sendable {
        case inACircle, withNothing, withTheSame

        /// A place that is another one than the last, and may have been there before.
        func place(after last: [UInt8]?) -> [UInt8] {
            guard self == .inACircle else { return Array("\(UInt64.random(in: 0 ... .max))".utf8) }
            return last == [1] ? [2] : [1]
        }
    }

    /// An account over a folder with `d/f` and `e/f`, which is asked again every tenth of a second.
    private final class Account {
        let folder: TemporaryDirectory
        let source: SourceFolder
        let engine: Engine
        let tree: EngineTree
        private let state: TemporaryDirectory

        init(_ wrap: (any Provider) -> any Provider) throws {
            folder = try TemporaryDirectory("endless")
            state = try TemporaryDirectory("endless-state")
            source = SourceFolder(folder.path)
            for name in ["d", "e"] {
                try source.makeDirectory(name)
                try source.save("\(name)/f", Array("one".utf8))
            }
            let configuration = EngineConfiguration.ofTest("dir://\(folder.path)", state: state.path) {
                $0.pollInterval = .milliseconds(100)
                $0.stallLimit = .seconds(30)
            }
            engine = try Engine(
                configuration: configuration,
                provider: wrap(FolderProvider(root: folder.path)),
                log: Log(path: "\(state.path)/log", echoToStandardError: false, minimum: .debug)
            )
            tree = EngineTree(engine)
            engine.start(kernel: nil, announcer: nil)
        }

        var log: String { (try? String(contentsOfFile: "\(state.path)/log", encoding: .utf8)) ?? "" }

        /// What is changed here is sent, and what is changed there is seen, in a folder that is listed as ever.
        func expectExchange(_ round: Int) throws {
            let (mine, theirs) = (Array("mine \(round)".utf8), Array("theirs \(round)".utf8))
            try tree.write("e/mine", mine)
            try waitUntil("what was changed here is sent: \(log.suffix(2000))", deadline: 40) {
                (try? Data(contentsOf: URL(fileURLWithPath: folder.appending("e/mine")))) == Data(mine)
            }
            try source.save("e/f", theirs)
            try waitUntil("what was changed there is seen: \(log.suffix(2000))", deadline: 40) {
                (try? tree.read("e/f")) == theirs
            }
        }
    }

    /// Runs a body with an account that is stopped afterwards.
    private func with(
        _ wrap: @escaping @Sendable (any Provider) -> any Provider,
        _ body: @escaping @Sendable (Account) throws -> Void
    ) async throws {
        try await blocking {
            let account = try Account(wrap)
            do { try body(account) } catch {
                await account.engine.stop()
                throw error
            }
            await account.engine.stop()
        }
    }

    @Test func `a source that has no use for any anchor is listed once at each poll`() async throws {
        let anchors = Atomic(0)
        let listings = Atomic(0)
        try await with({ base in
            MeddledProvider(
                base,
                isSilent: true,
                tellPage: { path, _ in
                    if path.isRoot { listings.add(1, ordering: .relaxed) }
                    return nil
                },
                tellChanges: { anchor throws(ProviderError) in
                    guard anchor == nil else { throw .anchorExpired }
                    let number = anchors.add(1, ordering: .relaxed).newValue
                    return Changes(events: [], anchor: Anchor(Array("\(number)".utf8)), moreComing: false)
                }
            )
        }) { account in
            for name in ["", "d", "e"] { #expect(try !account.tree.list(name).isEmpty) }
            for round in 0..<3 { try account.expectExchange(round) }
        }
        let (polls, seen) = (anchors.load(ordering: .relaxed), listings.load(ordering: .relaxed))
        // Once more by the program, and by a poll that had not ended.
        #expect(polls > 3 && seen <= polls + 2, "\(polls) anchors, \(seen) listings")
    }

    @Test(arguments: Way.allCases, [false, true])
    func `pages without an end cost their folder alone`(_ way: Way, isListed: Bool) async throws {
        let isEndless = Atomic(!isListed)
        try await with({ base in
            MeddledProvider(
                base,
                isSilent: true,
                tellPage: { path, page in
                    guard isEndless.load(ordering: .relaxed), path == RemotePath(unchecked: Array("d".utf8)) else {
                        return nil
                    }
                    let items = way == .withTheSame ? Self.items : []
                    return Listing(items: items, next: Page(way.place(after: page?.bytes)))
                }
            )
        }) { account in
            for name in ["", "e"] { #expect(try !account.tree.list(name).isEmpty) }
            if isListed {
                #expect(try account.tree.list("d").count == 1)
                isEndless.store(true, ordering: .relaxed)
            } else {
                #expect(throws: Errno.inputOutput) { try account.tree.list("d") }
            }
            for round in 0..<2 { try account.expectExchange(round) }
            if way != .withTheSame { #expect(try account.tree.read("d/f") == Array("one".utf8)) }
            try waitUntil("it is said") { account.log.contains("list of d: its pages have no end") }
        }
    }

    @Test(arguments: [Way.inACircle, .withNothing])
    func `changes without an end keep nothing from being sent and seen`(_ way: Way) async throws {
        try await with({ base in
            MeddledProvider(
                base,
                isSilent: true,
                tellChanges: { anchor in
                    Changes(events: [], anchor: Anchor(way.place(after: anchor?.bytes)), moreComing: anchor != nil)
                }
            )
        }) { account in
            for name in ["", "d", "e"] { #expect(try !account.tree.list(name).isEmpty) }
            for round in 0..<2 { try account.expectExchange(round) }
            #expect(account.log.contains("changes: they have no end"))
        }
    }

    @Test func `pages end where they bring nothing new, and not before`() throws {
        var pages = ListedPages(of: .root, at: "here")
        // In whatever order: nobody has to tell names in theirs.
        for number in 0..<3000 {
            let items = [Self.item("\(number)-b"), Self.item("\(number)-a")]
            #expect(try pages.advance(Listing(items: items, next: Page(Array("\(number)".utf8)))))
        }
        var parts = 0
        #expect(throws: ProviderError.self) {
            while true {
                // The same items, in ever other orders.
                parts += 1
                let next = Page(Array("again \(parts)".utf8))
                _ = try pages.advance(Listing(items: Self.items.shuffled(), next: next))
            }
        }
        #expect(parts >= Trail.idleLimit && parts <= 2 * Trail.idleLimit)
    }

    private static let items = (0..<20).map { item($0 == 0 ? "f" : "f\($0)") }

    private static func item(_ name: String) -> RemoteItem {
        RemoteItem(
            id: RemoteID("d/\(name)"),
            name: Array(name.utf8),
            kind: .file,
            size: 3,
            contentVersion: ContentVersion("v"),
            metadataVersion: MetadataVersion("m"),
            metadata: ItemMetadata()
        )
    }
}
