import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// Dates and permissions that another device has given a file which is in use here.
@Suite(.timeLimit(.minutes(2))) struct TakenAttributesTests {
    private static let date = Timestamp(seconds: 1_000_000_000, nanoseconds: 0)

    private func commit(_ account: EngineAccount) async throws {
        let (engine, name) = (account.engine, Array("f".utf8))
        let found = try engine.catalog.read { database throws(Errno) in try database.entry(.root, name) }
        let entry = try #require(found)
        var remote = try await engine.provider.lookup(
            FileName(unchecked: name),
            in: RemoteReference(id: nil, path: .root)
        )
        remote.metadata.modificationTime = Self.date
        remote.metadataVersion = MetadataVersion("other")
        let transition = Transition(
            kind: .metadata(entry: entry.id),
            remote: remote,
            dated: (item: entry.item, time: Self.date)
        )
        try engine.remoteChanges.commit(transition, staged: nil)
    }

    private func account() throws -> (EngineAccount, LiveItem) {
        let account = try EngineAccount()
        try SourceFolder(account.source).save("f", Array("text".utf8))
        let id = try account.tree.open("f", O_RDONLY)
        #expect(try account.tree.read(id) == Array("text".utf8))
        return (account, try #require(account.engine.contents.live.find(id)))
    }

    /// Returns when all that was begun on a queue before is done.
    private func drain(_ queue: ThreadPool) throws {
        let (begun, goOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        for _ in 0..<8 {
            queue.async {
                begun.signal()
                goOn.wait()
            }
        }
        for _ in 0..<8 { try #require(begun.wait(timeout: .now() + 30) == .success) }
        for _ in 0..<8 { goOn.signal() }
    }

    private func date(_ item: LiveItem) -> Timestamp? { item.state.withLock { $0.row?.modificationTime } }

    @Test func `a fetch that ends then does not take the date back`() async throws {
        try await blocking {
            let (account, item) = try account()
            let engine = account.engine
            try await account.settle()
            // As it is between the commit and the moment when the item in use hears of it.
            let before = try #require(date(item))
            try await commit(account)
            try waitUntil("the item has heard of it") { date(item) == Self.date }
            item.state.withLock { state in
                state.row?.modificationTime = before
                state.hasUnsavedRanges = true
            }
            try engine.contents.save(item, closing: false)
            let row = try engine.catalog.read { database throws(Errno) in try database.item(item.id) }
            #expect(row?.modificationTime == Self.date)
            engine.contents.takeAttributes(of: item.id)
            #expect(date(item) == Self.date)
            await account.stop()
        }
    }

    @Test func `a change that is taken back changes nothing`() async throws {
        try await blocking {
            let (account, item) = try account()
            let engine = account.engine
            try await account.settle()
            let before = try #require(date(item))
            let database = try Database(path: engine.catalog.path, disk: engine.disk, log: engine.log)
            try database.execute(
                "CREATE TRIGGER fault BEFORE INSERT ON changes BEGIN SELECT RAISE(ABORT, 'a test'); END"
            )
            await #expect(throws: Errno.self) { try await commit(account) }
            try database.execute("DROP TRIGGER fault")
            // Whatever it had left to do comes before this.
            try drain(engine.context.contentQueue)
            #expect(date(item) == before)
            await account.stop()
        }
    }
}
