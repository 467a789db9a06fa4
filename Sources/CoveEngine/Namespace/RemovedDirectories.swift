internal import CoveCore

/// Removed directories that the kernel still knows: a program may have one open or be in it, and asks what it is.
struct RemovedDirectories: Sendable {
    /// Those that the kernel removes itself, and finds by no path any more.
    private let dead = RareTable<ItemID, ItemAttributes>()
    /// Those of which it hears afterwards.
    private let untold = RareTable<ItemID, ItemAttributes>()

    /// No more of these are kept: the kernel may have forgotten some before they were removed, and does not say so again.
    private static let mostUntold = 10_000

    /// Keeps a directory until the kernel forgets it.
    func insert(_ row: ItemRow, at now: Timestamp, isDead: Bool) {
        var attributes = row.attributes
        attributes.linkCount = 0
        attributes.changeTime = now
        guard !isDead else { return dead.insert(attributes, for: row.id) }
        let noted = attributes
        untold.update { untold in
            if untold.count >= Self.mostUntold, let other = untold.keys.first { untold[other] = nil }
            untold[noted.id] = noted
        }
    }

    /// The kernel has no more use for the item.
    func remove(_ id: ItemID) {
        dead.remove(id)
        untold.remove(id)
    }

    func attributes(of id: ItemID) -> ItemAttributes? { dead[id] ?? untold[id] }

    /// True for one that a program can only come to which was in it already.
    func isDead(_ id: ItemID) -> Bool { dead[id] != nil }
}
