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
    /// Tells the bytes, or a link's target, from others of their size; nil where none were sent.
    var sum: Int64?

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
        sum = row.target.map(SentBytes.sum)
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
        sum = row.optionalInt(9)
    }

    /// True when a provider's item may be what was sent.
    func isLike(_ remote: RemoteItem) -> Bool {
        guard remote.kind == kind else { return false }
        switch kind {
        case .directory: return true
        case .symbolicLink:
            guard let target = remote.linkTarget, Int64(target.count) == size else { return false }
            return sum == nil || sum == SentBytes.sum(target)
        default: return remote.size == size
        }
    }
}

extension Database {
    /// Remembers an operation until its answer is recorded; a document has one at a time.
    func beginUnderway(_ row: UnderwayRow) throws(Errno) {
        try run(
            "INSERT OR REPLACE INTO underway VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            .document(row.document),
            .item(row.place.parent),
            .blob(row.place.name),
            .int(Int64(row.kind.rawValue)),
            .flag(row.isNew),
            .int(row.size),
            .optional(row.item.map { Int64(bitPattern: $0.rawValue) }),
            .int(row.generation),
            .time(row.modificationTime),
            .optional(row.sum)
        )
    }

    func endUnderway(_ document: DocumentID) throws(Errno) {
        try run("DELETE FROM underway WHERE document = ?", .document(document))
    }

    func underway(_ document: DocumentID) throws(Errno) -> UnderwayRow? {
        try first("SELECT * FROM underway WHERE document = ?", .document(document), read: { UnderwayRow($0) })
    }

    /// True while bytes are sent that replace those which the provider has of an entry, or may have replaced them already.
    func isReplacedUnderway(_ entries: [EntryRow]) throws(Errno) -> Bool {
        for entry in entries where try underway(entry.document)?.item != nil { return true }
        return false
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

    /// What was sent to a place for another document and not answered.
    func underway(at place: Place, besides document: DocumentID) throws(Errno) -> UnderwayRow? {
        try first(
            "SELECT * FROM underway WHERE parent = ? AND name = ? AND document <> ?",
            .item(place.parent),
            .blob(place.name),
            .document(document),
            read: { UnderwayRow($0) }
        )
    }

    /// What was sent to a directory and not answered.
    func underway(in directory: ItemID) throws(Errno) -> [UnderwayRow] {
        try all("SELECT * FROM underway WHERE parent = ?", .item(directory), read: { UnderwayRow($0) })
    }

    /// The operations on a directory, as the provider has it, and on those above it that were not answered, the highest first.
    func unansweredFolders(above directory: ItemID) throws(Errno) -> [UnderwayRow] {
        // Nearly always there are none.
        guard try first("SELECT 1 FROM underway WHERE kind = 1 LIMIT 1", read: { _ in true }) == true else { return [] }
        var rows: [UnderwayRow] = []
        var (current, depth) = (directory, 0)
        while current != .root, depth < 4096, let entry = try entry(ofDirectory: current) {
            if let sent = try underway(entry.document) { rows.append(sent) }
            (current, depth) = (entry.remoteParent ?? entry.parent, depth + 1)
        }
        return rows.reversed()
    }

    /// True where the next attempt to send a document finds out by itself what became of an operation: it goes to the same place,
    /// and has the bytes that were sent, which it compares.
    func isToBeCompared(_ row: UnderwayRow) throws(Errno) -> Bool {
        guard let bytes = row.item, let entry = try entry(document: row.document), entry.place == row.place,
            let item = try item(entry.item), try journalRow(entry.id) != nil
        else { return false }
        guard bytes == item.id, row.generation == item.generation else { return false }
        // Bytes that may have changed unseen are others.
        return try !isUnsettled(bytes)
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
