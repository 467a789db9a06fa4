import CoveCore
import Synchronization

@testable import CoveEngine

/// The machine's clock, set to other times.
final class SetClock: Sendable {
    private let offsets = Mutex<(wall: TimeSpan, monotonic: TimeSpan)>((.zero, .zero))

    var clock: EngineClock {
        EngineClock(
            now: { [self] in System.now() + offsets.withLock { $0.wall } },
            monotonic: { [self] in System.monotonic() + offsets.withLock { $0.monotonic } },
            boottime: { [self] in System.boottime() + offsets.withLock { $0.monotonic } }
        )
    }

    /// Somebody sets the wall clock.
    func set(_ offset: TimeSpan) { offsets.withLock { $0.wall = offset } }

    /// Time passes on both clocks.
    func pass(_ time: TimeSpan) {
        offsets.withLock { offsets in
            offsets.wall = offsets.wall + time
            offsets.monotonic = offsets.monotonic + time
        }
    }
}
