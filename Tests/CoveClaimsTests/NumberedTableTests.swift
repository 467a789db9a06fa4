import CoveTestSupport
import Testing

@testable import CoveClaims

/// A table that is gone through a part at a time while its values come and go.
@Suite struct NumberedTableTests {
    /// All that the parts of a table hold.
    private static func all(_ table: NumberedTable<Int>, by count: Int) -> [Int] {
        var (found, last): ([Int], Int) = ([], 0)
        while let part = table.part(after: last, count: count) {
            #expect(part.last > last && part.values.count <= count)
            found += part.values
            last = part.last
        }
        return found
    }

    @Test func `what stays while it is gone through is met once, and in its order`() {
        let seed = UInt64.random(in: 0...UInt64(UInt32.max))
        print("numbered table: seed \(seed)")
        var random = SeededGenerator(seed: seed)
        for _ in 0..<300 {
            var table = NumberedTable<Int>()
            var (reference, number): ([Int: Int], Int) = ([:], 0)
            func change(_ table: inout NumberedTable<Int>) {
                switch Int.random(in: 0..<10, using: &random) {
                case 0..<5:
                    number += Int.random(in: 1...3, using: &random)
                    table[number] = number
                    reference[number] = number
                case 5:
                    // Restored, in any order, also in the place of one that has just gone.
                    let old = Int.random(in: 1...(number + 1), using: &random)
                    number = max(number, old)
                    table[old] = old
                    reference[old] = old
                default:
                    guard let gone = reference.keys.randomElement(using: &random) else { return }
                    table[gone] = nil
                    reference[gone] = nil
                }
            }
            for _ in 0..<Int.random(in: 0..<400, using: &random) { change(&table) }
            #expect(Self.all(table, by: Int.random(in: 1...20, using: &random)) == reference.keys.sorted())
            #expect(table.values.sorted() == reference.values.sorted())
            #expect(table.orderCount <= 2 * table.count + 65)
            // Some come and go between the parts.
            var (found, last, staying): ([Int], Int, Set<Int>) = ([], 0, Set(reference.keys))
            while let part = table.part(after: last, count: 3), number < 5000 {
                found += part.values
                last = part.last
                change(&table)
                staying.formIntersection(reference.keys)
            }
            #expect(found == found.sorted() && Set(found).count == found.count)
            #expect(staying.isSubset(of: found) || number >= 5000)
        }
    }

    @Test func `a part takes no longer for what is gone`() {
        var table = NumberedTable<Int>()
        for number in 1...1000 { table[number] = number }
        for number in 1...500 { table[number] = nil }
        #expect(table.part(after: 0, count: 10).map { $0.values.isEmpty && $0.last == 10 } == true)
        #expect(table.part(after: 500, count: 3)?.values == [501, 502, 503])
        #expect(table.part(after: 1000, count: 3) == nil)
        for number in 501...1000 { table[number] = nil }
        #expect(table.isEmpty && table.orderCount == 0)
    }
}
