internal import CoveCore
internal import Glibc

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

    /// Since when the machine has had nothing to start a daemon with, when that was last seen, and the pause after that.
    private var shortage: (began: MonotonicTime, last: MonotonicTime, pause: TimeSpan)?
    private static let shortages: [Errno] = [
        .wouldBlock, Errno(ENOMEM), Errno(EMFILE), Errno(ENFILE), Errno(ENOBUFS),
    ]

    /// How long to wait when nothing could be started, as the machine is short of processes, descriptors or memory.
    ///
    /// Nil where that has lasted for a minute, or where it is no such error.
    mutating func pause(afterShortageAt now: MonotonicTime, _ error: Errno) -> TimeSpan? {
        guard Self.shortages.contains(error) else { return nil }
        var found = shortage ?? (now, now, .zero)
        if now - found.last > Self.trial { found = (now, now, .zero) }
        guard now - found.began < Self.window else { return nil }
        found = (found.began, now, min(.seconds(2), max(.milliseconds(50), found.pause * 2)))
        shortage = found
        return found.pause
    }

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
