internal import CoveCore
internal import Synchronization

/// How many requests the source was asked for in the last hour.
final class RequestHistory: Sendable {
    private static let step = TimeSpan.seconds(60)
    private static let kept = 61

    private let samples = EngineMutex<[(time: MonotonicTime, counts: RequestCounts)]>(.requestHistory, [])

    /// Notes how many there have been, each minute.
    func note(_ counts: @autoclosure () -> RequestCounts, at now: MonotonicTime) {
        samples.withLock { samples in
            if let last = samples.last, now - last.time < Self.step { return }
            samples.append((now, counts()))
            if samples.count > Self.kept { samples.removeFirst(samples.count - Self.kept) }
        }
    }

    /// What was asked in the last hour, or since the daemon's start where that is less.
    func lastHour(_ counts: RequestCounts, at now: MonotonicTime) -> RequestCounts {
        samples.withLock { samples in
            let hour = now - .seconds(3600)
            return counts.since(samples.first { $0.time >= hour }?.counts ?? RequestCounts())
        }
    }
}
