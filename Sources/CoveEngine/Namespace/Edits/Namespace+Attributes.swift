public import CoveCore
internal import Glibc
internal import Synchronization

/// What setattr changes; nil leaves a value alone.
public struct AttributeChange: Sendable {
    /// A time to set.
    public enum TimeChange: Sendable {
        /// The time of the call.
        case now
        /// A given time.
        case at(Timestamp)
    }

    /// The lower twelve bits of `st_mode`.
    public var permissions: UInt16?
    /// Owner.
    public var user: UInt32?
    /// Group.
    public var group: UInt32?
    /// New size.
    public var size: Int64?
    /// Last access.
    public var accessTime: TimeChange?
    /// Last change of the bytes.
    public var modificationTime: TimeChange?
    /// Last change of the row, where the kernel keeps it.
    public var changeTime: Timestamp?
    /// True when the caller may not keep setuid and setgid.
    public var clearsPrivileges = false

    /// Changes nothing.
    public init() {}

    /// The dates that the kernel keeps by itself and writes back whenever it likes: nobody asks for anything.
    var isHeldBack: Bool { onlyTimes && modificationTime != nil && changeTime != nil && accessTime == nil }

    var onlyTimes: Bool {
        permissions == nil && user == nil && group == nil && size == nil && !clearsPrivileges
    }
}

/// Changing attributes.
extension Namespace {
    /// True for dates that the kernel writes back of its own, which hold nobody up.
    ///
    /// Those of writes come with the writer's handle; without one only the change time is news, after a rename or chmod. Any
    /// other modification date is a program's, as of `touch -m`.
    func isWrittenBack(_ change: AttributeChange, of id: ItemID, hasHandle: Bool) -> Bool {
        guard change.onlyTimes, change.accessTime == nil else { return false }
        guard !hasHandle, let modification = change.modificationTime else { return true }
        guard case .at(let time) = modification else { return false }
        return (try? attributes(of: id).modificationTime) == time
    }

    /// Changes attributes; a path-based change of a replaced item is `ESTALE`, and the kernel walks the path again.
    func setAttributes(
        of id: ItemID,
        _ change: AttributeChange,
        hasHandle: Bool,
        _ caller: Caller
    ) throws(Errno) -> ItemAttributes {
        // Of others it may be carried out twice.
        if contents.ledger.isFormerAnnouncer(caller.thread), try contents.earlierResult(caller) != nil {
            return try attributes(of: id)
        }
        try requireWritable()
        let isReplaced = hasHandle ? false : try isReplacedName(id)
        // A replacement changes dates of what it replaced. An error would be told to a program that only reads it.
        if isReplaced, change.isHeldBack { return (try? attributes(of: id)) ?? .gone(id) }
        let item = contents.live.retain(id)
        defer { contents.live.release(id) }
        try item.state.withLock { state throws(Errno) in
            _ = try contents.load(id, &state)
            if isReplaced { throw .stale }
            if let size = change.size {
                if size == state.row?.size {
                    // ftruncate(2) to the same size changes only dates.
                    if change.clearsPrivileges {
                        try contents.resize(item, &state, to: size, clearsPrivilegesBy: caller)
                    }
                } else {
                    let loser = change.clearsPrivileges ? caller : nil
                    try contents.resize(item, &state, to: size, clearsPrivilegesBy: loser)
                }
            }
            try apply(change, to: item, &state, hasHandle: hasHandle, caller)
        }
        wakeSync()
        return try attributes(of: id)
    }

    /// True when another version has taken the item's name, or the item is gone.
    private func isReplacedName(_ id: ItemID) throws(Errno) -> Bool {
        try catalog.glance { database throws(Errno) in
            try database.first("SELECT nlink = 0 AND home IS NOT NULL FROM items WHERE id = ?", .item(id)) {
                $0.int(0) != 0
            } ?? true
        }
    }

    private func apply(
        _ change: AttributeChange,
        to item: LiveItem,
        _ state: inout LiveItem.State,
        hasHandle: Bool,
        _ caller: Caller
    ) throws(Errno) {
        let id = item.id
        let now = clock.now()
        guard var row = state.row else { throw .stale }
        let before = row
        func time(_ change: AttributeChange.TimeChange) -> Timestamp {
            switch change {
            case .now: now
            case .at(let time): time
            }
        }
        if let access = change.accessTime { row.accessTime = time(access) }
        if let modification = change.modificationTime { row.modificationTime = time(modification) }
        // The kernel tells the dates of writes it held back: they are saved with the bytes, at the close.
        if change.onlyTimes, hasHandle, state.hasUnsavedContent {
            row.changeTime = change.changeTime ?? now
            state.row = row
            item.noteUnsaved(state)
            catalog.touches.add(id)
            return
        }
        let saved = try catalog.write { database throws(Errno) -> ItemRow? in
            // Other columns may have changed since this row was read.
            let fresh = try database.existingItem(id)
            row.permissions = change.permissions.map { $0 & 0o7777 } ?? fresh.permissions
            row.user = change.user ?? fresh.user
            row.group = change.group ?? fresh.group
            row.linkCount = fresh.linkCount
            if change.user != nil || change.group != nil || change.clearsPrivileges, row.kind != .directory {
                row.permissions = Contents.withoutPrivileges(row.permissions, group: fresh.group, caller)
            }
            let isSame =
                row.permissions == fresh.permissions && row.user == fresh.user && row.group == fresh.group
                && row.modificationTime == before.modificationTime && row.accessTime == before.accessTime
            // A rename makes the kernel send the dates it already has: equal values are no change.
            if isSame, change.onlyTimes, change.size == nil {
                if let changeTime = change.changeTime, changeTime > fresh.changeTime {
                    row.changeTime = changeTime
                    try database.saveAttributes(row)
                    return row
                }
                row.changeTime = fresh.changeTime
                return nil
            }
            row.changeTime = change.changeTime ?? now
            try database.saveAttributes(row)
            let travels =
                row.permissions != fresh.permissions || row.user != fresh.user || row.group != fresh.group
                || row.modificationTime != before.modificationTime
            if travels { try self.contents.enqueueEntries(of: id, .attributes, database) }
            return row
        }
        if let saved {
            state.row = saved
            // Another daemon must not take older dates over.
            item.noteUnsaved(state)
        }
    }
}

extension ItemAttributes {
    /// What is left of an item to answer with.
    fileprivate static func gone(_ id: ItemID) -> ItemAttributes {
        ItemAttributes(
            id: id,
            kind: .file,
            permissions: 0,
            user: 0,
            group: 0,
            size: 0,
            linkCount: 0,
            device: 0,
            blocks: 0,
            accessTime: Timestamp(0),
            modificationTime: Timestamp(0),
            changeTime: Timestamp(0)
        )
    }
}
