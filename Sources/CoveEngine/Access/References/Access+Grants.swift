internal import CoveCore

/// What apps may do with documents that are not their own: given by people, kept, and taken back.
extension Access {
    /// Whether an app was given a document, to read or to change.
    func isGranted(_ app: AppIdentifier, _ document: DocumentID, _ use: Use, _ database: Database) throws(Errno) -> Bool
    {
        guard let grant = try database.grant(app, document) else { return false }
        return use == .reading || grant.mayWrite
    }

    /// Takes a grant back, and all references by which the app has the document: it may have come to have several.
    func revoke(_ id: Int64) async throws(AccessError) {
        let isFound = try await failing("it can't be revoked") { () throws(Errno) in
            try await onQueue { [self] () throws(Errno) -> Bool in
                guard let grant = try catalog.read({ database throws(Errno) in try database.grant(id: id) }) else {
                    return false
                }
                let rows = try catalog.read { database throws(Errno) -> [ReferenceRow] in
                    var rows = try database.references(to: grant.document).filter { row in
                        registry.containers[row.container]?.app == grant.app
                    }
                    if let record = grant.record, !rows.contains(where: { $0.record == record }),
                        let row = try database.reference(record: record)
                    {
                        rows.append(row)
                    }
                    return rows
                }
                for row in rows {
                    try drop(row)
                    if let parent = row.parent { kernel?.invalidateEntry(parent, row.name) }
                }
                try catalog.write(durable: true) { database throws(Errno) in
                    try database.run("DELETE FROM grants WHERE id = ?", .int(id))
                    try database.run(
                        "DELETE FROM grants WHERE app = ? AND document = ?",
                        .text(grant.app.text),
                        .document(grant.document)
                    )
                }
                return true
            }
        }
        guard isFound else { throw AccessError(.noSuchEntry, "no such grant; see `cove grants ls`") }
        settleReferences()
    }

    /// All references, or those of an app, as they are told.
    func toldReferences(of app: AppIdentifier?) throws(Errno) -> [AccessInterface.Reference] {
        let registry = registry
        return try catalog.read { database throws(Errno) in
            var told: [AccessInterface.Reference] = []
            for row in try database.references() {
                guard let owner = registry.containers[row.container]?.app, app == nil || owner == app else { continue }
                let target = try self.target(of: row, database).flatMap { entry throws(Errno) in
                    try database.path(of: entry).description
                }
                told.append(
                    AccessInterface.Reference(
                        path: try self.path(of: row, database)?.description,
                        app: owner.text,
                        container: row.container.text,
                        target: target,
                        mayWrite: row.mayWrite,
                        made: row.made.secondsSinceEpoch
                    )
                )
            }
            return told
        }
    }

    /// All grants, or those of an app, as they are told.
    func toldGrants(of app: AppIdentifier?) throws(Errno) -> [AccessInterface.Grant] {
        try catalog.read { database throws(Errno) in
            var told: [AccessInterface.Grant] = []
            for grant in try database.grants() where app == nil || grant.app == app {
                let entry = try database.entry(document: grant.document)
                let row = try grant.record.flatMap { record throws(Errno) in try database.reference(record: record) }
                told.append(
                    AccessInterface.Grant(
                        id: grant.id,
                        app: grant.app.text,
                        path: try entry.flatMap { entry throws(Errno) in try database.path(of: entry).description },
                        documentID: grant.document.description,
                        mayWrite: grant.mayWrite,
                        source: grant.source,
                        made: grant.made.secondsSinceEpoch,
                        reference: try row.flatMap { row throws(Errno) in try self.path(of: row, database)?.description
                        }
                    )
                )
            }
            return told
        }
    }

    /// Where a reference is; nil while its folder is not here.
    func path(of row: ReferenceRow, _ database: Database) throws(Errno) -> RemotePath? {
        guard let parent = row.parent, let folder = try database.path(ofDirectory: parent) else { return nil }
        return folder.appending(FileName(unchecked: row.name))
    }
}

/// Giving apps documents.
extension Access {
    /// What people choose a document for.
    enum Choice: Sendable {
        case read
        case write
    }

    /// Gives an app a document that a person has chosen, under a name in the `Documents` of its first container.
    ///
    /// The same document chosen again has the same name.
    func open(
        _ path: RemotePath,
        for app: AppIdentifier,
        _ choice: Choice,
        source: String = "open"
    ) async throws(AccessError) -> RemotePath {
        await refresh()
        let registry = registry
        guard
            let container = registry.apps[app]?.containers.lazy.compactMap({ registry.containers[$0] }).first(where: {
                $0.app == app
            })
        else {
            throw AccessError(
                .noSuchEntry,
                "the app has no container; make one with `cove container create ID --app \(app)`"
            )
        }
        if configuration.isReadOnly { throw AccessError(.readOnly, "the account is mounted read-only") }
        let place = await self.place(ofContainer: container.identifier, for: nil)
        guard let place else {
            throw AccessError(.noSuchEntry, "the folder of \(container.identifier) is not there; make it again")
        }
        let documents = place.appending(DriveFolder.documents)
        let made = try await failing("the reference can't be made") { () throws(Errno) in
            let folder = try await makeShownFolder(documents)
            return try await onQueue { [self] () throws(Errno) in
                Result<ReferenceRow, AccessError> { () throws(AccessError) in
                    try addReference(to: path, container, folder, choice, source)
                }
            }
        }
        let row = try made.get()
        let shown = try await failing("the reference can't be made") { () throws(Errno) in
            try await tell(row.id)
            return try await onQueue { [self] () throws(Errno) -> RemotePath in
                try countReferences()
                return try catalog.read { database throws(Errno) in
                    var folder = documents
                    if let parent = row.parent, let path = try database.path(ofDirectory: parent) { folder = path }
                    return folder.appending(FileName(unchecked: row.name))
                }
            }
        }
        if let parent = row.parent { kernel?.invalidateEntry(parent, row.name) }
        // From now on the kernel asks for the document's own name each time.
        if let place = try? await onQueue({ [self] () throws(Errno) in
            try catalog.read { database throws(Errno) in try database.entry(atPath: path)?.place }
        }) {
            kernel?.invalidateEntry(place.parent, place.name)
        }
        return shown
    }

    private func addReference(
        to path: RemotePath,
        _ container: ContainerRecord,
        _ folder: ItemID,
        _ choice: Choice,
        _ source: String
    ) throws(AccessError) -> ReferenceRow {
        let made: Result<ReferenceRow, AccessError>
        do throws(Errno) {
            made = try catalog.write(durable: true) { database throws(Errno) -> Result<ReferenceRow, AccessError> in
                let entry = try database.entry(atPath: path)
                guard let entry else { return .failure(Self.notOffered) }
                if let refusal = try self.refusal(of: entry, path, for: container.app, database) {
                    return .failure(refusal)
                }
                let now = self.journalTime()
                let known = try database.references(to: entry.document).first { $0.container == container.identifier }
                var row: ReferenceRow
                if let known {
                    row = known
                } else {
                    row = ReferenceRow(
                        record: "\(DocumentID.random())",
                        container: container.identifier,
                        folder: RemotePath([DriveFolder.documents]),
                        parent: folder,
                        name: try self.freeName(entry.name, in: folder, database),
                        target: entry.document,
                        place: names.there(path),
                        mayWrite: choice == .write,
                        made: now
                    )
                }
                if known == nil {
                    row.isDirty = true
                    row.id = try database.insert(row)
                } else if choice == .write, !row.mayWrite {
                    (row.mayWrite, row.isDirty) = (true, true)
                    try database.update(row)
                }
                try database.setGrant(
                    container.app,
                    entry.document,
                    mayWrite: row.mayWrite,
                    source: source,
                    record: row.record,
                    at: now
                )
                try database.touchListing(folder, at: self.clock.now())
                return .success(row)
            }
        } catch {
            throw .failed(error, "the reference can't be made")
        }
        return try made.get()
    }

    private static var notOffered: AccessError {
        AccessError(.accessDenied, "it is offered to no app; choose a document of the root or of a public container")
    }

    /// Why a document can't be given to an app; nil where it can.
    ///
    /// Offered are the documents of the root, and those in the `Documents` of public containers. What was given
    /// while its container was public stays given after it has been hidden.
    func refusal(
        of entry: EntryRow,
        _ path: RemotePath,
        for app: AppIdentifier,
        givenAt: Timestamp? = nil,
        _ database: Database
    ) throws(Errno) -> AccessError? {
        guard try database.existingItem(entry.item).kind == .file else {
            return AccessError(.notSupported, "only files can be opened in place; import it instead")
        }
        guard let top = path.names.first else { return Self.notOffered }
        guard let topEntry = try database.entry(.root, top.bytes), !top.isReserved, top != DriveFolder.name else {
            return Self.notOffered
        }
        guard let folder = containerFolder(of: topEntry) else {
            return try isUnjudged(topEntry, database) ? Self.notOffered : nil
        }
        guard let identifier = AppIdentifier(folder.description), let record = registry.containers[identifier] else {
            return Self.notOffered
        }
        if record.app == app {
            // What it was given may have come to be its own since.
            if givenAt != nil { return nil }
            return AccessError(.invalidArgument, "it is the app's own already; open it there")
        }
        let isDocument = path.names.count > 2 && path.names[1] == DriveFolder.documents
        let isOffered = isDocument && (givenAt.map { record.wasPublic(at: $0.secondsSinceEpoch) } ?? record.isPublic)
        return isOffered ? nil : Self.notOffered
    }

    /// A name in a folder that no entry and no reference has.
    private func freeName(_ name: [UInt8], in folder: ItemID, _ database: Database) throws(Errno) -> [UInt8] {
        let name = FileName(unchecked: name)
        for candidate in [name] + (2..<1000).map({ name.inserting(" \($0)") }) {
            if try database.entry(folder, candidate.bytes) != nil { continue }
            if try database.reference(folder, candidate.bytes) != nil { continue }
            return candidate.bytes
        }
        throw .exists
    }
}
