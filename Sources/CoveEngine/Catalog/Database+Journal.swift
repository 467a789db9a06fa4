internal import CoveCore

/// A live entry that differs from what the provider has.
struct JournalRow {
    var entry: Int64
    var document: DocumentID
    var changed: Int64
    var attempts: Int64
    var retry: Int64
    var wasSent: Bool
    var error: String?

    init(_ row: Row) {
        entry = row.int(0)
        changed = row.int(1)
        attempts = row.int(2)
        retry = row.int(3)
        wasSent = row.int(4) != 0
        error = row.optionalText(5)
        document = row.document(6)
    }
}

/// A deleted document: on its way to the provider, or kept so that it can be restored.
struct TrashRow {
    var id: Int64 = 0
    var document: DocumentID
    var path: RemotePath
    var kind: ItemKind
    var item: ItemID?
    var size: Int64
    var deleted: Int64
    var isPending: Bool
    var remoteID: RemoteID?
    var remoteParent: ItemID?
    var remoteName: [UInt8]?
    var remoteVersion: ContentVersion?
    var place: [UInt8]?
    var attempts: Int64 = 0
    var retry: Int64 = 0
    var error: String?

    init(
        document: DocumentID,
        path: RemotePath,
        kind: ItemKind,
        item: ItemID?,
        size: Int64,
        deleted: Int64,
        isPending: Bool
    ) {
        self.document = document
        self.path = path
        self.kind = kind
        self.item = item
        self.size = size
        self.deleted = deleted
        self.isPending = isPending
    }

    init(_ row: Row) {
        id = row.int(0)
        document = row.document(1)
        path = RemotePath(unchecked: row.blob(2))
        kind = ItemKind(rawValue: UInt8(truncatingIfNeeded: row.int(3))) ?? .file
        item = row.optionalInt(4).map { ItemID(UInt64(bitPattern: $0)) }
        size = row.int(5)
        deleted = row.int(6)
        isPending = row.int(7) != 0
        remoteID = row.optionalBlob(8).map { RemoteID($0) }
        remoteParent = row.optionalInt(9).map { ItemID(UInt64(bitPattern: $0)) }
        remoteName = row.optionalBlob(10)
        remoteVersion = row.optionalBlob(11).map { ContentVersion($0) }
        place = row.optionalBlob(12)
        attempts = row.int(13)
        retry = row.int(14)
        error = row.optionalText(15)
    }
}

extension Database {
    /// Puts an entry into the journal, or restarts its settling time; two changes never have the same time.
    func enqueue(_ entry: Int64, at milliseconds: Int64) throws(Errno) {
        try run(
            """
            INSERT INTO journal VALUES(?, ?, 0, 0, 0, NULL)
            ON CONFLICT(entry) DO UPDATE SET changed = max(excluded.changed, changed + 1), retry = 0, attempts = 0
            """,
            .int(entry),
            .int(milliseconds)
        )
    }

    func journal() throws(Errno) -> [JournalRow] {
        try all(
            "SELECT j.*, e.document FROM journal j JOIN entries e ON e.id = j.entry ORDER BY j.entry",
            read: { JournalRow($0) }
        )
    }

    /// Visits the rows that are not waiting for a retry, oldest change first, until the body returns false.
    func eachReady(now: Int64, _ body: (JournalRow) -> Bool) throws(Errno) {
        try each(
            """
            SELECT j.*, e.document FROM journal j JOIN entries e ON e.id = j.entry WHERE j.retry <= ? ORDER BY j.changed, j.entry
            """,
            .int(now)
        ) { body(JournalRow($0)) }
    }

    /// When the next row that waits for a retry is to be sent.
    func nextRetry(after now: Int64) throws(Errno) -> Int64? {
        try first(
            "SELECT retry FROM journal WHERE retry > 0 AND retry > ? ORDER BY retry LIMIT 1",
            .int(now),
            read: { $0.int(0) }
        )
    }

    func journalRow(_ entry: Int64) throws(Errno) -> JournalRow? {
        try first(
            "SELECT j.*, e.document FROM journal j JOIN entries e ON e.id = j.entry WHERE j.entry = ?",
            .int(entry),
            read: { JournalRow($0) }
        )
    }

    func dequeue(_ entry: Int64) throws(Errno) {
        try run("DELETE FROM journal WHERE entry = ?", .int(entry))
    }

    func postpone(_ entry: Int64, attempts: Int64, retry: Int64, error: String?) throws(Errno) {
        try run(
            "UPDATE journal SET attempts = ?, retry = ?, error = ? WHERE entry = ?",
            .int(attempts),
            .int(retry),
            .optional(error),
            .int(entry)
        )
    }

    func markSent(_ entry: Int64, _ sent: Bool) throws(Errno) {
        try run("UPDATE journal SET sent = ? WHERE entry = ?", .flag(sent), .int(entry))
    }

    func queueLength() throws(Errno) -> Int {
        Int(
            try first(
                "SELECT (SELECT count(*) FROM journal) + (SELECT count(*) FROM trash WHERE pending = 1)",
                read: { $0.int(0) }
            ) ?? 0
        )
    }

    @discardableResult
    func insert(_ row: TrashRow) throws(Errno) -> Int64 {
        try run(
            """
            INSERT INTO trash(document, path, kind, item, size, deleted, pending, remote_id, remote_parent, remote_name,
                remote_version, place, attempts, retry, error)
            VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, NULL)
            """,
            .document(row.document),
            .blob(row.path.bytes),
            .int(Int64(row.kind.rawValue)),
            .optional(row.item.map { Int64(bitPattern: $0.rawValue) }),
            .int(row.size),
            .int(row.deleted),
            .flag(row.isPending),
            .optional(row.remoteID?.bytes),
            .optional(row.remoteParent.map { Int64(bitPattern: $0.rawValue) }),
            .optional(row.remoteName),
            .optional(row.remoteVersion?.bytes),
            .optional(row.place)
        )
        return lastInsertID
    }

    func update(_ row: TrashRow) throws(Errno) {
        try run(
            """
            UPDATE trash SET item = ?, pending = ?, remote_parent = ?, remote_name = ?, place = ?, attempts = ?, retry = ?,
                error = ?
            WHERE id = ?
            """,
            .optional(row.item.map { Int64(bitPattern: $0.rawValue) }),
            .flag(row.isPending),
            .optional(row.remoteParent.map { Int64(bitPattern: $0.rawValue) }),
            .optional(row.remoteName),
            .optional(row.place),
            .int(row.attempts),
            .int(row.retry),
            .optional(row.error),
            .int(row.id)
        )
    }

    func deleteTrash(_ id: Int64) throws(Errno) {
        try run("DELETE FROM trash WHERE id = ?", .int(id))
    }

    func pendingDeletions() throws(Errno) -> Int {
        Int(try first("SELECT count(*) FROM trash WHERE pending = 1", read: { $0.int(0) }) ?? 0)
    }

    /// Deletions to be sent, oldest first; a directory's only after all that was in it.
    func readyTrash(now: Int64, limit: Int) throws(Errno) -> [TrashRow] {
        try all(
            """
            SELECT * FROM trash t WHERE pending = 1 AND retry <= ? AND NOT (kind = 1 AND EXISTS
                (SELECT 1 FROM trash c WHERE c.pending = 1 AND c.remote_parent = t.item)) ORDER BY id LIMIT ?
            """,
            .int(now),
            .int(Int64(limit)),
            read: { TrashRow($0) }
        )
    }

    func nextTrashRetry(after now: Int64) throws(Errno) -> Int64? {
        try first(
            "SELECT retry FROM trash WHERE pending = 1 AND retry > 0 AND retry > ? ORDER BY retry LIMIT 1",
            .int(now),
            read: { $0.int(0) }
        )
    }

    func postponeTrash(_ id: Int64, retry: Int64) throws(Errno) {
        try run("UPDATE trash SET retry = ? WHERE id = ?", .int(retry), .int(id))
    }

    func trash(pending: Bool?) throws(Errno) -> [TrashRow] {
        try all(
            "SELECT * FROM trash WHERE ?1 IS NULL OR pending = ?1 ORDER BY id",
            .optional(pending.map { $0 ? 1 : 0 }),
            read: { TrashRow($0) }
        )
    }

    /// True when the provider still has as many documents of the tree as this.
    func hasUploaded(atLeast count: Int) throws(Errno) -> Bool {
        let found = try first(
            "SELECT count(*) FROM (SELECT 1 FROM entries WHERE remote_id IS NOT NULL LIMIT ?)",
            .int(Int64(count)),
            read: { $0.int(0) }
        )
        return Int(found ?? 0) >= count
    }

    func trash(id: Int64) throws(Errno) -> TrashRow? {
        try first(
            "SELECT * FROM trash WHERE id = ?",
            .int(id),
            read: { TrashRow($0) }
        )
    }

    /// A deletion not yet sent of what the provider has at a place.
    func pendingTrash(remoteParent: ItemID, remoteName: [UInt8]) throws(Errno) -> TrashRow? {
        try first(
            "SELECT * FROM trash WHERE pending = 1 AND remote_parent = ? AND remote_name = ?",
            .item(remoteParent),
            .blob(remoteName),
            read: { TrashRow($0) }
        )
    }

    /// A deletion not yet sent of an item of the provider, wherever it is.
    func pendingTrash(remoteID: RemoteID) throws(Errno) -> TrashRow? {
        try first(
            "SELECT * FROM trash WHERE pending = 1 AND remote_id = ?",
            .blob(remoteID.bytes),
            read: { TrashRow($0) }
        )
    }

    func pendingTrash(document: DocumentID) throws(Errno) -> TrashRow? {
        try first(
            "SELECT * FROM trash WHERE pending = 1 AND document = ?",
            .document(document),
            read: { TrashRow($0) }
        )
    }

    /// Where the provider still has what was deleted here.
    func remoteReference(of row: TrashRow) throws(Errno) -> RemoteReference? {
        guard let parent = row.remoteParent, let name = row.remoteName,
            let directory = try remoteReference(ofDirectory: parent)
        else { return nil }
        return RemoteReference(id: row.remoteID, path: directory.path.appending(FileName(unchecked: name)))
    }

    func recordConflict(copy: DocumentID, of document: DocumentID, host: String, at milliseconds: Int64) throws(Errno) {
        try run(
            "INSERT OR REPLACE INTO conflicts VALUES(?, ?, ?, ?)",
            .document(copy),
            .document(document),
            .text(host),
            .int(milliseconds)
        )
        let conflict = ConflictRow(document: document, copy: copy, host: host, found: milliseconds)
        versionNotes.append(VersionNote(change: .gained, subject: .conflict(conflict)))
    }
}
