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
extension Engine {
    /// Opens a directory; one that was never listed is listed by the provider first.
    public func openDirectory(_ id: ItemID, _ caller: Caller) throws(Errno) -> Outcome<Void> {
        touched.insert(id)
        if mustPoll { usedDirectories.note(id) }
        let thread = caller.thread
        let isWalking = isWalking(thread)
        // The kernel walks the path once more, and finds what has the name now; what goes away again meanwhile is not there.
        let whenGone = { @Sendable [self] () -> Errno in self.whenGone(thread, isWalking: isWalking) }
        guard let row = try catalog.read({ database throws(Errno) in try database.item(id) }) else {
            guard removedDirectories.attributes(of: id) != nil else { throw whenGone() }
            return .now(())
        }
        guard row.kind == .directory else { throw .notDirectory }
        // The announcer opens directories to act in them and reads none: it waits for no source.
        if row.residency == .whole || isAnnouncer(caller) { return .now(()) }
        return .later(listing(of: id, whenGone: whenGone))
    }

    /// Calls the body for each name after a cookie until it returns false; cookies 1 and 2 are `.` and `..`.
    public func readDirectory(
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
                    i.ctime, i.state, i.generation, i.version, i.resident, i.synced, i.used, i.target, i.home
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
    public func releaseDirectory(_ id: ItemID) {}

    /// Makes every name change so far durable.
    public func syncDirectory(_ id: ItemID) throws(Errno) { try catalog.syncLog() }

    /// The cloud's room where it is known, else the disk's.
    public func fileSystemStatus() -> FileSystemStatus {
        let disk = store.freeSpace() ?? .empty
        let quota = sync?.knownQuota
        let total = quota?.total ?? disk.total
        let available = min(quota?.available ?? disk.available, disk.available)
        let block: Int64 = 4096
        return FileSystemStatus(
            blockSize: UInt64(block),
            totalBlocks: UInt64(max(0, total / block)),
            freeBlocks: UInt64(max(0, available / block)),
            availableBlocks: UInt64(max(0, available / block)),
            files: UInt64(Int32.max),
            freeFiles: UInt64(Int32.max) - 1,
            maximumNameLength: UInt64(FileName.maximumLength)
        )
    }

    /// Reserves or frees a part of a file; see fallocate(2) for keep-size, punch-hole and zero-range.
    public func allocate(_ id: ItemID, mode: Int32, offset: Int64, length: Int64) throws(Errno) {
        try requireWritable()
        let keepsSize = mode & FALLOC_FL_KEEP_SIZE != 0
        let punches = mode & FALLOC_FL_PUNCH_HOLE != 0
        let zeroes = mode & FALLOC_FL_ZERO_RANGE != 0
        guard mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE) == 0,
            !punches || keepsSize, !(punches && zeroes)
        else { throw .notSupported }
        guard offset >= 0, length > 0 else { throw .invalidArgument }
        guard offset <= Engine.maximumFileSize - length else { throw .fileTooLarge }
        let item = live.retain(id)
        defer { live.release(id) }
        try item.state.withLock { state throws(Errno) in
            let row = try load(id, &state)
            guard row.kind == .file else { throw Errno(ENODEV) }
            try mark(id, &state)
            let descriptor = try descriptor(id, &state)
            // What a program asks for in vain says nothing of the disk.
            try disk.requireSound()
            guard punches || disk.hasRoom(for: length) else { throw .noSpace }
            try System.fallocate(descriptor, mode: mode, offset: offset, length: length)
            if !keepsSize, offset + length > row.size {
                try resize(item, &state, to: offset + length, clearsPrivilegesBy: nil)
            }
            guard punches || zeroes else { return }
            noteContentChange(item, &state) { _ in }
            if row.residency != .whole {
                noteLocalBytes(item, &state, offset..<min(offset + length, max(row.size, offset)))
                try commitContent(item, &state)
                completeBase(item, &state)
            }
        }
    }

    /// Copies bytes between two files without sending them through the program; short only at the source's end.
    ///
    /// `EOPNOTSUPP` when the source's bytes are not here: the kernel then reads and writes them.
    public func copyRange(
        from source: ItemID,
        at sourceOffset: Int64,
        to target: ItemID,
        at targetOffset: Int64,
        count: Int
    ) throws(Errno) -> Int {
        try requireWritable()
        guard source != target else { throw .notSupported }
        guard sourceOffset >= 0 else { throw .invalidArgument }
        let (descriptor, available) = try live.use(source) { item throws(Errno) in
            try item.state.withLock { state throws(Errno) -> (Int32, Int64) in
                let row = try load(source, &state)
                guard row.kind == .file, row.residency == .whole else { throw .notSupported }
                let end = min(row.size, sourceOffset.addingReportingOverflow(Int64(count)).partialValue)
                // A descriptor of its own: the item may be evicted while its bytes are copied.
                guard end > sourceOffset else { return (-1, 0) }
                return (dup(try self.descriptor(source, &state)), end - sourceOffset)
            }
        }
        guard available > 0 else { return 0 }
        defer { System.close(descriptor) }
        return try write(target, offset: targetOffset, count: Int(available), clearsPrivileges: false) {
            output throws(Errno) in
            var copied: Int64 = 0
            while copied < available {
                let step = try System.copyFileRange(
                    from: descriptor,
                    at: sourceOffset + copied,
                    to: output,
                    at: targetOffset + copied,
                    count: Int(available - copied)
                )
                if step == 0 { break }
                copied += Int64(step)
            }
            return Int(copied)
        }
    }
}
