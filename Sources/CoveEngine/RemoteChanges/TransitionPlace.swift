internal import CoveCore

/// Where a transition happens in the tree as it is here.
struct TransitionPlace {
    var parent: ItemID
    var name: [UInt8]
    var path: RemotePath
    var item: ItemID
    var isListed: Bool
    var isDirectory: Bool
    /// True for a directory that was made on both sides: it stays, and becomes the provider's too.
    var isMerge = false
    var target: (parent: ItemID, name: [UInt8])?
    var targetPath: RemotePath?
    /// The date that other attributes are shown with; nil where nothing is shown of them.
    var time: Timestamp?
    /// A directory that is in the way.
    var aside: Aside?
    var change: Transition.Kind

    /// The call that shows it; nil for what is not shown.
    func announcement(_ token: [UInt8]?) -> Announcement? {
        switch change {
        case .insert, .replace, .restore:
            .rename(from: path.parent.appending(FileName(unchecked: token ?? [])), to: path)
        case .remove: isDirectory ? .removeDirectory(path) : .unlink(path)
        case .move: .rename(from: path, to: targetPath ?? path)
        case .metadata: time.map { .setTimes(path, $0) }
        }
    }
}

extension RemoteChanges {
    /// True when what the provider has at a place and what was made there here are one directory.
    func merges(_ remote: RemoteItem?, _ occupant: EntryRow, _ database: Database) throws(Errno) -> Bool {
        guard remote?.kind == .directory, !occupant.isUploaded, try !database.isExcluded(occupant.place) else {
            return false
        }
        return try database.existingItem(occupant.item).kind == .directory
    }

    /// Finds out where a transition happens; nil when there is nothing to do any more.
    func place(of transition: Transition, _ database: Database) throws(Errno) -> TransitionPlace? {
        func listed(_ directory: ItemID) throws(Errno) -> Bool {
            try database.item(directory)?.residency == .whole
        }
        switch transition.kind {
        case .insert(let parent, let name):
            guard let directory = try database.path(ofDirectory: parent) else { return nil }
            var isMerge = false
            var inTheWay: Aside?
            if let occupant = try database.entry(parent, name) {
                isMerge = try merges(transition.remote, occupant, database)
                inTheWay = try aside(occupant, database)
            }
            return TransitionPlace(
                parent: parent,
                name: name,
                path: directory.appending(FileName(unchecked: name)),
                item: parent,
                isListed: try listed(parent),
                isDirectory: transition.remote?.kind == .directory,
                isMerge: isMerge,
                aside: inTheWay,
                change: transition.kind
            )
        case .replace(let id), .remove(let id), .metadata(let id), .move(let id, _, _), .restore(let id, _):
            guard let entry = try database.entry(id: id), let row = try database.item(entry.item),
                let directory = try database.path(ofDirectory: entry.parent)
            else { return nil }
            var place = TransitionPlace(
                parent: entry.parent,
                name: entry.name,
                path: directory.appending(FileName(unchecked: entry.name)),
                item: row.id,
                isListed: try listed(entry.parent),
                isDirectory: row.kind == .directory,
                change: transition.kind
            )
            if case .metadata = transition.kind { place.time = time(of: transition.remote, entry, row) }
            if case .move(_, let parent, let name) = transition.kind {
                guard let target = try database.path(ofDirectory: parent) else { return nil }
                place.target = (parent, name)
                place.targetPath = target.appending(FileName(unchecked: name))
                if let occupant = try database.entry(parent, name), occupant.id != id,
                    !isSuperseded(occupant, by: transition.remote, row)
                {
                    place.aside = try aside(occupant, database)
                }
            }
            return place
        }
    }

    /// The date that a document has after it got other attributes at the provider; nil where no date can be shown.
    ///
    /// The provider's is that of the bytes there. The kernel may have a later one for a file that is open for writing.
    func time(of remote: RemoteItem?, _ entry: EntryRow, _ row: ItemRow) -> Timestamp? {
        if entry.flags.contains(.metadataChanged) { return nil }
        guard row.kind != .directory else { return row.modificationTime }
        if contents.live.isWritable(row.id) { return nil }
        if entry.hasUnsentContent(generation: row.generation) { return row.modificationTime }
        return remote?.metadata.modificationTime ?? row.modificationTime
    }

    /// How what has a name leaves it; nil unless it is a directory.
    private func aside(_ occupant: EntryRow, _ database: Database) throws(Errno) -> Aside? {
        guard try database.existingItem(occupant.item).kind == .directory else { return nil }
        let name = try namespace.conflictName(occupant.parent, occupant.name, database)
        return Aside(entry: occupant.id, place: occupant.place, name: name)
    }
}
