internal import CoveCore

/// What one change of the provider means here.
extension SyncEngine {
    /// True for what has been asked for by its name, was elsewhere, was deleted here, or has a hidden name: of a directory that
    /// was never listed nothing else is taken in.
    private nonisolated func isKnown(
        _ remote: RemoteItem,
        in directory: ItemID,
        _ database: Database
    ) throws(Errno) -> Bool {
        if FileName(unchecked: remote.name).isReserved { return true }
        if try database.entry(remoteParent: directory, remoteName: remote.name) != nil { return true }
        if try database.pendingTrash(remoteParent: directory, remoteName: remote.name) != nil { return true }
        if try database.underway(at: Place(directory, remote.name)) != nil { return true }
        guard host.provider.capabilities.stableIDs else { return false }
        if try database.entry(remoteID: remote.id) != nil { return true }
        return try database.pendingTrash(remoteID: remote.id) != nil
    }

    /// The items that the catalog does not know exactly so.
    nonisolated func different(
        _ items: [RemoteItem],
        from directory: ItemID,
        _ database: Database
    ) throws(Errno) -> [RemoteItem] {
        var changed: [RemoteItem] = []
        let isListed = try database.item(directory)?.residency == .whole
        for remote in items {
            if !isListed, try !isKnown(remote, in: directory, database) { continue }
            let entry = try database.entry(remoteParent: directory, remoteName: remote.name)
            var isSame =
                entry?.remoteID == remote.id && entry?.remoteVersion == remote.contentVersion
                && entry?.remoteMetadata == remote.metadataVersion
            // Where one was taken for the other, ids that are paths and the versions of directories tell nothing.
            if isSame, remote.kind == .directory, let entry {
                isSame = try database.item(entry.item)?.kind == .directory
            }
            if !isSame { changed.append(remote) }
        }
        return changed
    }

    /// Compares what the provider has with the catalog; changes nothing but acknowledged places.
    nonisolated func decide(
        _ remote: RemoteItem,
        _ path: RemotePath,
        seen: MonotonicTime,
        _ database: Database
    ) throws(Errno) -> Decision {
        guard let directory = try database.directory(atRemotePath: path) else { return .elsewhere }
        guard let row = try database.item(directory), row.kind == .directory else { return .nothing }
        let name = FileName(unchecked: remote.name)
        if name.isReserved { return try decideHidden(name, remote, in: directory, seen: seen, database) }
        if let problem = host.namespace.problem(with: remote) {
            try host.namespace.recordProblem(path.appending(FileName(unchecked: remote.name)), problem, database)
            return .nothing
        }
        try database.forgetProblem(at: path.appending(FileName(unchecked: remote.name)).bytes)
        let place = Place(directory, remote.name)
        if let decision = try decideUnanswered(remote, place, seen: seen, database) { return decision }
        if let entry = try database.entry(remoteParent: directory, remoteName: remote.name) {
            if let answer = answer(seen, entry.document, place) { return answer }
            return try decideKnown(entry, remote, seen: seen, database)
        }
        if host.provider.capabilities.stableIDs, let entry = try database.entry(remoteID: remote.id) {
            if let answer = answer(seen, entry.document, place) { return answer }
            // It was moved there from here, which was not answered; meanwhile it may be where it was again.
            if let sent = try database.underway(entry.document), sent.place == place, sent.item == nil {
                return .takeUp(sent)
            }
            return try decideMoved(entry, remote, to: directory, seen: seen, database)
        }
        if let trashed = try database.pendingTrash(remoteParent: directory, remoteName: remote.name) {
            if let answer = answer(seen, trashed.document, place) { return answer }
            // Deleted here; only other bytes than the deleted ones bring it back.
            let isSame = remote.kind == trashed.kind && trashed.remoteVersion == remote.contentVersion
            return isSame || remote.kind == .directory ? .nothing : .resurrect(trashed)
        }
        if host.provider.capabilities.stableIDs, var trashed = try database.pendingTrash(remoteID: remote.id),
            trashed.kind == remote.kind, trashed.remoteVersion == remote.contentVersion
        {
            if let answer = answer(seen, trashed.document, place) { return answer }
            // Deleted here, and moved there before: the deletion follows it.
            trashed.remoteParent = directory
            trashed.remoteName = remote.name
            try database.update(trashed)
            return .nothing
        }
        // A directory that was never listed is listed when something opens it.
        guard row.residency == .whole else { return .nothing }
        if let answer = answer(seen, nil, place) { return answer }
        // What was sent there and never answered may have arrived.
        if let sent = try database.underway(at: place) { return .takeUp(sent) }
        if let occupant = try database.entry(directory, remote.name) {
            if let answer = answer(seen, occupant.document, place) { return answer }
            // An attempt to send it may have arrived: the push finds out whether this is it.
            if !occupant.isUploaded, try database.journalRow(occupant.id)?.wasSent == true { return .nothing }
            if !occupant.isUploaded, remote.kind == .file, try database.journalRow(occupant.id) != nil {
                // The push compares the two before it calls them a conflict.
                try database.run("UPDATE journal SET changed = 0, retry = 0 WHERE entry = ?", .int(occupant.id))
                host.wakeSync()
                return .nothing
            }
        }
        return .show(Transition(kind: .insert(parent: directory, name: remote.name), remote: remote, seen: seen))
    }

    /// Bytes that were sent to a place and never answered may have arrived: whoever sent them finds out first.
    private nonisolated func decideUnanswered(
        _ remote: RemoteItem,
        _ place: Place,
        seen: MonotonicTime,
        _ database: Database
    ) throws(Errno) -> Decision? {
        guard let sent = try database.underway(at: place), sent.item != nil, sent.kind == remote.kind else {
            return nil
        }
        if let answer = answer(seen, sent.document, place) { return answer }
        guard try database.isToBeCompared(sent) else { return .takeUp(sent) }
        guard let entry = try database.entry(document: sent.document),
            entry.remoteVersion != remote.contentVersion, try database.journalRow(entry.id) != nil
        else { return nil }
        // The next attempt compares the two before it calls them a conflict.
        try database.run("UPDATE journal SET changed = 0, retry = 0 WHERE entry = ?", .int(entry.id))
        host.wakeSync()
        return .nothing
    }

    /// What to do first when a push is in the way of a look at the provider, or came after it.
    nonisolated func answer(_ seen: MonotonicTime, _ document: DocumentID?, _ place: Place) -> Decision? {
        switch doubt(seen, of: document, at: place) {
        case .busy(let document): .wait(document)
        case .overtaken: .lookAgain
        case nil: nil
        }
    }

    private nonisolated func decideKnown(
        _ entry: EntryRow,
        _ remote: RemoteItem,
        seen: MonotonicTime,
        _ database: Database
    ) throws(Errno) -> Decision {
        let row = try database.existingItem(entry.item)
        if row.kind != remote.kind {
            return row.kind == .directory
                ? .removeTree(entry.id) : .show(Transition(kind: .remove(entry: entry.id), remote: nil, seen: seen))
        }
        if row.kind == .directory {
            if entry.remoteMetadata == remote.metadataVersion, entry.remoteID == remote.id { return .nothing }
            let transition = Transition(kind: .metadata(entry: entry.id), remote: remote, seen: seen)
            return entry.remoteID == remote.id ? .show(transition) : .showReplaced(transition)
        }
        if let known = entry.remoteVersion, known != remote.contentVersion, remote.contentVersion.isSame(as: known) {
            return .rebase(entry: entry.id, item: row.id, from: known)
        }
        if entry.remoteVersion == remote.contentVersion {
            let isSame = entry.remoteMetadata == remote.metadataVersion
            if isSame, entry.remoteID == remote.id {
                // A listing may not tell what a look at one item does.
                if let editor = remote.editor { try database.storeEditor(editor, of: row.id) }
                return .nothing
            }
            if isSame || entry.remoteMetadata?.bytes.isEmpty != false {
                // Not told when the bytes were sent, its directory was moved since, or it was deleted here and made anew.
                var known = entry
                known.remoteMetadata = remote.metadataVersion
                known.remoteID = remote.id
                try database.update(known)
                try host.namespace.storeTold(remote, of: row.id, hasNewContent: false, database)
                return .nothing
            }
            return .show(Transition(kind: .metadata(entry: entry.id), remote: remote, seen: seen))
        }
        if entry.hasUnsentContent(generation: row.generation), let journal = try database.journalRow(entry.id),
            journal.wasSent || mayBeSame(row, remote, journal)
        {
            // An attempt to send it may have arrived, or both sides have made the same of it: the push compares the bytes.
            try database.run("UPDATE journal SET changed = 0, retry = 0 WHERE entry = ?", .int(entry.id))
            host.wakeSync()
            return .nothing
        }
        if host.provider.capabilities.stableIDs, entry.remoteID != remote.id,
            let heir = try database.entry(remoteID: remote.id)
        {
            try host.access.noteReplaced(entry, by: heir, database)
        }
        return .show(Transition(kind: .replace(entry: entry.id), remote: remote, seen: seen))
    }

    /// True where the bytes of both sides can be compared, soon and once, and may be the same.
    private nonisolated func mayBeSame(_ row: ItemRow, _ remote: RemoteItem, _ journal: JournalRow) -> Bool {
        row.residency == .whole && row.size == remote.size && journal.attempts == 0
            && !host.contents.live.isWritable(row.id)
    }

    private nonisolated func decideMoved(
        _ entry: EntryRow,
        _ remote: RemoteItem,
        to directory: ItemID,
        seen: MonotonicTime,
        _ database: Database
    ) throws(Errno) -> Decision {
        let row = try database.existingItem(entry.item)
        guard row.kind == remote.kind else { return .nothing }
        if entry.isMoved || entry.hasUnsentContent(generation: row.generation),
            let old = try database.remoteReference(of: entry)?.path
        {
            // What was told of its old name meanwhile may have been taken for what was sent of it.
            enqueue([.directoryChanged(old.parent)], seen: .distantPast)
        }
        if let occupant = try database.entry(directory, remote.name), occupant.id != entry.id, occupant.isUploaded,
            !occupant.isMoved, row.kind != .directory
        {
            // The place is another document's, which must have left it too: its bytes become these.
            try host.access.noteReplaced(occupant, by: entry, database)
            return .show(Transition(kind: .replace(entry: occupant.id), remote: remote, seen: seen))
        }
        if try database.item(directory)?.residency != .whole, row.kind == .directory { return .nothing }
        guard !entry.isMoved else {
            // Moved on both sides: the place here stays and is sent.
            var moved = entry
            moved.remoteParent = directory
            moved.remoteName = remote.name
            if moved.parent == directory, moved.name == remote.name {
                moved.remoteParent = nil
                moved.remoteName = nil
            }
            try database.update(moved)
            if row.kind == .directory {
                // What was told of it there, before this was known, was taken for what is found when somebody lists it.
                let changes = try listings(below: row.id, database)
                database.whenCommitted { [self] in enqueue(changes, seen: .distantPast) }
            }
            return .nothing
        }
        return .show(
            Transition(kind: .move(entry: entry.id, parent: directory, name: remote.name), remote: remote, seen: seen)
        )
    }
}
