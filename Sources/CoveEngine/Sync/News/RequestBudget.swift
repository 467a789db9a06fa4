internal import CoveCore

/// How many requests may go to looking for what other programs have changed.
///
/// Directories of many pages have a share of their own: a look at one may cost more than is left of it, and then none of them is looked
/// at until that is made up for, while all others go on.
struct RequestBudget {
    /// What a device spends of it that is in use, within one polling interval.
    static let inUse = 30
    /// The same in an hour in which nobody uses the mount, where other devices leave word.
    static let idleWithNews = 120.0
    /// And where none do.
    static let idle = 1000.0
    /// No more large directories are remembered.
    private static let mostLarge = 10_000

    private var left = Double(inUse)
    private var leftForLarge = 1.0
    private var filled: MonotonicTime?
    /// Directories of more than one page, those that were looked at longest ago first.
    private(set) var large: [ItemID] = []

    /// True while there is something left for a directory of one page.
    var isLeft: Bool { left >= 1 }
    /// True while there is something left for one of many.
    var isLeftForLarge: Bool { leftForLarge >= 1 }

    /// What a page counts for: it may be as long as a server likes.
    static func cost(of listing: Listing) -> Int { 1 + max(0, listing.items.count - 1) / 1000 }

    /// What is left of a number of requests for directories of one page.
    func share(_ count: Int) -> Int { large.isEmpty ? count : count / 2 }

    /// Adds what has become due since it was filled last.
    ///
    /// `rate`: requests in a second; `limit`: no more is saved up.
    mutating func fill(at now: MonotonicTime, rate: Double, limit: Int) {
        let passed = max(0, filled.map { (now - $0).seconds } ?? 0)
        filled = now
        let part = large.isEmpty ? 1 : 0.5
        left = min(left + passed * rate * part, max(left, Double(limit)))
        leftForLarge = min(leftForLarge + passed * rate * 0.5, max(leftForLarge, max(1, Double(limit) / 2)))
    }

    /// Counts a look at a directory.
    mutating func spend(_ pages: Int, on directory: ItemID) {
        if let index = large.firstIndex(of: directory) { large.remove(at: index) }
        if pages > 1 {
            leftForLarge -= Double(pages)
            if large.count < Self.mostLarge { large.append(directory) }
        } else {
            left -= Double(pages)
        }
    }

    /// A directory of many pages was listed because somebody asked: the next look at such a one waits for as long as if it had been a
    /// look.
    mutating func spare(_ directory: ItemID, _ pages: Int) {
        leftForLarge = min(leftForLarge, 1 - Double(pages))
        guard !large.contains(directory), large.count < Self.mostLarge else { return }
        large.append(directory)
    }

    /// Allows so many more, since there is reason to look.
    mutating func grant(_ count: Int) { (left, leftForLarge) = (max(left, Double(count)), max(leftForLarge, 1)) }
}
