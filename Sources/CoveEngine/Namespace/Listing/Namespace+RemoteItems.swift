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
        row.birthTime = remote.created ?? time
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

    /// Keeps the attributes that the provider has of a new item.
    func storeRemoteAttributes(_ remote: RemoteItem, of id: ItemID, _ database: Database) throws(Errno) {
        if let attributes = remote.metadata.extendedAttributes, !attributes.isEmpty {
            try database.replaceExtendedAttributes(Self.admissible(attributes), of: id)
        }
        // Nothing is to be taken away of a new item: listings make many.
        guard remote.decorations != nil || remote.sharing != nil || remote.editor != nil else { return }
        try storeTold(remote, of: id, hasNewContent: true, database)
    }

    /// Keeps what the provider tells of an item beside its attributes: marks for file managers, with whom it is shared, and
    /// who changed it last.
    ///
    /// An answer that does not tell who made the content says nothing of content that is known.
    func storeTold(
        _ remote: RemoteItem,
        of id: ItemID,
        hasNewContent: Bool,
        _ database: Database
    ) throws(Errno) {
        let sharing = remote.sharing.flatMap { try? JSONValue(encoding: $0.shown).bytes }
        // The answer to a change may not tell with whom a file is shared, as it may not tell the metadata's version.
        let isSilent = remote.kind == .file && remote.metadataVersion.bytes.isEmpty
        let isSameContent = remote.kind == .file && !hasNewContent
        for (name, value, stays) in [
            (CoveAttribute.decorations, remote.decorations, false), (CoveAttribute.sharing, sharing, isSilent),
            (CoveAttribute.editor, remote.editor.flatMap { CoveAttribute.value(editor: $0) }, isSameContent),
        ] {
            if let value {
                try database.setExtendedAttribute(name, value, of: id)
            } else if !stays {
                try database.removeExtendedAttribute(name, of: id)
            }
        }
    }

    /// Gives the item of new bytes what the provider does not keep, and so stays here: of the one that had the name.
    ///
    /// What the provider keeps stays as it was here where it was changed here, and nothing else was: it is still to be sent.
    func carry(
        _ old: ItemRow,
        of entry: EntryRow,
        to row: inout ItemRow,
        _ remote: RemoteItem,
        _ database: Database
    ) throws(Errno) {
        guard old.kind == row.kind else { return }
        let isUnsent = entry.hasUnsentMetadataOnly(generation: old.generation)
        // Whoever has changed the bytes is nobody to run as somebody else.
        if isUnsent || remote.metadata.permissions == nil { row.permissions = old.permissions & 0o1777 }
        if isUnsent || remote.metadata.user == nil { row.user = old.user }
        if isUnsent || remote.metadata.group == nil { row.group = old.group }
        if isUnsent { try database.removeSharedAttributes(of: row.id) }
        try database.saveAttributes(row)
        // A document was made once, however often its bytes are.
        try database.inheritBirth(of: old.id, by: row.id)
        try database.run(
            """
            INSERT OR IGNORE INTO xattrs SELECT ?, name, value FROM xattrs WHERE item = ? AND name NOT IN (?, ?, ?)
                AND (? OR substr(name, 1, 5) <> CAST('user.' AS BLOB))
                AND substr(name, 1, 9) <> CAST('security.' AS BLOB)
            """,
            .item(row.id),
            .item(old.id),
            .blob(CoveAttribute.decorations),
            .blob(CoveAttribute.sharing),
            .blob(CoveAttribute.editor),
            .int(isUnsent || !provider.capabilities.extendedAttributes ? 1 : 0)
        )
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

extension Database {
    /// Removes the attributes of an item that the provider keeps; what it only tells stays.
    func removeSharedAttributes(of id: ItemID) throws(Errno) {
        try run(
            """
            DELETE FROM xattrs WHERE item = ? AND substr(name, 1, 5) = CAST('user.' AS BLOB)
                AND name NOT IN (?, ?, ?)
            """,
            .item(id),
            .blob(CoveAttribute.decorations),
            .blob(CoveAttribute.sharing),
            .blob(CoveAttribute.editor)
        )
    }

    /// Keeps who made the content of a known version, where another answer than that which told of the version says so.
    func storeEditor(_ editor: String, of id: ItemID) throws(Errno) {
        guard let value = CoveAttribute.value(editor: editor) else { return }
        guard try extendedAttribute(CoveAttribute.editor, of: id) != value else { return }
        try setExtendedAttribute(CoveAttribute.editor, value, of: id)
        touchItem(id)
    }
}
