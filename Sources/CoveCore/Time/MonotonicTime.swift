public import Synchronization

/// A point in time of a clock that never steps; all arithmetic saturates.
public struct MonotonicTime: Hashable, Sendable, Comparable {
    @usableFromInline let nanoseconds: Int64

    /// Earlier than all others.
    public static let distantPast = MonotonicTime(.min)
    /// Later than all others.
    public static let distantFuture = MonotonicTime(.max)

    /// So many nanoseconds of the clock.
    @inlinable
    public init(_ nanoseconds: Int64) { self.nanoseconds = nanoseconds }

    /// Orders by time.
    @inlinable
    public static func < (left: MonotonicTime, right: MonotonicTime) -> Bool { left.nanoseconds < right.nanoseconds }

    /// A while later.
    @inlinable
    public static func + (left: MonotonicTime, right: TimeSpan) -> MonotonicTime {
        MonotonicTime(left.nanoseconds.saturatingAdd(right.nanoseconds))
    }

    /// A while earlier.
    @inlinable
    public static func - (left: MonotonicTime, right: TimeSpan) -> MonotonicTime {
        MonotonicTime(left.nanoseconds.saturatingSubtract(right.nanoseconds))
    }

    /// The time between the two, negative when the left one was first.
    @inlinable
    public static func - (left: MonotonicTime, right: MonotonicTime) -> TimeSpan {
        TimeSpan(left.nanoseconds.saturatingSubtract(right.nanoseconds))
    }
}

extension MonotonicTime: Codable {
    /// Reads what `encode` wrote; it means something until the machine starts again.
    public init(from decoder: any Decoder) throws {
        self.init(try decoder.singleValueContainer().decode(Int64.self))
    }

    /// Writes the nanoseconds of the clock.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(nanoseconds)
    }
}

extension MonotonicTime: AtomicRepresentable {
    /// What an atomic holds.
    public typealias AtomicRepresentation = Int64.AtomicRepresentation

    /// Into an atomic.
    public static func encodeAtomicRepresentation(_ value: consuming MonotonicTime) -> AtomicRepresentation {
        Int64.encodeAtomicRepresentation(value.nanoseconds)
    }

    /// Out of an atomic.
    public static func decodeAtomicRepresentation(_ storage: consuming AtomicRepresentation) -> MonotonicTime {
        MonotonicTime(Int64.decodeAtomicRepresentation(storage))
    }
}
