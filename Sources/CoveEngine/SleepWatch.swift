/// Finds out that the machine was asleep: of two clocks, both in nanoseconds, one stood still meanwhile.
struct SleepWatch {
    private static let least: Int64 = 1_000_000_000
    private var difference: Int64?

    /// True when the machine has slept since the last call.
    mutating func hasSlept(awake: Int64, all: Int64) -> Bool {
        defer { difference = all - awake }
        return difference.map { all - awake - $0 > Self.least } ?? false
    }
}
