import CoveCore
import CoveTestSupport
import Glibc
import Testing

/// Times and lengths of time, which others' numbers reach.
@Suite struct TimeTests {
    static let extremes: [Int64] = [.min, .min + 1, -1_000_000_000, -1, 0, 1, 999_999_999, 1 << 53, .max - 1, .max]

    @Test(arguments: extremes, extremes)
    func `whole arithmetic saturates`(_ left: Int64, _ right: Int64) {
        // In twice as many bits nothing overflows.
        let (wideLeft, wideRight) = (Int128(left), Int128(right))
        let (one, two) = (TimeSpan.nanoseconds(left), TimeSpan.nanoseconds(right))
        #expect((one + two).nanoseconds == Int64(clamping: wideLeft + wideRight))
        #expect((one - two).nanoseconds == Int64(clamping: wideLeft - wideRight))
        #expect((one * right).nanoseconds == Int64(clamping: wideLeft * wideRight))
        #expect((one / right).nanoseconds == left / max(1, right))
        #expect((Timestamp(left) + two).nanosecondsSinceEpoch == Int64(clamping: wideLeft + wideRight))
        #expect((Timestamp(left) - two).nanosecondsSinceEpoch == Int64(clamping: wideLeft - wideRight))
        #expect((Timestamp(left) - Timestamp(right)) == one - two)
        #expect(MonotonicTime(left) + two == MonotonicTime(Int64(clamping: wideLeft + wideRight)))
        #expect(MonotonicTime(left) - two == MonotonicTime(Int64(clamping: wideLeft - wideRight)))
        #expect(MonotonicTime(left) - MonotonicTime(right) == one - two)
    }

    @Test(arguments: extremes)
    func `units saturate`(_ count: Int64) {
        let wide = Int128(count)
        #expect(TimeSpan.microseconds(count).nanoseconds == Int64(clamping: wide * 1000))
        #expect(TimeSpan.milliseconds(count).nanoseconds == Int64(clamping: wide * 1_000_000))
        #expect(TimeSpan.seconds(count).nanoseconds == Int64(clamping: wide * 1_000_000_000))
        #expect(Timestamp(milliseconds: count).nanosecondsSinceEpoch == Int64(clamping: wide * 1_000_000))
        #expect(TimeSpan.seconds(UInt64(bitPattern: count)) >= .zero)
        let span = TimeSpan.nanoseconds(count)
        #expect(span.pollMilliseconds >= 0)
        #expect(span.magnitude.nanoseconds == Int64(clamping: Int128(span.nanoseconds.magnitude)))
        #expect(TimeSpan(span.duration) == span)
        for times in [-1, 0, 1, 7, 62, 63, 64, Int.max] {
            let factor = Int128(1) << Int128(max(0, min(times, 63)))
            #expect(span.doubled(times).nanoseconds == Int64(clamping: Int128(count) * factor))
        }
    }

    @Test(
        arguments: [
            (1.5, 1_500_000_000), (1e10, .max), (-1e10, .min), (1e308, .max), (-1e308, .min), (.infinity, .max),
            (-.infinity, .min), (.nan, 0), (.signalingNaN, 0), (-1, -1_000_000_000), (9_223_372_036.9, .max),
            (Double(Int64.max), .max), (.leastNonzeroMagnitude, 0),
        ] as [(Double, Int64)]
    )
    func `seconds of any size are taken`(_ seconds: Double, _ expected: Int64) {
        #expect(TimeSpan.seconds(seconds).nanoseconds == expected)
    }

    @Test func `Swift's own durations of any size are taken`() {
        #expect(TimeSpan(Duration(secondsComponent: .max, attosecondsComponent: 999_999_999_999_999_999)) == .longest)
        #expect(TimeSpan(Duration.seconds(Int64.min)).nanoseconds == .min)
        #expect(TimeSpan(Duration.milliseconds(-1500)) == .milliseconds(-1500))
    }

    @Test func `milliseconds are rounded down, on either side of 1970`() {
        #expect(Timestamp(1_999_999).millisecondsSinceEpoch == 1)
        #expect(Timestamp(-1).millisecondsSinceEpoch == -1)
        #expect(Timestamp(-1).inMilliseconds == Timestamp(-1_000_000))
        #expect(Timestamp.distantPast.inMilliseconds == .distantPast)
        #expect(Timestamp.distantPast.wholeSecond == .distantPast)
    }

    @Test func `a sleep of 292 years can be called off`() async {
        for span in [TimeSpan.longest, .seconds(Double.infinity), .nanoseconds(Int64.max - 1)] {
            let sleeper = Task { try await Task.sleep(for: span) }
            sleeper.cancel()
            await #expect(throws: CancellationError.self) { try await sleeper.value }
        }
    }

    @Test func `a wait is never without end for being long or negative`() {
        #expect(TimeSpan.longest.pollMilliseconds == .max)
        #expect(TimeSpan.nanoseconds(Int64.min).pollMilliseconds == 0)
        #expect(TimeSpan.nanoseconds(1).pollMilliseconds == 1)
        #expect(TimeSpan.milliseconds(2).pollMilliseconds == 2)
        TimeSpan.nanoseconds(Int64.min).block()
    }
}
