/// A set of byte offsets kept as sorted, separate, non-empty ranges.
struct RangeSet: Sendable, Equatable {
    private(set) var ranges: [Range<Int64>] = []

    init() {}

    init(_ range: Range<Int64>) { insert(range) }

    var isEmpty: Bool { ranges.isEmpty }

    /// How many bytes are in the set.
    var count: Int64 { ranges.reduce(0) { $0 + ($1.upperBound - $1.lowerBound) } }

    /// The index of the first range that ends at or after an offset.
    private func firstIndex(endingFrom offset: Int64) -> Int {
        var low = 0
        var high = ranges.count
        while low < high {
            let middle = (low + high) / 2
            if ranges[middle].upperBound < offset { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// Adds a range, joining what it touches; the one that it is in then.
    @discardableResult
    mutating func insert(_ range: Range<Int64>) -> Range<Int64> {
        guard !range.isEmpty else { return range }
        let first = firstIndex(endingFrom: range.lowerBound)
        var last = first
        var lower = range.lowerBound
        var upper = range.upperBound
        while last < ranges.count, ranges[last].lowerBound <= range.upperBound {
            lower = min(lower, ranges[last].lowerBound)
            upper = max(upper, ranges[last].upperBound)
            last += 1
        }
        ranges.replaceSubrange(first..<last, with: CollectionOfOne(lower..<upper))
        return lower..<upper
    }

    /// Takes every offset from one on out of the set.
    mutating func removeAll(from offset: Int64) {
        while let last = ranges.last, last.upperBound > offset {
            ranges.removeLast()
            if last.lowerBound < offset { ranges.append(last.lowerBound..<offset) }
        }
    }

    /// True when all of a range is in the set.
    func contains(_ range: Range<Int64>) -> Bool {
        if range.isEmpty { return true }
        let index = firstIndex(endingFrom: range.upperBound)
        return index < ranges.count && ranges[index].lowerBound <= range.lowerBound
    }

    /// The parts of a range that are not in the set, in order.
    func missing(in range: Range<Int64>) -> [Range<Int64>] {
        var result: [Range<Int64>] = []
        var position = range.lowerBound
        var index = firstIndex(endingFrom: position)
        while position < range.upperBound {
            guard index < ranges.count, ranges[index].lowerBound < range.upperBound else {
                result.append(position..<range.upperBound)
                break
            }
            if ranges[index].lowerBound > position { result.append(position..<ranges[index].lowerBound) }
            position = max(position, ranges[index].upperBound)
            index += 1
        }
        return result
    }

    /// The end of the run of bytes in the set that starts at an offset; the offset itself when it is not in the set.
    func end(ofRunAt offset: Int64) -> Int64 {
        let index = firstIndex(endingFrom: offset + 1)
        guard index < ranges.count, ranges[index].lowerBound <= offset else { return offset }
        return ranges[index].upperBound
    }
}
