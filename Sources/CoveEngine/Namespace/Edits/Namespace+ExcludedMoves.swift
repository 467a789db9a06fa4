internal import CoveCore
internal import Synchronization

/// Moves and links from, to and over what stays on this device.
extension Namespace {
    /// Refuses a move that a copy has to stand for, and has exclusion go along with others; true for an exchange of what is excluded
    /// with what is not.
    ///
    /// What the cloud has never comes to where everything stays here: that is `EXDEV`, and mv(1) copies and deletes. What is
    /// excluded takes that along to its new name, and the name that it leaves stays excluded as well, whoever saves under it.
    func admitMove(
        of source: EntryRow,
        to place: Place,
        isExchange: Bool,
        _ database: Database
    ) throws(Errno) -> Bool {
        let row = try database.existingItem(source.item)
        let target = try database.entry(place.parent, place.name)
        try requireCloud(for: source, row, at: place, database)
        try requireOneSide(for: source, row, in: place.parent, database)
        if isExchange, let target {
            let other = try database.existingItem(target.item)
            try requireCloud(for: target, other, at: source.place, database)
            try requireOneSide(for: target, other, in: source.parent, database)
        }
        guard excludesAny.load(ordering: .acquiring) else { return false }
        let isExcluded = try database.isExcluded(source.place)
        let becomesExcluded = try database.isExcluded(place)
        guard isExcluded || becomesExcluded else { return false }
        if isExchange {
            guard let target, isExcluded != becomesExcluded else { return false }
            for entry in [source, target] where try hasRemote(entry, database) { throw .crossDevice }
            try database.exclude(source.place, isAsked: false)
            try database.exclude(place, isAsked: false)
            for entry in [source, target] { try excludeNames(of: entry.item, besides: entry.id, database) }
            return true
        }
        if !becomesExcluded { try database.exclude(place, isAsked: false) }
        // What is being sent of it ends; what has arrived goes again.
        database.whenCommitted { [self] in
            contentQueue.async { [self] in contents.live.find(row.id)?.state.withLock { $0.snapshot?.abort() } }
        }
        try excludeNames(of: row.id, besides: source.id, database)
        if try hasRemote(source, database) {
            guard row.kind == .file, row.residency == .whole else { throw .crossDevice }
            try withdraw(source, database)
        }
        // Its bytes are to be replaced by those that stay here.
        if let target, target.isUploaded, try database.existingItem(target.item).kind != .directory {
            try withdraw(target, database)
        }
        return false
    }

    /// What leaves the cloud by a rename to an excluded name is durable here before.
    func syncBeforeLeaving(_ source: Place, to place: Place) throws(Errno) {
        guard excludesAny.load(ordering: .acquiring) else { return }
        let found = try catalog.glance { database throws(Errno) -> ItemID? in
            guard try database.isExcluded(place), let entry = try database.entry(source.parent, source.name),
                entry.isUploaded, try database.existingItem(entry.item).kind == .file
            else { return nil }
            return entry.item
        }
        if let found { try contents.fsync(found, dataOnly: false) }
    }

    /// Refuses another name for what is not to be both in the cloud and here alone; all names of what is excluded are.
    func admitLink(of row: ItemRow, at place: Place, _ database: Database) throws(Errno) {
        guard excludesAny.load(ordering: .acquiring) else { return }
        let isInside = try keepsOut(place.parent, byExclusion: true, database)
        var isExcluded = try database.isExcluded(place)
        for entry in try database.entries(of: row.id) {
            if try keepsOut(entry.parent, byExclusion: true, database) != isInside { throw .crossDevice }
            if try database.isExcluded(entry.place) { isExcluded = true }
        }
        guard isExcluded else { return }
        try database.exclude(place, isAsked: false)
        try excludeNames(of: row.id, besides: 0, database)
    }

    private func hasRemote(_ entry: EntryRow, _ database: Database) throws(Errno) -> Bool {
        if entry.isUploaded { return true }
        guard try database.existingItem(entry.item).kind == .directory else { return false }
        return try database.hasUploaded(below: entry.item)
    }

    private func requireCloud(
        for entry: EntryRow,
        _ row: ItemRow,
        at place: Place,
        _ database: Database
    ) throws(Errno) {
        var staysHere = false
        if entry.parent != place.parent { staysHere = try keepsOut(place.parent, database) }
        if !staysHere, row.kind == .directory, !entry.isUploaded, !localNames.isScratchDirectory(place.name) {
            staysHere = try localFlags(row.kind, place, database).contains(.localOnly)
        }
        if staysHere, try hasRemote(entry, database) { throw .crossDevice }
    }

    /// What has other names, of the same bytes, leaves or enters an excluded directory as a copy.
    private func requireOneSide(
        for entry: EntryRow,
        _ row: ItemRow,
        in directory: ItemID,
        _ database: Database
    ) throws(Errno) {
        guard row.kind != .directory, row.linkCount > 1, entry.parent != directory else { return }
        let isInside = try keepsOut(entry.parent, byExclusion: true, database)
        if try keepsOut(directory, byExclusion: true, database) != isInside { throw .crossDevice }
    }

    private func excludeNames(of item: ItemID, besides id: Int64, _ database: Database) throws(Errno) {
        guard try database.existingItem(item).kind != .directory else { return }
        for entry in try database.entries(of: item) where entry.id != id {
            if entry.isUploaded { throw .crossDevice }
            try database.exclude(entry.place, isAsked: false)
            try stay(entry, database)
        }
    }
}
