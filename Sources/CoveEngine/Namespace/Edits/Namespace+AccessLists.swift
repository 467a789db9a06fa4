internal import CoveCore
internal import Synchronization

/// Access control lists, which the kernel enforces where it lets other users in, and no source keeps: they stay on this device.
///
/// An item's mode and its list say the same of owner, group and others. The mode is the one that counts, so that a change
/// of it, by whomever, changes the list.
extension Namespace {
    /// Where it is noted that an item had a list.
    private static let listsKey = "access-lists"

    /// One of an item's lists; `ENODATA` when there is none.
    func accessList(_ id: ItemID, _ kind: AccessList.Kind) throws(Errno) -> [UInt8] {
        let list = try catalog.read { database throws(Errno) -> AccessList? in
            guard var list = try self.storedList(kind, of: id, database) else { return nil }
            if kind == .access { list.permissions = try database.existingItem(id).permissions }
            return list
        }
        guard let list else { throw .noData }
        return list.attribute
    }

    /// False as long as no item had a list.
    func hasAccessLists() -> Bool { listsExist.load(ordering: .relaxed) }

    /// Reads whether an item ever had a list.
    func loadAccessLists() throws(Errno) {
        let isNoted = try catalog.read { database throws(Errno) in try database.meta(Self.listsKey) != nil }
        listsExist.store(isNoted, ordering: .relaxed)
    }

    private func storedList(_ kind: AccessList.Kind, of id: ItemID, _ database: Database) throws(Errno) -> AccessList? {
        guard let value = try database.extendedAttribute(kind.name, of: id) else { return nil }
        return try AccessList(attribute: value)
    }

    /// Sets one of an item's lists, or takes it away; that there was none is no error.
    func setAccessList(_ id: ItemID, _ kind: AccessList.Kind, _ list: AccessList?, _ caller: Caller) throws(Errno) {
        try requireWritable()
        if try contents.earlierResult(caller) != nil { return }
        let item = contents.live.retain(id)
        defer { contents.live.release(id) }
        try item.state.withLock { state throws(Errno) in
            _ = try contents.load(id, &state)
            let now = clock.now()
            let permissions = try catalog.write(for: caller) { database throws(Errno) -> UInt16 in
                let row = try database.existingItem(id)
                guard row.kind != .symbolicLink else { throw .notSupported }
                if kind == .inherited, row.kind != .directory, list != nil { throw .accessDenied }
                var permissions = row.permissions
                if kind == .access, let list {
                    permissions = permissions & 0o7000 | list.permissions
                    // As chmod(2) does it, the caller being no member of the group.
                    if !caller.belongs(to: row.group) { permissions &= ~0o2000 }
                }
                if let list, kind == .inherited || list.isExtended {
                    if !hasAccessLists() { try database.setMeta(Self.listsKey, [1]) }
                    try database.setExtendedAttribute(kind.name, list.attribute, of: id)
                } else {
                    try database.removeExtendedAttribute(kind.name, of: id)
                }
                try database.setPermissions(permissions, of: id, at: now)
                if permissions != row.permissions { try self.contents.enqueueEntries(of: id, .attributes, database) }
                return permissions
            }
            if let list, kind == .inherited || list.isExtended { listsExist.store(true, ordering: .relaxed) }
            state.row?.permissions = permissions
            state.row?.changeTime = now
            item.noteUnsaved(state)
        }
        wakeSync()
    }

    /// Gives a new item its permissions, and says which lists it gets.
    ///
    /// They are by its directory's list where that has one for what is made in it, else without what the caller's umask(2)
    /// takes away.
    func inherit(
        from parent: ItemID,
        _ row: inout ItemRow,
        _ caller: Caller,
        _ database: Database
    ) throws(Errno) -> [AccessList.Kind: AccessList] {
        if row.kind == .symbolicLink { return [:] }
        guard hasAccessLists(), let inherited = try storedList(.inherited, of: parent, database) else {
            row.permissions &= ~(caller.umask & 0o777)
            return [:]
        }
        var own = inherited
        own.permissions &= row.permissions
        row.permissions = row.permissions & 0o7000 | own.permissions
        var lists: [AccessList.Kind: AccessList] = own.isExtended ? [.access: own] : [:]
        if row.kind == .directory { lists[.inherited] = inherited }
        return lists
    }
}
