internal import CoveCore

/// Reading and writing rows of `entries` and of the change feed.
///
/// Rows are read in the order of the schema's columns; schema steps only add columns at the end.
extension Database {
    func entry(_ parent: ItemID, _ name: [UInt8]) throws(Errno) -> EntryRow? {
        try first(
            "SELECT * FROM entries WHERE parent = ? AND name = ?",
            .item(parent),
            .blob(name),
            read: { EntryRow($0) }
        )
    }

    func entry(id: Int64) throws(Errno) -> EntryRow? {
        try first(
            "SELECT * FROM entries WHERE id = ?",
            .int(id),
            read: { EntryRow($0) }
        )
    }

    /// The entries of an item: one, unless it has hard links.
    func entries(of item: ItemID) throws(Errno) -> [EntryRow] {
        try all(
            "SELECT * FROM entries WHERE item = ?",
            .item(item),
            read: { EntryRow($0) }
        )
    }

    func entry(document: DocumentID) throws(Errno) -> EntryRow? {
        try first(
            "SELECT * FROM entries WHERE document = ?",
            .document(document),
            read: { EntryRow($0) }
        )
    }

    func entry(remoteID: RemoteID) throws(Errno) -> EntryRow? {
        try first(
            "SELECT * FROM entries WHERE remote_id = ? LIMIT 1",
            .blob(remoteID.bytes),
            read: { EntryRow($0) }
        )
    }

    /// The document that the provider, as far as it has acknowledged, holds at a place.
    func entry(remoteParent: ItemID, remoteName: [UInt8]) throws(Errno) -> EntryRow? {
        let moved = try first(
            "SELECT * FROM entries WHERE remote_parent = ? AND remote_name = ?",
            .item(remoteParent),
            .blob(remoteName),
            read: { EntryRow($0) }
        )
        if let moved { return moved }
        guard let here = try entry(remoteParent, remoteName), here.isUploaded, !here.isMoved else { return nil }
        return here
    }

    /// True where something of a directory at the provider is elsewhere here: moved, deleted, or sent and not answered.
    func hasElsewhere(_ directory: ItemID) throws(Errno) -> Bool {
        try first(
            """
            SELECT EXISTS (SELECT 1 FROM entries WHERE remote_parent = ?1)
                OR EXISTS (SELECT 1 FROM trash WHERE pending = 1 AND remote_parent = ?1)
                OR EXISTS (SELECT 1 FROM underway WHERE parent = ?1)
            """,
            .item(directory)
        ) { $0.int(0) != 0 } ?? true
    }

    /// True where a directory has any name from the first of some ascending ones to the last.
    func hasEntries(_ parent: ItemID, among items: [RemoteItem]) throws(Errno) -> Bool {
        guard let first = items.first, let last = items.last else { return false }
        return try self.first(
            "SELECT 1 FROM entries WHERE parent = ? AND name >= ? AND name <= ? LIMIT 1",
            .item(parent),
            .blob(first.name),
            .blob(last.name)
        ) { _ in true } ?? false
    }

    /// Visits the entries of a directory in the order of their cookies.
    func eachEntry(of parent: ItemID, after cookie: Int64, _ body: (EntryRow) -> Bool) throws(Errno) {
        try each(
            "SELECT * FROM entries WHERE parent = ? AND id > ? ORDER BY id",
            .item(parent),
            .int(cookie)
        ) { body(EntryRow($0)) }
    }

    func hasEntries(_ parent: ItemID) throws(Errno) -> Bool {
        try first("SELECT 1 FROM entries WHERE parent = ? LIMIT 1", .item(parent), read: { _ in true }) ?? false
    }

    /// All names of a directory are here.
    func markListed(_ directory: ItemID) throws(Errno) {
        try run(
            """
            UPDATE items SET state = 0, nlink = 2 + (SELECT count(*) FROM entries e JOIN items i ON i.id = e.item
                WHERE e.parent = ?1 AND i.kind = 1)
            WHERE id = ?1
            """,
            .item(directory)
        )
    }

    func hasUploadedEntries(_ parent: ItemID) throws(Errno) -> Bool {
        try first(
            "SELECT 1 FROM entries WHERE parent = ? AND remote_id IS NOT NULL AND remote_parent IS NULL LIMIT 1",
            .item(parent),
            read: { _ in true }
        ) ?? false
    }

    /// How many names a directory has at the provider, as far as that is known.
    func uploadedEntries(of directory: ItemID) throws(Errno) -> Int {
        let count = try first(
            """
            SELECT count(*) FROM entries WHERE remote_id IS NOT NULL
                AND (remote_parent = ?1 OR remote_parent IS NULL AND parent = ?1)
            """,
            .item(directory)
        ) { $0.int(0) }
        return Int(clamping: count ?? 0)
    }

    /// What is written of an entry, in the order of `insert` and `update`.
    private func columns(of entry: EntryRow) -> [Value] {
        [
            .item(entry.parent),
            .blob(entry.name),
            .item(entry.item),
            .document(entry.document),
            .int(entry.flags.rawValue),
            .optional(entry.remoteID?.bytes),
            .optional(entry.remoteParent.map { Int64(bitPattern: $0.rawValue) }),
            .optional(entry.remoteName),
            .optional(entry.remoteVersion?.bytes),
            .optional(entry.remoteMetadata?.bytes),
            .optional(entry.remoteItem.map { Int64(bitPattern: $0.rawValue) }),
            .optional(entry.remoteGeneration),
        ]
    }

    @discardableResult
    func insert(_ entry: EntryRow) throws(Errno) -> Int64 {
        try run(
            """
            INSERT INTO entries(parent, name, item, document, flags, remote_id, remote_parent, remote_name,
                remote_version, remote_metadata, remote_item, remote_generation)
            VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            columns(of: entry)
        )
        let id = lastInsertID
        try touchConflicts(of: id)
        return id
    }

    func update(_ entry: EntryRow) throws(Errno) {
        try touchConflicts(of: entry.id)
        try run(
            """
            UPDATE entries SET parent = ?, name = ?, item = ?, document = ?, flags = ?, remote_id = ?,
                remote_parent = ?, remote_name = ?, remote_version = ?, remote_metadata = ?, remote_item = ?,
                remote_generation = ?
            WHERE id = ?
            """,
            columns(of: entry) + [.int(entry.id)]
        )
        try touchConflicts(of: entry.id)
    }

    func deleteEntry(_ id: Int64) throws(Errno) {
        try touchConflicts(of: id)
        try run("DELETE FROM entries WHERE id = ?", .int(id))
        try run("DELETE FROM journal WHERE entry = ?", .int(id))
    }

    /// The one entry of a directory, nil for the root.
    func entry(ofDirectory directory: ItemID) throws(Errno) -> EntryRow? {
        directory == .root ? nil : try entries(of: directory).first
    }

    /// The names from the root to a directory, as they are here; nil when it is not in the tree.
    func path(ofDirectory directory: ItemID) throws(Errno) -> RemotePath? {
        var names: [FileName] = []
        var current = directory
        while current != .root {
            guard let entry = try entry(ofDirectory: current), names.count < 4096 else { return nil }
            names.append(FileName(unchecked: entry.name))
            current = entry.parent
        }
        return RemotePath(names.reversed())
    }

    func path(of entry: EntryRow) throws(Errno) -> RemotePath {
        (try path(ofDirectory: entry.parent) ?? .root).appending(FileName(unchecked: entry.name))
    }

    /// One directory as the provider has it, one deleted here too until the provider knows; nil when it has not.
    private func remoteDirectory(
        _ directory: ItemID
    ) throws(Errno) -> (id: RemoteID, parent: ItemID, name: [UInt8])? {
        if let entry = try entry(ofDirectory: directory) {
            guard let id = entry.remoteID else { return nil }
            return (id, entry.remoteParent ?? entry.parent, entry.remoteName ?? entry.name)
        }
        return try first(
            "SELECT remote_id, remote_parent, remote_name FROM trash WHERE item = ? AND pending = 1",
            .item(directory),
            read: { (RemoteID($0.blob(0)), $0.item(1), $0.blob(2)) }
        )
    }

    /// Where the provider, as far as it has acknowledged, keeps a directory; nil before it was uploaded.
    func remoteReference(ofDirectory directory: ItemID) throws(Errno) -> RemoteReference? {
        var names: [FileName] = []
        var id: RemoteID?
        var current = directory
        var passed: Set<ItemID> = []
        while current != .root {
            // Places there and here together may form a ring for a while.
            if names.count > 32, !passed.insert(current).inserted { return nil }
            guard names.count < 4096, let found = try remoteDirectory(current) else { return nil }
            if names.isEmpty { id = found.id }
            names.append(FileName(unchecked: found.name))
            current = found.parent
        }
        return RemoteReference(id: id, path: RemotePath(names.reversed()))
    }

    /// True while the provider still has things in a directory that were moved or deleted here.
    func isOccupiedRemotely(_ directory: ItemID) throws(Errno) -> Bool {
        try first(
            """
            SELECT 1 WHERE EXISTS (SELECT 1 FROM entries WHERE remote_parent = ?1)
                OR EXISTS (SELECT 1 FROM trash WHERE pending = 1 AND remote_parent = ?1)
            """,
            .item(directory),
            read: { _ in true }
        ) ?? false
    }

    /// A directory and those above it, as the provider has them.
    func remoteAncestry(of directory: ItemID) throws(Errno) -> [ItemID] { try remoteChain(of: directory).ancestors }

    /// A directory and those above it as the provider has them, and the first among them that it does not have yet.
    func remoteChain(of directory: ItemID) throws(Errno) -> (ancestors: [ItemID], missing: ItemID?) {
        var found: [ItemID] = []
        var current = directory
        while current != .root {
            found.append(current)
            guard found.count < 4096, let next = try remoteDirectory(current) else { return (found, current) }
            current = next.parent
        }
        return (found, nil)
    }

    /// True when the provider, as far as it has acknowledged, has an entry in the tree of another.
    ///
    /// What was moved there only here, with all below it, is not part of that tree.
    func isPart(_ id: Int64, of top: Int64) throws(Errno) -> Bool {
        var current = id
        for _ in 0..<4096 {
            if current == top { return true }
            guard let entry = try entry(id: current), entry.isUploaded, !entry.isMoved,
                let above = try entries(of: entry.parent).first
            else { return false }
            current = above.id
        }
        return false
    }

    /// Where the provider, as far as it has acknowledged, keeps a document; nil before the first upload.
    func remoteReference(of entry: EntryRow) throws(Errno) -> RemoteReference? {
        guard let id = entry.remoteID,
            let parent = try remoteReference(ofDirectory: entry.remoteParent ?? entry.parent)
        else { return nil }
        return RemoteReference(
            id: id,
            path: parent.path.appending(FileName(unchecked: entry.remoteName ?? entry.name))
        )
    }

    /// The directory that the provider has at a path, if the catalog knows it.
    func directory(atRemotePath path: RemotePath) throws(Errno) -> ItemID? {
        var current = ItemID.root
        for name in path.names {
            guard let entry = try entry(remoteParent: current, remoteName: name.bytes) else { return nil }
            current = entry.item
        }
        return current
    }

    /// Walks names as they are here to the last entry, nil for the root; throws `ENOENT`.
    func entry(atPath path: RemotePath) throws(Errno) -> EntryRow? {
        var found: EntryRow?
        var current = ItemID.root
        for name in path.names {
            guard let entry = try entry(current, name.bytes) else { throw .noSuchEntry }
            found = entry
            current = entry.item
        }
        return found
    }

    /// True when a directory is another one or lies below it.
    func directory(_ directory: ItemID, isInside other: ItemID) throws(Errno) -> Bool {
        var current = directory
        var steps = 0
        while current != other {
            guard current != .root, steps < 4096, let entry = try entry(ofDirectory: current) else { return false }
            current = entry.parent
            steps += 1
        }
        return true
    }

    /// Adds a row to the change feed.
    ///
    /// `from` is where a moved or removed entry was, `isRename` says that a program moved it. Followers of commits only hear
    /// of news.
    func note(
        _ kind: ChangeKind,
        entry: Int64,
        item: ItemID,
        parent: ItemID,
        from: Place? = nil,
        isRename: Bool = false,
        isNews: Bool = true
    ) throws(Errno) {
        if isNews {
            changes.append(CatalogChange(kind: kind, entry: entry, item: item, from: from, isRename: isRename))
        }
        try run(
            "INSERT INTO changes(kind, entry, item, parent, request) VALUES(?, ?, ?, ?, ?)",
            .int(kind.rawValue),
            .int(entry),
            .item(item),
            .item(parent),
            .optional(request)
        )
        // The feed is for those who follow it; one who is further behind than this reads the catalog again.
        let sequence = lastInsertID
        if sequence % 4096 == 0 { try run("DELETE FROM changes WHERE sequence < ?", .int(sequence - 65536)) }
    }
}

/// One row of the change feed, for those who follow commits.
struct CatalogChange {
    var kind: ChangeKind
    var entry: Int64
    var item: ItemID
    /// Where a moved or removed entry was.
    var from: Place?
    /// True where a program moved it.
    var isRename = false
}

/// What a transaction did to a document's versions, for those who follow commits.
struct VersionNote {
    /// What came, went or was dealt with.
    enum Subject {
        case kept(VersionRow)
        case conflict(ConflictRow)
    }

    var change: VersionChange
    var subject: Subject

    var document: DocumentID {
        switch subject {
        case .kept(let version): version.document
        case .conflict(let conflict): conflict.document
        }
    }
}
