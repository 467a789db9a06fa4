internal import CoveCore

/// Files that the kernel may write to by itself: only a look at the content file tells whether it did.
extension Database {
    /// Keeps what an item's content file is like, before it may change.
    func setUnsettled(_ id: ItemID, _ stamp: ContentStamp) throws(Errno) {
        try run(
            "INSERT OR REPLACE INTO unsettled(item, size, mtime, ctime) VALUES(?, ?, ?, ?)",
            .item(id),
            .int(stamp.size),
            .time(stamp.modificationTime),
            .time(stamp.changeTime)
        )
    }

    /// Nothing writes to an item any more but through the daemon, and all that was written is known.
    func endUnsettled(_ id: ItemID) throws(Errno) { try run("DELETE FROM unsettled WHERE item = ?", .item(id)) }

    /// True while an item may be written to unseen.
    func isUnsettled(_ id: ItemID) throws(Errno) -> Bool {
        try first("SELECT 1 FROM unsettled WHERE item = ?", .item(id), read: { _ in true }) ?? false
    }

    /// All of them.
    func unsettled() throws(Errno) -> [(item: ItemID, stamp: ContentStamp)] {
        try all("SELECT item, size, mtime, ctime FROM unsettled") { row in
            let times = (row.time(2), row.time(3))
            return (row.item(0), ContentStamp(size: row.int(1), modificationTime: times.0, changeTime: times.1))
        }
    }
}
