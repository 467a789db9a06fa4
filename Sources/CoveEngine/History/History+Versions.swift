public import CoveCore
internal import Glibc
internal import Synchronization

/// What people ask of a document's earlier contents, and of those that a conflict put beside it.
extension History {
    /// The bytes of a version, or of a conflict copy, that `id` names.
    private struct Source {
        var item: ItemID
        /// True for a file of its own, which may change.
        var isFile: Bool
    }

    /// The earlier contents of a file, newest first, and then the files that hold other sides of its conflicts.
    func versions(of path: RemotePath) throws(Errno) -> [VersionStatus] {
        try catalog.read { database throws(Errno) in
            let entry = try self.file(path, database)
            let kept = try database.versions(of: entry.document).map { VersionStatus($0) }
            return kept + (try self.conflictCopies(of: entry, database))
        }
    }

    private func conflictCopies(of entry: EntryRow, _ database: Database) throws(Errno) -> [VersionStatus] {
        var copies: [VersionStatus] = []
        for conflict in try conflicts(of: entry.document, database) where conflict.document.id == entry.id {
            if let copy = try status(of: conflict.row, database) { copies.append(copy) }
        }
        return copies
    }

    /// The other side of a conflict; nil when its file is gone.
    private func status(of conflict: ConflictRow, _ database: Database) throws(Errno) -> VersionStatus? {
        guard let copy = try database.entry(document: conflict.copy) else { return nil }
        let row = try database.existingItem(copy.item)
        return VersionStatus(
            id: "\(conflict.copy)",
            documentID: "\(conflict.document)",
            size: row.size,
            modificationTime: row.modificationTime.secondsSinceEpoch,
            replacedTime: conflict.found.secondsSinceEpoch,
            host: conflict.host,
            contentVersion: copy.remoteVersion.map { "\($0)" },
            isLocal: row.residency == .whole,
            isConflict: true,
            conflictPath: try database.path(of: copy).description
        )
    }

    /// What a note is of, as it travels.
    func status(of note: VersionNote, _ database: Database) throws(Errno) -> VersionStatus? {
        switch note.subject {
        case .kept(let version): VersionStatus(version)
        case .conflict(let conflict): try status(of: conflict, database)
        }
    }

    func file(_ path: RemotePath, _ database: Database) throws(Errno) -> EntryRow {
        guard let entry = try database.entry(atPath: path) else { throw .isDirectory }
        let row = try database.existingItem(entry.item)
        guard row.kind == .file else { throw row.kind == .directory ? .isDirectory : .invalidArgument }
        return entry
    }

    /// The item that has a version's bytes; `ENODATA` when the file has no such version.
    private func source(_ id: String, of entry: EntryRow, _ database: Database) throws(Errno) -> Source {
        if let version = try database.versions(of: entry.document).first(where: { "\($0.id)" == id }) {
            guard let item = version.item else { throw .hostUnreachable }
            return Source(item: item, isFile: try database.existingItem(item).linkCount > 0)
        }
        let copy = try database.first(
            "SELECT copy FROM conflicts WHERE document = ? AND copy = ?",
            .document(entry.document),
            .document(DocumentID(id) ?? entry.document),
            read: { $0.document(0) }
        )
        guard let copy, copy != entry.document, let other = try database.entry(document: copy) else { throw .noData }
        return Source(item: other.item, isFile: true)
    }

    /// Opens a version to read it.
    func versionContent(_ id: String, of path: RemotePath) async throws(Errno) -> VersionContent {
        if let remote = try await remoteVersion(id, of: path) {
            return VersionContent(descriptor: try await fetch(remote, of: path))
        }
        let source = try catalog.read { database throws(Errno) in
            try self.source(id, of: try self.file(path, database), database)
        }
        if source.isFile { try await bringWhole(source.item) }
        return try await onQueue { [self] () throws(Errno) in
            guard source.isFile else {
                let row = try catalog.read { database throws(Errno) in try database.existingItem(source.item) }
                guard let file = try contents.store.open(row.id, holding: row.size) else { throw .inputOutput }
                return VersionContent(descriptor: file)
            }
            return VersionContent(descriptor: try snapshot(of: source.item))
        }
    }

    /// A file without a name that holds an item's bytes as they are now; `EBUSY` while a program can change them.
    private func snapshot(of id: ItemID) throws(Errno) -> Int32 {
        try contents.live.use(id) { item throws(Errno) in
            // It takes its time where the disk copies every byte, so others use the item meanwhile.
            let (file, size, generation) = try item.state.withLock { state throws(Errno) in
                let row = try contents.load(id, &state)
                try requireRest(id, state, generation: row.generation)
                try disk.requireRoom(forCopy: Int(clamping: row.size))
                let content = try contents.descriptor(id, &state)
                return (try System.retry { dup(content) }, row.size, row.generation)
            }
            defer { System.close(file) }
            let copy = try contents.store.copy(file, size: size)
            do throws(Errno) {
                try item.state.withLock { state throws(Errno) in
                    _ = try contents.load(id, &state)
                    try requireRest(id, state, generation: generation)
                }
            } catch {
                System.close(copy)
                throw error
            }
            return copy
        }
    }

    private func requireRest(_ id: ItemID, _ state: borrowing LiveItem.State, generation: Int64) throws(Errno) {
        guard let row = state.row, row.residency == .whole, row.generation == generation, !state.hasUnsavedContent,
            state.writesInFlight == 0, !contents.live.isWritable(id)
        else { throw .busy }
    }

    /// Gives a file the content of one of its versions, as if a program had saved it; what it replaces becomes a version.
    ///
    /// `EBUSY` while a program can write to the file.
    func restoreVersion(_ id: String, of path: RemotePath) async throws(Errno) {
        try requireWritable()
        guard configuration.keptVersions > 0 else { throw .notSupported }
        let entry = try catalog.read { database throws(Errno) in try self.file(path, database) }
        // What it has now is to be a version, so all of that must be here.
        try await bringWhole(entry.item)
        let item: ItemID
        if let remote = try await remoteVersion(id, of: path) {
            let file = try await fetch(remote, of: path)
            defer { System.close(file) }
            item = try await onQueue { [self] () throws(Errno) in try stage(file, for: entry.item) }
        } else {
            let source = try catalog.read { database throws(Errno) in try self.source(id, of: entry, database) }
            if source.isFile { try await bringWhole(source.item) }
            item = try await onQueue { [self] () throws(Errno) in
                let file = try snapshot(of: source.item)
                defer { System.close(file) }
                return try stage(file, for: entry.item)
            }
        }
        let transition = Transition(kind: .restore(entry: entry.id, item: item), remote: nil)
        do throws(Errno) {
            try await showRestored(transition)
        } catch {
            contents.dropOrphan(item)
            throw error
        }
        wakeSync()
    }

    /// Fetches all bytes of an item, and has the catalog know that they are here.
    private func bringWhole(_ id: ItemID) async throws(Errno) {
        try await contents.materialize(id)
        // The last bytes are here before the fetch that brought them has ended, and the item is whole after that.
        try await contents.materialize(id)
        try await onQueue { [self] () throws(Errno) in
            try contents.live.use(id) { item throws(Errno) in try contents.save(item, closing: false) }
        }
    }

    private func showRestored(_ transition: Transition) async throws(Errno) {
        guard let sync else { return try remoteChanges.show(transition) }
        let isShown: Bool
        do throws(ProviderError) {
            isShown = try await sync.isShown(transition)
        } catch {
            throw error.errno
        }
        if !isShown { throw .busy }
    }

    /// Makes the item that is to be a document's content: bytes of a file without a name, permissions and attributes of
    /// what it has now.
    private func stage(_ file: Int32, for current: ItemID) throws(Errno) -> ItemID {
        var (row, attributes) = try catalog.read { database throws(Errno) in
            (try database.existingItem(current), try database.extendedAttributes(of: current))
        }
        row.size = Int64(try System.fstat(file).st_size)
        row.modificationTime = clock.now()
        row.changeTime = row.modificationTime
        let item = try contents.addItem(row, bytes: file)
        do throws(Errno) {
            try catalog.write { database throws(Errno) in
                // What a program may do by its file's attributes it may not do with other bytes.
                let kept = attributes.filter { !$0.key.starts(with: Array("security.".utf8)) }
                try database.replaceExtendedAttributes(kept, of: item)
            }
        } catch {
            contents.dropOrphan(item)
            throw error
        }
        return item
    }

    /// Deletes one of a file's versions, or all; how many.
    func removeVersions(of path: RemotePath, _ id: String?) throws(Errno) -> Int {
        try requireWritable()
        if let id, id.hasPrefix(History.remoteMark) { throw .notPermitted }
        let versions = try catalog.read { database throws(Errno) in
            try database.versions(of: try self.file(path, database).document)
        }
        let chosen = versions.filter { id == nil || "\($0.id)" == id }
        if id != nil, chosen.isEmpty { throw .noData }
        for version in chosen { try contents.drop(version) }
        return chosen.count
    }

    /// How many conflicts an item's document has.
    func conflictCount(of id: ItemID) throws(Errno) -> Int {
        try catalog.read { database throws(Errno) in
            guard let entry = try database.entries(of: id).first else { return 0 }
            return try conflicts(of: entry.document, database).count
        }
    }
}

/// A version that is open to be read; what becomes of the version meanwhile doesn't matter.
public final class VersionContent: Sendable {
    private let descriptor: Int32

    init(descriptor: Int32) { self.descriptor = descriptor }

    deinit { System.close(descriptor) }

    /// The bytes from an offset on, at most so many, none at the end.
    ///
    /// It blocks.
    public func read(at offset: Int64, count: Int) throws(Errno) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let read = try bytes.withUnsafeMutableBytes { buffer in
            Result<Int, Errno> { () throws(Errno) in try System.pread(descriptor, buffer, offset) }
        }.get()
        bytes.removeSubrange(read...)
        return bytes
    }
}

extension VersionStatus {
    fileprivate init(_ version: VersionRow) {
        self.init(
            id: "\(version.id)",
            documentID: "\(version.document)",
            size: version.size,
            modificationTime: version.modificationTime.secondsSinceEpoch,
            replacedTime: version.replaced.secondsSinceEpoch,
            host: version.host,
            contentVersion: version.version.map { "\($0)" },
            isLocal: version.item != nil
        )
    }
}
