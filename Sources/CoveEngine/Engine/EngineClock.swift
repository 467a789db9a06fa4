public import CoveCore

/// Where an engine reads the time, so that a test can set it.
///
/// `monotonic` and `boottime` must go on: some loops wait by them.
public struct EngineClock: Sendable {
    /// The wall clock, which people and other machines may set; the one the kernel dates files by, for it dates some of
    /// ours.
    public var now: @Sendable () -> Timestamp
    /// Time that only goes on, while the machine is awake.
    public var monotonic: @Sendable () -> MonotonicTime
    /// The same with the time that the machine was asleep.
    public var boottime: @Sendable () -> MonotonicTime

    /// A clock of three readings.
    public init(
        now: @escaping @Sendable () -> Timestamp,
        monotonic: @escaping @Sendable () -> MonotonicTime,
        boottime: @escaping @Sendable () -> MonotonicTime
    ) {
        self.now = now
        self.monotonic = monotonic
        self.boottime = boottime
    }

    /// The machine's.
    public static let system = EngineClock(
        now: { System.fileTime() },
        monotonic: { System.monotonic() },
        boottime: { System.boottime() }
    )
}
