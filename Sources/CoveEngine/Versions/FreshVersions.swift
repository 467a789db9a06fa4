internal import CoveCore
internal import Synchronization

/// Items that became versions a moment ago, of which a program may still believe that it marked them as changed.
final class FreshVersions: Sendable {
    private let items = Mutex<[ItemID: Int]>([:])
    private let count = Atomic<Int>(0)

    func add(_ item: ItemID) {
        items.withLock { items in
            items[item, default: 0] += 1
            count.store(items.count, ordering: .releasing)
        }
    }

    func remove(_ item: ItemID) {
        items.withLock { items in
            let left = (items[item] ?? 1) - 1
            items[item] = left > 0 ? left : nil
            count.store(items.count, ordering: .releasing)
        }
    }

    func contains(_ item: ItemID) -> Bool {
        guard count.load(ordering: .acquiring) > 0 else { return false }
        return items.withLock { $0[item] != nil }
    }
}
