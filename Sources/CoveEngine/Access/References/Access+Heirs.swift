internal import CoveCore

/// Documents that take the name of one that apps were given.
extension Access {
    /// A document that apps were given, before another one takes its name.
    struct Given: Sendable {
        var document: DocumentID
        /// True where a save gives it other bytes, whatever it is called then.
        var isSave: Bool
        /// Apps that may use what takes its name already.
        var users: Set<AppIdentifier> = []
    }

    /// The document of a name, where an app was given it, before what another place has is saved there.
    func given(_ place: Place) throws(Errno) -> Given? {
        if hasNoReferences { return nil }
        return try catalog.glance { database throws(Errno) in
            guard let document = try database.entry(place.parent, place.name)?.document,
                try database.isGiven(document)
            else { return nil }
            return Given(document: document, isSave: true)
        }
    }

    /// The document of a name, where an app was given it, before what another place has is moved there.
    func given(_ place: Place, movedFrom former: Place) throws(Errno) -> Given? {
        guard var given = try given(place) else { return nil }
        given.isSave = Self.isSave(former, to: place)
        guard !given.isSave else { return given }
        let document = given.document
        given.users = try catalog.read { database throws(Errno) in
            guard let entry = try database.entry(former.parent, former.name) else { return [] }
            var users: Set<AppIdentifier> = []
            for app in try self.apps(given: document, database)
            where try self.isAdmitted(app, entry, .reading, database) { users.insert(app) }
            return users
        }
        return given
    }

    /// What programs write beside a document, to rename it over that, has a hidden name or one that has the document's in it.
    private static func isSave(_ former: Place, to place: Place) -> Bool {
        guard former.parent == place.parent else { return false }
        return former.name.first == 0x2E || former.name.contains(place.name)
    }

    /// Another document has taken the name of one that apps were given: to those it is what that has become that may use it anyway,
    /// or could be given it now.
    ///
    /// A person may move a document that nobody was given over one that was: in a hidden container it stays hidden.
    func passOn(_ given: Given, to place: Place) {
        do throws(Errno) {
            try catalog.write { database throws(Errno) in
                guard try database.entry(document: given.document) == nil,
                    let heir = try database.entry(place.parent, place.name)
                else { return }
                if given.isSave { return try database.passOnGrants(from: given.document, to: heir.document) }
                let path = try database.path(of: heir)
                for app in try self.apps(given: given.document, database) {
                    let isHeir = try given.users.contains(app) ? true : self.mayHave(heir, path, app, database)
                    if isHeir { try self.passOn(given.document, to: heir.document, of: app, database) }
                }
            }
        } catch {
            log.error("what apps were given could not be passed on: \(error)")
        }
    }

    /// At the source a document was moved over another one, whose identity it has here from now on.
    ///
    /// What apps were given is gone for those to which it would not have been passed on if it had been moved here.
    func noteReplaced(_ entry: EntryRow, by heir: EntryRow, _ database: Database) throws(Errno) {
        guard !hasNoReferences, entry.document != heir.document, try database.isGiven(entry.document),
            !Self.isSave(heir.place, to: entry.place)
        else { return }
        let path = try database.path(of: entry)
        let gone = DocumentID.random()
        for app in try apps(given: entry.document, database) {
            if try isAdmitted(app, heir, .reading, database) { continue }
            if try mayHave(entry, path, app, database) { continue }
            try passOn(entry.document, to: gone, of: app, database)
        }
    }

    private func apps(given document: DocumentID, _ database: Database) throws(Errno) -> Set<AppIdentifier> {
        Set(try database.grants().filter { $0.document == document }.map(\.app))
    }

    /// Whether an app may use what has a place, whatever it was given, or could be given it.
    private func mayHave(
        _ entry: EntryRow,
        _ path: RemotePath,
        _ app: AppIdentifier,
        _ database: Database
    ) throws(Errno) -> Bool {
        if try isOpen(entry, to: app, database) { return true }
        return try refusal(of: entry, path, for: app, database) == nil
    }

    private func passOn(
        _ document: DocumentID,
        to heir: DocumentID,
        of app: AppIdentifier,
        _ database: Database
    ) throws(Errno) {
        try database.passOnGrants(from: document, to: heir, of: app)
        for var row in try database.references(to: document) where registry.containers[row.container]?.app == app {
            row.target = heir
            try database.update(row)
        }
    }
}
