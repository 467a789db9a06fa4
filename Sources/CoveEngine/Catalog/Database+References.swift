internal import CoveCore

/// A name under which an app has a document that is not its own.
struct ReferenceRow: Sendable {
    var id: Int64
    /// The name of its document below `_cove-drive`, without the ending.
    var record: String
    var container: AppIdentifier
    /// The folder's path in the container.
    var folder: RemotePath
    /// The folder, where it is known here.
    var parent: ItemID?
    var name: [UInt8]
    /// The document that it stands for, where that is known here.
    var target: DocumentID?
    /// The document's path at the provider.
    var place: RemotePath
    var mayWrite: Bool
    var made: Timestamp
    /// True until its document says the same.
    var isDirty = false

    init?(_ row: Row) {
        guard let container = AppIdentifier(row.text(2)) else { return nil }
        id = row.int(0)
        record = row.text(1)
        self.container = container
        folder = RemotePath(unchecked: row.blob(3))
        parent = row.optionalInt(4).map { ItemID(UInt64(bitPattern: $0)) }
        name = row.blob(5)
        target = row.optionalBlob(6).map { DocumentID(bytes: $0) }
        place = RemotePath(unchecked: row.blob(7))
        mayWrite = row.int(8) != 0
        made = row.milliseconds(9)
        isDirty = row.int(10) != 0
    }

    init(
        record: String,
        container: AppIdentifier,
        folder: RemotePath,
        parent: ItemID?,
        name: [UInt8],
        target: DocumentID?,
        place: RemotePath,
        mayWrite: Bool,
        made: Timestamp
    ) {
        id = 0
        self.record = record
        self.container = container
        self.folder = folder
        self.parent = parent
        self.name = name
        self.target = target
        self.place = place
        self.mayWrite = mayWrite
        self.made = made
    }
}

/// What an app may do with a document that is not its own.
struct GrantRow: Sendable {
    var id: Int64
    var app: AppIdentifier
    var document: DocumentID
    var mayWrite: Bool
    var source: String
    var made: Timestamp
    /// The reference that it comes with.
    var record: String?

    init?(_ row: Row) {
        guard let app = AppIdentifier(row.text(1)) else { return nil }
        id = row.int(0)
        self.app = app
        document = row.document(2)
        mayWrite = row.int(3) != 0
        source = row.text(4)
        made = row.milliseconds(5)
        record = row.optionalText(6)
    }
}

/// References and grants.
extension Database {
    func reference(_ parent: ItemID, _ name: [UInt8]) throws(Errno) -> ReferenceRow? {
        let found = try first(
            "SELECT * FROM reference_documents WHERE parent = ? AND name = ?",
            .item(parent),
            .blob(name),
            read: { ReferenceRow($0) }
        )
        return found ?? nil
    }

    func reference(id: Int64) throws(Errno) -> ReferenceRow? {
        try first("SELECT * FROM reference_documents WHERE id = ?", .int(id), read: { ReferenceRow($0) }) ?? nil
    }

    func reference(record: String) throws(Errno) -> ReferenceRow? {
        try first("SELECT * FROM reference_documents WHERE record = ?", .text(record), read: { ReferenceRow($0) })
            ?? nil
    }

    func references() throws(Errno) -> [ReferenceRow] {
        try all("SELECT * FROM reference_documents ORDER BY id", read: { ReferenceRow($0) }).compactMap(\.self)
    }

    func references(to document: DocumentID) throws(Errno) -> [ReferenceRow] {
        try all(
            "SELECT * FROM reference_documents WHERE target = ? ORDER BY id",
            .document(document),
            read: { ReferenceRow($0) }
        ).compactMap(\.self)
    }

    /// The references of a folder after a cookie, in the order of their cookies.
    func references(in parent: ItemID, after id: Int64) throws(Errno) -> [ReferenceRow] {
        try all(
            "SELECT * FROM reference_documents WHERE parent = ? AND id > ? ORDER BY id LIMIT 200",
            .item(parent),
            .int(id),
            read: { ReferenceRow($0) }
        ).compactMap(\.self)
    }

    @discardableResult
    func insert(_ row: ReferenceRow) throws(Errno) -> Int64 {
        try run(
            """
            INSERT INTO reference_documents(record, container, folder, parent, name, target, place, writes, dirty, made)
                VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [.text(row.record), .text(row.container.text)] + placed(row) + [.milliseconds(row.made)]
        )
        return lastInsertID
    }

    func update(_ row: ReferenceRow) throws(Errno) {
        try run(
            """
            UPDATE reference_documents SET folder = ?, parent = ?, name = ?, target = ?, place = ?, writes = ?, dirty = ?
                WHERE id = ?
            """,
            placed(row) + [.int(row.id)]
        )
    }

    private func placed(_ row: ReferenceRow) -> [Value] {
        [
            .blob(row.folder.bytes), .optional(row.parent.map { Int64(bitPattern: $0.rawValue) }), .blob(row.name),
            .optional(row.target?.bytes), .blob(row.place.bytes), .flag(row.mayWrite), .flag(row.isDirty),
        ]
    }

    /// Removes a reference and what was granted with it; its document goes later.
    func deleteReference(_ row: ReferenceRow, drops: Bool) throws(Errno) {
        if drops { try run("INSERT OR IGNORE INTO dropped_references VALUES(?)", .text(row.record)) }
        try run("DELETE FROM reference_documents WHERE id = ?", .int(row.id))
        // Where the container has another name for the document, that is what was given.
        try run(
            """
            UPDATE grants SET record = (SELECT r.record FROM reference_documents r
                WHERE r.target = grants.document AND r.container = ?2 ORDER BY r.id LIMIT 1)
            WHERE record = ?1 AND EXISTS (SELECT 1 FROM reference_documents r
                WHERE r.target = grants.document AND r.container = ?2)
            """,
            [.text(row.record), .text(row.container.text)]
        )
        try run("DELETE FROM grants WHERE record = ?", .text(row.record))
    }

    func grant(_ app: AppIdentifier, _ document: DocumentID) throws(Errno) -> GrantRow? {
        let found = try first(
            "SELECT * FROM grants WHERE app = ? AND document = ?",
            .text(app.text),
            .document(document),
            read: { GrantRow($0) }
        )
        return found ?? nil
    }

    /// True for a document that an app was given.
    func isGiven(_ document: DocumentID) throws(Errno) -> Bool {
        try first(
            """
            SELECT 1 WHERE EXISTS (SELECT 1 FROM grants WHERE document = ?1)
                OR EXISTS (SELECT 1 FROM reference_documents WHERE target = ?1)
            """,
            .document(document)
        ) { _ in true } ?? false
    }

    /// What apps were given of one document they have of another from now on.
    func passOnGrants(from document: DocumentID, to heir: DocumentID) throws(Errno) {
        let both: [Value] = [.document(document), .document(heir)]
        try run("UPDATE OR IGNORE grants SET document = ?2 WHERE document = ?1", both)
        try run("DELETE FROM grants WHERE document = ?1", [.document(document)])
        try run("UPDATE reference_documents SET target = ?2 WHERE target = ?1", both)
    }

    /// What one app was given of one document it has of another from now on.
    func passOnGrants(from document: DocumentID, to heir: DocumentID, of app: AppIdentifier) throws(Errno) {
        let values: [Value] = [.document(document), .document(heir), .text(app.text)]
        try run("UPDATE OR IGNORE grants SET document = ?2 WHERE document = ?1 AND app = ?3", values)
        try run("DELETE FROM grants WHERE document = ?1 AND app = ?2", [.document(document), .text(app.text)])
    }

    func grant(id: Int64) throws(Errno) -> GrantRow? {
        try first("SELECT * FROM grants WHERE id = ?", .int(id), read: { GrantRow($0) }) ?? nil
    }

    func grants() throws(Errno) -> [GrantRow] {
        try all("SELECT * FROM grants ORDER BY id", read: { GrantRow($0) }).compactMap(\.self)
    }

    /// Lets an app use a document; what it may already it may still.
    func setGrant(
        _ app: AppIdentifier,
        _ document: DocumentID,
        mayWrite: Bool,
        source: String,
        record: String?,
        at time: Timestamp
    ) throws(Errno) {
        try run(
            """
            INSERT INTO grants(app, document, writes, source, made, record) VALUES(?1, ?2, ?3, ?4, ?5, ?6)
                ON CONFLICT(app, document) DO UPDATE SET record = coalesce(?6, record),
                    writes = CASE WHEN record IS ?6 THEN ?3 ELSE max(writes, ?3) END
            """,
            [
                .text(app.text), .document(document), .flag(mayWrite), .text(source), .milliseconds(time),
                .optional(record),
            ]
        )
    }
}
