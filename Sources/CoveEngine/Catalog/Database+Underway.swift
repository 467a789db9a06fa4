internal import CoveCore

/// What was sent and has not been answered: where the document is, and what its bytes are, if it arrived.
struct UnderwayRow: Sendable {
    var document: DocumentID
    var place: Place
    var kind: ItemKind
    /// True when the provider had not seen the document before.
    var isNew: Bool
    var size: Int64
    /// Which bytes these are: the item and its generation; nil where no bytes were sent.
    var item: ItemID?
    var generation: Int64
    var modificationTime: Timestamp

    init(_ entry: EntryRow, to place: Place, _ row: ItemRow) {
        self.init(entry.document, isNew: !entry.isUploaded, to: place, row)
    }

    init(_ document: DocumentID, isNew: Bool, to place: Place, _ row: ItemRow) {
        self.document = document
        self.place = place
        self.isNew = isNew
        kind = row.kind
        size = row.size
        generation = row.generation
        modificationTime = row.modificationTime
    }

    init(_ row: Row) {
        document = row.document(0)
        place = Place(row.item(1), row.blob(2))
        kind = ItemKind(rawValue: UInt8(truncatingIfNeeded: row.int(3))) ?? .file
        isNew = row.int(4) != 0
        size = row.count(5)
        item = row.optionalInt(6).map { ItemID(UInt64(bitPattern: $0)) }
        generation = row.count(7)
        modificationTime = row.time(8)
    }

    /// True when a provider's item is what was sent: another device's has other dates.
    func isArrived(as remote: RemoteItem) -> Bool {
        guard remote.kind == kind else { return false }
        switch kind {
        case .directory: return true
        case .symbolicLink: return remote.linkTarget?.count == Int(size)
        default: return remote.size == size && remote.metadata.modificationTime == modificationTime
        }
    }
}

extension Database {
    /// Remembers an operation until its answer is recorded; a document has one at a time.
    func beginUnderway(_ row: UnderwayRow) throws(Errno) {
        try run(
            "INSERT OR REPLACE INTO underway VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
            .document(row.document),
            .item(row.place.parent),
            .blob(row.place.name),
            .int(Int64(row.kind.rawValue)),
            .flag(row.isNew),
            .int(row.size),
            .optional(row.item.map { Int64(bitPattern: $0.rawValue) }),
            .int(row.generation),
            .time(row.modificationTime)
        )
    }

    func endUnderway(_ document: DocumentID) throws(Errno) {
        try run("DELETE FROM underway WHERE document = ?", .document(document))
    }

    func underway(_ document: DocumentID) throws(Errno) -> UnderwayRow? {
        try first("SELECT * FROM underway WHERE document = ?", .document(document), read: { UnderwayRow($0) })
    }

    /// What was sent to a place and not answered.
    func underway(at place: Place) throws(Errno) -> UnderwayRow? {
        try first(
            "SELECT * FROM underway WHERE parent = ? AND name = ?",
            .item(place.parent),
            .blob(place.name),
            read: { UnderwayRow($0) }
        )
    }

    func underway() throws(Errno) -> [UnderwayRow] { try all("SELECT * FROM underway", read: { UnderwayRow($0) }) }

    /// Remembers that this device gives a document a hidden name; what was hidden before a moment is forgotten.
    func noteHidden(_ document: DocumentID, at now: Timestamp, forgetting limit: Timestamp) throws(Errno) {
        try run("DELETE FROM hidden WHERE since < ?", .time(limit))
        try run("INSERT OR REPLACE INTO hidden VALUES(?, ?)", .document(document), .time(now))
    }

    /// True for a document that this device gave a hidden name, whatever became of its rows since.
    func hasHidden(_ document: DocumentID) throws(Errno) -> Bool {
        try first("SELECT 1 FROM hidden WHERE document = ?", .document(document), read: { _ in true }) != nil
    }
}
