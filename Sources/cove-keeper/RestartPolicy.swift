/// How often a daemon that fails is started again.
struct RestartPolicy {
    private static let second: Int64 = 1_000_000_000
    /// A daemon that has lived so long did not fail by starting.
    static let trial = 20 * second
    /// Failures further apart are not counted together.
    static let window = 60 * second
    /// With so many failures in the window the mount is given up: an error beats a hang.
    static let limit = 3

    private var failures: [Int64] = []

    /// Milliseconds to wait before the next start; nil when there is to be none.
    ///
    /// Times are monotonic nanoseconds.
    mutating func pause(afterFailureAt now: Int64, started: Int64) -> Int32? {
        if now - started >= Self.trial { failures = [] }
        failures.removeAll { now - $0 >= Self.window }
        failures.append(now)
        if failures.count >= Self.limit { return nil }
        return failures.count == 1 ? 0 : 500
    }
}
