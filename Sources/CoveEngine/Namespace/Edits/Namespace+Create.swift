internal import CoveCore
internal import Glibc
internal import Synchronization

/// Making items and entries.
extension Namespace {
    /// Makes and opens a file; counts a handle.
    ///
    /// `name`: nil for one that has no name yet, `O_TMPFILE` of open(2).
    func create(
        _ parent: ItemID,
        _ name: [UInt8]?,
        mode: UInt32,
        flags: Int32,
        _ caller: Caller
    ) throws(Errno) -> ItemAttributes {
        let writes = flags & O_ACCMODE != O_RDONLY
        if let made = try contents.earlierResult(caller) {
            let item = try contents.live.open(made, writes: writes, request: caller.request)
            try item.state.withLock { state throws(Errno) in try contents.decideMode(item, &state, flags: flags) }
            return try attributes(of: made)
        }
        if disk.isFull { throw .noSpace }
        var opened: LiveItem?
        let mayPass = contents.passthroughState.files != nil
        var made = try make(
            .file,
            parent,
            name,
            mode: mode,
            caller,
            whenInserted: { row, database throws(Errno) in
                // Before the commit: nobody knows the item yet, and its first upload must find it open.
                opened = try contents.live.open(row.id, writes: writes, request: caller.request, made: row)
                database.whenRolledBack { [contents] in _ = contents.live.close(row.id, writes: writes) }
                if mayPass, writes { try database.setUnsettled(row.id, .none) }
            }
        ).attributes
        do throws(Errno) {
            if mayPass, let opened { made.mayChangeUnseen = try beginPassing(opened, flags: flags) }
        } catch {
            contents.settleClosed(made.id, contents.live.close(made.id, writes: writes))
            throw error
        }
        // The kernel asks for the blocks no more before the first flush, and the file may have bytes till then.
        if !made.mayChangeUnseen { made.blocks = 1 }
        return made
    }

    /// Decides how a file that was just made is read and written; true when it may be written to unseen.
    ///
    /// The catalog has it in `unsettled` already.
    private func beginPassing(_ item: LiveItem, flags: Int32) throws(Errno) -> Bool {
        try item.state.withLock { state throws(Errno) in
            try contents.decideMode(item, &state, flags: flags, isRecorded: true)
            if flags & O_ACCMODE != O_RDONLY, state.seen == nil {
                try catalog.write { database throws(Errno) in try database.endUnsettled(item.id) }
            }
            return state.seen != nil
        }
    }

    /// Makes a file, fifo, socket or device node; see mknod(2).
    func makeNode(
        _ parent: ItemID,
        _ name: [UInt8],
        mode: UInt32,
        device: UInt64,
        _ caller: Caller
    ) throws(Errno) -> ItemAttributes {
        let kind: ItemKind
        switch mode & UInt32(S_IFMT) {
        case 0, UInt32(S_IFREG): kind = .file
        case UInt32(S_IFIFO): kind = .fifo
        case UInt32(S_IFSOCK): kind = .socket
        case UInt32(S_IFCHR): kind = .characterDevice
        case UInt32(S_IFBLK): kind = .blockDevice
        default: throw .invalidArgument
        }
        return try make(kind, parent, name, mode: mode, caller, configure: { $0.device = device }).attributes
    }

    /// Makes an empty directory, already listed.
    func makeDirectory(
        _ parent: ItemID,
        _ name: [UInt8],
        mode: UInt32,
        _ caller: Caller
    ) throws(Errno) -> ItemAttributes {
        try make(.directory, parent, name, mode: mode, caller, configure: { $0.linkCount = 2 }).attributes
    }

    /// Makes a symbolic link.
    func makeSymbolicLink(
        _ parent: ItemID,
        _ name: [UInt8],
        target: [UInt8],
        _ caller: Caller
    ) throws(Errno) -> ItemAttributes {
        guard !target.isEmpty else { throw .noSuchEntry }
        guard target.count < 4096 else { throw .nameTooLong }
        return try make(
            .symbolicLink,
            parent,
            name,
            mode: 0o777,
            caller,
            configure: { row in
                row.target = target
                row.size = Int64(target.count)
            }
        ).attributes
    }

    private func make(
        _ kind: ItemKind,
        _ parent: ItemID,
        _ name: [UInt8]?,
        mode: UInt32,
        _ caller: Caller,
        configure: (inout ItemRow) -> Void = { _ in },
        whenInserted: (ItemRow, Database) throws(Errno) -> Void = { _, _ in }
    ) throws(Errno) -> ItemRow {
        try requireWritable()
        if let name { try checkNewName(name) }
        if let made = try contents.earlierResult(caller) {
            return try catalog.read { database throws(Errno) in try database.existingItem(made) }
        }
        let now = clock.now()
        var row = ItemRow(
            kind: kind,
            permissions: UInt16(mode & 0o7777),
            user: caller.user,
            group: caller.group,
            now: now
        )
        configure(&row)
        let made = try catalog.write(for: caller) { database throws(Errno) -> ItemRow in
            try self.insertNew(&row, parent, name, caller, database)
            try whenInserted(row, database)
            return row
        }
        wakeSync()
        return made
    }

    /// Inserts an item under a free name of a directory, or without a name; it follows that one's set-group-id and list.
    private func insertNew(
        _ row: inout ItemRow,
        _ parent: ItemID,
        _ name: [UInt8]?,
        _ caller: Caller,
        _ database: Database
    ) throws(Errno) {
        // Of a folder that is gone the kernel asks for nothing but a file without a name.
        if name == nil, try database.item(parent) == nil {
            throw contents.whenGone(caller.thread, isWalking: contents.isWalking(caller.thread))
        }
        let directory = try liveDirectory(parent, database)
        if let name {
            guard try database.entry(parent, name) == nil else { throw .exists }
        } else {
            row.linkCount = 0
        }
        if directory.permissions & 0o2000 != 0 {
            row.group = directory.group
            if row.kind == .directory { row.permissions |= 0o2000 }
        }
        let lists = try inherit(from: parent, &row, caller, database)
        row.id = try database.insert(row)
        for (list, value) in lists { try database.setExtendedAttribute(list.name, value.attribute, of: row.id) }
        guard let name else { return try database.insertUnnamed(row.id, in: parent, by: caller.request) }
        try insertLocal(row, parent, name, row.changeTime, database)
        if row.kind == .directory { try database.addLinks(1, to: parent) }
    }

    /// Leaves a whiteout at a name that was just moved away: the character device 0:0, by which a union of directories knows
    /// that the name is gone.
    func leaveWhiteout(
        _ parent: ItemID,
        _ name: [UInt8],
        at now: Timestamp,
        _ caller: Caller,
        _ database: Database
    ) throws(Errno) {
        var row = ItemRow(kind: .characterDevice, permissions: 0, user: caller.user, group: caller.group, now: now)
        try insertNew(&row, parent, name, caller, database)
    }

    /// Another entry of an item; see link(2).
    func link(
        _ id: ItemID,
        _ parent: ItemID,
        _ name: [UInt8],
        _ caller: Caller,
        admitting: (Database) throws(Errno) -> Void = { (_) throws(Errno) in }
    ) throws(Errno) -> ItemAttributes {
        try requireWritable()
        try checkNewName(name)
        if let linked = try contents.earlierResult(caller) { return try attributes(of: linked) }
        let now = clock.now()
        let row = try catalog.write(for: caller) { database throws(Errno) -> ItemRow in
            _ = try self.liveDirectory(parent, database)
            try admitting(database)
            var row = try database.existingItem(id)
            guard row.kind != .directory else { throw .notPermitted }
            if row.linkCount <= 0 {
                guard try database.unnamed(id) != nil else { throw .noSuchEntry }
                try database.nameUnnamed(id)
                database.whenCommitted { [contents] in contents.live.keep(id) }
            }
            guard row.linkCount < 65000 else { throw .tooManyLinks }
            guard try database.entry(parent, name) == nil else { throw .exists }
            try self.admitLink(of: row, at: Place(parent, name), database)
            try database.addLinks(1, to: id)
            try database.touch(id, modified: false, at: now)
            row.linkCount += 1
            row.changeTime = now
            try self.insertLocal(row, parent, name, now, database)
            return row
        }
        wakeSync()
        return overlay(row)
    }

    /// Inserts an entry made here, with its journal row.
    private func insertLocal(
        _ row: ItemRow,
        _ parent: ItemID,
        _ name: [UInt8],
        _ now: Timestamp,
        _ database: Database
    ) throws(Errno) {
        var entry = EntryRow(parent: parent, name: name, item: row.id, flags: [])
        entry.flags = try localFlags(row.kind, entry.place, database)
        entry.id = try database.insert(entry)
        try database.touch(parent, modified: true, at: now)
        if !entry.flags.contains(.localOnly) { try database.enqueue(entry.id, at: journalTime()) }
        try database.note(.created, entry: entry.id, item: row.id, parent: parent)
        if ConflictName(name) != nil { try noteConflicts(of: entry, database) }
    }

    /// The flags of a never uploaded entry: scratch names, excluded places and kinds no provider holds stay here.
    func localFlags(_ kind: ItemKind, _ place: Place, _ database: Database) throws(Errno) -> EntryRow.Flags {
        guard kind.isSynced, !localNames.matches(place.name, kind) else { return .localOnly }
        return try isExcluded(place, database) ? .localOnly : []
    }

    /// Refuses names no directory may hold.
    func checkNewName(_ name: [UInt8]) throws(Errno) {
        guard name.count <= FileName.maximumLength else { throw .nameTooLong }
        guard FileName.problem(with: name) == nil else { throw .invalidArgument }
        guard !FileName(unchecked: name).isReserved else { throw .notPermitted }
    }

    /// A directory something may be put into; `ENOENT` when it was removed.
    func liveDirectory(_ id: ItemID, _ database: Database) throws(Errno) -> ItemRow {
        let row = try database.existingItem(id)
        guard row.kind == .directory else { throw .notDirectory }
        if id != .root, row.linkCount <= 0 { throw .noSuchEntry }
        return row
    }
}
