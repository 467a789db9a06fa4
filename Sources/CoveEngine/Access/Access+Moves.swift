internal import CoveCore

/// Moves by which an app could keep what is no longer its own, or take from others what they have in the cloud.
extension Access {
    /// The app that what is done is asked of; nothing where the caller is the user's own.
    ///
    /// Asked before a change: who calls is nothing that the catalog knows.
    func actor(_ caller: Caller) throws(Errno) -> AppIdentifier? {
        // Of what was done already nothing is asked again.
        try contents.earlierResult(caller) == nil ? try app(of: caller) : nil
    }

    /// Refuses, inside the change, to make a document of another place what has more names or is excluded; `EPERM`.
    ///
    /// By its other names an app would go on having the document once that is no longer given to it, and what is excluded takes what
    /// it replaces out of the cloud. A copy would do neither, but who is told so by `EXDEV` removes the name first, and with the
    /// name what the app was given.
    func admitSave(of source: EntryRow, to place: Place, _ database: Database) throws(Errno) {
        if try namespace.isExcluded(source.place, database), try !namespace.isExcluded(place, database) {
            throw .notPermitted
        }
        if try leavesNames(source, to: place, database) { throw .notPermitted }
    }

    /// The same before a name is given up for it.
    func admitSave(of source: Place, to place: Place) throws(Errno) {
        try catalog.read { database throws(Errno) in
            guard let entry = try database.entry(source.parent, source.name) else { return }
            try self.admitSave(of: entry, to: place, database)
        }
    }

    /// Refuses, inside the change, to take what has more names to where others than before have it, and an app to save what is
    /// excluded over what it was only given; `EXDEV`, for which mv(1) makes a copy.
    func admitMove(
        of source: EntryRow,
        to place: Place,
        _ flags: UInt32,
        by app: AppIdentifier?,
        _ database: Database
    ) throws(Errno) {
        if try leavesNames(source, to: place, database) { throw .crossDevice }
        let isExchange = flags & Self.exchange != 0
        guard isExchange || app != nil else { return }
        let target = try database.entry(place.parent, place.name)
        if isExchange, let target, try leavesNames(target, to: source.place, database) { throw .crossDevice }
        guard let app, try namespace.isExcluded(source.place, database) != namespace.isExcluded(place, database) else {
            return
        }
        for entry in [source, target] {
            if let entry, try !isOpen(entry, to: app, database) { throw .crossDevice }
        }
    }

    /// Refuses, inside the change, another name for what an app was only given: it would outlive that.
    func admitLink(to id: ItemID, by app: AppIdentifier?, _ database: Database) throws(Errno) {
        guard let app else { return }
        for entry in try database.entries(of: id) where try isOpen(entry, to: app, database) { return }
        // What has no name yet was never given to anybody.
        if try !isAdmitted(app, unnamed: id, .writing, database) { throw .crossDevice }
    }

    /// Who has what is in a folder without having been given it.
    private enum Owner: Equatable {
        case everybody
        case app(AppIdentifier)
        /// It is not known whose it is.
        case unknown(ItemID)
    }

    private func owner(of folder: ItemID, _ database: Database) throws(Errno) -> Owner {
        var current = folder
        var steps = 0
        while current != .root {
            guard steps < 4096, let entry = try database.entry(ofDirectory: current) else { return .unknown(folder) }
            if entry.parent == .root { return try owner(ofTop: entry, database) }
            current = entry.parent
            steps += 1
        }
        return .everybody
    }

    private func owner(ofTop top: EntryRow, _ database: Database) throws(Errno) -> Owner {
        let identifier: AppIdentifier?
        switch folders[top.item] {
        case .records: return .unknown(top.item)
        case .container(let known, _): identifier = known
        case nil:
            guard let folder = containerFolder(of: top) else {
                return try isUnjudged(top, database) ? .unknown(top.item) : .everybody
            }
            identifier = AppIdentifier(folder.description)
        }
        return identifier.flatMap { registry.containers[$0]?.app }.map { .app($0) } ?? .unknown(top.item)
    }

    /// True where an entry comes to another owner, but not all names of what it stands for, or of what is in it.
    private func leavesNames(_ source: EntryRow, to place: Place, _ database: Database) throws(Errno) -> Bool {
        guard !folders.isEmpty, source.parent != place.parent else { return false }
        let row = try database.existingItem(source.item)
        guard row.kind == .directory || row.linkCount > 1 else { return false }
        let owner = try owner(of: place.parent, database)
        if try self.owner(of: source.parent, database) == owner { return false }
        let items = row.kind == .directory ? try database.linkedItems(below: row.id) : [row.id]
        for item in items {
            for entry in try database.entries(of: item) where entry.id != source.id {
                if row.kind == .directory, try database.directory(entry.parent, isInside: row.id) { continue }
                if try self.owner(of: entry.parent, database) != owner { return true }
            }
        }
        return false
    }
}
