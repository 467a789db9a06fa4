internal import CoveCore

/// Turning what a provider says into rows.
extension Namespace {
    /// Says what makes an item unusable, or nil: nothing a provider says is trusted.
    func problem(with remote: RemoteItem) -> String? {
        if let problem = FileName.problem(with: remote.name) { return "the source has \(problem)" }
        if remote.size < 0 { return "the source gives it a negative size" }
        if remote.size > Contents.maximumFileSize { return "it is larger than a file can be here" }
        if !remote.kind.isSynced { return "the source gives it a kind that can't be synced" }
        if remote.kind == .symbolicLink {
            guard let target = remote.linkTarget, !target.isEmpty, target.count < 4096, !target.contains(0) else {
                return "the source gives the symbolic link no usable target"
            }
        }
        if remote.id.bytes.count > 500 || remote.contentVersion.bytes.count > 500 {
            return "the source gives it an over-long identifier"
        }
        return nil
    }

    /// A new item for what the provider has: without bytes, and a directory without names.
    func itemRow(for remote: RemoteItem) -> ItemRow {
        let now = clock.now()
        let isDirectory = remote.kind == .directory
        let size = remote.kind == .symbolicLink ? Int64(remote.linkTarget?.count ?? 0) : isDirectory ? 0 : remote.size
        let time = remote.metadata.modificationTime ?? now
        var row = ItemRow(
            kind: remote.kind,
            permissions: (remote.metadata.permissions ?? (isDirectory ? 0o755 : 0o644)) & 0o7777,
            user: remote.metadata.user ?? configuration.user,
            group: remote.metadata.group ?? configuration.group,
            now: now
        )
        row.accessTime = time
        row.modificationTime = time
        row.size = size
        row.target = remote.linkTarget
        row.version = remote.contentVersion
        row.residency = isDirectory || remote.kind == .file && size > 0 ? .dataless : .whole
        return row
    }

    /// Inserts a new item for what the provider has, or gives the staged one its name's link.
    func insertItem(for remote: RemoteItem, staged: ItemID?, _ database: Database) throws(Errno) -> ItemRow {
        var row = itemRow(for: remote)
        if let staged {
            row.id = staged
            try database.run("UPDATE items SET nlink = 1 WHERE id = ?", .item(staged))
        } else {
            row.id = try database.insert(row)
            try storeRemoteAttributes(remote, of: row.id, database)
        }
        return row
    }

    func storeRemoteAttributes(_ remote: RemoteItem, of id: ItemID, _ database: Database) throws(Errno) {
        guard let attributes = remote.metadata.extendedAttributes, !attributes.isEmpty else { return }
        try database.replaceExtendedAttributes(attributes, of: id)
    }

    /// Sets what the provider acknowledges of an entry.
    func acknowledge(_ remote: RemoteItem, _ entry: inout EntryRow, item: ItemID, generation: Int64) {
        entry.remoteID = remote.id
        entry.remoteVersion = remote.contentVersion
        entry.remoteMetadata = remote.metadataVersion
        entry.remoteItem = item
        entry.remoteGeneration = generation
    }

    /// Inserts a document of the provider under a free name; no news is one that was there before anybody looked.
    @discardableResult
    func insertRemote(
        _ remote: RemoteItem,
        as document: DocumentID = .random(),
        into parent: ItemID,
        staged: ItemID? = nil,
        name: [UInt8]? = nil,
        isNews: Bool = true,
        _ database: Database
    ) throws(Errno) -> EntryRow {
        let row = try insertItem(for: remote, staged: staged, database)
        var entry = EntryRow(parent: parent, name: name ?? remote.name, item: row.id, document: document)
        acknowledge(remote, &entry, item: row.id, generation: row.generation)
        entry.id = try database.insert(entry)
        if row.kind == .directory { try database.addLinks(1, to: parent) }
        try database.note(.created, entry: entry.id, item: row.id, parent: parent, isNews: isNews)
        return entry
    }
}
