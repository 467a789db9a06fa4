public import CoveCore

/// Nanoseconds, so that tests of what is given its time are short.
extension MonotonicTime: ExpressibleByIntegerLiteral {
    /// So many nanoseconds.
    public init(integerLiteral value: Int64) { self.init(value) }
}
