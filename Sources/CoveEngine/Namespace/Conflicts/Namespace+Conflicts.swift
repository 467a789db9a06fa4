internal import CoveCore
internal import Glibc
internal import Synchronization

/// Keeping both contents.
extension Namespace {
    /// A free name beside a document for its other content.
    func conflictName(_ parent: ItemID, _ name: [UInt8], _ database: Database) throws(Errno) -> [UInt8] {
        try Namespace.conflictName(parent, name, host: configuration.hostName, at: clock.now(), database)
    }

    static func conflictName(
        _ parent: ItemID,
        _ name: [UInt8],
        host: String,
        at now: Timestamp,
        _ database: Database
    ) throws(Errno) -> [UInt8] {
        let base = FileName(unchecked: withoutConflict(name))
        var number = 1
        while true {
            let candidate = ConflictCopy.name(of: base, host: host, at: now, number: number).bytes
            let here = try database.entry(parent, candidate)
            let there = try database.entry(remoteParent: parent, remoteName: candidate)
            if here == nil, there == nil { return candidate }
            number += 1
        }
    }

    /// A name without what made it a conflict copy's: copies of copies don't add up.
    static func withoutConflict(_ name: [UInt8]) -> [UInt8] {
        let (stem, suffix) = FileName(unchecked: name).stemAndExtension
        var kept = stem[...]
        while kept.last == 0x29, let start = kept.lastIndex(of: 0x28), start > 1, kept[start - 1] == 0x20,
            [" (conflict from ", " (incomplete from "].contains(where: { kept[(start - 1)...].starts(with: $0.utf8) })
        {
            kept = kept[..<(start - 1)]
        }
        return Array(kept) + suffix
    }

    /// Gives locally changed bytes an entry of their own, because their document now has other bytes.
    func keepAsConflict(
        _ item: ItemID,
        of document: EntryRow,
        _ database: Database
    ) throws(Errno) -> (parent: ItemID, name: [UInt8]) {
        let name = try conflictName(document.parent, document.name, database)
        let copy = EntryRow(parent: document.parent, name: name, item: item)
        let id = try database.insert(copy)
        try database.recordConflict(
            copy: copy.document,
            of: document.document,
            host: configuration.hostName,
            at: journalTime()
        )
        try database.enqueue(id, at: journalTime())
        try database.note(.created, entry: id, item: item, parent: document.parent)
        log.notice("conflict: \(document.document) was changed on both sides; both contents are kept")
        return (document.parent, name)
    }

    /// Moves a local entry out of the way of a document that the provider has under the same name.
    func setAside(
        _ occupant: EntryRow,
        as name: [UInt8],
        for document: DocumentID,
        _ database: Database
    ) throws(Errno) {
        var moved = occupant
        if moved.isUploaded {
            moved.remoteParent = moved.remoteParent ?? moved.parent
            moved.remoteName = moved.remoteName ?? moved.name
        }
        moved.name = name
        if !moved.isUploaded, let excluded = try database.excludedPlace(occupant.place) {
            // The name is the cloud's from now on.
            try database.include(occupant.place)
            try database.exclude(moved.place, isAsked: excluded.isAsked)
            let path = try database.path(of: moved)
            log.notice("\(path): it is excluded, and has this name since the source has something of its former one")
        }
        try database.update(moved)
        if !moved.flags.contains(.localOnly) { try database.enqueue(moved.id, at: journalTime()) }
        try database.recordConflict(copy: moved.document, of: document, host: configuration.hostName, at: journalTime())
        try database.note(.moved, entry: moved.id, item: moved.item, parent: moved.parent, from: occupant.place)
    }

    /// Gives an item a name again because a program wrote to it after a remote change had taken its name.
    func rescue(_ id: ItemID, home: Place, _ database: Database) throws(Errno) -> RescuedEntry {
        let host = configuration.hostName
        let rescued = try Namespace.rescue(id, home: home, host: host, at: journalTime(), database)
        contents.live.keep(id)
        return rescued
    }

    static func rescue(
        _ id: ItemID,
        home: Place,
        host: String,
        at now: Timestamp,
        _ database: Database
    ) throws(Errno) -> RescuedEntry {
        var place = home
        let parent = try database.item(home.parent)
        let isThere = home.parent == .root || (parent?.kind == .directory && (parent?.linkCount ?? 0) > 0)
        if !isThere { place.parent = .root }
        let document = try database.entry(place.parent, place.name)
        let name = try conflictName(place.parent, place.name, host: host, at: now, database)
        let copy = EntryRow(parent: place.parent, name: name, item: id)
        if try database.isExcluded(home) { try database.exclude(copy.place, isAsked: false) }
        let entry = try database.insert(copy)
        try database.run("UPDATE items SET nlink = nlink + 1, home = NULL WHERE id = ?", .item(id))
        if let document {
            try database.recordConflict(copy: copy.document, of: document.document, host: host, at: now)
        }
        try database.enqueue(entry, at: now)
        try database.note(.created, entry: entry, item: id, parent: place.parent)
        return RescuedEntry(parent: place.parent, name: name)
    }

    func showRescued(_ entry: RescuedEntry) {
        kernel?.invalidateEntry(entry.parent, entry.name)
    }

    /// True for a place that another entry than one has, here or at the provider.
    private func isTaken(_ place: Place, besides id: Int64, _ database: Database) throws(Errno) -> Bool {
        for other in [
            try database.entry(place.parent, place.name),
            try database.entry(remoteParent: place.parent, remoteName: place.name),
        ] {
            if let other, other.id != id { return true }
        }
        return false
    }

    /// Gives a file of which bytes are gone a name that says so, unless it has one.
    func nameIncomplete(_ id: Int64, missing: Int64) throws(Errno) {
        let found = try catalog.write { database throws(Errno) -> (Place, Place)? in
            guard var entry = try database.entry(id: id) else { return nil }
            // Whatever the provider has is another file than this one.
            if entry.isUploaded { forgetRemote(&entry) }
            let former = entry.place
            let base = FileName(unchecked: Namespace.withoutConflict(entry.name))
            var number = 1
            repeat {
                let suffix = number == 1 ? "" : " \(number)"
                entry.name = base.inserting(" (incomplete from \(configuration.hostName)\(suffix))").bytes
                number += 1
            } while try isTaken(entry.place, besides: id, database)
            try database.update(entry)
            try database.enqueue(entry.id, at: journalTime())
            if entry.place != former {
                try database.note(.moved, entry: entry.id, item: entry.item, parent: entry.parent, from: former)
            }
            let path = try database.path(of: entry)
            log.notice("\(path): \(missing) of its bytes were only at the source and are gone; zeros stand for them")
            return (former, entry.place)
        }
        guard let (former, place) = found else { return }
        let kernel = kernel
        for place in [former, place] { kernel?.invalidateEntry(place.parent, place.name) }
    }
}
