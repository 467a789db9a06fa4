internal import CoveCore

/// One row of `versions`: a content that a document had before.
struct VersionRow {
    var id: Int64 = 0
    var document: DocumentID
    /// The item that has its bytes; nil where only the provider has them.
    var item: ItemID?
    var size: Int64
    var modificationTime: Timestamp
    /// When other bytes took its place, to the millisecond.
    var replaced: Timestamp
    /// The device that saved it; nil where that is not known.
    var host: String?
    /// What the provider calls it; nil for what it never had.
    var version: ContentVersion?
}

extension VersionRow {
    init(_ row: Row) {
        id = row.int(0)
        document = row.document(1)
        item = row.optionalInt(2).map { ItemID(UInt64(bitPattern: $0)) }
        size = row.count(3)
        modificationTime = row.time(4)
        replaced = row.milliseconds(5)
        host = row.optionalText(6)
        version = row.optionalBlob(7).map { ContentVersion($0) }
    }
}

/// One row of `conflicts`: a file that has another side of a document's conflict.
struct ConflictRow {
    var document: DocumentID
    var copy: DocumentID
    /// The device that found it.
    var host: String
    /// When, to the millisecond.
    var found: Timestamp
}

extension ConflictRow {
    init(_ row: Row) {
        copy = row.document(0)
        document = row.document(1)
        host = row.text(2)
        found = row.milliseconds(3)
    }
}

/// Reading and writing rows of `versions`, in the order of the schema's columns.
extension Database {
    /// Adds a version as the document's newest; the same bytes are its version only once.
    func insert(_ version: VersionRow) throws(Errno) {
        if let item = version.item {
            try run("DELETE FROM versions WHERE item = ? AND document = ?", .item(item), .document(version.document))
        }
        try run(
            "INSERT INTO versions(document, item, size, mtime, replaced, host, version) VALUES(?, ?, ?, ?, ?, ?, ?)",
            .document(version.document),
            .optional(version.item.map { Int64(bitPattern: $0.rawValue) }),
            .int(version.size),
            .time(version.modificationTime),
            .milliseconds(version.replaced),
            .optional(version.host),
            .optional(version.version?.bytes)
        )
        var inserted = version
        inserted.id = lastInsertID
        versionNotes.append(VersionNote(change: .gained, subject: .kept(inserted)))
    }

    /// The versions of a document, newest first.
    func versions(of document: DocumentID) throws(Errno) -> [VersionRow] {
        try all(
            "SELECT * FROM versions WHERE document = ? ORDER BY id DESC",
            .document(document),
            read: { VersionRow($0) }
        )
    }

    /// One version; nil for one that is gone.
    func version(_ id: Int64) throws(Errno) -> VersionRow? {
        try first("SELECT * FROM versions WHERE id = ?", .int(id), read: { VersionRow($0) })
    }

    func versions(before time: Timestamp) throws(Errno) -> [VersionRow] {
        try all("SELECT * FROM versions WHERE replaced < ?", .milliseconds(time), read: { VersionRow($0) })
    }

    /// Versions whose bytes nothing else needs, in the order they may go: of each document the newest last.
    func expendableVersions(limit: Int) throws(Errno) -> [VersionRow] {
        try all(
            """
            SELECT v.* FROM versions v JOIN items i ON i.id = v.item WHERE i.nlink = 0
            ORDER BY NOT EXISTS (SELECT 1 FROM versions n WHERE n.document = v.document AND n.id > v.id), v.id LIMIT ?
            """,
            .int(Int64(limit)),
            read: { VersionRow($0) }
        )
    }

    func deleteVersion(_ id: Int64) throws(Errno) {
        try run("DELETE FROM versions WHERE id = ?", .int(id))
    }

    /// The item's bytes are about to change or to go: versions of them have them in a copy now, or are no more.
    func moveVersions(of item: ItemID, to copy: ItemID?) throws(Errno) {
        if let copy {
            try run("UPDATE versions SET item = ? WHERE item = ?", .item(copy), .item(item))
        } else {
            try run("DELETE FROM versions WHERE item = ?", .item(item))
        }
    }

    func isVersion(_ item: ItemID) throws(Errno) -> Bool {
        try first("SELECT 1 FROM versions WHERE item = ?", .item(item), read: { _ in true }) ?? false
    }

    /// Forgets versions whose bytes are not, or not known to be, what they were.
    func dropDamagedVersions(isUnclean: Bool) throws(Errno) {
        try run(
            """
            DELETE FROM versions WHERE item IS NOT NULL AND NOT EXISTS (SELECT 1 FROM items i
                WHERE i.id = item AND i.kind = 0 AND i.state = 0 AND i.size = versions.size AND i.synced >= ?)
            """,
            .flag(isUnclean)
        )
    }
}
