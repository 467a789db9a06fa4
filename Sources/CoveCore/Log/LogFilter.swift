/// Decides what of a log's messages is written: a problem is told once, and a flood is cut off.
///
/// What was told already is left out for a minute, then for two, for four, and so on up to an hour; when it is told again
/// its line has the number of times. Beyond so many lines in a short time none is written until there is room again.
struct LogFilter {
    /// So many lines at once, and one more for each `pause` after that.
    static let burst = 1000
    static let pause = TimeSpan.milliseconds(100)
    static let firstSilence = TimeSpan.seconds(60)
    static let longestSilence = TimeSpan.seconds(3600)
    /// So many messages are remembered.
    private static let most = 4096

    private struct Told {
        var silence: TimeSpan
        var until: MonotonicTime
        var count = 0
    }

    /// By the messages' hashes, for they may be long.
    private var told: [Int: Told] = [:]
    /// When all lines there may be at once may be written.
    private var restored: MonotonicTime = .distantPast
    private var dropped = 0

    /// The lines to write for a message.
    mutating func lines(for message: String, at now: MonotonicTime) -> [String] {
        let key = message.hashValue
        var line = message
        if var known = told[key] {
            guard now >= known.until else {
                known.count += 1
                told[key] = known
                return []
            }
            // After a long rest it is news.
            let isOld = now - known.until > Self.longestSilence
            if known.count > 0 { line += " (\(known.count) more times since it was told)" }
            known.silence = isOld ? Self.firstSilence : min(known.silence * 2, Self.longestSilence)
            (known.until, known.count) = (now + known.silence, 0)
            told[key] = known
        } else {
            if told.count >= Self.most { told = told.filter { $0.value.until > now } }
            if told.count >= Self.most { told = [:] }
            told[key] = Told(silence: Self.firstSilence, until: now + Self.firstSilence)
        }
        return admit(line, at: now)
    }

    private mutating func admit(_ line: String, at now: MonotonicTime) -> [String] {
        let restored = max(restored, now)
        guard restored - now < Self.pause * Self.burst else {
            dropped += 1
            return []
        }
        self.restored = restored + Self.pause
        guard dropped > 0 else { return [line] }
        defer { dropped = 0 }
        return ["\(dropped) lines were left out, for too many came at once", line]
    }
}
