internal import CoveCore
internal import Synchronization

/// The documents of references: what they say is so here, and what was done here they come to say.
extension Access {
    /// The record's name of a document's name; nil for one that is no reference's.
    private static func record(_ name: [UInt8]) -> String? {
        let ending = Array(".json".utf8)
        guard name.count == 32 + ending.count, name.suffix(ending.count).elementsEqual(ending) else { return nil }
        let text = String(decoding: name.prefix(32), as: UTF8.self)
        return text.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) } ? text : nil
    }

    /// A time that makes sense; nil for none.
    private static func time(_ seconds: Double?) -> Timestamp? {
        guard let seconds, seconds >= 0, seconds < 1e11 else { return nil }
        // Whether a container was public by then is a matter of less than a second.
        let whole = seconds.rounded(.down)
        return Timestamp(seconds: Int64(whole), nanoseconds: Int64((seconds - whole) * 1e9))
    }

    private static func fileName(_ record: String) -> FileName { FileName(unchecked: Array("\(record).json".utf8)) }

    /// Takes what the documents of references say to be so; false where some could not be read.
    func readReferences() async throws(Errno) -> Bool {
        guard let folder = try await folder(DriveFolder.references) else { return true }
        let rows = try await onQueue { [catalog] () throws(Errno) in
            try catalog.read { database throws(Errno) in
                try database.all(
                    """
                    SELECT e.name, i.id, i.generation FROM entries e JOIN items i ON i.id = e.item
                    WHERE e.parent = ? AND i.kind = 0 ORDER BY e.name LIMIT 10000
                    """,
                    .item(folder)
                ) { (name: $0.blob(0), item: $0.item(1), generation: $0.int(2)) }
            }
        }
        var isComplete = true
        var present: Set<String> = []
        for row in rows {
            guard let record = Self.record(row.name) else { continue }
            present.insert(record)
            let place = DriveFolder.references.appending(FileName(unchecked: row.name))
            if let known = state.withLock({ $0.read[place] }), known.item == row.item,
                known.generation == row.generation
            {
                try await bind(record)
                continue
            }
            do throws(Errno) {
                let bytes = try await contents(of: row.item, atMost: DriveFolder.greatestRecord)
                if let value = try? JSONValue(parsing: bytes), let said: ReferenceRecord = try? value.decode() {
                    let isOfNow = try await onQueue { [self] () throws(Errno) in
                        try heed(said, record, row.item, row.generation)
                    }
                    guard isOfNow else {
                        isComplete = false
                        continue
                    }
                    try await bind(record)
                } else {
                    log.notice("\(place): it can't be read; it is left out")
                }
                state.withLock {
                    $0.read[place] = ReadRecord(item: row.item, generation: row.generation, value: nil)
                }
            } catch {
                isComplete = false
            }
        }
        let there = present
        try await onQueue { [self] () throws(Errno) in
            try forgetRemoved(there, folder)
            try countReferences()
            if !coordinator.isUncoordinated { followReferences() }
        }
        return isComplete
    }

    /// What a document says of a reference holds, unless something was done here that it is still to say.
    ///
    /// False where another document has been written meanwhile.
    private func heed(
        _ said: ReferenceRecord,
        _ record: String,
        _ item: ItemID,
        _ generation: Int64
    ) throws(Errno) -> Bool {
        guard let folder = (try? said.folder.remotePath()) ?? nil,
            let name = ((try? said.name.remotePath()) ?? nil)?.name, !name.isReserved,
            let target = (try? said.target.remotePath()) ?? nil, let top = target.names.first, !top.isReserved,
            top != DriveFolder.name
        else {
            log.notice("reference \(record) makes no sense; it is left out")
            return true
        }
        let made = Self.time(said.made) ?? journalTime()
        return try catalog.write { database throws(Errno) in
            guard try database.item(item)?.generation == generation,
                try !database.entries(of: item).isEmpty
            else { return false }
            let isDropped = try database.first("SELECT 1 FROM dropped_references WHERE record = ?", .text(record)) {
                _ in
                true
            }
            if isDropped == true {
                self.hasReferenceWork.store(true, ordering: .releasing)
                return true
            }
            guard var row = try database.reference(record: record) else {
                try database.insert(
                    ReferenceRow(
                        record: record,
                        container: said.container,
                        folder: folder,
                        parent: nil,
                        name: name.bytes,
                        target: nil,
                        place: target,
                        mayWrite: said.isReadOnly != true,
                        made: made
                    )
                )
                return true
            }
            if row.isDirty || row.container != said.container { return true }
            if row.folder != folder || row.name != name.bytes {
                let former = row.parent.map { Place($0, row.name) }
                row.folder = folder
                row.name = name.bytes
                // Where the folder is known the reference is found under the one name or the other at any time.
                row.parent = try self.folder(of: row, database)
                if let parent = row.parent { row.name = try self.freeReferenceName(row, parent, database) }
                let places = [former, row.parent.map { Place($0, row.name) }].compactMap(\.self)
                for place in places { try database.touchListing(place.parent, at: self.clock.now()) }
                database.whenCommitted { [self] in
                    tell(of: places)
                    notePlacesChanged()
                }
            }
            if row.place != target {
                row.place = target
                // Where the document is still the same it is known by its identity.
                if try self.target(of: row, database) == nil { row.target = nil }
            }
            let mayWrite = said.isReadOnly != true
            // What was given with it allows as much as it does; what is not bound yet is given when it is.
            if row.mayWrite != mayWrite, let target = row.target,
                let owner = self.registry.containers[row.container]?.app
            {
                try database.setGrant(
                    owner,
                    target,
                    mayWrite: mayWrite,
                    source: "open",
                    record: row.record,
                    at: row.made
                )
            }
            row.mayWrite = mayWrite
            try database.update(row)
            return true
        }
    }

    /// The folder that a reference is in, where it is known here.
    private func folder(of row: ReferenceRow, _ database: Database) throws(Errno) -> ItemID? {
        guard let container = try entry(ofContainer: row.container, database) else { return nil }
        let path = RemotePath([FileName(unchecked: container.name)] + row.folder.names)
        return try database.entry(atPath: path)?.item
    }

    /// Finds the folder and the document of a reference where they are not known yet, and grants what it stands for.
    private func bind(_ record: String) async throws(Errno) {
        let row = try await onQueue { [self] () throws(Errno) -> ReferenceRow? in
            try catalog.read { database throws(Errno) -> ReferenceRow? in
                guard let row = try database.reference(record: record) else { return nil }
                return row.parent != nil && row.target != nil ? nil : row
            }
        }
        guard var row else { return }
        if row.parent == nil, let top = await place(of: row.container) {
            row.parent = try await walk(RemotePath(top.names + row.folder.names))
        }
        if row.target == nil { _ = try await walk(names.here(row.place)) }
        let bound = row
        try await onQueue { [self] () throws(Errno) in
            try catalog.write { database throws(Errno) in
                guard var row = try database.reference(record: record) else { return }
                row.parent = row.parent ?? bound.parent
                // One that was known and is gone may come back; nothing else of its name is it.
                let owner = self.registry.containers[row.container]?.app
                if row.target == nil, let owner, let entry = try? database.entry(atPath: names.here(row.place)),
                    try self.refusal(of: entry, names.here(row.place), for: owner, givenAt: row.made, database) == nil
                {
                    row.target = entry.document
                }
                if let parent = row.parent { row.name = try self.freeReferenceName(row, parent, database) }
                try database.update(row)
                guard let target = row.target, let app = self.registry.containers[row.container]?.app else { return }
                try database.setGrant(
                    app,
                    target,
                    mayWrite: row.mayWrite,
                    source: "open",
                    record: row.record,
                    at: row.made
                )
            }
            try countReferences()
            if let parent = bound.parent { kernel?.invalidateEntry(parent, bound.name) }
        }
    }

    /// A name that nothing else has: another device may have made a file or a reference of the same name.
    private func freeReferenceName(_ row: ReferenceRow, _ parent: ItemID, _ database: Database) throws(Errno) -> [UInt8]
    {
        let name = FileName(unchecked: row.name)
        for candidate in [name] + (2..<1000).map({ name.inserting(" \($0)") }) {
            if try database.entry(parent, candidate.bytes) != nil { continue }
            if let other = try database.reference(parent, candidate.bytes), other.id != row.id { continue }
            return candidate.bytes
        }
        return name.inserting(" \(row.record)").bytes
    }

    /// The item at a path, which the provider is asked for; nil where nothing is there.
    func walk(_ path: RemotePath) async throws(Errno) -> ItemID? {
        var current = ItemID.root
        for name in path.names {
            guard let found = try await find(name, in: current) else { return nil }
            current = found
        }
        return current
    }

    /// The folder of a container in the tree.
    private func place(of container: AppIdentifier) async -> RemotePath? {
        guard registry.containers[container] != nil else { return nil }
        let found = try? await onQueue { [self] () throws(Errno) -> RemotePath in
            let entry = try catalog.read { database throws(Errno) in
                try self.entry(ofContainer: container, database)
            }
            return RemotePath([entry.map { FileName(unchecked: $0.name) } ?? names.here(container.folderName)])
        }
        return found
    }

    /// References whose documents another device has removed are gone here too.
    private func forgetRemoved(_ present: Set<String>, _ folder: ItemID) throws(Errno) {
        let gone = try catalog.write { database throws(Errno) -> [ReferenceRow] in
            guard try database.existingItem(folder).residency == .whole else { return [] }
            var gone: [ReferenceRow] = []
            // One that was made meanwhile has its document by now.
            for row in try database.references() where !row.isDirty && !present.contains(row.record) {
                if try database.entry(folder, Self.fileName(row.record).bytes) == nil { gone.append(row) }
            }
            for row in gone { try database.deleteReference(row, drops: false) }
            return gone
        }
        for row in gone { if let parent = row.parent { kernel?.invalidateEntry(parent, row.name) } }
    }

    /// Has the documents say what was done here; at the clock's round, and whenever something was done.
    func settleReferences() {
        guard hasReferenceWork.exchange(false, ordering: .acquiringAndReleasing) else { return }
        Task { [self] in
            do throws(Errno) {
                try await settle()
            } catch {
                log.debug("references are settled later: \(error)")
                hasReferenceWork.store(true, ordering: .releasing)
            }
        }
    }

    private func settle() async throws(Errno) {
        let (dirty, dropped) = try await onQueue { [self] () throws(Errno) -> ([ReferenceRow], [String]) in
            try notePlaces()
            return try catalog.read { database throws(Errno) in
                let dropped = try database.all("SELECT record FROM dropped_references") { $0.text(0) }
                return (try database.references().filter(\.isDirty), dropped)
            }
        }
        if configuration.isReadOnly { return }
        // Those that stay here have no document, and no other device knows of them.
        for row in dirty { try await tell(row.id) }
        for record in dropped {
            // That it was taken back is remembered: another device that has changed it may bring it back.
            try await turns.take { () throws(Errno) in
                try await remove(Self.fileName(record), in: DriveFolder.references)
            }
        }
    }

    /// Writes a reference's document where it is not written yet, as the reference is by then.
    func tell(_ id: Int64) async throws(Errno) {
        guard configuration.sharesReferences else { return }
        try await turns.take { () throws(Errno) in
            let row = try await onQueue { [catalog] () throws(Errno) in
                try catalog.read { database throws(Errno) in try database.reference(id: id) }
            }
            if let row, row.isDirty { try await write(row) }
        }
    }

    private func write(_ row: ReferenceRow) async throws(Errno) {
        let record = ReferenceRecord(
            container: row.container,
            folder: row.folder,
            name: FileName(unchecked: row.name),
            target: row.place,
            isReadOnly: !row.mayWrite,
            made: row.made.secondsSinceEpoch
        )
        guard let value = try? JSONValue(encoding: record) else { throw .invalidArgument }
        try await write(value.bytes + [0x0A], as: Self.fileName(row.record), in: DriveFolder.references)
        try await onQueue { [catalog] () throws(Errno) in
            try catalog.write { database throws(Errno) in
                guard var now = try database.reference(id: row.id) else { return }
                guard now.folder == row.folder, now.name == row.name, now.place == row.place,
                    now.mayWrite == row.mayWrite
                else { return }
                now.isDirty = false
                try database.update(now)
            }
        }
    }

    /// Compares where references and their documents are with what was told of it.
    private func notePlaces() throws(Errno) {
        if hasNoReferences { return }
        try catalog.write { database throws(Errno) in
            for var row in try database.references() {
                var isChanged = false
                if let parent = row.parent, try database.item(parent) != nil {
                    guard let container = try self.container(of: parent, database),
                        container.record.identifier == row.container
                    else { continue }
                    if container.path != row.folder { (row.folder, isChanged) = (container.path, true) }
                }
                if let entry = try self.target(of: row, database) {
                    let place = names.there(try database.path(of: entry))
                    if place != row.place { (row.place, isChanged) = (place, true) }
                }
                guard isChanged else { continue }
                row.isDirty = true
                try database.update(row)
            }
        }
    }
}
