internal import CoveCore
internal import Dispatch
internal import Glibc
internal import Synchronization

/// Committing remote changes. Each checks inside its transaction that what was decided on still holds.
extension RemoteChanges {
    /// What is left to do after such a commit.
    struct Aftermath {
        var dropped: [ItemID] = []
        var newNames: [(parent: ItemID, name: [UInt8])] = []
        /// What was to be removed stays: something of it is only here.
        var isKept = false
        /// Something here has to be sent.
        var mustSend = false
    }

    /// True when what was to be removed stays, since something of it is only here.
    @discardableResult
    func commit(_ transition: Transition, staged: ItemID?, for caller: Caller? = nil) throws(Errno) -> Bool {
        let isWantedAgain = try mustComeAgain(transition)
        let aftermath = try catalog.write(for: caller) { database throws(Errno) -> Aftermath in
            try self.checkDocument(of: transition, database)
            try self.checkTime(of: transition, database)
            try self.checkNews(transition, database)
            try self.checkCloud(transition, database)
            self.log.debug("taking in \(transition.kind)")
            switch transition.kind {
            case .insert(let parent, let name):
                guard let remote = transition.remote else { throw .invalidArgument }
                return try self.commitInsert(remote, parent, name, staged, transition.aside, database)
            case .replace(let id):
                guard let remote = transition.remote else { throw .invalidArgument }
                return try self.commitReplace(id, remote, staged, isWanted: isWantedAgain, database)
            case .remove(let id):
                if let top = transition.top, try !database.isPart(id, of: top) { throw .busy }
                return try self.commitRemove(id, database)
            case .move(let id, let parent, let name):
                guard let remote = transition.remote else { throw .invalidArgument }
                // Moved here since it was decided: that place stays.
                if transition.seen != nil, try database.entry(id: id)?.isMoved == true { throw .busy }
                return try self.commitMove(id, parent, name, remote, transition.aside, database)
            case .metadata(let id):
                guard let remote = transition.remote else { throw .invalidArgument }
                return try self.commitMetadata(id, remote, transition.dated, database)
            case .restore(let id, let item): return try self.commitRestore(id, item, database)
            }
        }
        for id in aftermath.dropped {
            contents.live.endDrop(id)
            contents.removeContent(id)
        }
        if isWantedAgain { namespace.fetchKept() }
        let kernel = kernel
        for (parent, name) in aftermath.newNames { kernel?.invalidateEntry(parent, name) }
        if !aftermath.newNames.isEmpty || aftermath.mustSend { wakeSync() }
        return aftermath.isKept
    }

    /// True for new bytes of a file that was here, where its policy has them come by themselves.
    private func mustComeAgain(_ transition: Transition) throws(Errno) -> Bool {
        guard case .replace(let id) = transition.kind else { return false }
        let known = try catalog.read { database throws(Errno) -> (ItemRow, isWanted: Bool)? in
            guard let entry = try database.entry(id: id), try database.policy(of: entry) == .lazily,
                let row = try database.item(entry.item)
            else { return nil }
            return (row, entry.flags.contains(.wanted))
        }
        guard let (row, isWanted) = known else { return false }
        if isWanted { return true }
        // What has arrived is noted in the catalog only some time later.
        let residency = contents.live.find(row.id)?.state.withLock { $0.row?.residency }
        return (residency ?? row.residency) == .whole
    }

    /// Throws `EBUSY` when a save has made the entry another document's since a push saw what is to be shown.
    private func checkDocument(of transition: Transition, _ database: Database) throws(Errno) {
        guard let sent = transition.sent, let id = transition.kind.entry else { return }
        if try database.entry(id: id)?.document != sent { throw .busy }
    }

    /// Throws `EBUSY` when a push has overtaken what was seen at the provider.
    private func checkTime(of transition: Transition, _ database: Database) throws(Errno) {
        guard let seen = transition.seen, let sync else { return }
        let doubt: Reservations.Doubt?
        switch transition.kind {
        case .insert(let parent, let name): doubt = sync.doubt(seen, of: nil, at: Place(parent, name))
        case .replace(let id), .remove(let id), .metadata(let id):
            doubt = sync.doubt(seen, of: try database.entry(id: id)?.document, at: nil)
        case .move(let id, let parent, let name):
            doubt = sync.doubt(seen, of: try database.entry(id: id)?.document, at: Place(parent, name))
        // It is of this device's own making.
        case .restore: doubt = nil
        }
        if doubt != nil { throw .busy }
    }

    /// Throws `EBUSY` when what was seen at the provider has been taken in since.
    ///
    /// A version that replaces itself would take its bytes away from whoever has just opened it, and one that comes twice
    /// would give way to itself.
    private func checkNews(_ transition: Transition, _ database: Database) throws(Errno) {
        guard transition.seen != nil, let remote = transition.remote else { return }
        switch transition.kind {
        case .insert(let parent, _):
            if try database.entry(remoteParent: parent, remoteName: remote.name) != nil { throw .busy }
        case .replace(let id):
            let entry = try database.entry(id: id)
            if entry?.remoteVersion == remote.contentVersion, entry?.remoteID == remote.id { throw .busy }
        case .remove, .move, .metadata, .restore: return
        }
    }

    /// Throws `EBUSY` when what it is about, or is to be in, has left the cloud since it was decided.
    private func checkCloud(_ transition: Transition, _ database: Database) throws(Errno) {
        switch transition.kind {
        case .insert(let parent, _), .move(_, let parent, _):
            if parent != .root, try database.entry(ofDirectory: parent)?.isUploaded == false { throw .busy }
        case .replace, .remove, .metadata, .restore: break
        }
        guard let id = transition.kind.entry, let entry = try database.entry(id: id), !entry.isUploaded else { return }
        if try namespace.isKeptOut(entry, database) { throw .busy }
    }

    private func commitInsert(
        _ remote: RemoteItem,
        _ parent: ItemID,
        _ name: [UInt8],
        _ staged: ItemID?,
        _ aside: Aside?,
        _ database: Database
    ) throws(Errno) -> Aftermath {
        var aftermath = Aftermath()
        _ = try namespace.liveDirectory(parent, database)
        let document = DocumentID.random()
        if let occupant = try database.entry(parent, name) {
            let row = try database.existingItem(occupant.item)
            if try merges(remote, occupant, database) {
                // Made here just now: no other directory may be moved over it.
                guard staged == nil else { throw .busy }
                // They are one, and it is listed again.
                var merged = occupant
                namespace.acknowledge(remote, &merged, item: row.id, generation: row.generation)
                try database.update(merged)
                try database.dequeue(merged.id)
                return aftermath
            }
            try setAside(occupant, row, as: aside, for: document, &aftermath, database)
        }
        let entry = try namespace.insertRemote(remote, as: document, into: parent, staged: staged, name: name, database)
        try namespace.noteConflicts(of: entry, database)
        try database.touchListing(parent, at: clock.now())
        return aftermath
    }

    private func commitReplace(
        _ id: Int64,
        _ remote: RemoteItem,
        _ staged: ItemID?,
        isWanted: Bool,
        _ database: Database
    ) throws(Errno) -> Aftermath {
        var aftermath = Aftermath()
        guard var entry = try database.entry(id: id) else { throw .busy }
        let old = try database.existingItem(entry.item)
        var row = try namespace.insertItem(for: remote, staged: staged, database)
        let keepsMetadata = entry.hasUnsentMetadataOnly(generation: old.generation)
        try namespace.carry(old, of: entry, to: &row, remote, database)
        if entry.hasUnsentContent(generation: old.generation), try contents.hasOwnBytes(old, database) {
            // Changed on both sides: the local bytes keep their item, under a name of their own.
            aftermath.newNames.append(try namespace.keepAsConflict(old.id, of: entry, database))
        } else {
            if entry.hasUnsentContent(generation: old.generation) {
                log.notice("\(entry.document): what was left of it after a cut was only at the source, and is gone")
            }
            try contents.keepVersion(old, of: entry, database)
            aftermath.dropped += try forget(old, home: entry, database)
        }
        entry.item = row.id
        namespace.acknowledge(remote, &entry, item: row.id, generation: row.generation)
        if !keepsMetadata { entry.flags.remove(.metadataChanged) }
        if isWanted { entry.flags.insert(.wanted) } else { entry.flags.remove(.wanted) }
        try database.update(entry)
        if !entry.isMoved, !keepsMetadata { try database.dequeue(entry.id) }
        try database.touchListing(entry.parent, at: clock.now())
        try database.note(.content, entry: entry.id, item: row.id, parent: entry.parent)
        return aftermath
    }

    private func commitRemove(_ id: Int64, _ database: Database) throws(Errno) -> Aftermath {
        guard var entry = try database.entry(id: id) else { return Aftermath() }
        let row = try database.existingItem(entry.item)
        var aftermath = Aftermath()
        if row.kind == .directory {
            if try database.hasEntries(row.id) {
                // Something here is not at the provider yet: the directory is made there again.
                namespace.forgetRemote(&entry)
                try database.update(entry)
                // No program works on it: it need not rest.
                try database.enqueue(entry.id, at: .epoch)
                // The provider has nothing to add to what is here.
                try database.markListed(row.id)
                aftermath.isKept = true
                return aftermath
            }
            try database.deleteEntry(entry.id)
            try database.addLinks(-1, to: entry.parent)
            try database.run("UPDATE items SET nlink = 0 WHERE id = ?", .item(row.id))
            if try namespace.drop(row, database) { aftermath.dropped.append(row.id) }
        } else if entry.hasUnsentContent(generation: row.generation), try contents.hasOwnBytes(row, database) {
            // Deleted there, changed here: the change wins and is sent as a new document.
            namespace.forgetRemote(&entry)
            try database.update(entry)
            try database.enqueue(entry.id, at: journalTime())
            aftermath.isKept = true
            return aftermath
        } else {
            if row.residency == .whole, row.linkCount <= 1, row.kind == .file {
                let trashed = TrashRow(
                    document: entry.document,
                    path: try database.path(of: entry),
                    kind: row.kind,
                    item: row.id,
                    size: row.size,
                    deleted: journalTime(),
                    isPending: false
                )
                try database.insert(trashed)
            }
            try database.deleteEntry(entry.id)
            try namespace.noteConflictEnd(of: entry.document, called: entry.name, database)
            aftermath.dropped += try forget(row, home: entry, database)
        }
        try database.touchListing(entry.parent, at: clock.now())
        try database.note(.removed, entry: entry.id, item: row.id, parent: entry.parent, from: entry.place)
        return aftermath
    }

    private func commitMove(
        _ id: Int64,
        _ parent: ItemID,
        _ name: [UInt8],
        _ remote: RemoteItem,
        _ aside: Aside?,
        _ database: Database
    ) throws(Errno) -> Aftermath {
        var aftermath = Aftermath()
        guard var entry = try database.entry(id: id) else { throw .busy }
        _ = try namespace.liveDirectory(parent, database)
        let row = try database.existingItem(entry.item)
        if row.kind == .directory, try database.directory(parent, isInside: row.id) { throw .invalidArgument }
        if let occupant = try database.entry(parent, name), occupant.id != id {
            if isSuperseded(occupant, by: remote, row) {
                // It is what this one has become, unless somebody has looked into it since.
                guard let place = try emptyPlace(of: occupant, database) else { throw .busy }
                try database.note(.removed, entry: occupant.id, item: place.id, parent: parent, from: occupant.place)
                try database.deleteEntry(occupant.id)
                try database.addLinks(-1, to: parent)
                try database.run("UPDATE items SET nlink = 0 WHERE id = ?", .item(place.id))
                if try namespace.drop(place, database) { aftermath.dropped.append(place.id) }
            } else {
                let place = try database.existingItem(occupant.item)
                try setAside(occupant, place, as: aside, for: entry.document, &aftermath, database)
            }
        }
        let former = entry.place
        let oldParent = entry.parent
        entry.parent = parent
        entry.name = name
        entry.remoteParent = nil
        entry.remoteName = nil
        entry.remoteID = remote.id
        entry.remoteMetadata = remote.metadataVersion
        try database.update(entry)
        let isClean =
            !entry.flags.contains(.metadataChanged) && !entry.hasUnsentContent(generation: row.generation)
        if isClean { try database.dequeue(entry.id) }
        let now = clock.now()
        try database.touch(row.id, modified: false, at: now)
        try database.touchListing(oldParent, at: now)
        try database.touchListing(parent, at: now)
        if row.kind == .directory, oldParent != parent {
            try database.addLinks(-1, to: oldParent)
            try database.addLinks(1, to: parent)
        }
        try database.note(.moved, entry: entry.id, item: row.id, parent: parent, from: former)
        try namespace.noteConflictEnd(of: entry.document, called: former.name, now: name, database)
        try namespace.noteConflicts(of: entry, database)
        return aftermath
    }

    /// Moves a local entry out of the way; a directory goes where the system call that shows it moves it.
    private func setAside(
        _ occupant: EntryRow,
        _ row: ItemRow,
        as aside: Aside?,
        for document: DocumentID,
        _ aftermath: inout Aftermath,
        _ database: Database
    ) throws(Errno) {
        let name: [UInt8]
        if row.kind == .directory {
            guard let aside, aside.entry == occupant.id, aside.place == occupant.place,
                try database.entry(aside.place.parent, aside.name) == nil
            else { throw .busy }
            name = aside.name
        } else {
            name = try namespace.conflictName(occupant.parent, occupant.name, database)
            aftermath.newNames.append((occupant.parent, name))
        }
        try namespace.setAside(occupant, as: name, for: document, database)
        aftermath.mustSend = true
    }

    /// True for the place that a listing gave to a directory that turns out to have been renamed.
    func isSuperseded(_ occupant: EntryRow, by remote: RemoteItem?, _ row: ItemRow) -> Bool {
        row.kind == .directory && occupant.remoteID != nil && occupant.remoteID == remote?.id
    }

    /// A directory of the provider's of which nothing is here but its name; nil for any other entry.
    private func emptyPlace(of entry: EntryRow, _ database: Database) throws(Errno) -> ItemRow? {
        guard entry.isUploaded, !entry.isMoved else { return nil }
        let row = try database.existingItem(entry.item)
        guard row.kind == .directory, row.residency != .whole, try !database.hasEntries(row.id) else { return nil }
        return row
    }

    private func commitMetadata(
        _ id: Int64,
        _ remote: RemoteItem,
        _ dated: (item: ItemID, time: Timestamp)?,
        _ database: Database
    ) throws(Errno) -> Aftermath {
        guard var entry = try database.entry(id: id) else { throw .busy }
        var row = try database.existingItem(entry.item)
        let time = time(of: remote, entry, row)
        // The kernel keeps the date of a file for itself: it has no other one than is shown.
        if let dated, dated.item != row.id || row.kind == .file && dated.time != time { throw .busy }
        let isLater = row.kind == .file && dated == nil && !entry.flags.contains(.metadataChanged)
        // A program may be writing to it: its date is looked at again once it has closed the file.
        if !isLater || remote.metadata.modificationTime == row.modificationTime {
            entry.remoteMetadata = remote.metadataVersion
        }
        entry.remoteID = remote.id
        try database.update(entry)
        try namespace.storeTold(remote, of: row.id, hasNewContent: false, database)
        guard !entry.flags.contains(.metadataChanged) else { return Aftermath() }
        if let permissions = remote.metadata.permissions { row.permissions = permissions & 0o7777 }
        if let user = remote.metadata.user { row.user = user }
        if let group = remote.metadata.group { row.group = group }
        if row.kind != .directory, !isLater, let time { row.modificationTime = time }
        row.changeTime = clock.now()
        try database.saveAttributes(row)
        if let attributes = remote.metadata.extendedAttributes, provider.capabilities.extendedAttributes {
            try database.removeSharedAttributes(of: row.id)
            for (name, value) in Namespace.admissible(attributes) {
                try database.setExtendedAttribute(name, value, of: row.id)
            }
        }
        let item = row.id
        // Not before the commit, which may fail, and not under the catalog's lock.
        database.whenCommitted { [self] in contentQueue.async { [self] in contents.takeAttributes(of: item) } }
        try database.note(.attributes, entry: entry.id, item: row.id, parent: entry.parent)
        return Aftermath()
    }

    /// Takes one name from an item that a remote change replaced or removed.
    ///
    /// While a program has it open it stays, and a late write gives it a name beside the one it had.
    private func forget(
        _ row: ItemRow,
        home: EntryRow,
        _ database: Database
    ) throws(Errno) -> [ItemID] {
        try database.addLinks(-1, to: row.id)
        guard row.linkCount <= 1 else { return [] }
        if try namespace.drop(row, database) { return [row.id] }
        try database.setHome(Place(home.parent, home.name), of: row.id)
        return []
    }
}
