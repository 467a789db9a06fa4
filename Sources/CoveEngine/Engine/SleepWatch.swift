internal import CoveCore

/// Finds out that the machine was asleep: of two clocks one stood still meanwhile.
struct SleepWatch {
    private static let least = TimeSpan.seconds(1)
    private var difference: TimeSpan?

    /// True when the machine has slept since the last call.
    mutating func hasSlept(awake: MonotonicTime, all: MonotonicTime) -> Bool {
        defer { difference = all - awake }
        return difference.map { all - awake - $0 > Self.least } ?? false
    }
}
