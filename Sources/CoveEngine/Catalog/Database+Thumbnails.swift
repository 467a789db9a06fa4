internal import CoveCore

/// One row of `thumbnails`: which bytes a document's picture shows, and who has it.
struct ThumbnailRow {
    /// Where a picture is from.
    enum Origin: Int64 {
        /// The provider had it.
        case provider = 0
        /// A program of the desktop has made it of the bytes here.
        case desktop = 1
        /// A program gave it with the document.
        case program = 2
    }

    var document: DocumentID
    var item: ItemID
    var generation: Int64
    var modificationTime: Timestamp
    var size: Int64
    /// The provider has the bytes of that generation: any change of them makes another one.
    var isSent: Bool
    var origin: Origin
    var isShared: Bool
    /// Where, and for which version, the provider has it.
    var place: RemotePath?
    var version: ContentVersion?
    /// Its name in the desktop's cache, and the file's time that it has there.
    var published: String?
    var publishedTime: Timestamp?
    var used: Int64

    init(_ row: Row) {
        document = row.document(0)
        item = row.item(1)
        generation = row.int(2)
        modificationTime = row.time(3)
        size = row.int(4)
        isSent = row.int(5) != 0
        origin = Origin(rawValue: row.int(6)) ?? .provider
        isShared = row.int(7) != 0
        place = row.optionalBlob(8).map { RemotePath(unchecked: $0) }
        version = row.optionalBlob(9).map { ContentVersion($0) }
        published = row.optionalText(10)
        publishedTime = row.optionalInt(11).map { Timestamp($0) }
        used = row.int(12)
    }

    /// A picture of what an item holds.
    init(_ document: DocumentID, of item: ItemID, generation: Int64, attributes: ItemAttributes, origin: Origin) {
        self.document = document
        self.item = item
        self.generation = generation
        modificationTime = attributes.modificationTime
        size = attributes.size
        isSent = false
        self.origin = origin
        isShared = true
        used = 0
    }

    /// True while the picture shows what the document holds.
    func isValid(item: ItemID, generation: Int64, _ attributes: ItemAttributes) -> Bool {
        guard self.item == item, self.generation == generation else { return false }
        return isSent || modificationTime == attributes.modificationTime && size == attributes.size
    }
}

/// Reading and writing rows of `thumbnails`.
extension Database {
    func thumbnail(_ document: DocumentID) throws(Errno) -> ThumbnailRow? {
        try first("SELECT * FROM thumbnails WHERE document = ?", .document(document)) { ThumbnailRow($0) }
    }

    /// Stores a row; one that is unchecked is looked at once more.
    func store(_ row: ThumbnailRow, isChecked: Bool = true) throws(Errno) {
        try run(
            "INSERT OR REPLACE INTO thumbnails VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            .document(row.document),
            .item(row.item),
            .int(row.generation),
            .time(row.modificationTime),
            .int(row.size),
            .flag(row.isSent),
            .int(row.origin.rawValue),
            .flag(row.isShared),
            .optional(row.place?.bytes),
            .optional(row.version?.bytes),
            .optional(row.published),
            .optional(row.publishedTime?.nanosecondsSinceEpoch),
            .int(row.used),
            .flag(isChecked)
        )
    }

    func removeThumbnail(_ document: DocumentID) throws(Errno) {
        try run("DELETE FROM thumbnails WHERE document = ?", .document(document))
    }

    /// Pictures whose documents have changed somehow since they were looked at.
    func uncheckedThumbnails(limit: Int) throws(Errno) -> [ThumbnailRow] {
        try all("SELECT * FROM thumbnails WHERE checked = 0 LIMIT ?", .int(Int64(limit))) { ThumbnailRow($0) }
    }

    /// Documents whose picture the provider is to get.
    func unsharedThumbnails(limit: Int) throws(Errno) -> [DocumentID] {
        try all("SELECT document FROM thumbnails WHERE shared = 0 LIMIT ?", .int(Int64(limit))) { $0.document(0) }
    }

    /// Pictures that the provider is to drop.
    func droppedThumbnails(limit: Int) throws(Errno) -> [(place: RemotePath, version: ContentVersion)] {
        try all("SELECT place, version FROM dropped_thumbnails LIMIT ?", .int(Int64(limit))) { row in
            (RemotePath(unchecked: row.blob(0)), ContentVersion(row.blob(1)))
        }
    }

    /// Has the provider drop one.
    func dropThumbnail(at place: RemotePath, _ version: ContentVersion) throws(Errno) {
        try run(
            "INSERT OR REPLACE INTO dropped_thumbnails VALUES(?, ?)",
            .blob(place.bytes),
            .blob(version.bytes)
        )
    }

    func forgetDroppedThumbnail(at place: RemotePath) throws(Errno) {
        try run("DELETE FROM dropped_thumbnails WHERE place = ?", .blob(place.bytes))
    }

    /// The documents whose pictures were used least, more than so many of them.
    func oldThumbnails(beyond most: Int, limit: Int) throws(Errno) -> [ThumbnailRow] {
        let count = try first("SELECT count(*) FROM thumbnails", read: { $0.int(0) }) ?? 0
        guard count > Int64(most) else { return [] }
        return try all(
            "SELECT * FROM thumbnails WHERE shared = 1 ORDER BY used LIMIT ?",
            .int(min(count - Int64(most), Int64(limit)))
        ) { ThumbnailRow($0) }
    }

    /// The provider has what a document's picture shows, or has it elsewhere or under another version now.
    ///
    /// False where there is no picture of these bytes.
    func noteThumbnailSent(_ entry: EntryRow, _ row: ItemRow) throws(Errno) -> Bool {
        guard var known = try thumbnail(entry.document), let version = entry.remoteVersion,
            known.isValid(item: row.id, generation: row.generation, row.attributes),
            !entry.hasUnsentContent(generation: row.generation)
        else { return false }
        let place = try remoteReference(of: entry)?.path
        let isSame = known.version == version && known.place == place
        if known.isSent, isSame { return true }
        known.isSent = true
        if !isSame { known.isShared = false }
        try store(known)
        return true
    }

    /// The provider has the documents of a directory elsewhere.
    func noteThumbnailsMoved(below directory: RemotePath) throws(Errno) {
        try run(
            "UPDATE thumbnails SET shared = 0 WHERE place > ? AND place < ?",
            .blob(directory.bytes + [0x2F]),
            .blob(directory.bytes + [0x30])
        )
    }
}
