internal import CoveCore

/// When changes that could not be taken in are taken up again: later and later, as long as that goes on failing.
struct FailedLooks {
    /// The longest pause.
    static let longest = SyncEngine.longestPause

    private struct Look {
        var pause: TimeSpan
        var due: MonotonicTime
    }

    private var looks: [RemotePath: Look] = [:]

    /// How long a change told of a directory waits, now that it could not be taken in.
    mutating func pause(_ directory: RemotePath, at now: MonotonicTime) -> TimeSpan {
        var look = Look(pause: .seconds(1), due: now)
        if let last = looks[directory] {
            // What fails together is one failure.
            if now < last.due { return last.due - now }
            // One that comes long after the next attempt is the first of others: that attempt worked.
            if now < last.due + max(last.pause, .seconds(60)) { look.pause = min(last.pause.doubled(1), Self.longest) }
        }
        look.due = now + look.pause
        if looks.count > 10_000 { looks = [:] }
        looks[directory] = look
        return look.pause
    }
}
