import CoveTestSupport
import Testing

@testable import CoveEngine

@Suite struct RangeSetTests {
    @Test func `random ranges agree with a set of offsets`() {
        let seed = UInt64.random(in: 0...UInt64(UInt32.max))
        print("range set test: seed \(seed)")
        var random = SeededGenerator(seed: seed)
        for _ in 0..<40 {
            var set = RangeSet()
            var model: Set<Int64> = []
            for _ in 0..<30 {
                let lower = Int64.random(in: 0..<60, using: &random)
                let range = lower..<Int64.random(in: lower..<64, using: &random)
                if random.oneIn(6) {
                    set.removeAll(from: lower)
                    model = model.filter { $0 < lower }
                } else {
                    set.insert(range)
                    model.formUnion(range)
                }
                var end = lower
                while model.contains(end) { end += 1 }
                let agrees =
                    set.count == Int64(model.count) && set.contains(range) == model.isSuperset(of: range)
                    && Set(set.missing(in: 0..<64).flatMap { Array($0) }) == Set(0..<64).subtracting(model)
                    && set.end(ofRunAt: lower) == end
                    && zip(set.ranges, set.ranges.dropFirst()).allSatisfy { $0.upperBound < $1.lowerBound }
                if !agrees { Issue.record("seed \(seed): \(set) is not \(model.sorted())") }
            }
        }
    }
}
