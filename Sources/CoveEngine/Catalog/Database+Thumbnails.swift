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
    /// Another number for each picture.
    var picture: Int64
    /// How long its file is.
    var length: Int64
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
        picture = row.int(1)
        length = row.count(2)
        item = row.item(3)
        generation = row.int(4)
        modificationTime = row.time(5)
        size = row.int(6)
        isSent = row.int(7) != 0
        origin = Origin(rawValue: row.int(8)) ?? .provider
        isShared = row.int(9) != 0
        place = row.optionalBlob(10).map { RemotePath(unchecked: $0) }
        version = row.optionalBlob(11).map { ContentVersion($0) }
        published = row.optionalText(12)
        publishedTime = row.optionalInt(13).map { Timestamp($0) }
        used = row.count(14)
    }

    /// A picture of what an item holds.
    init(_ document: DocumentID, of item: ItemID, generation: Int64, attributes: ItemAttributes, origin: Origin) {
        self.document = document
        picture = .random(in: 0...Int64.max)
        length = 0
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

/// Reading and writing rows of `thumbnails`, and what waits to be done for them.
extension Database {
    /// Set by a trigger where a directory has another place.
    private static let movedKey = "thumbnails"

    func thumbnail(_ document: DocumentID) throws(Errno) -> ThumbnailRow? {
        try first("SELECT * FROM thumbnails WHERE document = ?", .document(document)) { ThumbnailRow($0) }
    }

    /// Stores a row; one that is unchecked is looked at once more.
    func store(_ row: ThumbnailRow, isChecked: Bool) throws(Errno) {
        try run(
            "INSERT OR REPLACE INTO thumbnails VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            .document(row.document),
            .int(row.picture),
            .int(row.length),
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
            row.publishedTime.map { .time($0) } ?? .null,
            .int(row.used),
            .flag(isChecked)
        )
    }

    func removeThumbnail(_ row: ThumbnailRow) throws(Errno) {
        try run(
            "DELETE FROM thumbnails WHERE document = ? AND picture = ?",
            .document(row.document),
            .int(row.picture)
        )
    }

    /// True while another document's picture has a name in the desktop's cache.
    func isPublished(_ name: String, besides document: DocumentID) throws(Errno) -> Bool {
        try first(
            "SELECT 1 FROM thumbnails WHERE published = ? AND document <> ? LIMIT 1",
            .text(name),
            .document(document),
            read: { _ in true }
        ) ?? false
    }

    /// Pictures whose documents have changed somehow since they were looked at.
    func uncheckedThumbnails(limit: Int) throws(Errno) -> [ThumbnailRow] {
        try all("SELECT * FROM thumbnails WHERE checked = 0 LIMIT ?", .int(Int64(limit))) { ThumbnailRow($0) }
    }

    /// True where a directory has another place since this was asked.
    func hasMovedThumbnails() throws(Errno) -> Bool { try meta(Self.movedKey) != nil }

    /// All are looked at again: what is below a directory that has another place is not known by itself.
    func uncheckThumbnails() throws(Errno) {
        try run("DELETE FROM meta WHERE key = 'thumbnails'")
        try run("UPDATE thumbnails SET checked = 0")
    }

    /// Documents whose picture the provider is to get; others each time where there are many.
    func unsharedThumbnails(limit: Int) throws(Errno) -> [DocumentID] {
        try all(
            "SELECT document FROM thumbnails WHERE shared = 0 ORDER BY random() LIMIT ?",
            .int(Int64(limit))
        ) { $0.document(0) }
    }

    /// Documents of which a picture is to be made for the provider, with their names; others each time where there are many.
    func wantedThumbnails(limit: Int) throws(Errno) -> [(document: DocumentID, name: [UInt8]?)] {
        try all(
            """
            SELECT w.document, e.name FROM (SELECT document FROM wanted_thumbnails ORDER BY random() LIMIT ?) w
                LEFT JOIN entries e ON e.document = w.document
            """,
            .int(Int64(limit))
        ) { ($0.document(0), $0.optionalBlob(1)) }
    }

    func wantThumbnail(_ document: DocumentID) throws(Errno) {
        try run("INSERT OR IGNORE INTO wanted_thumbnails VALUES(?)", .document(document))
    }

    func endWantingThumbnail(_ document: DocumentID) throws(Errno) {
        try run("DELETE FROM wanted_thumbnails WHERE document = ?", .document(document))
    }

    /// Pictures that the provider is to drop; others each time where there are many.
    func droppedThumbnails(limit: Int) throws(Errno) -> [(place: RemotePath, version: ContentVersion)] {
        try all(
            "SELECT place, version FROM dropped_thumbnails ORDER BY random() LIMIT ?",
            .int(Int64(limit))
        ) { row in
            (RemotePath(unchecked: row.blob(0)), ContentVersion(row.blob(1)))
        }
    }

    /// Has the provider drop one, unless a document has its picture at the place.
    func dropThumbnail(at place: RemotePath, _ version: ContentVersion) throws(Errno) {
        guard try !hasThumbnail(at: place, version) else { return }
        try run(
            "INSERT OR REPLACE INTO dropped_thumbnails VALUES(?, ?)",
            .blob(place.bytes),
            .blob(version.bytes)
        )
    }

    /// True while a document's picture is at a place of the provider, for the same version.
    func hasThumbnail(at place: RemotePath, _ version: ContentVersion) throws(Errno) -> Bool {
        try first(
            "SELECT 1 FROM thumbnails WHERE place = ? AND version = ? LIMIT 1",
            .blob(place.bytes),
            .blob(version.bytes),
            read: { _ in true }
        ) ?? false
    }

    /// Another picture is about to be there.
    func forgetDroppedThumbnail(at place: RemotePath) throws(Errno) {
        try run("DELETE FROM dropped_thumbnails WHERE place = ?", .blob(place.bytes))
    }

    /// It has dropped one.
    func endDroppingThumbnail(at place: RemotePath, _ version: ContentVersion) throws(Errno) {
        try run(
            "DELETE FROM dropped_thumbnails WHERE place = ? AND version = ?",
            .blob(place.bytes),
            .blob(version.bytes)
        )
    }

    /// The provider keeps none: nothing waits for it.
    func endSharingThumbnails() throws(Errno) {
        try run("DELETE FROM dropped_thumbnails")
        try run("DELETE FROM wanted_thumbnails")
        try run("UPDATE thumbnails SET shared = 1 WHERE shared = 0")
    }

    /// True while anything waits for the provider.
    func hasThumbnailsToShare() throws(Errno) -> Bool {
        try first(
            """
            SELECT EXISTS (SELECT 1 FROM thumbnails WHERE shared = 0) OR EXISTS (SELECT 1 FROM dropped_thumbnails)
                OR EXISTS (SELECT 1 FROM wanted_thumbnails)
            """,
            read: { $0.int(0) != 0 }
        ) ?? false
    }

    /// How many pictures the provider is to get.
    func unsharedThumbnailCount() throws(Errno) -> Int64 {
        try first("SELECT count(*) FROM thumbnails WHERE shared = 0", read: { $0.int(0) }) ?? 0
    }

    /// True where there is something to look at again.
    func hasUncheckedThumbnails() throws(Errno) -> Bool {
        try first(
            "SELECT EXISTS (SELECT 1 FROM thumbnails WHERE checked = 0) OR EXISTS (SELECT 1 FROM meta WHERE key = 'thumbnails')",
            read: { $0.int(0) != 0 }
        ) ?? false
    }

    /// How long all files of pictures are together, and how many there are.
    func thumbnailTotals() throws(Errno) -> (length: Int64, count: Int64) {
        try first("SELECT CAST(min(total(length), 9e18) AS INTEGER), count(*) FROM thumbnails") {
            ($0.count(0), $0.int(1))
        } ?? (0, 0)
    }

    /// Those used least, but for what programs gave and the provider has not got yet.
    func oldThumbnails(limit: Int) throws(Errno) -> [ThumbnailRow] {
        try all("SELECT * FROM thumbnails WHERE shared = 1 OR made <> 2 ORDER BY used LIMIT ?", .int(Int64(limit))) {
            ThumbnailRow($0)
        }
    }

    /// The provider has what a document holds; true where there is a picture of that.
    func noteThumbnailSent(_ entry: EntryRow, _ row: ItemRow) throws(Errno) -> Bool {
        guard var known = try thumbnail(entry.document), entry.remoteVersion != nil,
            known.isValid(item: row.id, generation: row.generation, row.attributes),
            !entry.hasUnsentContent(generation: row.generation)
        else { return false }
        known.isSent = true
        // What has been at the provider is to be there under the new name, and for the new version.
        let place = try remoteReference(of: entry)?.path
        if known.place != nil, known.place != place || known.version != entry.remoteVersion { known.isShared = false }
        try store(known, isChecked: false)
        return true
    }

    /// The provider has the documents of a directory elsewhere, for this device has moved it.
    func noteThumbnailsMoved(below directory: RemotePath) throws(Errno) {
        try run(
            "UPDATE thumbnails SET shared = 0, checked = 0 WHERE place > ? AND place < ?",
            .blob(directory.bytes + [0x2F]),
            .blob(directory.bytes + [0x30])
        )
    }
}
