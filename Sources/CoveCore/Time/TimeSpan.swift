public import Dispatch
internal import Glibc

/// A length of time; its arithmetic saturates at 292 years in either direction.
///
/// Swift's own `Duration` traps where a value is too large for it, and in places that others' numbers reach: a server's
/// `Retry-After`, a client's time-out, an option. It is therefore not used beyond this folder and the interfaces of CoveKit.
public struct TimeSpan: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// Nanoseconds, for storage and system calls; arithmetic belongs to this type.
    public let nanoseconds: Int64

    /// No time at all.
    public static let zero = TimeSpan(0)
    /// 292 years, which stand for all that is longer.
    public static let longest = TimeSpan(.max)

    @inlinable
    init(_ nanoseconds: Int64) { self.nanoseconds = nanoseconds }

    /// So many nanoseconds.
    @inlinable
    public static func nanoseconds(_ count: some BinaryInteger) -> TimeSpan { TimeSpan(Int64(clamping: count)) }

    /// So many microseconds.
    @inlinable
    public static func microseconds(_ count: some BinaryInteger) -> TimeSpan {
        TimeSpan(Int64(clamping: count).saturatingMultiply(1000))
    }

    /// So many milliseconds.
    @inlinable
    public static func milliseconds(_ count: some BinaryInteger) -> TimeSpan {
        TimeSpan(Int64(clamping: count).saturatingMultiply(1_000_000))
    }

    /// So many seconds.
    @inlinable
    public static func seconds(_ count: some BinaryInteger) -> TimeSpan {
        TimeSpan(Int64(clamping: count).saturatingMultiply(1_000_000_000))
    }

    /// So many seconds and parts of one; what is no number counts as none.
    public static func seconds(_ count: Double) -> TimeSpan { TimeSpan(Int64(saturating: count * 1e9)) }

    /// Any length between the two, to keep devices from marching in step.
    public static func random(in range: ClosedRange<TimeSpan>) -> TimeSpan {
        TimeSpan(Int64.random(in: range.lowerBound.nanoseconds...range.upperBound.nanoseconds))
    }

    /// The length without its sign.
    public var magnitude: TimeSpan { nanoseconds < 0 ? .zero - self : self }
    /// The length as seconds.
    public var seconds: Double { Double(nanoseconds) / 1e9 }
    /// The whole milliseconds, for storage and messages; arithmetic belongs to this type.
    public var milliseconds: Int64 { nanoseconds / 1_000_000 }
    /// The whole seconds, for what counts in these.
    public var wholeSeconds: Int64 { nanoseconds / 1_000_000_000 }
    /// What poll(2) takes: rounded up, and never its -1 for "without end".
    public var pollMilliseconds: Int32 {
        let whole = nanoseconds / 1_000_000
        return Int32(clamping: max(0, nanoseconds % 1_000_000 > 0 ? whole + 1 : whole))
    }

    /// Orders by length.
    @inlinable
    public static func < (left: TimeSpan, right: TimeSpan) -> Bool { left.nanoseconds < right.nanoseconds }

    /// Both together.
    @inlinable
    public static func + (left: TimeSpan, right: TimeSpan) -> TimeSpan {
        TimeSpan(left.nanoseconds.saturatingAdd(right.nanoseconds))
    }

    /// The one without the other.
    @inlinable
    public static func - (left: TimeSpan, right: TimeSpan) -> TimeSpan {
        TimeSpan(left.nanoseconds.saturatingSubtract(right.nanoseconds))
    }

    /// Several times as long.
    @inlinable
    public static func * (left: TimeSpan, right: some BinaryInteger) -> TimeSpan {
        TimeSpan(left.nanoseconds.saturatingMultiply(Int64(clamping: right)))
    }

    /// A part of it; a divisor below one counts as one.
    @inlinable
    public static func / (left: TimeSpan, right: some BinaryInteger) -> TimeSpan {
        TimeSpan(left.nanoseconds / max(1, Int64(clamping: right)))
    }

    /// Doubled so many times, as pauses between attempts are.
    @inlinable
    public func doubled(_ times: some BinaryInteger) -> TimeSpan {
        let steps = Int(clamping: times)
        guard steps > 0, nanoseconds != 0 else { return self }
        return steps > 62 ? (nanoseconds < 0 ? TimeSpan(.min) : .longest) : self * (Int64(1) << Int64(steps))
    }

    /// In seconds, as `2.5 s`.
    public var description: String { "\(seconds) s" }
}

extension TimeSpan {
    /// As short as this type can tell it.
    public init(_ duration: Duration) {
        let (seconds, rest) = duration.components
        self = .seconds(seconds) + .nanoseconds(rest / 1_000_000_000)
    }

    /// For what takes Swift's own type, which any value of this one fits in.
    public var duration: Duration { .nanoseconds(nanoseconds) }

    /// For queues; nothing when it is negative.
    public var dispatchInterval: DispatchTimeInterval { .nanoseconds(Int(max(0, nanoseconds))) }
}

extension TimeSpan {
    /// Holds this thread up for so long; never in Swift's cooperative pool.
    public func block() {
        guard self > .zero else { return }
        var time = timespec(tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000))
        var left = timespec()
        while nanosleep(&time, &left) == -1, Errno.current == .interrupted { time = left }
    }
}

extension Task where Success == Never, Failure == Never {
    /// Suspends the task for a while; throws when it is cancelled.
    public static func sleep(for span: TimeSpan) async throws {
        try await sleep(for: span.duration, clock: .continuous)
    }
}
