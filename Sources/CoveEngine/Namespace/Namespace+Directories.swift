internal import CLinux
public import CoveCore
internal import Glibc
internal import Synchronization

/// One name of a directory.
public struct DirectoryEntry {
    /// The name's bytes.
    public let name: [UInt8]
    /// Where to go on after it.
    public let cookie: UInt64
    /// Its item; without `plus` only id and kind mean something.
    public let attributes: ItemAttributes
    /// True for one that the kernel is not to keep.
    public var isUncached = false
}

/// Room as statfs(2) shows it.
public struct FileSystemStatus: Sendable {
    /// Bytes in a block.
    public var blockSize: UInt64
    /// Blocks in all.
    public var totalBlocks: UInt64
    /// Free blocks.
    public var freeBlocks: UInt64
    /// Blocks free for ordinary users.
    public var availableBlocks: UInt64
    /// Items the account may hold.
    public var files: UInt64
    /// Items that may still be made.
    public var freeFiles: UInt64
    /// NAME_MAX.
    public var maximumNameLength: UInt64
}

/// Listing directories, and what else is asked of the whole mount.
extension Namespace {
    /// Opens a directory; one that was never listed is listed by the provider first.
    func openDirectory(_ id: ItemID, _ caller: Caller) throws(Errno) -> Outcome<Void> {
        touched.insert(id)
        if provider.mustBePolled { usedDirectories.note(id, at: clock.monotonic()) }
        let thread = caller.thread
        let isWalking = contents.isWalking(thread)
        // The kernel walks the path once more, and finds what has the name now; what goes away again meanwhile is not there.
        let whenGone = { @Sendable [self] () -> Errno in self.contents.whenGone(thread, isWalking: isWalking) }
        guard let row = try catalog.read({ database throws(Errno) in try database.item(id) }) else {
            guard removedDirectories.isDead(id) else { throw whenGone() }
            return .now(())
        }
        guard row.kind == .directory else { throw .notDirectory }
        // The announcer opens directories to act in them and reads none: it waits for no source.
        if row.residency == .whole || isAnnouncer(caller) { return .now(()) }
        return .later(listing(of: id, whenGone: whenGone))
    }

    /// Calls the body for each name after a cookie until it returns false; cookies 1 and 2 are `.` and `..`.
    func readDirectory(
        _ id: ItemID,
        after cookie: UInt64,
        plus: Bool,
        _ body: (borrowing DirectoryEntry) -> Bool
    ) throws(Errno) {
        try catalog.read { database throws(Errno) in
            if cookie < 2 {
                // A removed directory that is still open is empty.
                guard let row = try database.item(id) else { return }
                if cookie == 0 {
                    guard body(DirectoryEntry(name: [0x2E], cookie: 1, attributes: row.attributes)) else { return }
                }
                let parent = try database.entry(ofDirectory: id)?.parent ?? .root
                let above = try database.item(parent) ?? row
                guard body(DirectoryEntry(name: [0x2E, 0x2E], cookie: 2, attributes: above.attributes)) else { return }
            }
            // Entry ids are never reused and grow, so the id, moved past the two dots, is the cookie; nothing is behind
            // one that was never given out.
            let last = cookie < 2 ? 0 : Int64(bitPattern: cookie) &- 2
            try database.each(
                """
                SELECT e.id, e.name, i.id, i.kind, i.mode, i.uid, i.gid, i.rdev, i.nlink, i.size, i.atime, i.mtime,
                    i.ctime, i.state, i.generation, i.version, i.resident, i.synced, i.used, i.target, i.home, i.born
                FROM entries e JOIN items i ON i.id = e.item WHERE e.parent = ? AND e.id > ? ORDER BY e.id
                """,
                .item(id),
                .int(last < 0 ? .max : last)
            ) { row in
                let item = ItemRow(row, from: 2)
                let attributes = plus ? self.overlay(item) : item.attributes
                return body(
                    DirectoryEntry(
                        name: row.blob(1),
                        cookie: UInt64(bitPattern: row.int(0) &+ 2),
                        attributes: attributes
                    )
                )
            }
        }
    }

    /// Nothing is kept for an open directory.
    func releaseDirectory(_ id: ItemID) {}

    /// Makes every name change so far durable.
    func syncDirectory(_ id: ItemID) throws(Errno) { try catalog.syncLog() }
}
