internal import CoveCore

/// A name that stays on this device because a person said so, whatever has it.
struct ExcludedPlace {
    var place: Place
    /// False where only something excluded has been moved there.
    var isAsked: Bool
}

/// Reading and writing rows of `excluded_places`, and what follows of them for what is below.
extension Database {
    private func place(_ row: Row) -> ExcludedPlace {
        ExcludedPlace(place: Place(row.item(0), row.blob(1)), isAsked: row.int(2) != 0)
    }

    /// True for a place that is excluded itself, whatever is above it.
    func isExcluded(_ place: Place) throws(Errno) -> Bool {
        try first(
            "SELECT 1 FROM excluded_places WHERE parent = ? AND name = ?",
            .item(place.parent),
            .blob(place.name),
            read: { _ in true }
        ) ?? false
    }

    /// All of them, those that a person asked for first.
    func excludedPlaces() throws(Errno) -> [ExcludedPlace] {
        try all(
            "SELECT parent, name, asked FROM excluded_places ORDER BY asked DESC, parent, name",
            read: { place($0) }
        )
    }

    /// How many a person asked for.
    func excludedCount() throws(Errno) -> Int {
        Int(try first("SELECT count(*) FROM excluded_places WHERE asked = 1", read: { $0.int(0) }) ?? 0)
    }

    func excludedPlace(_ place: Place) throws(Errno) -> ExcludedPlace? {
        try first(
            "SELECT parent, name, asked FROM excluded_places WHERE parent = ? AND name = ?",
            .item(place.parent),
            .blob(place.name),
            read: { self.place($0) }
        )
    }

    func hasExcludedPlaces() throws(Errno) -> Bool {
        try first("SELECT 1 FROM excluded_places LIMIT 1", read: { _ in true }) ?? false
    }

    func exclude(_ place: Place, isAsked: Bool) throws(Errno) {
        try run(
            """
            INSERT INTO excluded_places VALUES(?, ?, ?, NULL)
            ON CONFLICT DO UPDATE SET asked = max(asked, excluded.asked), vacated = NULL
            """,
            .item(place.parent),
            .blob(place.name),
            .flag(isAsked)
        )
    }

    func include(_ place: Place) throws(Errno) {
        try run("DELETE FROM excluded_places WHERE parent = ? AND name = ?", .item(place.parent), .blob(place.name))
    }

    /// Forgets places that nobody asked for once nothing has had such a name since a moment.
    func forgetVacated(now: Timestamp, since limit: Timestamp) throws(Errno) {
        try run(
            """
            UPDATE excluded_places SET vacated = CASE WHEN vacated IS NULL THEN ? END
            WHERE asked = 0 AND (vacated IS NULL) <> EXISTS (SELECT 1 FROM entries e
                WHERE e.parent = excluded_places.parent AND e.name = excluded_places.name)
            """,
            .milliseconds(now)
        )
        try run("DELETE FROM excluded_places WHERE asked = 0 AND vacated <= ?", .milliseconds(limit))
    }

    /// True where the provider has something of what is in a directory here, at whatever place it has it.
    func hasUploaded(below directory: ItemID) throws(Errno) -> Bool {
        try first(
            """
            WITH RECURSIVE below(item) AS (SELECT ?1 UNION
                SELECT e.item FROM below b JOIN entries e ON e.parent = b.item JOIN items i ON i.id = e.item WHERE i.kind = 1)
            SELECT 1 FROM below b JOIN entries e ON e.parent = b.item WHERE e.remote_id IS NOT NULL LIMIT 1
            """,
            .item(directory),
            read: { _ in true }
        ) ?? false
    }

    /// The items in a directory, however deep, of which bytes or names are not here.
    func incomplete(below directory: ItemID) throws(Errno) -> [(item: ItemID, kind: ItemKind)] {
        try all(
            """
            WITH RECURSIVE below(item) AS (SELECT ?1 UNION
                SELECT e.item FROM below b JOIN entries e ON e.parent = b.item)
            SELECT i.id, i.kind FROM below b JOIN items i ON i.id = b.item WHERE i.state <> 0 AND i.kind IN (0, 1)
            """,
            .item(directory),
            read: { ($0.item(0), ItemKind(rawValue: UInt8(truncatingIfNeeded: $0.int(1))) ?? .file) }
        )
    }

    /// What `held` of the journal is for what is in a directory.
    func heldState(in directory: ItemID) throws(Errno) -> Int64 {
        guard let entry = try entry(ofDirectory: directory), !entry.isUploaded else { return 0 }
        if entry.flags.contains(.localOnly) { return 2 }
        return try journalRow(entry.id)?.staysHere == true ? 2 : 1
    }

    /// Has the queue know of all that is in a directory, however deep, whether it waits for a folder or stays here.
    func settleHeld(below directory: ItemID) throws(Errno) {
        try run(
            """
            WITH RECURSIVE below(item, held) AS (SELECT ?1, ?2 UNION
                SELECT e.item, CASE WHEN e.remote_id IS NOT NULL THEN 0 WHEN e.flags & 1 THEN 2 ELSE max(1, b.held) END
                FROM below b JOIN entries e ON e.parent = b.item JOIN items i ON i.id = e.item WHERE i.kind = 1)
            UPDATE journal SET held = b.held FROM below b JOIN entries e ON e.parent = b.item
                WHERE journal.entry = e.id AND journal.held <> b.held
            """,
            .item(directory),
            .int(try heldState(in: directory))
        )
    }

    /// Directories that are still to be deleted there are others than those here that are to be sent again.
    func partDirectories() throws(Errno) {
        try run(
            """
            UPDATE trash SET document = randomblob(16) WHERE pending = 1 AND kind = 1
                AND EXISTS (SELECT 1 FROM entries e WHERE e.document = trash.document)
                AND NOT EXISTS (SELECT 1 FROM underway u WHERE u.document = trash.document)
            """
        )
    }

    /// What the provider has in a directory here is from now on in another one, which stands for the one there.
    func passOnRemote(_ directory: ItemID, to other: ItemID) throws(Errno) {
        let places: [Value] = [.item(directory), .item(other)]
        try run("UPDATE entries SET remote_parent = ?2 WHERE remote_parent = ?1", places)
        try run("UPDATE trash SET remote_parent = ?2 WHERE remote_parent = ?1 AND pending = 1", places)
        try run("UPDATE underway SET parent = ?2 WHERE parent = ?1", places)
    }
}
