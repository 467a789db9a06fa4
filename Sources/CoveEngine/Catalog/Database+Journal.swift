internal import CoveCore

/// A live entry that differs from what the provider has.
struct JournalRow {
    var entry: Int64
    var document: DocumentID
    var changed: Timestamp
    var attempts: Int64
    var retry: Timestamp
    var wasSent: Bool
    var error: String?
    /// It is in a folder that stays on this device, and so does it.
    var staysHere: Bool

    init(_ row: Row) {
        entry = row.int(0)
        changed = row.milliseconds(1)
        attempts = row.count(2)
        retry = row.milliseconds(3)
        wasSent = row.int(4) != 0
        error = row.optionalText(5)
        staysHere = row.int(6) == 2
        document = row.document(8)
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
    var deleted: Timestamp
    var isPending: Bool
    var remoteID: RemoteID?
    var remoteParent: ItemID?
    var remoteName: [UInt8]?
    var remoteVersion: ContentVersion?
    var place: [UInt8]?
    var attempts: Int64 = 0
    var retry = Timestamp.epoch
    var error: String?
    /// The deletion may have arrived at the provider.
    var wasSent = false

    init(
        document: DocumentID,
        path: RemotePath,
        kind: ItemKind,
        item: ItemID?,
        size: Int64,
        deleted: Timestamp,
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
        size = row.count(5)
        deleted = row.milliseconds(6)
        isPending = row.int(7) != 0
        remoteID = row.optionalBlob(8).map { RemoteID($0) }
        remoteParent = row.optionalInt(9).map { ItemID(UInt64(bitPattern: $0)) }
        remoteName = row.optionalBlob(10)
        remoteVersion = row.optionalBlob(11).map { ContentVersion($0) }
        place = row.optionalBlob(12)
        attempts = row.count(13)
        retry = row.milliseconds(14)
        error = row.optionalText(15)
        wasSent = row.int(16) != 0
    }
}

extension Database {
    /// Puts an entry into the journal, or restarts its settling time; two changes never have the same time.
    func enqueue(_ entry: Int64, at time: Timestamp) throws(Errno) {
        try run(
            """
            INSERT INTO journal(entry, changed, attempts, retry, sent) VALUES(?, ?, 0, 0, 0)
            ON CONFLICT(entry) DO UPDATE SET changed = max(excluded.changed, changed + 1), retry = 0, attempts = 0
            """,
            .int(entry),
            .milliseconds(time)
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

    func postpone(_ entry: Int64, attempts: Int64, retry: Timestamp, error: String?) throws(Errno) {
        try run(
            "UPDATE journal SET attempts = ?, retry = ?, error = ? WHERE entry = ?",
            .int(attempts),
            .milliseconds(retry),
            .optional(error),
            .int(entry)
        )
    }

    func postpone(_ entry: Int64, retry: Timestamp) throws(Errno) {
        try run("UPDATE journal SET retry = ? WHERE entry = ?", .milliseconds(retry), .int(entry))
    }

    func markSent(_ entry: Int64, _ sent: Bool) throws(Errno) {
        try run("UPDATE journal SET sent = ? WHERE entry = ?", .flag(sent), .int(entry))
    }

    /// True while something waits that neither failed nor waits for what did.
    func canSendMore() throws(Errno) -> Bool {
        try first(
            """
            SELECT 1 WHERE EXISTS (SELECT 1 FROM journal WHERE held = 0 AND error IS NULL)
                OR EXISTS (SELECT 1 FROM trash t WHERE t.pending = 1 AND t.error IS NULL AND NOT (t.kind = 1 AND (
                    EXISTS (SELECT 1 FROM trash c WHERE c.pending = 1 AND c.remote_parent = t.item)
                    OR EXISTS (SELECT 1 FROM entries WHERE remote_parent = t.item))))
            """,
            read: { _ in true }
        ) ?? false
    }

    /// The entries that wait to be sent.
    func waitingEntries() throws(Errno) -> [EntryRow] {
        var found: [EntryRow] = []
        for id in try all("SELECT entry FROM journal WHERE held < 2", read: { $0.int(0) }) {
            if let entry = try entry(id: id) { found.append(entry) }
        }
        return found
    }

    /// What waits of the file at a path, or of what is below a directory.
    func waitingEntries(at path: RemotePath) throws(Errno) -> [EntryRow] {
        let top: EntryRow?
        do throws(Errno) { top = try entry(atPath: path) } catch .noSuchEntry { return [] }
        if let top, try item(top.item)?.kind != .directory { return try journalRow(top.id) == nil ? [] : [top] }
        let ids = try all(
            """
            WITH RECURSIVE below(item) AS (SELECT ?1 UNION
                SELECT e.item FROM entries e JOIN below b ON e.parent = b.item JOIN items i ON i.id = e.item WHERE i.kind = 1)
            SELECT e.id FROM below b JOIN entries e ON e.parent = b.item JOIN journal j ON j.entry = e.id WHERE j.held < 2
            """,
            .item(top?.item ?? .root),
            read: { $0.int(0) }
        )
        var found: [EntryRow] = []
        for id in ids { if let entry = try entry(id: id) { found.append(entry) } }
        return found
    }

    /// How many changes wait to be sent, without those in folders that stay here.
    func queueLength() throws(Errno) -> Int {
        Int(
            try first(
                """
                SELECT (SELECT count(*) FROM journal) - (SELECT count(*) FROM journal WHERE held > 0 AND held = 2)
                    + (SELECT count(*) FROM trash WHERE pending = 1)
                """,
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
            .milliseconds(row.deleted),
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
            UPDATE trash SET document = ?, item = ?, pending = ?, remote_parent = ?, remote_name = ?, place = ?, attempts = ?,
                retry = ?, error = ?
            WHERE id = ?
            """,
            .document(row.document),
            .optional(row.item.map { Int64(bitPattern: $0.rawValue) }),
            .flag(row.isPending),
            .optional(row.remoteParent.map { Int64(bitPattern: $0.rawValue) }),
            .optional(row.remoteName),
            .optional(row.place),
            .int(row.attempts),
            .milliseconds(row.retry),
            .optional(row.error),
            .int(row.id)
        )
    }

    func deleteTrash(_ id: Int64) throws(Errno) {
        try run("DELETE FROM trash WHERE id = ?", .int(id))
    }

    /// How many deletions that were made after some moment wait to be sent.
    func pendingDeletions(since time: Timestamp) throws(Errno) -> Int {
        let count = try first(
            "SELECT count(*) FROM trash WHERE pending = 1 AND deleted > ?",
            .milliseconds(time),
            read: { $0.int(0) }
        )
        return Int(count ?? 0)
    }

    func markTrashSent(_ id: Int64) throws(Errno) {
        try run("UPDATE trash SET sent = 1 WHERE id = ?", .int(id))
    }

    func postponeTrash(_ id: Int64, retry: Timestamp) throws(Errno) {
        try run("UPDATE trash SET retry = ? WHERE id = ?", .milliseconds(retry), .int(id))
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

    /// The deletion of a file whose bytes are kept.
    func pendingTrash(item: ItemID) throws(Errno) -> TrashRow? {
        try first("SELECT * FROM trash WHERE pending = 1 AND item = ?", .item(item), read: { TrashRow($0) })
    }

    /// The last deletion of a document, sent or not.
    func trash(document: DocumentID) throws(Errno) -> TrashRow? {
        try first(
            "SELECT * FROM trash WHERE document = ? ORDER BY id DESC LIMIT 1",
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

    /// The conflict that a file is the other side of.
    func conflict(_ copy: DocumentID) throws(Errno) -> ConflictRow? {
        try first("SELECT * FROM conflicts WHERE copy = ?", .document(copy), read: { ConflictRow($0) })
    }

    /// The conflicts that a document was a side of, newest first; all without a document.
    func conflicts(of document: DocumentID?) throws(Errno) -> [ConflictRow] {
        guard let document else { return try all("SELECT * FROM conflicts ORDER BY found", read: { ConflictRow($0) }) }
        return try all(
            "SELECT * FROM conflicts WHERE document = ?1 OR copy = ?1 ORDER BY found DESC",
            .document(document),
            read: { ConflictRow($0) }
        )
    }

    func recordConflict(copy: DocumentID, of document: DocumentID, host: String, at time: Timestamp) throws(Errno) {
        try run(
            "INSERT OR REPLACE INTO conflicts VALUES(?, ?, ?, ?)",
            .document(copy),
            .document(document),
            .text(host),
            .milliseconds(time)
        )
        let conflict = ConflictRow(document: document, copy: copy, host: host, found: time)
        versionNotes.append(VersionNote(change: .gained, subject: .conflict(conflict)))
    }
}
