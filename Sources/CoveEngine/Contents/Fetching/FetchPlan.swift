internal import CoveCore

/// Which bytes of one item are asked for, in what order, and who waits for them.
///
/// It does nothing itself: it is told what a program reads, what has come and what has failed, and says which parts are to be
/// fetched and whose wait is over.
struct FetchPlan {
    /// A fetch that goes on, or a request that waits.
    struct Part: Equatable {
        let number: Int
        let range: Range<Int64>
    }

    /// What is known of an item's bytes at one step.
    struct Bytes {
        let size: Int64
        /// The parts that are here.
        let here: RangeSet
        /// True when all bytes are here, whatever the parts say.
        let isWhole: Bool

        /// What of a range is not here; beyond the end nothing is missing.
        func missing(in range: Range<Int64>) -> [Range<Int64>] {
            isWhole ? [] : here.missing(in: range.clamped(to: 0..<max(size, 0)))
        }
    }

    /// Fetches going on, at most `FetchPlan.parallel` but for what somebody waits for.
    private(set) var underway: [Part] = []
    /// Requests that wait for bytes.
    private(set) var waiting: [Part] = []
    /// True while all bytes are wanted, whether or not anything reads: a download, or the base of a changed file.
    var wantsAll = false
    /// Where a sequential reader is expected next.
    private(set) var position: Int64 = 0
    /// How much the next fetch asks for; doubles while reading is sequential.
    private var window = FetchPlan.firstWindow
    private var lastNumber = 0

    /// The first fetch of a reader: a middle read costs no more than this.
    static let firstWindow: Int64 = 1 << 20
    /// What is fetched in the background comes in such pieces at least.
    private static let backgroundWindow: Int64 = 8 << 20
    /// The largest window; no fetch is twice as long.
    static let lastWindow: Int64 = 32 << 20
    /// Fetches of one item at a time.
    static let parallel = 4
    /// Files up to this size are fetched whole once a program has read a part.
    static let wholeLimit: Int64 = 64 << 20

    /// Somebody waits for a range; its number.
    mutating func wait(for range: Range<Int64>) -> Int {
        lastNumber += 1
        waiting.append(Part(number: lastNumber, range: range))
        return lastNumber
    }

    /// A program reads a range; the fetches that this calls for: the range itself, and more ahead of a sequential reader.
    mutating func read(_ range: Range<Int64>, of bytes: Bytes, isOpen: Bool) -> [Part] {
        let slack = Self.firstWindow
        let isSequential = range.lowerBound <= position + slack && range.lowerBound + slack >= position
        let isMissing = !bytes.missing(in: range).isEmpty
        if isMissing {
            window = isSequential && position > 0 ? min(window * 2, Self.lastWindow) : Self.firstWindow
        }
        position = range.upperBound
        // A sequential reader's next window is asked for before it gets there.
        let ahead = isSequential && range.lowerBound > 0 ? window : 0
        guard isMissing || ahead > 0 else {
            // Its first bytes came with the open.
            return underway.isEmpty ? goOn(bytes, isOpen: isOpen) : []
        }
        return request(range.lowerBound..<range.upperBound.saturatingAdd(ahead), of: bytes)
    }

    /// The fetches for what is missing of a range and not on its way, each at least a window long where so much is missing.
    mutating func request(_ wanted: Range<Int64>, of bytes: Bytes) -> [Part] {
        guard !bytes.isWhole else { return [] }
        let known = known(bytes)
        let end = max(bytes.size, 0)
        var started: [Part] = []
        for gap in known.missing(in: wanted.clamped(to: 0..<end)) {
            // The missing bytes that begin there go on beyond what is wanted, perhaps.
            let rest = known.missing(in: gap.lowerBound..<end).first?.upperBound ?? gap.upperBound
            var next = gap.lowerBound
            while next < gap.upperBound {
                // What is little more than one fetch brings is one.
                let isLast = gap.upperBound - next < 2 * Self.lastWindow
                let stop = min(rest, max(isLast ? gap.upperBound : next + Self.lastWindow, next + window))
                guard underway.count < Self.parallel || isUrgent(next..<stop) else { return started }
                started.append(start(next..<stop))
                next = stop
            }
        }
        return started
    }

    /// True for bytes of which somebody waits for no more than one fetch brings.
    private func isUrgent(_ range: Range<Int64>) -> Bool {
        waiting.contains { $0.range.count <= Self.lastWindow && $0.range.overlaps(range) }
    }

    /// The next fetches in the background: of what is wanted whole, or the rest of a small file that is open.
    mutating func goOn(_ bytes: Bytes, isOpen: Bool) -> [Part] {
        guard !bytes.isWhole else { return [] }
        // An open alone wants no more than it has brought.
        let isSmall = bytes.size <= Self.wholeLimit && isOpen && position > 0
        guard wantsAll || isSmall else { return [] }
        window = max(wantsAll ? min(window * 2, Self.lastWindow) : window, Self.backgroundWindow)
        let gaps = known(bytes).missing(in: 0..<max(bytes.size, 0))
        guard let gap = gaps.first(where: { $0.upperBound > position }) ?? gaps.first else { return [] }
        let slots = wantsAll ? Self.parallel : 1
        var started: [Part] = []
        var next = gap.contains(position) ? position : gap.lowerBound
        while underway.count < slots, next < gap.upperBound {
            let stop = min(gap.upperBound, next + window)
            started.append(start(next..<stop))
            next = stop
        }
        return started
    }

    /// Bytes have come, from wherever; whose wait that has ended.
    mutating func answered(by bytes: Bytes) -> [Int] { take { bytes.missing(in: $0.range).isEmpty } }

    /// Those gave up who waited so.
    mutating func giveUp(_ numbers: Set<Int>) { waiting.removeAll { numbers.contains($0.number) } }

    /// A fetch has ended, however, or is to count no more.
    mutating func end(_ number: Int) { underway.removeAll { $0.number == number } }

    /// Fetches of ranges have failed: whose wait is in vain; the rest is wanted no more, unless somebody waits for it.
    mutating func failed(_ ranges: [Range<Int64>], of bytes: Bytes) -> [Int] {
        wantsAll = false
        return take { waiter in
            bytes.missing(in: waiter.range).contains { gap in ranges.contains { $0.overlaps(gap) } }
        }
    }

    /// The fetches of all that is waited for and not on its way.
    mutating func requestWaiting(of bytes: Bytes) -> [Part] {
        let waiting = waiting
        var started: [Part] = []
        for waiter in waiting { started += request(waiter.range, of: bytes) }
        return started
    }

    /// The fetches that go on for nobody: a reader gave up, or a program has closed the file.
    mutating func dropUnneeded() -> [Int] {
        if wantsAll { return [] }
        let needed = waiting.map(\.range)
        let unneeded = underway.filter { fetch in !needed.contains { $0.overlaps(fetch.range) } }.map(\.number)
        underway.removeAll { unneeded.contains($0.number) }
        return unneeded
    }

    /// Nothing is fetched any more, and nobody waits; no number comes a second time.
    mutating func reset() {
        let number = lastNumber
        self = FetchPlan()
        lastNumber = number
    }

    private mutating func start(_ range: Range<Int64>) -> Part {
        lastNumber += 1
        let part = Part(number: lastNumber, range: range)
        underway.append(part)
        return part
    }

    private mutating func take(_ isOver: (Part) -> Bool) -> [Int] {
        let over = waiting.filter(isOver).map(\.number)
        if !over.isEmpty { giveUp(Set(over)) }
        return over
    }

    /// What is here or on its way.
    private func known(_ bytes: Bytes) -> RangeSet {
        var known = bytes.here
        for fetch in underway { known.insert(fetch.range) }
        return known
    }
}
