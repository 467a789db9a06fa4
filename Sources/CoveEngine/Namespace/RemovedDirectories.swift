internal import CoveCore

/// Removed directories that the kernel still knows: a program may have one open or be in it, and asks what it is.
struct RemovedDirectories: Sendable {
    private struct Row: Sendable {
        let attributes: ItemAttributes
        /// True when the kernel removes it itself, and finds it by no path any more.
        let isDead: Bool
    }

    /// No more are kept: the kernel may have forgotten some before they were removed, and does not say so again.
    private static let most = 10_000

    private let known = RareTable<ItemID, Row>()

    /// Keeps a directory until the kernel forgets it.
    func insert(_ row: ItemRow, at now: Timestamp, isDead: Bool) {
        var attributes = row.attributes
        attributes.linkCount = 0
        attributes.changeTime = now
        let row = Row(attributes: attributes, isDead: isDead)
        known.update { known in
            if known.count >= Self.most, let other = known.first(where: { !$0.value.isDead }) { known[other.key] = nil }
            known[attributes.id] = row
        }
    }

    /// The kernel has no more use for the item.
    func remove(_ id: ItemID) { known.remove(id) }

    func attributes(of id: ItemID) -> ItemAttributes? { known[id]?.attributes }

    /// True for one that a program can only come to which was in it already.
    func isDead(_ id: ItemID) -> Bool { known[id]?.isDead == true }
}
