import CoveCore
import Testing

/// The order of locks, which debug builds check.
@Suite struct RankedMutexTests {
    private enum Order: UInt8, LockRank {
        case outer = 1
        case inner
    }

    private typealias Lock = RankedMutex<Order, Int>

    @Test func `locks are taken in their order, and again once they are free`() {
        let outer = Lock(.outer, 1)
        let inner = Lock(.inner, 2)
        for _ in 0..<2 {
            #expect(outer.withLock { $0 + inner.withLock { $0 } } == 3)
            #expect(inner.withLock { $0 } + outer.withLock { $0 } == 3)
        }
        struct Failure: Error {}
        #expect(throws: Failure.self) { try outer.withLock { _ in throw Failure() } }
        #expect(outer.withLock { $0 } == 1)
    }

    @Test func `who does not wait may come out of order`() {
        let outer = Lock(.outer, 1)
        let inner = Lock(.inner, 2)
        #expect(inner.withLock { $0 + (outer.withLockIfAvailable { $0 } ?? 0) } == 3)
        #expect(outer.withLock { _ in outer.withLockIfAvailable { $0 } } == nil)
    }

    #if DEBUG
    @Test func `a lock that is taken out of order ends the process`() async {
        await #expect(processExitsWith: .failure) {
            let outer = Lock(.outer, 1)
            let inner = Lock(.inner, 2)
            _ = inner.withLock { $0 + outer.withLock { $0 } }
        }
        await #expect(processExitsWith: .failure) {
            let one = Lock(.inner, 1)
            let other = Lock(.inner, 2)
            _ = one.withLock { $0 + other.withLock { $0 } }
        }
    }
    #endif
}
