internal import CLinux
internal import CoveCore
internal import Glibc
internal import Synchronization

/// Moving entries, and deciding which document a name stands for afterwards.
extension Namespace {
    /// Renames; `RENAME_NOREPLACE`, `RENAME_EXCHANGE` and `RENAME_WHITEOUT` as in renameat2(2).
    ///
    /// A never uploaded item that takes an existing name is a safe save: the name's document gets the new bytes. `admitting` is asked
    /// inside the change whether what is moved may come to the new name.
    func rename(
        _ parent: ItemID,
        _ name: [UInt8],
        _ newParent: ItemID,
        _ newName: [UInt8],
        flags: UInt32,
        _ caller: Caller,
        admitting: (EntryRow, Place, Database) throws(Errno) -> Void = { (_, _, _) throws(Errno) in }
    ) throws(Errno) {
        try requireWritable()
        guard name.count <= FileName.maximumLength else { throw .nameTooLong }
        try checkNewName(newName)
        if try contents.earlierResult(caller) != nil { return }
        let exchange = UInt32(RENAME_EXCHANGE)
        let noReplace = UInt32(RENAME_NOREPLACE)
        let whiteout = UInt32(RENAME_WHITEOUT)
        // An exchange goes with no other flag.
        guard flags & ~(noReplace | whiteout) == 0 || flags == exchange else { throw .invalidArgument }
        let now = clock.now()
        let place = Place(newParent, newName)
        try syncBeforeLeaving(Place(parent, name), to: place)
        let removal = try catalog.write(for: caller) { database throws(Errno) -> Removal? in
            guard let known = try database.entry(parent, name) else { throw .noSuchEntry }
            _ = try self.liveDirectory(newParent, database)
            try admitting(known, place, database)
            let isExchange = flags & exchange != 0
            let isSave = try self.admitMove(of: known, to: place, isExchange: isExchange, database)
            // They may have left the cloud for that.
            guard let source = try database.entry(parent, name) else { throw .noSuchEntry }
            let target = try database.entry(newParent, newName)
            if isExchange {
                guard let target else { throw .noSuchEntry }
                try self.exchange(source, target, isSave: isSave, at: now, database)
                return nil
            }
            var removal: Removal?
            if let target {
                if flags & noReplace != 0 { throw .exists }
                if target.item == source.item { return nil }
                removal = try self.replace(target, by: source, at: now, database)
            } else {
                try self.move(source, to: newParent, newName, at: now, database)
            }
            if flags & whiteout != 0 { try self.leaveWhiteout(parent, name, at: now, caller, database) }
            return removal
        }
        if let removal { finish(removal) }
        wakeSync()
    }

    /// Gives a free name to an entry.
    func move(
        _ source: EntryRow,
        to parent: ItemID,
        _ name: [UInt8],
        at now: Timestamp,
        _ database: Database
    ) throws(Errno) {
        let row = try database.existingItem(source.item)
        if row.kind == .directory, try database.directory(parent, isInside: row.id) { throw .invalidArgument }
        var moved = source
        try relocate(&moved, to: parent, name, row, database)
        try database.update(moved)
        if source.parent != parent, row.kind == .directory || row.residency != .whole {
            // It may be to be kept where it is now.
            database.whenCommitted { [self] in fetchKept() }
        }
        try touchAfterMove(row, from: source.parent, to: parent, at: now, database)
        try settleHeld(row, moved, from: source, database)
        var hasHeir = source.isUploaded
        if !hasHeir { hasHeir = try isExcluded(source.place, database) }
        if hasHeir, row.kind != .directory {
            let expires = clock.monotonic() + configuration.tombstoneTime
            tombstones.leave(source.place, .init(departed: .moved(entry: source.id), expires: expires), database)
        }
        if row.kind != .directory { try adoptIdentity(of: moved, row, database) }
    }

    /// Sets an entry's place, remembering where the provider still has it, and enqueues it.
    private func relocate(
        _ entry: inout EntryRow,
        to parent: ItemID,
        _ name: [UInt8],
        _ row: ItemRow,
        _ database: Database
    ) throws(Errno) {
        if entry.isUploaded {
            let remoteParent = entry.remoteParent ?? entry.parent
            let remoteName = entry.remoteName ?? entry.name
            let isBack = remoteParent == parent && remoteName == name
            entry.remoteParent = isBack ? nil : remoteParent
            entry.remoteName = isBack ? nil : remoteName
        } else {
            entry.flags.remove(.localOnly)
            entry.flags.formUnion(try localFlags(row.kind, Place(parent, name), database))
        }
        let former = entry.place
        entry.parent = parent
        entry.name = name
        if entry.flags.contains(.localOnly) {
            try database.dequeue(entry.id)
            try takeUpUnanswered(entry.document, database)
        } else {
            try database.enqueue(entry.id, at: journalTime())
        }
        try database.note(.moved, entry: entry.id, item: entry.item, parent: parent, from: former, isRename: true)
        try noteConflictEnd(of: entry.document, called: former.name, now: name, database)
        if ConflictName(name) != nil { try noteConflicts(of: entry, database) }
    }

    /// What is in a directory that comes to where everything stays here, or from there, is told of at once.
    private func settleHeld(
        _ row: ItemRow,
        _ moved: EntryRow,
        from former: EntryRow,
        _ database: Database
    ) throws(Errno) {
        guard row.kind == .directory, !moved.isUploaded else { return }
        guard former.parent != moved.parent || former.flags.contains(.localOnly) != moved.flags.contains(.localOnly)
        else { return }
        try database.settleHeld(below: row.id)
    }

    private func touchAfterMove(
        _ row: ItemRow,
        from oldParent: ItemID,
        to newParent: ItemID,
        at now: Timestamp,
        _ database: Database
    ) throws(Errno) {
        try database.touch(row.id, modified: false, at: now)
        try database.touch(oldParent, modified: true, at: now)
        guard oldParent != newParent else { return }
        try database.touch(newParent, modified: true, at: now)
        if row.kind == .directory {
            try database.addLinks(-1, to: oldParent)
            try database.addLinks(1, to: newParent)
        }
    }

    /// Puts one entry in the place of another.
    private func replace(
        _ target: EntryRow,
        by source: EntryRow,
        at now: Timestamp,
        _ database: Database
    ) throws(Errno) -> Removal {
        let row = try database.existingItem(source.item)
        let replaced = try database.existingItem(target.item)
        if row.kind == .directory {
            guard replaced.kind == .directory else { throw .notDirectory }
            if try database.directory(target.parent, isInside: row.id) { throw .invalidArgument }
            try requireEmpty(replaced, database)
        } else if replaced.kind == .directory {
            throw .isDirectory
        }
        let target = try passOn(target, replaced, database)
        let isSafeSave = !source.isUploaded && row.kind == replaced.kind && row.kind != .directory
        guard isSafeSave else {
            let removal = try detach(target, replaced, at: now, database)
            var heir = source
            // Whoever pinned what had this name meant what has it.
            if row.kind == .file, heir.flags.policy == .inherited { heir.flags.policy = target.flags.policy }
            try move(heir, to: target.parent, target.name, at: now, database)
            // What took another document's name is no backup: whoever makes the next file of its former name is not it.
            if row.kind != .directory, target.isUploaded, !target.name.starts(with: source.name) {
                _ = tombstones.take(source.place, now: clock.monotonic(), database)
            }
            var kept = removal
            kept.departed = nil
            return kept
        }
        try contents.keepVersion(replaced, of: target, database)
        try database.inheritBirth(of: replaced.id, by: row.id)
        // The document stays, with its name, cookie and identity; its bytes are the new item's.
        var document = target
        document.item = row.id
        document.flags.insert(.metadataChanged)
        if !document.isUploaded {
            document.flags.remove(.localOnly)
            document.flags.formUnion(try localFlags(row.kind, target.place, database))
        }
        try database.deleteEntry(source.id)
        try takeUpUnanswered(source.document, database)
        try database.update(document)
        if document.flags.contains(.localOnly) {
            try database.dequeue(document.id)
            try takeUpUnanswered(document.document, database)
        } else {
            try database.enqueue(document.id, at: journalTime())
        }
        try touchAfterMove(row, from: source.parent, to: target.parent, at: now, database)
        try database.note(.removed, entry: source.id, item: row.id, parent: source.parent, from: source.place)
        try database.note(.content, entry: document.id, item: row.id, parent: document.parent)
        try database.addLinks(-1, to: replaced.id)
        try database.touch(replaced.id, modified: false, at: now)
        var removal = Removal()
        if replaced.linkCount <= 1 {
            try keepFetchable(replaced, of: document, database)
            removal.orphan = replaced.id
            removal.isDropped = try drop(replaced, database)
        }
        return removal
    }

    /// Swaps two names: two uploaded documents swap places, a never uploaded item gives its bytes to the document, and so does
    /// one, with `isSave`, to an excluded one.
    private func exchange(
        _ first: EntryRow,
        _ second: EntryRow,
        isSave: Bool,
        at now: Timestamp,
        _ database: Database
    ) throws(Errno) {
        let firstRow = try database.existingItem(first.item)
        let secondRow = try database.existingItem(second.item)
        if firstRow.kind == .directory, try database.directory(second.parent, isInside: firstRow.id) {
            throw .invalidArgument
        }
        if secondRow.kind == .directory, try database.directory(first.parent, isInside: secondRow.id) {
            throw .invalidArgument
        }
        // Bytes that are only at the provider can't change documents.
        let isSave =
            firstRow.kind == .file && secondRow.kind == .file
            && (isSave
                || first.isUploaded != second.isUploaded
                    && (first.isUploaded ? firstRow : secondRow).residency == .whole)
        var one = first
        var other = second
        if isSave {
            if first.isUploaded {
                try contents.keepVersion(firstRow, of: first, database)
            } else if second.isUploaded {
                try contents.keepVersion(secondRow, of: second, database)
            }
            swap(&one.item, &other.item)
            try database.exchangeBirths(firstRow, secondRow)
            for entry in [one, other] {
                var changed = entry
                changed.flags.insert(.metadataChanged)
                if isSave, !entry.isUploaded {
                    changed.flags.formUnion(try localFlags(.file, entry.place, database))
                }
                try database.update(changed)
                if !changed.flags.contains(.localOnly) {
                    try database.enqueue(entry.id, at: journalTime())
                } else if !entry.flags.contains(.localOnly) {
                    try database.dequeue(entry.id)
                    try takeUpUnanswered(entry.document, database)
                }
                try database.note(.content, entry: entry.id, item: entry.item, parent: entry.parent)
            }
        } else {
            // The unique index on names allows no two entries of one name, not even for a moment.
            var parked = one
            parked.name = [0x2F] + first.name
            try database.update(parked)
            try relocate(&other, to: first.parent, first.name, secondRow, database)
            try database.update(other)
            try relocate(&one, to: second.parent, second.name, firstRow, database)
            try database.update(one)
            try settleHeld(firstRow, one, from: first, database)
            try settleHeld(secondRow, other, from: second, database)
        }
        for row in [firstRow, secondRow] { try database.touch(row.id, modified: false, at: now) }
        for parent in Set([first.parent, second.parent]) { try database.touch(parent, modified: true, at: now) }
        let difference = Int64(firstRow.kind == .directory ? 1 : 0) - Int64(secondRow.kind == .directory ? 1 : 0)
        if first.parent != second.parent, difference != 0 {
            try database.addLinks(-difference, to: first.parent)
            try database.addLinks(difference, to: second.parent)
        }
    }
}
