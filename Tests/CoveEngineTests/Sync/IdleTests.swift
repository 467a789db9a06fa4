import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// What a device that nobody uses asks of its source, by a clock that goes on when it is told to.
@Suite(.timeLimit(.minutes(30))) struct IdleTests {
    private final class Account {
        let cloud: ScriptedCloud
        let clock = SetClock()
        let engine: Engine
        let tree: EngineTree
        let sync: SyncEngine
        private let folder: TemporaryDirectory

        init(tagsRise: Bool = false) throws {
            cloud = try ScriptedCloud(tagsRise: tagsRise)
            folder = try TemporaryDirectory("idle")
            let reading = clock.clock
            let configuration = EngineConfiguration.ofTest(cloud.source, state: folder.path) {
                $0.clock = reading
                $0.pollInterval = EngineConfiguration.usualPollInterval
            }
            engine = try .onSource(configuration)
            tree = EngineTree(engine)
            engine.start(kernel: nil, announcer: nil)
            guard let sync = engine.syncEngine else { throw Errno.noData }
            self.sync = sync
            try waitUntil("it is connected", deadline: 60) { [engine] in engine.accountStatus().state == "idle" }
        }

        /// Seconds pass, and what is due in each is done.
        func pass(_ seconds: Int) async throws {
            for _ in 0..<seconds {
                clock.pass(.seconds(1))
                await sync.round()
                while await sync.isAtWork { await sync.hop() }
            }
        }

        /// What another device would leave.
        func leave(_ directories: [String], number: Int64) throws {
            var board = NewsBoard(parsing: cloud.bytes(".cove-news") ?? []) ?? NewsBoard()
            let changes = directories.map {
                (RemotePath(unchecked: Array($0.utf8)), Set<FileName>?.none)
            }
            board.add(
                Dictionary(uniqueKeysWithValues: changes),
                of: "other",
                after: number - 1,
                at: System.now().seconds
            )
            cloud.put(".cove-news", board.encode(for: "other"))
        }
    }

    @Test(arguments: [false, true])
    func `an idle hour costs at most 1200 requests, and word is heeded in seconds`(tagsRise: Bool) async throws {
        try await blocking {
            let account = try Account(tagsRise: tagsRise)
            let cloud = account.cloud
            for number in 0..<60 {
                cloud.makeFolder("d\(number)")
                cloud.put("d\(number)/f", Array("one".utf8))
            }
            cloud.makeFolder("big")
            for number in 0..<5000 { cloud.put("big/f\(number)", [1]) }
            for folder in ["", "big"] + (0..<60).map({ "d\($0)" }) { #expect(try !account.tree.list(folder).isEmpty) }
            func looksAtBig() -> Int {
                cloud.server.exchanges.count { $0.request.method == "PROPFIND" && $0.request.target.hasSuffix("/big/") }
            }
            try account.leave([], number: 1)
            // It has been in use until now.
            try await account.pass(300)
            let before = cloud.server.exchanges.count
            let looks = looksAtBig()
            try await account.pass(3600)
            let spent = cloud.server.exchanges.count - before
            print("idle: \(spent) requests in an hour")
            #expect(spent <= 1200 && spent > 600)
            // It counts for as many pages as others would make of it.
            #expect(looksAtBig() - looks <= (tagsRise ? 0 : 15))
            // What another device tells of is here within four seconds.
            cloud.put("d37/f", Array("two and more".utf8))
            try account.leave(["d37"], number: 2)
            try await account.pass(4)
            try waitUntil("it is taken in", deadline: 30) {
                (try? account.tree.size("d37/f")) == 12
            }
            // A clock that is set back holds nothing up.
            account.clock.set(.zero)
            cloud.put("d38/f", Array("two and more".utf8))
            try account.leave(["d38"], number: 3)
            try await account.pass(4)
            try waitUntil("it is taken in", deadline: 30) { (try? account.tree.size("d38/f")) == 12 }
            // What nobody tells of is found all the same.
            cloud.put("d11/f", Array("two and more".utf8))
            var hours = 0
            while (try? account.tree.size("d11/f")) != 12, hours < 4 {
                try await account.pass(3600)
                hours += 1
            }
            #expect(try account.tree.size("d11/f") == 12)
            await account.engine.stop()
        }
    }
}

extension SyncEngine {
    /// True while it asks, lists or takes something in.
    fileprivate var isAtWork: Bool { news.isAsking || isPollingNow }

    /// Lets others on for a moment.
    fileprivate func hop() async {
        await withCheckedContinuation { continuation in
            executor.after(.milliseconds(1)) { continuation.resume() }
        }
    }
}
