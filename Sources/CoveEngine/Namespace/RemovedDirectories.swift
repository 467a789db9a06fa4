internal import CoveCore
internal import Synchronization

/// Removed directories that the kernel still knows: a program may have one open or be in it, and asks what it is.
final class RemovedDirectories: Sendable {
    private let known = Mutex<[ItemID: ItemAttributes]>([:])
    private let count = Atomic<Int>(0)

    /// Keeps a directory until the kernel forgets it.
    func insert(_ row: ItemRow, at now: Timestamp) {
        var attributes = row.attributes
        attributes.linkCount = 0
        attributes.changeTime = now
        known.withLock { known in
            known[row.id] = attributes
            count.store(known.count, ordering: .releasing)
        }
    }

    /// The kernel has no more use for the item.
    func remove(_ id: ItemID) {
        guard count.load(ordering: .acquiring) > 0 else { return }
        known.withLock { known in
            known[id] = nil
            count.store(known.count, ordering: .releasing)
        }
    }

    func attributes(of id: ItemID) -> ItemAttributes? {
        guard count.load(ordering: .acquiring) > 0 else { return nil }
        return known.withLock { $0[id] }
    }
}
