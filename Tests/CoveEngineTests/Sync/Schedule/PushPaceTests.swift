import CoveCore
import CoveTestSupport
import Testing

@testable import CoveEngine

@Suite struct PushPaceTests {
    private static let begin = Timestamp(seconds: 1000, nanoseconds: 0)

    /// Lets programs change something `rate` times a second, in steps of 10 ms; the time after that.
    @discardableResult
    private func pass(
        _ time: TimeSpan,
        rate: Int,
        _ pace: inout PushPace,
        _ now: inout Timestamp,
        _ changes: inout Int
    ) -> Timestamp {
        let end = now + time
        while now < end {
            now = now + .milliseconds(10)
            changes += rate / 100
            pace.count(changes, at: now)
        }
        return now
    }

    @Test func `a burst is left alone for three seconds, and then slowed little, and everything goes after it`() {
        var (pace, now, changes) = (PushPace(), Self.begin, 0)
        pass(.seconds(1), rate: 100, &pace, &now, &changes)
        #expect(pace.slots(of: 32, at: now, forcedBefore: .distantPast) == 32)
        pass(.milliseconds(200), rate: 2000, &pace, &now, &changes)
        let since = pace.burstSince
        #expect(since != nil && pace.slots(of: 32, at: now, forcedBefore: .distantPast) == 0)
        pass(.milliseconds(2800), rate: 2000, &pace, &now, &changes)
        #expect(pace.slots(of: 32, at: now, forcedBefore: .distantPast) == 0)
        pass(.milliseconds(300), rate: 2000, &pace, &now, &changes)
        #expect(pace.slots(of: 32, at: now, forcedBefore: .distantPast) == 4)
        #expect(pace.slots(of: 1, at: now, forcedBefore: .distantPast) == 2)
        // A push of two milliseconds is followed by sixteen of rest, one of a minute by a tenth of a second.
        pace.ended(after: .milliseconds(2), at: now)
        #expect(pace.slots(of: 32, at: now, forcedBefore: .distantPast) == 0)
        #expect(pace.nextTime(after: now) == now + .milliseconds(16))
        #expect(pace.slots(of: 32, at: now + .milliseconds(16), forcedBefore: .distantPast) == 4)
        pace.ended(after: .seconds(60), at: now)
        #expect(pace.nextTime(after: now) == now + .milliseconds(100))
        // Pushes slow programs: that alone does not end the burst.
        pass(.seconds(1), rate: 200, &pace, &now, &changes)
        #expect(pace.burstSince == since)
        pace.ended(after: .seconds(60), at: now + .seconds(56))
        #expect(pace.slots(of: 32, at: now + .seconds(54), forcedBefore: .distantPast) == 0)
        #expect(pace.slots(of: 32, at: now + .seconds(56), forcedBefore: .distantPast) == 8)
        pass(.milliseconds(300), rate: 0, &pace, &now, &changes)
        #expect(pace.slots(of: 32, at: now, forcedBefore: .distantPast) == 32)
        #expect(pace.nextTime(after: now) == nil)
    }

    @Test func `what a person asked for goes on in a burst`() {
        var (pace, now, changes) = (PushPace(), Self.begin, 0)
        pass(.seconds(1), rate: 2000, &pace, &now, &changes)
        pace.ended(after: .seconds(1), at: now)
        #expect(pace.slots(of: 32, at: now, forcedBefore: now) == 8)
        #expect(pace.slots(of: 1, at: now, forcedBefore: now) == 2)
        #expect(pace.slots(of: 32, at: now, forcedBefore: Self.begin) == 0)
    }

    @Test func `a clock that is set back ends the burst, and many changes in a long time are none`() {
        var (pace, now, changes) = (PushPace(), Self.begin, 0)
        pass(.seconds(5), rate: 2000, &pace, &now, &changes)
        pace.ended(after: .seconds(1), at: now)
        now = now - .seconds(3600)
        pace.count(changes + 1000, at: now)
        #expect(pace.slots(of: 32, at: now, forcedBefore: .distantPast) == 32)
        pace.count(changes + 2000, at: now + .seconds(60))
        #expect(pace.burstSince == nil)
    }

    @Test func `however programs and pushes go on, something is sent every few seconds`() {
        let seed = UInt64.random(in: 0...UInt64(UInt32.max))
        for seed in seed..<seed + 20 { goOn(seed) }
    }

    private func goOn(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var (pace, now, changes) = (PushPace(), Self.begin, 0)
        var (lastSent, longest, sent) = (now, TimeSpan.zero, 0)
        var rate = 0
        while now < Self.begin + .seconds(600) {
            if Int.random(in: 0..<200, using: &random) == 0 {
                rate = [0, 50, 300, 3000].randomElement(using: &random) ?? 0
            }
            now = now + .milliseconds(Int.random(in: 1...20, using: &random))
            changes += Int.random(in: 0...max(1, rate / 50), using: &random)
            pace.count(changes, at: now)
            if pace.slots(of: 8, at: now, forcedBefore: .distantPast) > 0 {
                let duration = TimeSpan.milliseconds(Int.random(in: 0...50, using: &random))
                now = now + duration
                pace.ended(after: duration, at: now)
                longest = max(longest, now - lastSent)
                (lastSent, sent) = (now, sent + 1)
            } else {
                #expect(pace.nextTime(after: now) != nil, "nothing goes and nobody asks again")
            }
        }
        #expect(sent > 600, "seed \(seed): \(sent) were sent")
        #expect(longest < .seconds(4), "seed \(seed): nothing went for \(longest)")
    }
}
