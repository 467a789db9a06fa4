internal import CoveCore

/// Removed directories that the kernel still knows: a program may have one open or be in it, and asks what it is.
struct RemovedDirectories: Sendable {
    private let known = RareTable<ItemID, ItemAttributes>()

    /// Keeps a directory until the kernel forgets it.
    func insert(_ row: ItemRow, at now: Timestamp) {
        var attributes = row.attributes
        attributes.linkCount = 0
        attributes.changeTime = now
        known.insert(attributes, for: row.id)
    }

    /// The kernel has no more use for the item.
    func remove(_ id: ItemID) { known.remove(id) }

    func attributes(of id: ItemID) -> ItemAttributes? { known[id] }
}
