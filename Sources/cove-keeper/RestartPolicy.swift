internal import CoveCore

/// How often a daemon that fails is started again.
struct RestartPolicy {
    /// A daemon that has lived so long did not fail by starting.
    static let trial = TimeSpan.seconds(20)
    /// Failures further apart are not counted together.
    static let window = TimeSpan.seconds(60)

    private var failures: [MonotonicTime] = []
    /// The daemon is to keep off what may have ended two before it.
    ///
    /// With one that fails even so the mount is given up: an error beats a hang.
    private(set) var isCareful = false

    /// How long to wait before the next start; nil when there is to be none.
    mutating func pause(afterFailureAt now: MonotonicTime, started: MonotonicTime) -> TimeSpan? {
        failures.removeAll { now - $0 >= Self.window }
        if isCareful {
            if now - started < Self.trial { return nil }
            failures = []
        }
        failures.append(now)
        isCareful = failures.count > 1
        return isCareful ? .milliseconds(500) : .zero
    }

    /// A daemon has ended that did not fail, or a person has had it go on.
    mutating func begin() { (failures, isCareful) = ([], false) }
}
