internal import CoveCore

/// How many requests may go to looking for what other programs have changed.
///
/// A look may cost more than is left, as that of a large directory does; then none begins until it is made up for.
struct RequestBudget {
    /// What a device spends of it that is in use, within one polling interval.
    static let inUse = 30
    /// The same in an hour in which nobody uses the mount, where other devices leave word.
    static let idleWithNews = 120.0
    /// And where none do.
    static let idle = 1000.0

    private var left = Double(inUse)
    private var filled: MonotonicTime?

    /// True while there is something left.
    var isLeft: Bool { left >= 1 }

    /// Adds what has become due since it was filled last.
    ///
    /// `rate`: requests in a second; `limit`: no more is saved up.
    mutating func fill(at now: MonotonicTime, rate: Double, limit: Int) {
        let passed = filled.map { (now - $0).seconds } ?? 0
        filled = now
        left = min(left + max(0, passed) * rate, max(left, Double(limit)))
    }

    mutating func spend(_ count: Int) { left -= Double(count) }

    /// Allows so many more, since there is reason to look.
    mutating func grant(_ count: Int) { left = max(left, Double(count)) }
}
