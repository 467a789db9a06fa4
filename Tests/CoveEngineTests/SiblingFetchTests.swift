import CoveCore
import CoveTestSupport
import Testing

@testable import CoveEngine

/// Fetching ahead of whoever walks a directory.
struct SiblingFetchTests {
    private let directory = ItemID(10)

    /// A file that is listed there, among names of that order.
    private func place(_ entry: Int64, named: Int64? = nil) -> SiblingFetch.Place {
        SiblingFetch.Place(entry: entry, name: Array(String(1000 + (named ?? entry)).utf8))
    }

    private func order(after: Int64, count: Int) -> SiblingFetch.Order {
        SiblingFetch.Order(directory: directory, after: place(after), sequence: .listed, count: count)
    }

    /// What is fetched of these entries, and under which items.
    private func files(_ entries: ClosedRange<Int64>) -> [(item: ItemID, place: SiblingFetch.Place)] {
        entries.map { (ItemID(UInt64(100 + $0)), place($0)) }
    }

    @Test func `the second miss in order begins a guess, and what is opened widens it`() {
        let siblings = SiblingFetch()
        #expect(!siblings.awaitsOpens)
        #expect(siblings.noteMiss(place(1), in: directory, now: 0) == nil)
        let first = siblings.noteMiss(place(2), in: directory, now: 1)
        #expect(first == order(after: 2, count: 8))
        guard let first else { return }
        let items = (3...10).map { ItemID(UInt64(100 + $0)) }
        siblings.noteFetched(files(3...10), upTo: place(10), of: first, now: 1)
        #expect(siblings.noteMiss(place(3), in: directory, now: 2) == nil, "its window is full")
        #expect(siblings.noteOpen(items[0], now: 3) == order(after: 10, count: 9))
        #expect(siblings.noteOpen(ItemID(7), now: 4) == nil)
    }

    @Test func `a program that is quicker than what is fetched for it is still fetched for`() {
        let siblings = SiblingFetch()
        _ = siblings.noteMiss(place(1), in: directory, now: 0)
        guard var order = siblings.noteMiss(place(2), in: directory, now: 0) else {
            Issue.record("no guess")
            return
        }
        // It opens each file before it is known that it is being fetched, and reads it before or after that.
        for round in Int64(0)..<20 {
            let now = MonotonicTime(round)
            let first = order.after.entry + 1
            let last = first + Int64(order.count) - 1
            let before = last - round % 2 * Int64(order.count)
            var next: SiblingFetch.Order?
            if before >= first {
                for entry in first...before { next = siblings.noteMiss(place(entry), in: directory, now: now) }
            }
            siblings.noteFetched(files(first...last), upTo: place(last), of: order, now: now)
            if before < last {
                for entry in max(first, before + 1)...last {
                    next = siblings.noteMiss(place(entry), in: directory, now: now) ?? next
                }
            }
            next = siblings.noteMiss(place(last + 1), in: directory, now: now) ?? next
            guard let next else {
                Issue.record("round \(round): nothing is fetched any more")
                return
            }
            order = SiblingFetch.Order(
                directory: directory,
                after: place(last + 1),
                sequence: .listed,
                count: next.count
            )
        }
    }

    @Test func `files read in no order are not guessed at`() {
        let siblings = SiblingFetch()
        for entry in [Int64(9), 5, 3, 2, 1] {
            #expect(siblings.noteMiss(place(entry), in: directory, now: 0) == nil)
        }
    }

    @Test func `a guess that nobody follows goes no further`() {
        let siblings = SiblingFetch()
        _ = siblings.noteMiss(place(1), in: directory, now: 0)
        guard let order = siblings.noteMiss(place(2), in: directory, now: 0) else {
            Issue.record("no guess")
            return
        }
        siblings.noteFetched(files(3...10), upTo: place(10), of: order, now: 1)
        for entry in Int64(11)...50 { #expect(siblings.noteMiss(place(entry), in: directory, now: 1) == nil) }
    }

    @Test func `long ago is not now`() {
        let siblings = SiblingFetch()
        _ = siblings.noteMiss(place(1), in: directory, now: 0)
        #expect(siblings.noteMiss(place(2), in: directory, now: 60_000_000_000) == nil)
    }

    @Test func `files read by their names are fetched by their names`() {
        let siblings = SiblingFetch()
        _ = siblings.noteMiss(place(5, named: 1), in: directory, now: 0)
        let first = siblings.noteMiss(place(9, named: 2), in: directory, now: 0)
        #expect(first?.sequence == .listed, "it may be either")
        guard let first else { return }
        // All over the names: none of them is read soon.
        siblings.noteFetched(
            (10...17).map { (ItemID(UInt64($0)), place($0, named: 100 * $0)) },
            upTo: place(17, named: 1700),
            of: first,
            now: 0
        )
        let second = siblings.noteMiss(place(3, named: 3), in: directory, now: 0)
        #expect(second?.sequence == .named && second?.after == place(3, named: 3) && second?.count == 8)
        guard let second else { return }
        siblings.noteFetched([(ItemID(100), place(7, named: 4))], upTo: place(1, named: 11), of: second, now: 1)
        let third = siblings.noteOpen(ItemID(100), now: 1)
        #expect(third?.after == place(1, named: 11) && third?.sequence == .named)
    }

    @Test func `opens are looked at only while files are fetched ahead`() {
        let siblings = SiblingFetch()
        _ = siblings.noteMiss(place(1), in: directory, now: 0)
        #expect(!siblings.awaitsOpens)
        guard let order = siblings.noteMiss(place(2), in: directory, now: 0) else {
            Issue.record("no guess")
            return
        }
        siblings.noteFetched(files(3...4), upTo: place(4), of: order, now: 1)
        #expect(siblings.awaitsOpens)
        #expect(siblings.noteOpen(ItemID(7), now: 60_000_000_000) == nil)
        #expect(!siblings.awaitsOpens, "the walk is long over")
    }
}
