internal import CoveCore
internal import Synchronization

/// Deciding what is to be sent of an entry, and making room for it at the provider.
extension SyncEngine {
    /// What one push found out about its entry before anything is sent.
    struct PushPlan: Sendable {
        var entry: EntryRow
        var row: ItemRow
        var changed: Timestamp
        var wasSent: Bool
        var attempts: Int64
        /// The directory it belongs in, as the provider knows it.
        var directory: RemoteReference
        /// Where the provider has it now; nil before the first upload.
        var current: RemoteReference?
        var metadata: ItemMetadata
        /// What was sent of it before and never answered.
        var unanswered: UnderwayRow?
        /// What stands at the provider where this is to go: moved or deleted here, but not there yet.
        var obstacle: Obstacle?
    }

    enum Obstacle: Sendable {
        case entry(Int64)
        case trash(Int64)
    }

    /// Reads all a push needs, nil when nothing differs; throws when its directory must be sent first.
    func plan(_ journal: JournalRow) async throws(ProviderError) -> PushPlan? {
        let host = host
        let now = host.journalTime()
        return try await host.onContentQueue { () throws(Errno) in
            try host.catalog.write { database throws(Errno) -> PushPlan? in
                guard let entry = try database.entry(id: journal.entry), let row = try database.item(entry.item),
                    entry.document == journal.document, row.kind.isSynced, !entry.flags.contains(.localOnly)
                else {
                    // Its identity was passed on: the heir has a row of its own.
                    if let entry = try database.entry(id: journal.entry), entry.document != journal.document {
                        throw .wouldBlock
                    }
                    try database.dequeue(journal.entry)
                    return nil
                }
                if row.kind == .symbolicLink, !entry.isUploaded, !host.provider.capabilities.symbolicLinks {
                    var local = entry
                    local.flags.insert(.localOnly)
                    try database.update(local)
                    try database.dequeue(entry.id)
                    return nil
                }
                let fresh = try database.journalRow(journal.entry)
                let differs =
                    !entry.isUploaded || entry.isMoved || entry.flags.contains(.metadataChanged)
                    || row.kind == .file && entry.hasUnsentContent(generation: row.generation)
                guard differs else {
                    try database.dequeue(entry.id)
                    return nil
                }
                guard let directory = try database.remoteReference(ofDirectory: entry.parent) else {
                    // Parents first.
                    throw .wouldBlock
                }
                var plan = PushPlan(
                    entry: entry,
                    row: row,
                    changed: fresh?.changed ?? now,
                    wasSent: fresh?.wasSent ?? false,
                    attempts: fresh?.attempts ?? 0,
                    directory: directory,
                    current: try database.remoteReference(of: entry),
                    metadata: ItemMetadata()
                )
                if let sent = try database.underway(entry.document), try !database.isToBeCompared(sent) {
                    plan.unanswered = sent
                    return plan
                }
                // Where a folder above it was not answered, nobody knows where it is.
                let folders = try database.unansweredFolders(above: entry.parent)
                let others = try entry.remoteParent.map { old throws(Errno) in
                    try database.unansweredFolders(above: old)
                }
                if let sent = (folders + (others ?? [])).first(where: { $0.document != entry.document }) {
                    plan.unanswered = sent
                    return plan
                }
                plan.metadata = try self.metadata(of: row, database)
                if !entry.isUploaded || entry.isMoved {
                    // What another document has sent there may have arrived.
                    if let sent = try database.underway(at: entry.place, besides: entry.document) {
                        plan.unanswered = sent
                        return plan
                    }
                    if let other = try database.entry(remoteParent: entry.parent, remoteName: entry.name),
                        other.id != entry.id
                    {
                        plan.obstacle = .entry(other.id)
                    } else if let trash = try database.pendingTrash(
                        remoteParent: entry.parent,
                        remoteName: entry.name
                    ) {
                        plan.obstacle = .trash(trash.id)
                    }
                }
                guard plan.obstacle == nil else { return plan }
                try self.rely(
                    on: [entry.parent, entry.remoteParent ?? entry.parent],
                    moving: row.kind == .directory && entry.isMoved ? row.id : nil,
                    changing: [Place(entry.parent, entry.name), entry.remotePlace],
                    for: entry.document,
                    database
                )
                return plan
            }
        }
    }

    private nonisolated func metadata(of row: ItemRow, _ database: Database) throws(Errno) -> ItemMetadata {
        let capabilities = host.provider.capabilities
        var metadata = ItemMetadata(modificationTime: row.kind == .directory ? nil : row.modificationTime)
        if capabilities.permissions { metadata.permissions = row.permissions }
        if capabilities.ownership {
            metadata.user = row.user
            metadata.group = row.group
        }
        if capabilities.extendedAttributes, row.kind != .symbolicLink {
            metadata.extendedAttributes = try database.extendedAttributes(of: row.id).filter {
                Namespace.isShared($0.key)
            }
        }
        return metadata
    }

    /// Moves or deletes what stands where something else is to go.
    func clear(_ obstacle: Obstacle, for own: DocumentID? = nil) async throws(ProviderError) -> PushResult {
        let host = host
        let found = try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) -> DocumentID? in
                switch obstacle {
                case .entry(let id): try database.entry(id: id)?.document
                case .trash(let id): try database.trash(id: id)?.document
                }
            }
        }
        guard let document = found else { return .later(.zero) }
        // What has left the cloud and returns may stand in its own way.
        guard document == own || beginPush(document) else { return .blocked }
        defer { if document != own { endPush(document) } }
        switch obstacle {
        case .entry(let id):
            do throws(ProviderError) {
                try await moveAside(entry: id, document)
            } catch .noSuchItem {
                // Its own push finds out what became of it, which goes first now, unless it waits for this one.
                guard try await isMissing(document) else { return .retry(after: .milliseconds(100)) }
                return try await makeAnew(entry: id, document)
            } catch .conflict {
                // Something else is in its place: likewise.
                return .retry(after: .milliseconds(100))
            }
        case .trash(let id):
            if try await isAwaited(trash: id) {
                do throws(ProviderError) {
                    try await moveAside(trash: id, document)
                } catch {
                    // Something else, a file, may have its name.
                    guard error.meansElsewhere else { throw error }
                    // The change feed may know where it went.
                    requestPoll()
                    guard try await isMissing(document) else { return .later(.milliseconds(300)) }
                    // It is deleted there, and what was to leave it is made anew.
                    try await host.onContentQueue { () throws(Errno) in
                        try host.catalog.write { database throws(Errno) in try database.endUnderway(document) }
                    }
                    try await endDeletion(id, place: nil)
                }
            } else if try await !sendDeletion(id) {
                return .later(.milliseconds(200), because: .deletedSought)
            }
        }
        return .later(.zero)
    }

    /// True when something that was to be moved aside was looked for often enough and is not there.
    private func isMissing(_ document: DocumentID) async throws(ProviderError) -> Bool {
        if missing.count > 1000 { missing = [:] }
        let looks = missing[document, default: 0] + 1
        missing[document] = looks
        guard looks > 3, await isRootThere() else { return false }
        missing[document] = nil
        return true
    }

    private func moveAside(entry id: Int64, _ document: DocumentID) async throws(ProviderError) {
        let host = host
        guard try await !takeUpUnanswered(document) else { return }
        let step = try await host.onContentQueue { () throws(Errno) in
            try host.catalog.write(durable: true) {
                database throws(Errno) -> (RemoteReference, EntryRow, name: FileName, isDirectory: Bool)? in
                guard let entry = try database.entry(id: id), entry.document == document,
                    let parent = entry.remoteParent, let current = try database.remoteReference(of: entry),
                    let known = current.path.name
                else { return nil }
                let isDirectory = try database.existingItem(entry.item).kind == .directory
                try self.rely(
                    on: [parent],
                    moving: isDirectory ? entry.item : nil,
                    changing: [entry.remotePlace],
                    for: document,
                    database
                )
                let hidden = try self.hiddenName(of: document, known, database)
                try database.beginUnderway(
                    UnderwayRow(entry, to: Place(parent, hidden.bytes), try database.existingItem(entry.item))
                )
                return (current, entry, hidden, isDirectory)
            }
        }
        guard let (known, entry, name, isDirectory) = step, let parent = entry.remoteParent else { return }
        var current = known
        current.isFile = !isDirectory
        let base: ContentVersion? = isDirectory ? .directory : nil
        let moved = try await move(current, base, RemoteReference(id: nil, path: current.path.parent), name)
        try await acknowledgeMove(of: entry, isDirectory: isDirectory, moved, to: parent, name, from: current.path)
    }

    /// A hidden name for a document that has to make room; that this device gave it is remembered.
    private nonisolated func hiddenName(
        of document: DocumentID,
        _ original: FileName,
        _ database: Database
    ) throws(Errno) -> FileName {
        let now = host.journalTime()
        try database.noteHidden(document, at: now, forgetting: now - Self.clockDifference)
        return PassingName(document, since: now, original: original).name
    }

    /// What was sent of a document and never answered is found out about before it is moved again; true when there was something.
    func takeUpUnanswered(_ document: DocumentID) async throws(ProviderError) -> Bool {
        let host = host
        let unanswered = try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in try database.underway(document) }
        }
        if let unanswered { try await takeUp(unanswered) }
        return unanswered != nil
    }

    /// True while something at the provider has still to leave a directory before it can be deleted.
    private func isAwaited(trash id: Int64) async throws(ProviderError) -> Bool {
        let host = host
        return try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in
                guard let row = try database.trash(id: id), row.kind == .directory, let item = row.item else {
                    return false
                }
                return try database.isOccupiedRemotely(item)
            }
        }
    }

    private func moveAside(trash id: Int64, _ document: DocumentID) async throws(ProviderError) {
        let host = host
        guard try await !takeUpUnanswered(document) else { return }
        let step = try await host.onContentQueue { () throws(Errno) in
            try host.catalog.write(durable: true) { database throws(Errno) -> (RemoteReference, FileName)? in
                guard let row = try database.trash(id: id), row.isPending, let item = row.item,
                    let parent = row.remoteParent, let current = try database.remoteReference(ofDirectory: item),
                    let known = current.path.name
                else { return nil }
                let place = Place(parent, row.remoteName ?? [])
                try self.rely(on: [parent], moving: item, changing: [place], for: document, database)
                let hidden = try self.hiddenName(of: document, known, database)
                let aside = Place(parent, hidden.bytes)
                try database.beginUnderway(UnderwayRow(document, isNew: false, to: aside, database.existingItem(item)))
                return (current, hidden)
            }
        }
        guard let (current, name) = step else { return }
        let moved = try await move(current, .directory, RemoteReference(id: nil, path: current.path.parent), name)
        try await host.onContentQueue { () throws(Errno) in
            try host.catalog.write { database throws(Errno) in
                try database.endUnderway(document)
                try database.run(
                    "UPDATE trash SET remote_name = ?, remote_id = ? WHERE id = ?",
                    .blob(name.bytes),
                    .blob(moved.id.bytes),
                    .int(id)
                )
            }
        }
    }

    /// The entry that stands for a document now: another one when its identity was passed on meanwhile.
    nonisolated func entry(
        of document: DocumentID,
        first id: Int64,
        _ database: Database
    ) throws(Errno) -> EntryRow? {
        if let entry = try database.entry(id: id), entry.document == document { return entry }
        return try database.entry(document: document)
    }
}
