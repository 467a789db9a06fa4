/// A point in time of the wall clock, from 1677 to 2262; what is beyond, and all arithmetic, saturates.
public struct Timestamp: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// Nanoseconds since 1970 UTC, for storage; arithmetic belongs to this type.
    public let nanosecondsSinceEpoch: Int64

    /// 1970 UTC.
    public static let epoch = Timestamp(0)
    /// Earlier than all others.
    public static let distantPast = Timestamp(.min)
    /// Later than all others.
    public static let distantFuture = Timestamp(.max)

    /// So many nanoseconds since 1970 UTC.
    @inlinable
    public init(_ nanoseconds: Int64) { nanosecondsSinceEpoch = nanoseconds }

    /// So many milliseconds since 1970 UTC.
    @inlinable
    public init(milliseconds: Int64) { nanosecondsSinceEpoch = milliseconds.saturatingMultiply(1_000_000) }

    /// Joins the two parts of a `timespec`.
    public init(seconds: Int64, nanoseconds: Int64) {
        nanosecondsSinceEpoch = seconds.saturatingMultiply(1_000_000_000).saturatingAdd(nanoseconds)
    }

    /// The `tv_sec` part, rounded down.
    public var seconds: Int64 {
        let (quotient, remainder) = nanosecondsSinceEpoch.quotientAndRemainder(dividingBy: 1_000_000_000)
        return remainder < 0 ? quotient - 1 : quotient
    }

    /// The `tv_nsec` part, 0 to 999,999,999.
    public var nanoseconds: Int64 {
        let remainder = nanosecondsSinceEpoch % 1_000_000_000
        return remainder < 0 ? remainder + 1_000_000_000 : remainder
    }

    /// Whole milliseconds since 1970 UTC, rounded down, for storage; arithmetic belongs to this type.
    public var millisecondsSinceEpoch: Int64 {
        let (quotient, remainder) = nanosecondsSinceEpoch.quotientAndRemainder(dividingBy: 1_000_000)
        return remainder < 0 ? quotient - 1 : quotient
    }

    /// The time as a word of memory that others share.
    public var bitPattern: UInt64 { UInt64(bitPattern: nanosecondsSinceEpoch) }

    /// What `bitPattern` told.
    public init(bitPattern: UInt64) { nanosecondsSinceEpoch = Int64(bitPattern: bitPattern) }

    /// Seconds since 1970 UTC, for messages.
    public var secondsSinceEpoch: Double { Double(nanosecondsSinceEpoch) / 1e9 }

    /// Seconds since 1970 UTC with six decimals, for other programs.
    public var decimalSeconds: String { "\(seconds).\("\(1_000_000 + nanoseconds / 1000)".dropFirst())" }

    /// The same time without parts of a millisecond, as the journal keeps it.
    public var inMilliseconds: Timestamp { Timestamp(milliseconds: millisecondsSinceEpoch) }

    /// The same time without parts of a second, as servers tell it.
    public var wholeSecond: Timestamp { Timestamp(seconds: seconds, nanoseconds: 0) }

    /// Orders by time.
    @inlinable
    public static func < (left: Timestamp, right: Timestamp) -> Bool {
        left.nanosecondsSinceEpoch < right.nanosecondsSinceEpoch
    }

    /// A while later.
    @inlinable
    public static func + (left: Timestamp, right: TimeSpan) -> Timestamp {
        Timestamp(left.nanosecondsSinceEpoch.saturatingAdd(right.nanoseconds))
    }

    /// A while earlier.
    @inlinable
    public static func - (left: Timestamp, right: TimeSpan) -> Timestamp {
        Timestamp(left.nanosecondsSinceEpoch.saturatingSubtract(right.nanoseconds))
    }

    /// The time between the two, negative when the left one was first.
    @inlinable
    public static func - (left: Timestamp, right: Timestamp) -> TimeSpan {
        TimeSpan(left.nanosecondsSinceEpoch.saturatingSubtract(right.nanosecondsSinceEpoch))
    }

    /// The nanoseconds since 1970 UTC in decimal.
    public var description: String { String(nanosecondsSinceEpoch) }
}
