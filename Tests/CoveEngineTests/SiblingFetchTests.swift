import CoveCore
import Testing

@testable import CoveEngine

/// Fetching ahead of whoever walks a directory.
struct SiblingFetchTests {
    private let directory = ItemID(10)

    @Test func `the second miss in order begins a guess, and what is opened widens it`() {
        let siblings = SiblingFetch()
        #expect(!siblings.awaitsOpens)
        #expect(siblings.noteMiss(1, in: directory, now: 0) == nil)
        let first = siblings.noteMiss(2, in: directory, now: 1)
        #expect(first == SiblingFetch.Order(directory: directory, after: 2, count: 8))
        guard let first else { return }
        let items = (3...10).map { ItemID(UInt64(100 + $0)) }
        siblings.noteFetched(items, upTo: 10, of: first)
        #expect(siblings.noteMiss(3, in: directory, now: 2) == nil, "its window is full")
        #expect(siblings.noteOpen(items[0], now: 3) == SiblingFetch.Order(directory: directory, after: 10, count: 9))
        #expect(siblings.noteOpen(ItemID(7), now: 4) == nil)
    }

    @Test func `files read in no order are not guessed at`() {
        let siblings = SiblingFetch()
        for entry in [Int64(9), 5, 3, 2, 1] {
            #expect(siblings.noteMiss(entry, in: directory, now: 0) == nil)
        }
    }

    @Test func `a guess that nobody follows goes no further`() {
        let siblings = SiblingFetch()
        _ = siblings.noteMiss(1, in: directory, now: 0)
        guard let order = siblings.noteMiss(2, in: directory, now: 0) else {
            Issue.record("no guess")
            return
        }
        siblings.noteFetched((0..<8).map { ItemID(UInt64(100 + $0)) }, upTo: 10, of: order)
        for entry in Int64(11)...50 { #expect(siblings.noteMiss(entry, in: directory, now: 1) == nil) }
    }

    @Test func `long ago is not now`() {
        let siblings = SiblingFetch()
        _ = siblings.noteMiss(1, in: directory, now: 0)
        #expect(siblings.noteMiss(2, in: directory, now: 60_000_000_000) == nil)
    }
}
