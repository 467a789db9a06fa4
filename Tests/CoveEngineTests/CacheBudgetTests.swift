import CoveTestSupport
import Testing

@testable import CoveEngine

/// The cache's budget against a reference that remembers every file and every wish.
@Suite struct CacheBudgetTests {
    /// All that the budget is told, kept as it came.
    private struct Reference {
        let limit: Int64
        var files: [Int64] = []
        /// What was asked for since somebody began to make room: so many bytes may stay.
        var wishes: [Int64] = []
        /// How much there was when not enough could go, while there is not notably less.
        var hopelessAt: Int64?
        var notable: Int64 { max(1, limit / 50) }
        var isOfUse: Bool { hopelessAt.map { sum >= $0 + notable } ?? true }

        mutating func look() { if let hopelessAt, sum + notable < hopelessAt { self.hopelessAt = nil } }

        var sum: Int64 { files.reduce(0, +) }
        var isOver: Bool { wishes.contains { sum > $0 } }
    }

    @Test(arguments: (0..<20).map { _ in UInt64.random(in: 0...UInt64(UInt32.max)) })
    func `whoever makes room does so for all who want some, and nobody else does`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let limit = Int64.random(in: 1...10_000, using: &random)
        var reference = Reference(limit: limit)
        var budget = CacheBudget(limit: limit, resident: 0)
        var makers = 0
        for step in 0..<2000 {
            let bytes = Int64.random(in: 0...limit / 2 + 1, using: &random)
            switch Int.random(in: 0..<6, using: &random) {
            case 0, 1:
                // A fetch: its bytes come whether or not there is room for them yet.
                let mustGo = reference.sum + bytes > limit && reference.isOfUse
                let isFirst = reference.wishes.isEmpty
                if mustGo { reference.wishes.append(limit / 10 * 9 - bytes) }
                let isMaker = budget.expect(bytes)
                #expect(isMaker == (mustGo && isFirst), "step \(step)")
                if isMaker { makers += 1 }
                reference.files.append(bytes)
                budget.change(by: bytes)
            case 2:
                let isFirst = reference.wishes.isEmpty && reference.sum > 0
                if isFirst { reference.wishes.append(max(0, reference.sum - bytes)) }
                let isMaker = budget.shrink(by: bytes)
                #expect(isMaker == isFirst, "step \(step)")
                if isMaker { makers += 1 }
            case 3 where !reference.files.isEmpty:
                // A program deletes one.
                budget.change(by: -reference.files.remove(at: .random(in: reference.files.indices, using: &random)))
            case 4 where makers > 0:
                // One goes for room.
                #expect(budget.isOver == reference.isOver, "step \(step)")
                if budget.isOver, !reference.files.isEmpty { budget.change(by: -reference.files.removeFirst()) }
            case 5 where makers > 0 && (!reference.isOver || Bool.random(using: &random)):
                // There is room, or nothing more can go.
                reference.hopelessAt = reference.isOver ? reference.sum : nil
                budget.end()
                makers -= 1
                reference.wishes = []
            default: break
            }
            reference.look()
            #expect(makers <= 1)
            #expect(budget.resident == reference.sum, "step \(step)")
            #expect(budget.isOver == reference.isOver, "step \(step)")
        }
    }

    @Test func `what was asked for fits when room has been made`() {
        var budget = CacheBudget(limit: 1000, resident: 1000)
        let isMaker = budget.expect(300)
        #expect(isMaker)
        while budget.isOver { budget.change(by: -10) }
        budget.end()
        let mustGo = budget.expect(300)
        #expect(!mustGo)
    }

    @Test func `what could not go is not gone through again for each fetch`() {
        var budget = CacheBudget(limit: 1000, resident: 1000)
        var makers: [Bool] = [budget.expect(10)]
        budget.change(by: 10)
        budget.end()
        makers.append(budget.expect(5))
        budget.change(by: 19)
        makers.append(budget.expect(5))
        budget.change(by: 1)
        makers.append(budget.expect(5))
        #expect(makers == [true, false, false, true])
        // What was in the way has gone: the limit holds again.
        budget.end()
        budget.change(by: -1030)
        budget.change(by: 1000)
        let isMaker = budget.expect(1)
        #expect(isMaker)
    }

    @Test(arguments: [Int64.max, .min, 0])
    func `no number ends the daemon`(bytes: Int64) {
        for resident in [Int64.max, 0] {
            for limit in [Int64.max, 0] {
                var budget = CacheBudget(limit: limit, resident: resident)
                for _ in 0..<3 {
                    budget.change(by: bytes)
                    _ = budget.expect(bytes)
                    _ = budget.shrink(by: bytes)
                    _ = budget.isOver
                }
                #expect(bytes != .max || budget.resident == .max)
            }
        }
    }
}
