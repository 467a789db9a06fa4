import CoveCore
import Testing

@testable import CoveProviders

/// The bookkeeping of watched directories and of changes, without a file system.
@Suite struct WatchTreeTests {
    private func key(_ number: UInt64) -> DirectoryKey { DirectoryKey(inode: number, birthTime: .epoch, device: 0) }

    private func path(_ text: String) -> RemotePath { RemotePath(unchecked: Array(text.utf8)) }

    /// A tree of `a/b/c` and `d`, numbered in this order.
    private func tree() -> WatchTree {
        var tree = WatchTree()
        tree.insertRoot(key(0), watch: 10, modified: Timestamp(0))
        tree.insert(WatchedEntry(directory: 0, name: [0x61]), key(1), watch: 11, modified: Timestamp(0))
        tree.insert(WatchedEntry(directory: 1, name: [0x62]), key(2), watch: 12, modified: Timestamp(0))
        tree.insert(WatchedEntry(directory: 2, name: [0x63]), key(3), watch: -1, modified: Timestamp(0))
        tree.insert(WatchedEntry(directory: 0, name: [0x64]), key(4), watch: 14, modified: Timestamp(0))
        return tree
    }

    @Test func `paths follow a move, and so does what is below`() {
        var tree = tree()
        #expect(tree.path(3) == path("a/b/c"))
        #expect(tree.node(at: path("a/b")) == 2)
        tree.attach(2, at: WatchedEntry(directory: 4, name: [0x78]))
        #expect(tree.path(3) == path("d/x/c"))
        #expect(tree.node(at: path("a/b")) == nil)
        #expect(tree.detached.isEmpty)
    }

    @Test func `a detached directory has no path until it is attached`() {
        var tree = tree()
        tree.detach(1)
        #expect(tree.path(1) == nil && tree.path(3) == nil && tree.path(4) == path("d"))
        #expect(tree.detachedNode(key(1)) == 1)
        tree.attach(1, at: WatchedEntry(directory: 0, name: [0x7A]))
        #expect(tree.path(3) == path("z/b/c"))
    }

    @Test func `what is attached over another detaches it`() {
        var tree = tree()
        tree.attach(1, at: WatchedEntry(directory: 0, name: [0x64]))
        #expect(tree.detached == [4])
        #expect(tree.path(3) == path("d/b/c"))
    }

    @Test func `forgetting takes all below along`() {
        var tree = tree()
        #expect(tree.polled == 1)
        #expect(Set(tree.forget(1)) == [11, 12])
        #expect(tree.nodes.keys.sorted() == [0, 4])
        #expect(tree.polled == 0)
        #expect(tree.node(watch: 11) == nil && tree.node(watch: 14) == 4)
        #expect(tree.forget(4) == [14])
        #expect(tree.detached.isEmpty)
    }

    private func entry(_ number: Int) -> ChangeLog.Change {
        .entry(WatchedEntry(directory: 0, name: Array("\(number)".utf8)))
    }

    private func take(
        _ log: inout ChangeLog,
        since anchor: Anchor,
        about count: Int
    ) throws -> (changes: [ChangeLog.Change], anchor: Anchor, more: Bool) {
        let taken = log.take(since: anchor, about: count)
        return try #require(taken)
    }

    @Test func `batches are handed out whole, and again until they are acknowledged`() throws {
        var log = ChangeLog()
        let start = log.begin()
        log.append([entry(1), entry(2)])
        log.append([entry(3)])
        let first = try take(&log, since: start, about: 1)
        #expect(first.changes == [entry(1), entry(2)] && first.more)
        let again = try take(&log, since: start, about: 1)
        #expect(again.changes == first.changes)
        let second = try take(&log, since: first.anchor, about: 1)
        #expect(second.changes == [entry(3)] && !second.more)
        let expired = log.take(since: start, about: 1)
        #expect(expired == nil, "an acknowledged anchor has expired")
        #expect(second.anchor == log.begin())
    }

    @Test func `an entry is named once until it was handed out, and again after that`() throws {
        var log = ChangeLog()
        let start = log.begin()
        log.append([entry(1)])
        log.append([entry(1)])
        let first = try take(&log, since: start, about: 10)
        #expect(first.changes == [entry(1)])
        log.append([entry(1)])
        let second = try take(&log, since: first.anchor, about: 10)
        #expect(second.changes == [entry(1)])
        #expect(!log.hasNews)
    }

    @Test func `what was recorded before a fresh anchor does not hide what comes after`() throws {
        var log = ChangeLog()
        log.append([entry(1)])
        let start = log.begin()
        log.append([entry(1)])
        #expect(try take(&log, since: start, about: 10).changes == [entry(1)])
    }

    @Test func `too many changes give way to their directory`() throws {
        var log = ChangeLog()
        let start = log.begin()
        for batch in 0..<7 { log.append((0..<10_000).map { entry(batch * 10_000 + $0) }) }
        log.append([.entry(WatchedEntry(directory: 5, name: [0x61]))])
        let taken = try take(&log, since: start, about: 1000)
        #expect(taken.changes.first == .directory(0))
        #expect(taken.changes.count <= 2 && !taken.more)
    }
}
