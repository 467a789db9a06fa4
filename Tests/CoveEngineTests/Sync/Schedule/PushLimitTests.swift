import CoveCore
import Testing

@testable import CoveEngine

@Suite struct PushLimitTests {
    @Test func `more and more go at a time until the source refuses, then half of them`() {
        var limit = PushLimit()
        let begin = Timestamp(seconds: 1000, nanoseconds: 0)
        #expect(limit.count == 8)
        for _ in 0..<100 { limit.succeeded(upTo: 32) }
        #expect(limit.count == 32)
        // What was under way together fails together.
        for _ in 0..<30 { limit.refused(begin) }
        #expect(limit.count == 16)
        for _ in 0..<17 { limit.succeeded(upTo: 32) }
        #expect((16...17).contains(limit.count))
        for second in 1..<100 { limit.refused(begin + .seconds(second)) }
        #expect(limit.count == 1)
        for _ in 0..<2000 { limit.succeeded(upTo: 32) }
        #expect(limit.count == 32)
    }

    @Test func `no more go at a time than the source gains from`() {
        var limit = PushLimit()
        for most in [64, 32, 1] {
            for _ in 0..<100 { limit.succeeded(upTo: most) }
            #expect(limit.count == most)
        }
        limit.succeeded(upTo: .min)
        #expect(limit.count == 1)
    }

    @Test func `a large body counts for several`() {
        #expect(PushLimit.weight(0) == 1 && PushLimit.weight(1 << 20) == PushLimit.largeWeight)
    }
}
