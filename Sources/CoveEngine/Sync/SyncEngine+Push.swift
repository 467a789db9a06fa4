internal import CoveCore
internal import Synchronization

/// Sending what differs from what the provider has acknowledged.
extension SyncEngine {
    /// What one push found out about its entry before anything is sent.
    struct PushPlan: Sendable {
        var entry: EntryRow
        var row: ItemRow
        var changed: Int64
        var wasSent: Bool
        var attempts: Int64
        /// The directory it belongs in, as the provider knows it.
        var directory: RemoteReference
        /// Where the provider has it now; nil before the first upload.
        var current: RemoteReference?
        var metadata: ItemMetadata
        /// What stands at the provider where this is to go: moved or deleted here, but not there yet.
        var obstacle: Obstacle?
    }

    enum Obstacle: Sendable {
        case entry(Int64)
        case trash(Int64)
    }

    /// What became of a push.
    enum PushResult {
        /// Nothing differs any more, or it was sent.
        case done
        /// Look again after so many milliseconds.
        case later(Int64)
        /// Something else must be sent first; it was asked for.
        case blocked
        case failed(ProviderError)
    }

    /// Starts pushes of what has settled, oldest change first.
    func pushReady(_ now: Int64) {
        guard activePushes < SyncEngine.parallelPushes, !engine.configuration.isReadOnly else { return }
        let settle = engine.configuration.settleTime.milliseconds
        let catalog = engine.catalog
        let held = engine.tombstones.waiting()
        let ready = try? catalog.read { database throws(Errno) in
            try database.readyJournal(now: now, limit: 256)
        }
        var earliest = Int64.max
        for row in ready ?? [] {
            guard activePushes < SyncEngine.parallelPushes else { break }
            let due = row.changed < forcedBefore ? 0 : row.changed + settle
            guard due <= now else {
                earliest = min(earliest, due)
                continue
            }
            if let key = held.entries[row.entry], isBeingRewritten(key) {
                earliest = min(earliest, now + 200)
                continue
            }
            let isFree = shared.withLock { state in
                guard state.pushing[row.document] == nil else { return false }
                state.pushing[row.document] = PushProgress()
                return true
            }
            guard isFree else { continue }
            activePushes += 1
            Task { await self.push(row) }
        }
        pushTrash(now, settle: settle, held: held.trash, &earliest)
        let next = try? catalog.read { database throws(Errno) in
            try database.first("SELECT min(retry) FROM journal WHERE retry > ?", .int(now)) { $0.optionalInt(0) } ?? nil
        }
        if let retry = next { earliest = min(earliest, retry) }
        if earliest != .max { alarm(at: earliest, now: now) }
    }

    /// True while a file that may take over a departed document's name is being written.
    func isBeingRewritten(_ key: Tombstones.Key) -> Bool {
        let engine = engine
        let entry = try? engine.catalog.read { database throws(Errno) in try database.entry(key.parent, key.name) }
        guard let found = entry, !found.isUploaded else { return false }
        return engine.live.find(found.item)?.state.withLock { $0.writers > 0 } ?? false
    }

    private func push(_ journal: JournalRow) async {
        let result = await attempt(journal)
        let engine = engine
        switch result {
        case .done: break
        case .later(let milliseconds):
            let retry = engine.milliseconds() + milliseconds
            try? engine.catalog.write { database throws(Errno) in
                try database.postpone(journal.entry, attempts: journal.attempts, retry: retry, error: journal.error)
            }
        case .blocked:
            let retry = engine.milliseconds() + Int64.random(in: 20...200)
            try? engine.catalog.write { database throws(Errno) in
                try database.postpone(journal.entry, attempts: journal.attempts, retry: retry, error: journal.error)
            }
        case .failed(.cancelled): break
        case .failed(let error) where error.parksAccount: disconnect(error)
        case .failed(let error):
            let retry = backoff(attempts: journal.attempts)
            engine.log.info("entry \(journal.entry): sending failed: \(error)")
            try? engine.catalog.write { database throws(Errno) in
                try database.postpone(
                    journal.entry,
                    attempts: journal.attempts + 1,
                    retry: retry,
                    error: "\(error)"
                )
            }
            alarm(at: retry, now: engine.milliseconds())
        }
        endPush(journal.document)
    }

    private func attempt(_ journal: JournalRow) async -> PushResult {
        do throws(ProviderError) {
            guard let plan = try await plan(journal) else { return .done }
            if let obstacle = plan.obstacle { return try await clear(obstacle) }
            return try await send(plan)
        } catch .failed(_, .wouldBlock) {
            return .blocked
        } catch {
            return .failed(error)
        }
    }

    /// Reads all a push needs, nil when nothing differs; throws when its directory must be sent first.
    private func plan(_ journal: JournalRow) async throws(ProviderError) -> PushPlan? {
        let engine = engine
        let now = engine.milliseconds()
        return try await engine.onContentQueue { () throws(Errno) in
            try engine.catalog.write { database throws(Errno) -> PushPlan? in
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
                let fresh = try database.journalRow(journal.entry)
                let differs =
                    !entry.isUploaded || entry.isMoved || entry.flags.contains(.metadataChanged)
                    || row.kind == .file && entry.hasUnsentContent(generation: row.generation)
                guard differs else {
                    try database.dequeue(entry.id)
                    return nil
                }
                // Its folder is on the move there: its path is about to be another one.
                if try self.isOnTheMove(entry.parent, database) { throw .wouldBlock }
                guard let directory = try database.remoteReference(ofDirectory: entry.parent) else {
                    // Parents first.
                    if let parent = try database.entry(ofDirectory: entry.parent),
                        try database.journalRow(parent.id) == nil
                    {
                        try database.enqueue(parent.id, at: 0)
                    }
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
                plan.metadata = try self.metadata(of: row, database)
                if !entry.isUploaded || entry.isMoved {
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
                return plan
            }
        }
    }

    private nonisolated func metadata(of row: ItemRow, _ database: Database) throws(Errno) -> ItemMetadata {
        let capabilities = engine.provider.capabilities
        var metadata = ItemMetadata(modificationTime: row.kind == .directory ? nil : row.modificationTime)
        if capabilities.permissions { metadata.permissions = row.permissions }
        if capabilities.ownership {
            metadata.user = row.user
            metadata.group = row.group
        }
        if capabilities.extendedAttributes, row.kind != .symbolicLink {
            metadata.extendedAttributes = try database.extendedAttributes(of: row.id).filter {
                $0.key.starts(with: Array("user.".utf8))
            }
        }
        return metadata
    }

    /// Moves or deletes what stands where something else is to go.
    private func clear(_ obstacle: Obstacle) async throws(ProviderError) -> PushResult {
        switch obstacle {
        case .trash(let id):
            guard !activeTrash.contains(id), let document = trashedDocument(id), beginDeletion(id, document) else {
                return .blocked
            }
            await deleteRemotely(id, document)
            return .blocked
        case .entry(let id):
            // Two that stand in each other's way must not wait for each other.
            let engine = engine
            let found = try await engine.onContentQueue { () throws(Errno) in
                try engine.catalog.read { database throws(Errno) in try database.entry(id: id)?.document }
            }
            guard let document = found else { return .blocked }
            let isFree = shared.withLock { state in
                guard state.pushing[document] == nil else { return false }
                state.pushing[document] = PushProgress()
                return true
            }
            guard isFree else { return .blocked }
            activePushes += 1
            defer { endPush(document) }
            let step = try await engine.onContentQueue { () throws(Errno) in
                try engine.catalog.read { database throws(Errno) -> (RemoteReference, EntryRow, RemoteReference)? in
                    guard let entry = try database.entry(id: id), entry.document == document, entry.isMoved,
                        let remoteParent = entry.remoteParent,
                        let current = try database.remoteReference(of: entry),
                        let directory = try database.remoteReference(ofDirectory: remoteParent)
                    else { return nil }
                    return (current, entry, directory)
                }
            }
            guard let (current, entry, directory) = step else { return .blocked }
            // Swaps and chains have no first: a name nobody else uses breaks them.
            let name = FileName(unchecked: Array(".cove-moving-\(entry.document)".utf8))
            let moved = try await move(current, nil, directory, name)
            try await engine.onContentQueue { () throws(Errno) in
                try engine.catalog.write { database throws(Errno) in
                    guard let remoteParent = entry.remoteParent,
                        var fresh = try self.entry(of: document, first: id, database)
                    else { return }
                    fresh.remoteID = moved.id
                    fresh.remoteVersion = moved.contentVersion
                    fresh.remoteMetadata = moved.metadataVersion
                    fresh.remoteParent = remoteParent
                    fresh.remoteName = name.bytes
                    try database.update(fresh)
                    try database.enqueue(fresh.id, at: 0)
                }
            }
            return .blocked
        }
    }

    /// The entry that stands for a document now: another one when its identity was passed on meanwhile.
    private nonisolated func entry(
        of document: DocumentID,
        first id: Int64,
        _ database: Database
    ) throws(Errno) -> EntryRow? {
        if let entry = try database.entry(id: id), entry.document == document { return entry }
        let heir = try database.first(
            "SELECT id FROM entries WHERE document = ?",
            .document(document),
            read: { $0.int(0) }
        )
        guard let heir else { return nil }
        return try database.entry(id: heir)
    }

    private func trashedDocument(_ id: Int64) -> DocumentID? {
        try? engine.catalog.read { database throws(Errno) in try database.trash(id: id)?.document }
    }

    func move(
        _ item: RemoteReference,
        _ base: ContentVersion?,
        _ directory: RemoteReference,
        _ name: FileName
    ) async throws(ProviderError) -> RemoteItem {
        engine.counters.providerRequests.add(1, ordering: .relaxed)
        return try await engine.provider.move(item, base: base, to: directory, name: name)
    }

    private func send(_ plan: PushPlan) async throws(ProviderError) -> PushResult {
        guard let current = plan.current else { return try await create(plan) }
        if plan.entry.isMoved {
            do throws(ProviderError) {
                let moved = try await move(current, nil, plan.directory, FileName(unchecked: plan.entry.name))
                engine.counters.moves.add(1, ordering: .relaxed)
                try await acknowledgeMove(plan, moved)
                return .later(0)
            } catch .filenameCollision(let other) {
                return try await collide(plan, with: other)
            } catch .noSuchItem {
                return try await recreate(plan)
            }
        }
        let hasContent = plan.row.kind == .file && plan.entry.hasUnsentContent(generation: plan.row.generation)
        return try await modify(plan, current, hasContent: hasContent)
    }

    private func create(_ plan: PushPlan) async throws(ProviderError) -> PushResult {
        let template = ItemTemplate(kind: plan.row.kind, metadata: plan.metadata, linkTarget: plan.row.target)
        let name = FileName(unchecked: plan.entry.name)
        let provider = engine.provider
        do throws(ProviderError) {
            return try await withContent(plan) { source throws(ProviderError) in
                try await provider.create(template, name: name, in: plan.directory, content: source)
            }
        } catch .filenameCollision(let other) {
            return try await collide(plan, with: other)
        } catch .noSuchItem {
            // Its directory has moved or is gone there; the change feed tells more.
            requestPoll()
            if plan.attempts < 3 { return .later(200) }
            throw .failed("its folder is no longer at the source; it is looked for again", nil)
        }
    }

    private func modify(
        _ plan: PushPlan,
        _ current: RemoteReference,
        hasContent: Bool
    ) async throws(ProviderError) -> PushResult {
        let base = plan.entry.remoteVersion ?? ContentVersion([])
        let provider = engine.provider
        do throws(ProviderError) {
            if hasContent {
                return try await withContent(plan) { source throws(ProviderError) in
                    try await provider.modify(current, base: base, metadata: plan.metadata, content: source)
                }
            }
            engine.counters.providerRequests.add(1, ordering: .relaxed)
            let remote = try await provider.modify(current, base: base, metadata: plan.metadata, content: nil)
            try await acknowledge(plan, remote, generation: nil, bytes: nil)
            return .done
        } catch .conflict(let other) {
            guard hasContent else {
                // Only dates or permissions: the newer bytes come in first, then these are sent again.
                requestPoll()
                if let other { enqueue([.updated(other, directory: current.path.parent)]) }
                return .later(500)
            }
            return try await conflict(plan, current, with: other)
        } catch .noSuchItem {
            return try await recreate(plan)
        }
    }

    /// Sends bytes from a snapshot, and acknowledges what was sent if nothing changed meanwhile.
    private func withContent(
        _ plan: PushPlan,
        _ send: @Sendable ((any ContentSource)?) async throws(ProviderError) -> RemoteItem
    ) async throws(ProviderError) -> PushResult {
        let engine = engine
        let entry = plan.entry.id
        guard plan.row.kind == .file else {
            engine.counters.providerRequests.add(1, ordering: .relaxed)
            let remote = try await send(nil)
            try await acknowledge(plan, remote, generation: plan.row.generation, bytes: nil)
            return .done
        }
        let progress = shared.withLock { $0.pushing[plan.entry.document] } ?? PushProgress()
        let outcome = try await engine.onContentQueue { () throws(Errno) in
            let outcome = try engine.beginSnapshot(plan.row.id, progress: progress)
            if case .ready = outcome {
                try engine.catalog.write { database throws(Errno) in try database.markSent(entry, true) }
            }
            return outcome
        }
        switch outcome {
        case .busy(let milliseconds): return .later(max(milliseconds, 20))
        case .incomplete:
            do throws(Errno) {
                try await engine.materialize(plan.row.id)
            } catch {
                throw .failed("its base version can't be fetched (\(error)); its changes stay here", error)
            }
            return .later(0)
        case .ready(let source, let generation, let size):
            defer { engine.endSnapshot(source) }
            engine.counters.providerRequests.add(1, ordering: .relaxed)
            let remote: RemoteItem
            do throws(ProviderError) {
                remote = try await send(source)
            } catch {
                if error == .cancelled { return .later(0) }
                throw error
            }
            try await acknowledge(plan, remote, generation: generation, bytes: size)
            return .done
        }
    }

    /// Records what the provider has now; the journal row goes unless something changed meanwhile.
    func acknowledge(
        _ plan: PushPlan,
        _ remote: RemoteItem,
        generation: Int64?,
        bytes: Int64?
    ) async throws(ProviderError) {
        let engine = engine
        if let bytes {
            engine.counters.contentUpdates.add(1, ordering: .relaxed)
            engine.counters.bytesUploaded.add(bytes, ordering: .relaxed)
        }
        try await engine.onContentQueue { () throws(Errno) in
            try engine.catalog.write { database throws(Errno) in
                guard var entry = try self.entry(of: plan.entry.document, first: plan.entry.id, database) else {
                    return try self.acknowledgeDeparted(plan, remote, database)
                }
                engine.acknowledge(
                    remote,
                    &entry,
                    item: generation == nil ? plan.entry.remoteItem ?? plan.row.id : plan.row.id,
                    generation: generation ?? plan.entry.remoteGeneration ?? plan.row.generation
                )
                let isMovedSince = entry.parent != plan.entry.parent || entry.name != plan.entry.name
                entry.remoteParent = isMovedSince ? plan.entry.parent : nil
                entry.remoteName = isMovedSince ? plan.entry.name : nil
                let journal = try database.journalRow(entry.id)
                let isUnchanged = entry.id == plan.entry.id && journal?.changed == plan.changed
                if isUnchanged { entry.flags.remove(.metadataChanged) }
                try database.update(entry)
                let current = try database.existingItem(entry.item)
                let hasContent = current.kind == .file && entry.hasUnsentContent(generation: current.generation)
                if isUnchanged, !isMovedSince, !hasContent { try database.dequeue(entry.id) }
                try database.markSent(entry.id, false)
            }
        }
    }

    /// The entry was removed while it was being sent: what arrived is deleted again, in its turn.
    private nonisolated func acknowledgeDeparted(
        _ plan: PushPlan,
        _ remote: RemoteItem,
        _ database: Database
    ) throws(Errno) {
        if let id = plan.entry.remoteID {
            try database.run(
                "UPDATE trash SET remote_version = ?, remote_id = ? WHERE remote_id = ? AND pending = 1",
                .blob(remote.contentVersion.bytes),
                .blob(remote.id.bytes),
                .blob(id.bytes)
            )
            return
        }
        var trashed = TrashRow(
            document: plan.entry.document,
            path: try database.path(of: plan.entry),
            kind: plan.row.kind,
            item: nil,
            size: plan.row.size,
            deleted: engine.milliseconds(),
            isPending: true
        )
        trashed.remoteID = remote.id
        trashed.remoteParent = plan.entry.parent
        trashed.remoteName = plan.entry.name
        trashed.remoteVersion = remote.contentVersion
        try database.insert(trashed)
    }

    private func acknowledgeMove(_ plan: PushPlan, _ remote: RemoteItem) async throws(ProviderError) {
        let engine = engine
        try await engine.onContentQueue { () throws(Errno) in
            try engine.catalog.write { database throws(Errno) in
                guard var entry = try self.entry(of: plan.entry.document, first: plan.entry.id, database) else {
                    // Deleted while it moved: the deletion must find it at its new place.
                    if let id = plan.entry.remoteID {
                        try database.run(
                            """
                            UPDATE trash SET remote_parent = ?, remote_name = ?, remote_id = ?, remote_version = ?
                            WHERE remote_id = ? AND pending = 1
                            """,
                            .item(plan.entry.parent),
                            .blob(plan.entry.name),
                            .blob(remote.id.bytes),
                            .blob(remote.contentVersion.bytes),
                            .blob(id.bytes)
                        )
                    }
                    return
                }
                let isHere = entry.parent == plan.entry.parent && entry.name == plan.entry.name
                entry.remoteParent = isHere ? nil : plan.entry.parent
                entry.remoteName = isHere ? nil : plan.entry.name
                entry.remoteID = remote.id
                // The bytes may have changed there meanwhile: then their version stays the old one, and is noticed.
                if plan.row.kind == .directory || entry.remoteVersion == remote.contentVersion {
                    entry.remoteMetadata = remote.metadataVersion
                }
                try database.update(entry)
            }
        }
    }

    /// True while a directory, or one above it, has still to be moved at the provider or is being sent.
    private nonisolated func isOnTheMove(_ directory: ItemID, _ database: Database) throws(Errno) -> Bool {
        var current = directory
        while let entry = try database.entry(ofDirectory: current) {
            if entry.isMoved || shared.withLock({ $0.pushing[entry.document] != nil }) { return true }
            current = entry.parent
        }
        return false
    }

    /// The document is not where it was at the provider.
    ///
    /// When it is really gone, what was changed here is sent as a new one.
    private func recreate(_ plan: PushPlan) async throws(ProviderError) -> PushResult {
        let engine = engine
        let place = try await engine.onContentQueue { () throws(Errno) in
            try engine.catalog.read { database throws(Errno) -> RemoteReference? in
                guard let entry = try self.entry(of: plan.entry.document, first: plan.entry.id, database),
                    try !self.isOnTheMove(entry.remoteParent ?? entry.parent, database)
                else { return nil }
                return try database.remoteReference(of: entry)
            }
        }
        guard let place, let name = place.path.name else { return .later(50) }
        do throws(ProviderError) {
            engine.counters.providerRequests.add(1, ordering: .relaxed)
            _ = try await engine.provider.lookup(name, in: RemoteReference(id: nil, path: place.path.parent))
            return .later(20)
        } catch {
            guard error == .noSuchItem else { throw error }
        }
        try await engine.onContentQueue { () throws(Errno) in
            try engine.catalog.write { database throws(Errno) in
                guard var entry = try database.entry(id: plan.entry.id), entry.remoteID == plan.entry.remoteID,
                    let row = try database.item(entry.item), row.kind != .file || row.residency == .whole
                else { return }
                engine.forgetRemote(&entry)
                try database.update(entry)
            }
        }
        requestPoll()
        return .later(200)
    }
}
