internal import Synchronization

/// How many changes were put off that a provider told of.
final class PutOffCount: Sendable {
    fileprivate let count = Atomic<Int>(0)

    var isAny: Bool { count.load(ordering: .acquiring) > 0 }
}

/// A change that was put off, until it is taken up again or whoever was to do that is gone.
final class PutOff: Sendable {
    private let all: PutOffCount
    private let isOver = Atomic<Bool>(false)

    init(_ all: PutOffCount) {
        self.all = all
        all.count.add(1, ordering: .acquiringAndReleasing)
    }

    deinit { end() }

    /// It is in the inbox again.
    func end() {
        guard !isOver.exchange(true, ordering: .acquiringAndReleasing) else { return }
        all.count.subtract(1, ordering: .acquiringAndReleasing)
    }
}
