internal import CoveCore

/// Items that became versions a moment ago, of which a program may still believe that it marked them as changed.
struct FreshVersions: Sendable {
    private let items = RareTable<ItemID, Int>()

    func add(_ item: ItemID) { items.update { $0[item, default: 0] += 1 } }

    func remove(_ item: ItemID) {
        items.update { items in
            let left = (items[item] ?? 1) - 1
            items[item] = left > 0 ? left : nil
        }
    }

    func contains(_ item: ItemID) -> Bool { items[item] != nil }
}
