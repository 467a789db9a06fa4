internal import CoveCore
internal import Glibc
internal import Synchronization

/// Names under which apps have documents that are not their own: what look-ups and listings find of them.
///
/// A reference has no item: its name leads to the item that its document has now, so that both names have the same bytes, the
/// same cache and the same locks.
extension Access {
    /// Cookies of references are behind those of all entries.
    private static let cookieMark: UInt64 = 1 << 61

    /// True while the account has none.
    var hasNoReferences: Bool { referenceCount.load(ordering: .acquiring) == 0 }

    /// The reference of a name; nil nearly always.
    @inline(__always)
    func reference(_ parent: ItemID, _ name: [UInt8]) throws(Errno) -> ReferenceRow? {
        if hasNoReferences { return nil }
        return try catalog.glance { database throws(Errno) in
            guard try database.entry(parent, name) == nil else { return nil }
            return try database.reference(parent, name)
        }
    }

    /// The entry of the document that a reference stands for; nil for one that dangles.
    func target(of row: ReferenceRow, _ database: Database) throws(Errno) -> EntryRow? {
        guard let document = row.target, let entry = try database.entry(document: document),
            try database.path(ofDirectory: entry.parent) != nil
        else { return nil }
        return entry
    }

    /// What a reference looks like: its document, or an empty file that can't be opened.
    func attributes(of row: ReferenceRow) throws(Errno) -> ItemAttributes {
        let entry = try catalog.glance { database throws(Errno) in try self.target(of: row, database) }
        guard let entry else { return dangling(row) }
        return try namespace.attributes(of: entry.item)
    }

    /// An item's attributes, with its references among its names.
    ///
    /// The kernel takes one off when it removes a name: it must not come to think that an item with a name has none.
    func counted(_ attributes: ItemAttributes) -> ItemAttributes {
        guard !hasNoReferences, attributes.kind == .file else { return attributes }
        let count = try? catalog.glance { database throws(Errno) in
            try database.first(
                """
                SELECT count(*) FROM entries e JOIN reference_documents r ON r.target = e.document
                WHERE e.item = ? AND r.parent IS NOT NULL
                """,
                .item(attributes.id)
            ) { $0.int(0) }
        }
        guard let count = count ?? nil, count > 0 else { return attributes }
        var counted = attributes
        counted.linkCount = UInt32(clamping: Int64(attributes.linkCount).addingReportingOverflow(count).partialValue)
        return counted
    }

    /// The attributes of one that dangles, by its number; `ESTALE` for one that is gone.
    func danglingAttributes(_ id: Int64) throws(Errno) -> ItemAttributes {
        guard let row = try catalog.glance({ database throws(Errno) in try database.reference(id: id) }) else {
            throw .stale
        }
        return dangling(row)
    }

    private func dangling(_ row: ReferenceRow) -> ItemAttributes {
        ItemAttributes(
            id: HiddenNode.reference(row.id).id,
            kind: .file,
            permissions: 0,
            user: configuration.user,
            group: configuration.group,
            size: 0,
            linkCount: 1,
            device: 0,
            blocks: 0,
            accessTime: row.made,
            modificationTime: row.made,
            changeTime: row.made
        )
    }

    /// Calls the body for the references of a folder after a cookie until it returns false.
    func readReferences(
        in parent: ItemID,
        after cookie: UInt64,
        plus: Bool,
        _ body: (borrowing DirectoryEntry) -> Bool
    ) throws(Errno) {
        let after = cookie & Self.cookieMark == 0 ? 0 : Int64(cookie & (Self.cookieMark - 1))
        let rows = try catalog.read { database throws(Errno) -> [ReferenceRow] in
            var rows: [ReferenceRow] = []
            for row in try database.references(in: parent, after: after)
            where try database.entry(parent, row.name) == nil { rows.append(row) }
            return rows
        }
        for row in rows {
            let entry = DirectoryEntry(
                name: row.name,
                cookie: Self.cookieMark | UInt64(row.id),
                attributes: counted(try attributes(of: row)),
                isUncached: true
            )
            guard body(entry) else { return }
        }
    }

    /// True for a name of a reference, or of a document that has one: what it stands for may change by the other name.
    func isShared(_ parent: ItemID, _ name: [UInt8]) throws(Errno) -> Bool {
        if hasNoReferences { return false }
        return try catalog.glance { database throws(Errno) in
            guard let entry = try database.entry(parent, name) else {
                return try database.reference(parent, name) != nil
            }
            return try !database.references(to: entry.document).isEmpty
        }
    }

    /// The names of a folder whose documents have references.
    func sharedNames(in folder: ItemID) throws(Errno) -> Set<[UInt8]> {
        try catalog.read { database throws(Errno) in
            let names = try database.all(
                "SELECT e.name FROM reference_documents r JOIN entries e ON e.document = r.target WHERE e.parent = ?",
                .item(folder)
            ) { $0.blob(0) }
            return Set(names)
        }
    }

    /// True for a cookie behind all entries, after which only references come.
    static func isReference(cookie: UInt64) -> Bool { cookie & cookieMark != 0 }

    /// True for a folder that has some.
    func hasReferences(in parent: ItemID) throws(Errno) -> Bool {
        if hasNoReferences { return false }
        return try catalog.glance { database throws(Errno) in
            try !database.references(in: parent, after: 0).isEmpty
        }
    }

    /// Where a call that names a reference, or what an app uses by a scope, is carried out: at the document's own place.
    func original(_ parent: ItemID, _ name: [UInt8], _ use: Use) throws(Errno) -> Place? {
        guard let row = try reference(parent, name) else { return try scopedEntry(parent, name, use)?.place }
        guard let entry = try catalog.glance({ database throws(Errno) in try self.target(of: row, database) }) else {
            throw .stale
        }
        return entry.place
    }

    /// The container of a folder; nil for one that is in none.
    func container(of folder: ItemID, _ database: Database) throws(Errno) -> (
        record: ContainerRecord, path: RemotePath
    )? {
        var names: [FileName] = []
        var current = folder
        while current != .root {
            guard names.count < 4096, let entry = try database.entry(ofDirectory: current) else { return nil }
            if entry.parent == .root {
                guard let name = containerFolder(of: entry), let identifier = AppIdentifier(name.description),
                    let record = registry.containers[identifier]
                else { return nil }
                return (record, RemotePath(names.reversed()))
            }
            names.append(FileName(unchecked: entry.name))
            current = entry.parent
        }
        return nil
    }

    /// A document that a reference leads to.
    struct External: Sendable {
        /// The reference's row.
        var id: Int64
        var reference: RemotePath
        var entry: EntryRow
        var row: ItemRow
        var path: RemotePath
    }

    /// Where an app has a document of another one, by its item; nil for an item of its own, and for what it was not given.
    func reference(to item: ItemID, of app: AppIdentifier) throws(Errno) -> RemotePath? {
        if hasNoReferences { return nil }
        let registry = registry
        return try catalog.read { database throws(Errno) in
            for entry in try database.entries(of: item) {
                for row in try database.references(to: entry.document)
                where registry.containers[row.container]?.app == app {
                    if let path = try self.path(of: row, database) { return path }
                }
            }
            return nil
        }
    }

    /// What is at a path: an entry, or what the reference there stands for, with the reference's row; nil where nothing is.
    func place(named path: RemotePath, _ database: Database) throws(Errno) -> (entry: EntryRow, reference: Int64?)? {
        guard let name = path.name else { return nil }
        var folder = ItemID.root
        for name in path.parent.names {
            guard let entry = try database.entry(folder, name.bytes) else { return nil }
            folder = entry.item
        }
        if let entry = try database.entry(folder, name.bytes) { return (entry, nil) }
        guard !hasNoReferences, let row = try database.reference(folder, name.bytes),
            let entry = try target(of: row, database)
        else { return nil }
        return (entry, row.id)
    }

    /// True while every document has its own name alone.
    var hasNoOtherNames: Bool { hasNoReferences && scopeCount.load(ordering: .acquiring) == 0 }

    /// The document that a path names which is not the document's own: a reference, or a name of a scope; nil for any other path.
    ///
    /// Links on the way are followed, and one at the end. `EACCES` for a scope's name that may not be used so.
    func original(
        named path: RemotePath,
        _ use: Use = .reading
    ) throws(Errno) -> (entry: EntryRow, path: RemotePath, reference: Int64?)? {
        if hasNoOtherNames { return nil }
        guard let place = try? namespace.place(at: path, following: true), place.entry == nil,
            let name = place.path.name
        else { return nil }
        if Self.isScoped(name.bytes) {
            let parent = try catalog.glance { database throws(Errno) in
                try database.entry(atPath: place.path.parent)?.item
            }
            guard let parent, let entry = try scopedEntry(parent, name.bytes, use) else { return nil }
            return try catalog.glance { database throws(Errno) in (entry, try database.path(of: entry), nil) }
        }
        return try catalog.glance { database throws(Errno) in
            guard let (entry, reference) = try self.place(named: place.path, database) else { return nil }
            return (entry, try database.path(of: entry), reference)
        }
    }

    /// The documents that the references of an app, or of all, lead to.
    func externals(of app: AppIdentifier?) throws(Errno) -> [External] {
        if hasNoReferences { return [] }
        let registry = registry
        return try catalog.read { database throws(Errno) in
            var found: [External] = []
            for row in try database.references() {
                if let app, registry.containers[row.container]?.app != app { continue }
                guard let entry = try self.target(of: row, database), let item = try database.item(entry.item),
                    let reference = try self.path(of: row, database)
                else { continue }
                let path = try database.path(of: entry)
                found.append(External(id: row.id, reference: reference, entry: entry, row: item, path: path))
            }
            return found
        }
    }
}
