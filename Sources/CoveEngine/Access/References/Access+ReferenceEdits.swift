internal import CLinux
internal import CoveCore
internal import Glibc
internal import Synchronization

/// What programs do to references by their names.
extension Access {
    /// A reference that left a name a moment ago: to a backup, if the name is taken again soon.
    struct DepartedReference: Sendable {
        var row: Int64
        var until: MonotonicTime
    }

    /// A file under such a name: once it is written it becomes what the document is.
    struct Takeover: Sendable {
        var row: Int64
        var place: Place
    }

    /// How a rename is carried out that may concern a reference.
    enum Renaming: Sendable {
        /// It concerns none.
        case ordinary
        /// It has been carried out.
        case done
        /// The file becomes what a document of another place is.
        case onto(Place)
    }

    /// Refuses a name that a reference has.
    func requireNoReference(_ parent: ItemID, _ name: [UInt8]) throws(Errno) {
        if try reference(parent, name) != nil { throw .exists }
    }

    /// Removes a reference, and with it what its app may do; false where the name is none's.
    func unlinkReference(_ parent: ItemID, _ name: [UInt8], _ caller: Caller) throws(Errno) -> Bool {
        guard let row = try reference(parent, name) else { return false }
        if try contents.earlierResult(caller) != nil { return true }
        if configuration.isReadOnly { throw .readOnly }
        try drop(row, for: caller)
        return true
    }

    /// Forgets a reference and what was granted with it, durably: what is revoked stays so.
    func drop(_ row: ReferenceRow, for caller: Caller? = nil) throws(Errno) {
        try catalog.write(for: caller, durable: true) { database throws(Errno) in
            try database.deleteReference(row, drops: true)
            if let parent = row.parent {
                try database.touchListing(parent, at: self.clock.now())
                // The request is to be known.
                try database.note(.attributes, entry: 0, item: parent, parent: parent)
            }
        }
        try countReferences()
        hasReferenceWork.store(true, ordering: .releasing)
        // Nobody hears of the document by it any more.
        if !coordinator.isUncoordinated { followReferences() }
    }

    /// Something has another place now: folders may have taken references with them, or their documents.
    func notePlacesChanged() {
        if hasNoReferences { return }
        hasReferenceWork.store(true, ordering: .releasing)
        if coordinator.isUncoordinated { return }
        contentQueue.async { [self] in followReferences() }
    }

    func followReferences() {
        // A save takes the name of a reference away for a moment.
        let away = Set(departed.contents().values.map(\.row))
        coordinator.followAliases { reference in
            do throws(Errno) {
                return try catalog.read { database throws(Errno) -> Coordinator.ReferencePlace in
                    guard let row = try database.reference(id: reference) else { return .gone }
                    if away.contains(reference) { return .unknown }
                    return try self.path(of: row, database).map { .at($0) } ?? .unknown
                }
            } catch {
                return .unknown
            }
        }
    }

    /// Whether a rename concerns a reference; moves one, or says where its document is.
    func renaming(
        _ parent: ItemID,
        _ name: [UInt8],
        _ newParent: ItemID,
        _ newName: [UInt8],
        flags: UInt32,
        _ caller: Caller
    ) throws(Errno) -> Renaming {
        if hasNoReferences, !Self.isScoped(newName) { return .ordinary }
        let source = try reference(parent, name)
        let target = try reference(newParent, newName)
        guard source != nil || target != nil || Self.isScoped(newName) else {
            guard let left = departed[Place(newParent, newName)], flags & (Self.exchange | Self.whiteout) == 0,
                try isFile(parent, name), let place = try takenPlace(left.row, Place(newParent, newName))
            else { return .ordinary }
            try admit(caller, to: place)
            try admitSave(of: Place(parent, name), to: place)
            try comeBack(left.row, to: Place(newParent, newName))
            return .onto(place)
        }
        if try contents.earlierResult(caller) != nil { return .done }
        if configuration.isReadOnly { throw .readOnly }
        if flags & (Self.exchange | Self.whiteout) != 0 { throw .invalidArgument }
        if target != nil, flags & UInt32(RENAME_NOREPLACE) != 0 { throw .exists }
        guard let source else {
            // A reference's name, or one that an app uses a document by: what is saved there is the document.
            if namespace.isDirectory(parent, name) { throw .notDirectory }
            // Of a document becomes no link, nor anything else that is no file.
            guard try isFile(parent, name) else { throw .invalidArgument }
            guard let place = try original(newParent, newName, .writing) else {
                throw Self.isScoped(newName) ? .notPermitted : .stale
            }
            if flags & UInt32(RENAME_NOREPLACE) != 0 { throw .exists }
            try admit(caller, to: place)
            return .onto(place)
        }
        if source.id == target?.id { return .done }
        try move(source, to: Place(newParent, newName), replacing: target, flags, caller)
        return .done
    }

    private func move(
        _ source: ReferenceRow,
        to place: Place,
        replacing target: ReferenceRow?,
        _ flags: UInt32,
        _ caller: Caller
    ) throws(Errno) {
        if Self.isScoped(place.name) { throw .notPermitted }
        try namespace.checkNewName(place.name)
        let occupant = try catalog.glance { database throws(Errno) in try database.entry(place.parent, place.name) }
        if let occupant {
            if flags & UInt32(RENAME_NOREPLACE) != 0 { throw .exists }
            let (isDirectory, home) = try catalog.glance { database throws(Errno) in
                (
                    try database.item(occupant.item)?.kind == .directory,
                    try self.container(of: place.parent, database)?.record.identifier
                )
            }
            if isDirectory { throw .isDirectory }
            guard home == source.container else { throw .crossDevice }
            try namespace.unlink(place.parent, place.name, ownCaller)
        }
        let former = source.parent.map { Place($0, source.name) }
        try catalog.write(for: caller) { database throws(Errno) in
            guard let container = try self.container(of: place.parent, database) else { throw .crossDevice }
            // It is the container's: elsewhere it would be another app's, or nobody's.
            guard container.record.identifier == source.container else { throw .crossDevice }
            if let target { try database.deleteReference(target, drops: true) }
            var row = source
            row.parent = place.parent
            row.name = place.name
            row.folder = container.path
            row.isDirty = true
            try database.update(row)
            let now = self.clock.now()
            for parent in Set([source.parent, place.parent].compactMap(\.self)) {
                try database.touchListing(parent, at: now)
            }
            try database.note(.attributes, entry: 0, item: place.parent, parent: place.parent)
        }
        try countReferences()
        // Only what looks like a backup beside it makes room for what is saved.
        guard let former, former.parent == place.parent, former.name != place.name, place.name.starts(with: former.name)
        else { return }
        let until = clock.monotonic() + configuration.tombstoneTime
        departed.insert(DepartedReference(row: source.id, until: until), for: former)
    }

    /// A file was made under a name: a reference's, where one left it a moment ago.
    func noteMade(_ id: ItemID, _ parent: ItemID, _ name: [UInt8]) {
        guard let left = departed[Place(parent, name)], left.until > clock.monotonic() else { return }
        takeovers.insert(Takeover(row: left.row, place: Place(parent, name)), for: id)
    }

    /// True for the name of a file.
    private func isFile(_ parent: ItemID, _ name: [UInt8]) throws(Errno) -> Bool {
        try catalog.glance { database throws(Errno) in
            guard let entry = try database.entry(parent, name) else { throw .noSuchEntry }
            return try database.item(entry.item)?.kind == .file
        }
    }

    /// A file that took a reference's name was closed: from now on it is what the document is, unless it is empty.
    ///
    /// Who claims the document is waited for, and the program that closed it is not held up.
    func noteClosed(_ id: ItemID) {
        guard !takeovers.isEmpty, let size = try? namespace.attributes(of: id).size, size > 0,
            let takeover = takeovers.remove(id)
        else { return }
        do throws(Errno) {
            guard let place = try takenPlace(takeover.row, takeover.place) else { return }
            let use = PlainUse.rename(
                takeover.place.parent,
                takeover.place.name,
                to: place.parent,
                place.name,
                flags: 0
            )
            guard let claim = try coordinator.plainClaim(use, ownCaller) else { return try take(takeover, id, place) }
            claim.whenDone { [self] result in
                contentQueue.async { [self] in
                    guard case .success(let claim) = result else {
                        // At the clock's round it is tried again.
                        return takeovers.insert(takeover, for: id)
                    }
                    try? take(takeover, id, place)
                    coordinator.end(claim)
                }
            }
        } catch {
            log.notice("a document could not be given what was saved under its reference's name: \(error)")
        }
    }

    /// Tries those again for which somebody claimed the document.
    func retryTakeovers() {
        if takeovers.isEmpty { return }
        for id in takeovers.contents().keys where !contents.live.isWritable(id) { noteClosed(id) }
    }

    private func take(_ takeover: Takeover, _ id: ItemID, _ place: Place) throws(Errno) {
        let isThere = try catalog.glance { database throws(Errno) in
            try database.entry(takeover.place.parent, takeover.place.name)?.item == id
        }
        // While a claim was waited for, it may have been taken back or the document moved: then this stays a file of its own.
        guard isThere, try writtenPlace(takeover.row) == place else { return }
        try admitSave(of: takeover.place, to: place)
        try comeBack(takeover.row, to: takeover.place)
        let replaced = try given(place)
        try namespace.rename(
            takeover.place.parent,
            takeover.place.name,
            place.parent,
            place.name,
            flags: 0,
            ownCaller,
            admitting: admitSave
        )
        if let replaced { passOn(replaced, to: place) }
        tell(of: [place, takeover.place])
        tellWatchers(of: place, savedAt: takeover.place)
    }

    /// The place of the document whose reference left a name; nil where it is not to take anything over.
    private func takenPlace(_ id: Int64, _ place: Place) throws(Errno) -> Place? {
        guard let left = departed[place], left.row == id, left.until > clock.monotonic() else { return nil }
        return try writtenPlace(id)
    }

    /// The place of a reference's document that its app may write, as it is now; nil where it may not, or not any more.
    private func writtenPlace(_ id: Int64) throws(Errno) -> Place? {
        try catalog.glance { database throws(Errno) in
            guard let row = try database.reference(id: id), row.mayWrite,
                let entry = try self.target(of: row, database),
                let app = self.registry.containers[row.container]?.app,
                try self.isAdmitted(app, entry, .writing, database)
            else { return nil }
            return entry.place
        }
    }

    /// A reference gets back the name that it left; what the document was keeps the other one, as a file of its own.
    ///
    /// That file has its name before the reference gives it up: there is no moment in which nobody has it.
    private func comeBack(_ id: Int64, to place: Place) throws(Errno) {
        departed.remove(place)
        let former = try catalog.read { database throws(Errno) -> (backup: Place, item: ItemID)? in
            guard let row = try database.reference(id: id), let parent = row.parent,
                let entry = try self.target(of: row, database)
            else { return nil }
            return (Place(parent, row.name), entry.item)
        }
        guard let former else { return }
        let hasBackup = former.backup != place && (try? keep(former.item, at: former.backup)) == true
        do throws(Errno) {
            try catalog.write { database throws(Errno) in
                guard var row = try database.reference(id: id), row.parent != nil else { return }
                row.parent = place.parent
                row.name = place.name
                row.folder = try self.container(of: place.parent, database)?.path ?? row.folder
                row.isDirty = true
                try database.update(row)
            }
        } catch {
            if hasBackup { try? namespace.unlink(former.backup.parent, former.backup.name, ownCaller) }
            throw error
        }
        notePlacesChanged()
    }

    /// Gives a backup's name to a copy of what a document has, false where there is none: of what is not all here.
    ///
    /// Another name for the document itself would outlive what its app was given.
    private func keep(_ id: ItemID, at place: Place) throws(Errno) -> Bool {
        let row = try catalog.read { database throws(Errno) in try database.existingItem(id) }
        guard row.residency == .whole else { return false }
        // As GLib names its own, until all of it is there.
        let name = Array(".goutputstream-\(DocumentID.random().description.suffix(6))".utf8)
        let flags = O_WRONLY | O_CREAT | O_EXCL
        let made = try namespace.create(place.parent, name, mode: 0o600, flags: flags, ownCaller)
        defer {
            contents.finish(made.id, flags: flags)
            contents.release(made.id, flags: flags)
        }
        do throws(Errno) {
            var offset: Int64 = 0
            let size = try namespace.attributes(of: id).size
            while offset < size {
                let part = Int(clamping: min(size - offset, 16 << 20))
                let count = try contents.copyRange(from: id, at: offset, to: made.id, at: offset, count: part)
                if count <= 0 { break }
                offset += Int64(count)
            }
            try namespace.rename(place.parent, name, place.parent, place.name, flags: 0, ownCaller)
        } catch {
            try? namespace.unlink(place.parent, name, ownCaller)
            throw error
        }
        return true
    }

    /// The kernel is to ask again what a document's own name and its reference stand for.
    func tell(of places: [Place]) {
        // The call that this is part of may hold the folders.
        contentQueue.async { [self] in for place in places { kernel?.invalidateEntry(place.parent, place.name) } }
    }

    /// A program has saved by renaming, under one of the names that a document has: who watches the folders of the others is told.
    ///
    /// The kernel tells of that one name alone. What others hear is a change of attributes.
    func tellWatchers(of document: Place, savedAt used: Place) {
        guard let announcer else { return }
        // The call that this is part of may hold the folders.
        contentQueue.async { [self] in
            let paths = try? catalog.read { database throws(Errno) -> [RemotePath] in
                guard let entry = try database.entry(document.parent, document.name) else { return [] }
                var places = [document]
                for row in try database.references(to: entry.document) {
                    if let parent = row.parent { places.append(Place(parent, row.name)) }
                }
                var paths: [RemotePath] = []
                for place in places where place != used && namespace.mayBeKnown(place.parent) {
                    guard let folder = try database.path(ofDirectory: place.parent) else { continue }
                    paths.append(folder.appending(FileName(unchecked: place.name)))
                }
                return paths
            }
            for path in paths ?? [] { try? announcer.perform(.notice(path)) }
        }
    }

    func expireDeparted() {
        if departed.isEmpty { return }
        let now = clock.monotonic()
        let isLess = departed.update { table in
            let count = table.count
            table = table.filter { $0.value.until > now }
            return table.count < count
        }
        // It was no save, but a move.
        if isLess { notePlacesChanged() }
    }

    func countReferences() throws(Errno) {
        let count = try catalog.read { database throws(Errno) in
            try database.first("SELECT (SELECT count(*) FROM reference_documents) + (SELECT count(*) FROM grants)") {
                $0.int(0)
            }
        }
        referenceCount.store(Int(clamping: count ?? 0), ordering: .releasing)
    }
}
