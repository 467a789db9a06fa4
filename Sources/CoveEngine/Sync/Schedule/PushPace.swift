internal import CoveCore

/// How much of the machine pushes may take from programs that change much: a state machine without a clock.
///
/// None go while such a burst is young. After that few go at a time, and rest for a multiple of what the last one took, so that
/// the burst goes on nearly as fast as without them, and what it leaves is sent however long it lasts.
struct PushPace: Sendable {
    /// How often the changes are counted.
    static let interval = TimeSpan.milliseconds(100)
    /// So many changes in that time begin a burst.
    static let high = 50
    /// Fewer end it: pushes that go on make programs slower, too.
    static let low = 10
    /// How long nothing is sent.
    static let hold = TimeSpan.seconds(3)
    /// Who changes much for so long, as a program that keeps a log, does not keep others' changes from being sent.
    static let longest = TimeSpan.seconds(60)
    /// How often the time of a push its rest is.
    static let restFactor = 8
    /// A source that is far away takes its time, and nothing of this machine.
    static let longestRest = TimeSpan.milliseconds(100)

    private var counted: (time: Timestamp, changes: Int)?
    private(set) var burstSince: Timestamp?
    private(set) var restsUntil = Timestamp.distantPast

    /// Tells how often programs have changed something so far; asked often.
    mutating func count(_ changes: Int, at now: Timestamp) {
        guard let last = counted, now >= last.time else {
            // The first time, or the clock was set.
            self = PushPace()
            counted = (now, changes)
            return
        }
        let elapsed = now - last.time
        guard elapsed >= Self.interval else { return }
        let limit = burstSince == nil ? Self.high : Self.low
        // As many in each interval, on the average.
        let isHigh = Double(changes - last.changes) * Self.interval.seconds > Double(limit) * elapsed.seconds
        counted = (now, changes)
        if isHigh {
            burstSince = burstSince ?? now
        } else {
            burstSince = nil
            restsUntil = .distantPast
        }
    }

    /// How many pushes may go on of `most`; what a person asked for after the burst began goes without rests.
    func slots(of most: Int, at now: Timestamp, forcedBefore forced: Timestamp) -> Int {
        guard let since = burstSince else { return most }
        if forced >= since || now - since >= Self.longest { return max(2, most / 4) }
        if now - since < Self.hold || now < restsUntil { return 0 }
        return max(2, most / 8)
    }

    /// A push has ended that took so long.
    mutating func ended(after duration: TimeSpan, at now: Timestamp) {
        guard burstSince != nil else { return }
        restsUntil = max(restsUntil, now + min(duration * Self.restFactor, Self.longestRest))
    }

    /// When to ask again; nil where there is no burst.
    func nextTime(after now: Timestamp) -> Timestamp? {
        guard burstSince != nil else { return nil }
        return restsUntil > now ? restsUntil : now + Self.interval + .milliseconds(50)
    }
}
