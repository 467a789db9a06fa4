internal import CoveCore
internal import Glibc
internal import Synchronization

/// What containers' folders are called: as their documents say, until somebody renames them in the tree.
extension Access {
    /// A container's folder in the tree.
    struct Folder: Sendable {
        var entry: EntryRow
        /// Its name at the provider, which is the container's identifier.
        var folder: FileName
    }

    /// The container's folder, or the folder of the root that is one; nil where it is none.
    func containerFolder(of entry: EntryRow) -> FileName? {
        guard entry.parent == .root, entry.remoteParent ?? .root == .root else { return nil }
        // Until a new name is acknowledged it may be the former or the new one that is known already.
        for name in [entry.remoteName, entry.name] {
            guard let name else { continue }
            let folder = names.there(FileName(unchecked: name))
            if names.isContainer(there: folder) { return folder }
            if let identifier = AppIdentifier(folder.description), registry.containers[identifier] != nil {
                return folder
            }
        }
        return nil
    }

    /// Where a container's folder is in the tree; nil where it is not there.
    func entry(ofContainer identifier: AppIdentifier, _ database: Database) throws(Errno) -> EntryRow? {
        let folder = identifier.folderName
        let here = names.here(folder)
        guard names.there(here) == folder else { return nil }
        if let found = try database.entry(remoteParent: .root, remoteName: here.bytes) { return found }
        guard let found = try database.entry(.root, here.bytes), containerFolder(of: found) == folder else {
            return nil
        }
        return found
    }

    /// Has the folders of containers called as these say, and these say what people call them.
    func heedNames(isListing: Bool) async throws(Errno) {
        for record in containers {
            // One that can't be heeded keeps no other from it.
            do throws(Errno) { try await heedName(of: record, isListing: isListing) } catch {
                log.info("\(record.identifier): its folder could not be called \(record.name): \(error)")
            }
        }
        try await onQueue { [self] () throws(Errno) in try markFolders() }
    }

    private struct Named {
        var named: String?
        var shown: [UInt8]?
    }

    private func heedName(of record: ContainerRecord, isListing: Bool) async throws(Errno) {
        let folder = record.identifier.folderName
        if !names.isContainer(there: folder) {
            // Something else at the source may be called so.
            _ = try await find(FileName(unchecked: Array(record.name.utf8)), in: .root)
        }
        let step = try await onQueue { [self] () throws(Errno) -> NameStep in
            if !names.isContainer(there: folder) { try introduce(folder, record) }
            return try catalog.read { database throws(Errno) in
                let row = try database.first(
                    "SELECT named, shown FROM container_names WHERE id = ?",
                    .text(folder.description),
                    read: { Named(named: $0.optionalText(0), shown: $0.optionalBlob(1)) }
                )
                guard let entry = try self.entry(ofContainer: record.identifier, database) else { return .nothing }
                if row?.named != record.name {
                    let name = try self.freeName(record, besides: entry, database)
                    return .show(from: entry.name, to: name)
                }
                if let shown = row?.shown, shown != entry.name { return .tell(entry.name) }
                return .nothing
            }
        }
        switch step {
        case .nothing: break
        case .show(let former, let name):
            if former != name.bytes {
                try await onQueue { [self] () throws(Errno) in try show(former, name, isListing: isListing) }
            }
            try await onQueue { [self] () throws(Errno) in try note(folder, record.name, name.bytes) }
        case .tell(let name):
            // A listing waits for nothing that is written; the next reading does it.
            guard let text = String(validating: name, as: UTF8.self), AppManifest.problem(withName: text) == nil,
                !configuration.isReadOnly, !isListing
            else { return }
            try await change(container: record.identifier) { known in
                var told = known ?? record
                told.name = text
                return told
            }
            try await onQueue { [self] () throws(Errno) in try note(folder, text, name) }
        }
    }

    private enum NameStep: Sendable {
        case nothing
        /// The folder is to be called otherwise.
        case show(from: [UInt8], to: FileName)
        /// People call it otherwise.
        case tell([UInt8])
    }

    /// A container is heard of for the first time: where its folder was never seen it has its name from the start.
    private func introduce(_ folder: FileName, _ record: ContainerRecord) throws(Errno) {
        let name = try catalog.read { database throws(Errno) -> FileName in
            if try database.entry(.root, folder.bytes) != nil { return folder }
            return try self.freeName(record, besides: nil, database)
        }
        try names.rename(there: folder, to: name)
    }

    /// The container's display name, or one beside it where something else has that.
    private func freeName(
        _ record: ContainerRecord,
        besides own: EntryRow?,
        _ database: Database
    ) throws(Errno) -> FileName {
        let wanted = FileName(unchecked: Array(record.name.utf8))
        let others = [wanted, wanted.inserting(" (\(record.identifier))"), record.identifier.folderName]
        for name in others {
            // Another container's identifier is no name for this one.
            if let other = AppIdentifier(name.description), other != record.identifier,
                registry.containers[other] != nil
            {
                continue
            }
            if names.isTaken(name), names.there(name) != record.identifier.folderName { continue }
            guard let occupant = try database.entry(.root, name.bytes) else { return name }
            if occupant.id == own?.id { return name }
        }
        return record.identifier.folderName
    }

    /// Renames a folder of the root where programs see it.
    ///
    /// While the root is being listed nobody may be made to wait for it.
    private func show(_ former: [UInt8], _ name: FileName, isListing: Bool) throws(Errno) {
        let isTold = { [self] () throws(Errno) -> Bool in
            guard !isListing, let announcer else { return false }
            do throws(Errno) {
                try announcer.perform(.rename(from: RemotePath([FileName(unchecked: former)]), to: RemotePath([name])))
                return true
            } catch {
                return try catalog.read { database throws(Errno) in try database.entry(.root, name.bytes) != nil }
            }
        }
        guard try !isTold() else { return }
        try namespace.rename(.root, former, .root, name.bytes, flags: 0, ownCaller)
        noteRenamed(former, to: name.bytes)
        kernel?.invalidateEntry(.root, former)
        kernel?.invalidateEntry(.root, name.bytes)
    }

    private func note(_ folder: FileName, _ named: String, _ shown: [UInt8]) throws(Errno) {
        try catalog.write { database throws(Errno) in
            try database.run(
                "UPDATE container_names SET named = ?, shown = ? WHERE id = ?",
                .text(named),
                .blob(shown),
                .text(folder.description)
            )
        }
    }

    /// A container's folder that the provider does not have yet was renamed: it is to get its identifier all the same.
    func noteRenamed(_ former: [UInt8], to name: [UInt8]) {
        guard !names.isEmpty, former != name else { return }
        let folder = names.there(FileName(unchecked: former))
        guard names.isContainer(there: folder) else { return }
        let entry = try? catalog.glance { database throws(Errno) in try database.entry(.root, name) }
        guard let entry = entry ?? nil, !entry.isUploaded else { return }
        do throws(Errno) {
            try names.rename(there: folder, to: FileName(unchecked: name))
        } catch {
            log.error("the new name of container \(folder) could not be noted: \(error)")
        }
    }

    /// Knows the root's folders by their items, which renames leave alone.
    func markFolders() throws(Errno) {
        let registry = registry
        let marks = try catalog.read { database throws(Errno) -> [ItemID: FolderMark] in
            var marks: [ItemID: FolderMark] = [:]
            if let entry = try database.entry(.root, DriveFolder.name.bytes) { marks[entry.item] = .records }
            for record in registry.containers.values {
                guard let entry = try self.entry(ofContainer: record.identifier, database) else { continue }
                // One that two claim is nobody's.
                guard marks[entry.item] == nil else {
                    marks[entry.item] = .records
                    continue
                }
                marks[entry.item] = .container(record.identifier, isPublic: record.isPublic)
            }
            return marks
        }
        let isNew = folders.update { table in
            defer { table = marks }
            return table != marks
        }
        if isNew { try tellRoot() }
    }

    /// Has the kernel ask for the root's listing again.
    func tellRoot() throws(Errno) {
        // By its date the kernel knows that the listing it keeps is out of date.
        try catalog.write { database throws(Errno) in
            try database.touchListing(.root, at: self.clock.now())
        }
        kernel?.invalidateAttributes(of: .root)
    }

    /// True for a folder of the root that listings leave out.
    func isHidden(_ id: ItemID) -> Bool {
        if isErasing.load(ordering: .acquiring) { return false }
        return switch folders[id] {
        case .records, .container(_, isPublic: false): true
        default: false
        }
    }
}
