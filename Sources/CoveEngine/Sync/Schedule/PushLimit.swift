internal import CoveCore

/// How many pushes go on at a time, as many as the source bears: found out by itself, without a clock of its own.
///
/// More and more while they go well, half as many when the source asks for patience or makes no progress.
struct PushLimit: Sendable {
    /// Halved at most once within this time: what was under way together fails together.
    static let memory = TimeSpan.seconds(1)
    /// What a push with a large body counts for.
    static let largeWeight = 8
    /// The size from which a body is large.
    static let largeSize: Int64 = 1 << 20

    private var limit = 8.0
    private var wasRefused = false
    private var lastRefusal = Timestamp.distantPast

    var count: Int { Int(limit) }

    /// What a push of so many bytes counts for.
    static func weight(_ size: Int64) -> Int { size < largeSize ? 1 : largeWeight }

    /// A push went well, to a source that gains from so many at a time.
    mutating func succeeded(upTo most: Int) {
        // Doubled with each round of pushes until the source refuses once, then one more with each.
        limit = min(Double(max(most, 1)), limit + (wasRefused ? 1 / limit : 1))
    }

    /// The source asked for patience, or made no progress.
    mutating func refused(_ now: Timestamp) {
        guard (now - lastRefusal).magnitude >= PushLimit.memory else { return }
        lastRefusal = now
        wasRefused = true
        limit = max(1, limit / 2)
    }
}
