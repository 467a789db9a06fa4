internal import CoveCore
internal import Glibc
internal import Synchronization

/// Showing a version that a person wants back.
extension RemoteChanges {
    /// Puts a restored content in the place of what a document has now.
    func commitRestore(_ id: Int64, _ item: ItemID, _ database: Database) throws(Errno) -> Aftermath {
        var aftermath = Aftermath()
        guard var entry = try database.entry(id: id) else { throw .busy }
        let old = try database.existingItem(entry.item)
        _ = try database.existingItem(item)
        // A program may have moved it from where the announcer puts this.
        if let shown = incoming.current, shown.staged == item, entry.place != Place(shown.parent, shown.name) {
            throw .busy
        }
        // Empty is no content that could be missed.
        let isEmpty = old.kind == .file && old.size == 0 && !contents.live.isWritable(old.id)
        guard try contents.keepVersion(old, of: entry, database) || isEmpty else { throw .busy }
        entry.item = item
        entry.flags.insert(.metadataChanged)
        try database.update(entry)
        try database.run("UPDATE items SET nlink = 1 WHERE id = ?", .item(item))
        try database.addLinks(-1, to: old.id)
        if old.linkCount <= 1 {
            if try namespace.drop(old, database) {
                aftermath.dropped.append(old.id)
            } else {
                // Whoever opens it by what the kernel still knows of the name is to walk the path again.
                try database.setHome(entry.place, of: old.id)
            }
        }
        try database.enqueue(entry.id, at: journalTime())
        try database.touchListing(entry.parent, at: clock.now())
        try database.note(.content, entry: entry.id, item: item, parent: entry.parent)
        return aftermath
    }
}
