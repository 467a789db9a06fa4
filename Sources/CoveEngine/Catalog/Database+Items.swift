internal import CoveCore

/// Reading and writing rows of `items`, `ranges` and `xattrs`.
extension Database {
    /// Makes the top folder, of which nothing is known yet; its number is its own, whatever else is there.
    func insertRoot(user: UInt32, group: UInt32, at now: Timestamp) throws(Errno) {
        var root = ItemRow(kind: .directory, permissions: 0o755, user: user, group: group, now: now)
        root.linkCount = 2
        root.residency = .dataless
        try run("UPDATE items SET id = ? WHERE id = ?", .item(.root), .item(try insert(root)))
    }

    func item(_ id: ItemID) throws(Errno) -> ItemRow? {
        try first(
            """
            SELECT i.id, i.kind, i.mode, i.uid, i.gid, i.rdev, i.nlink, i.size, i.atime, i.mtime, i.ctime, i.state,
                i.generation, i.version, i.resident, i.synced, i.used, i.target, i.home, i.born
            FROM items i WHERE i.id = ?
            """,
            .item(id),
            read: { ItemRow($0) }
        )
    }

    /// The item, or `ESTALE` when it is gone.
    func existingItem(_ id: ItemID) throws(Errno) -> ItemRow {
        guard let row = try item(id) else { throw .stale }
        return row
    }

    func insert(_ item: ItemRow) throws(Errno) -> ItemID {
        try run(
            """
            INSERT INTO items(kind, mode, uid, gid, rdev, nlink, size, atime, mtime, ctime, state, generation,
                version, resident, synced, used, target, home, born)
            VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            .int(Int64(item.kind.rawValue)),
            .int(Int64(item.permissions)),
            .int(Int64(item.user)),
            .int(Int64(item.group)),
            .int(Int64(bitPattern: item.device)),
            .int(item.linkCount),
            .int(item.size),
            .time(item.accessTime),
            .time(item.modificationTime),
            .time(item.changeTime),
            .int(item.residency.rawValue),
            .int(item.generation),
            .optional(item.version?.bytes),
            .int(item.resident),
            .flag(item.isSynced),
            .int(item.used),
            .optional(item.target),
            .optional(item.home?.bytes),
            .time(item.birthTime)
        )
        return ItemID(UInt64(bitPattern: lastInsertID))
    }

    /// Writes the columns that change with an item's bytes.
    func saveContent(_ item: ItemRow) throws(Errno) {
        try run(
            """
            UPDATE items SET size = ?, mtime = ?, ctime = max(ctime, ?), state = ?, generation = ?, version = ?,
                resident = ?, synced = ?, used = ?
            WHERE id = ?
            """,
            .int(item.size),
            .time(item.modificationTime),
            .time(item.changeTime),
            .int(item.residency.rawValue),
            .int(item.generation),
            .optional(item.version?.bytes),
            .int(item.resident),
            .flag(item.isSynced),
            .int(item.used),
            .item(item.id)
        )
    }

    /// Writes the columns that tell which of an item's bytes are here, and what of.
    func saveResidency(_ item: ItemRow) throws(Errno) {
        try run(
            "UPDATE items SET state = ?, version = ?, resident = ?, synced = ?, used = ? WHERE id = ?",
            .int(item.residency.rawValue),
            .optional(item.version?.bytes),
            .int(item.resident),
            .flag(item.isSynced),
            .int(item.used),
            .item(item.id)
        )
    }

    /// Writes the columns that chmod(2), chown(2) and utimensat(2) change.
    func saveAttributes(_ item: ItemRow) throws(Errno) {
        try run(
            "UPDATE items SET mode = ?, uid = ?, gid = ?, atime = ?, mtime = ?, ctime = ? WHERE id = ?",
            .int(Int64(item.permissions)),
            .int(Int64(item.user)),
            .int(Int64(item.group)),
            .time(item.accessTime),
            .time(item.modificationTime),
            .time(item.changeTime),
            .item(item.id)
        )
    }

    func setPermissions(_ permissions: UInt16, of id: ItemID, at now: Timestamp) throws(Errno) {
        try run(
            "UPDATE items SET mode = ?, ctime = ? WHERE id = ?",
            .int(Int64(permissions)),
            .time(now),
            .item(id)
        )
    }

    func setHome(_ home: Place?, of id: ItemID) throws(Errno) {
        try run("UPDATE items SET home = ? WHERE id = ?", .optional(home?.bytes), .item(id))
    }

    /// A listing has changed of which no call of the kernel's tells it.
    ///
    /// By the directory's date alone it knows that the listing it keeps is out of date: two changes of one tick have two dates.
    func touchListing(_ id: ItemID, at now: Timestamp) throws(Errno) {
        try run(
            """
            UPDATE items SET (mtime, ctime) = (SELECT t, t FROM (SELECT CASE
                WHEN items.mtime >= ?1 AND items.mtime < ?1 + 1000000000 THEN items.mtime + 1 ELSE ?1 END AS t))
            WHERE id = ?2
            """,
            [.time(now), .item(id)]
        )
        touchItem(id)
    }

    /// Sets both times of an item whose own row or names changed.
    func touch(_ id: ItemID, modified: Bool, at now: Timestamp) throws(Errno) {
        if modified {
            try run(
                "UPDATE items SET mtime = ?, ctime = ? WHERE id = ?",
                .time(now),
                .time(now),
                .item(id)
            )
        } else {
            try run("UPDATE items SET ctime = ? WHERE id = ?", .time(now), .item(id))
        }
    }

    func addLinks(_ by: Int64, to id: ItemID) throws(Errno) {
        try run("UPDATE items SET nlink = nlink + ? WHERE id = ?", .int(by), .item(id))
    }

    /// Forgets an item without entries; its content file goes when the caller says so.
    func deleteItem(_ id: ItemID) throws(Errno) {
        try run("DELETE FROM items WHERE id = ?", .item(id))
        try run("DELETE FROM ranges WHERE item = ?", .item(id))
        try run("DELETE FROM xattrs WHERE item = ?", .item(id))
        try endUnsettled(id)
        try nameUnnamed(id)
    }

    /// An item takes the place of another, and with that its date of birth.
    func inheritBirth(of old: ItemID, by new: ItemID) throws(Errno) {
        try run(
            """
            UPDATE items SET born = (SELECT CASE born WHEN 0 THEN mtime ELSE born END FROM items WHERE id = ?)
            WHERE id = ?
            """,
            .item(old),
            .item(new)
        )
    }

    /// Two items exchange the documents whose bytes they are, and the dates of birth with these.
    func exchangeBirths(_ one: ItemRow, _ other: ItemRow) throws(Errno) {
        for (item, birth) in [(one.id, other.birthTime), (other.id, one.birthTime)] {
            try run("UPDATE items SET born = ? WHERE id = ?", .time(birth), .item(item))
        }
    }

    /// Notes that an item has no name yet, the directory in which it was made, and the request that made it.
    func insertUnnamed(_ id: ItemID, in directory: ItemID, by request: UInt64) throws(Errno) {
        try run(
            "INSERT INTO unnamed(item, directory, request) VALUES(?, ?, ?)",
            .item(id),
            .item(directory),
            .int(Int64(bitPattern: request))
        )
    }

    /// An item has a name now, or is gone.
    func nameUnnamed(_ id: ItemID) throws(Errno) { try run("DELETE FROM unnamed WHERE item = ?", .item(id)) }

    /// The directory in which an item was made that has no name yet.
    func unnamed(_ id: ItemID) throws(Errno) -> ItemID? {
        try first("SELECT directory FROM unnamed WHERE item = ?", .item(id)) { $0.item(0) }
    }

    /// True when the trash or a version keeps the item's bytes.
    func isKept(_ id: ItemID) throws(Errno) -> Bool {
        if try first("SELECT 1 FROM trash WHERE item = ?", .item(id), read: { _ in true }) == true { return true }
        return try isVersion(id)
    }

    /// Items without entries that neither the trash nor a version keeps.
    func orphans() throws(Errno) -> [ItemID] {
        try all(
            """
            SELECT id FROM items WHERE nlink = 0 AND id NOT IN (SELECT item FROM trash WHERE item IS NOT NULL)
                AND id NOT IN (SELECT item FROM versions WHERE item IS NOT NULL)
            """,
            read: { $0.item(0) }
        )
    }

    /// Remembers which document still has the bytes of an open item without a name.
    func depart(_ item: ItemID, of document: DocumentID) throws(Errno) {
        try run("INSERT OR REPLACE INTO departing(item, document) VALUES(?, ?)", .item(item), .document(document))
    }

    func ranges(of id: ItemID) throws(Errno) -> RangeSet {
        var set = RangeSet()
        try each("SELECT start, stop FROM ranges WHERE item = ? ORDER BY start", .item(id)) { row in
            let start = row.count(0)
            set.insert(start..<max(start, row.count(1)))
            return true
        }
        return set
    }

    func setRanges(_ set: RangeSet, of id: ItemID) throws(Errno) {
        try run("DELETE FROM ranges WHERE item = ?", .item(id))
        for range in set.ranges { try insert(range, of: id) }
    }

    /// Adds a range that holds all those of the item which it touches; how many bytes were not in these.
    func addRange(_ range: Range<Int64>, to id: ItemID) throws(Errno) -> Int64 {
        let known = try first(
            "SELECT coalesce(sum(stop - start), 0) FROM ranges WHERE item = ? AND start BETWEEN ? AND ?",
            .item(id),
            .int(range.lowerBound),
            .int(range.upperBound),
            read: { $0.int(0) }
        )
        try run(
            "DELETE FROM ranges WHERE item = ? AND start BETWEEN ? AND ?",
            .item(id),
            .int(range.lowerBound),
            .int(range.upperBound)
        )
        try insert(range, of: id)
        return range.upperBound - range.lowerBound - (known ?? 0)
    }

    private func insert(_ range: Range<Int64>, of id: ItemID) throws(Errno) {
        try run(
            "INSERT INTO ranges VALUES(?, ?, ?)",
            .item(id),
            .int(range.lowerBound),
            .int(range.upperBound)
        )
    }

    func extendedAttribute(_ name: [UInt8], of id: ItemID) throws(Errno) -> [UInt8]? {
        try first("SELECT value FROM xattrs WHERE item = ? AND name = ?", .item(id), .blob(name), read: { $0.blob(0) })
    }

    func extendedAttributes(of id: ItemID) throws(Errno) -> [[UInt8]: [UInt8]] {
        let pairs = try all(
            "SELECT name, value FROM xattrs WHERE item = ?",
            .item(id),
            read: { ($0.blob(0), $0.blob(1)) }
        )
        return Dictionary(pairs) { first, _ in first }
    }

    func setExtendedAttribute(_ name: [UInt8], _ value: [UInt8], of id: ItemID) throws(Errno) {
        if name == PackageTypes.attribute, try extendedAttribute(name, of: id) != value { touchTree(id) }
        try run("INSERT OR REPLACE INTO xattrs VALUES(?, ?, ?)", .item(id), .blob(name), .blob(value))
    }

    func removeExtendedAttribute(_ name: [UInt8], of id: ItemID) throws(Errno) {
        try run("DELETE FROM xattrs WHERE item = ? AND name = ?", .item(id), .blob(name))
        if name == PackageTypes.attribute { touchTree(id) }
    }

    /// The items in a directory, however deep, that have more than one name.
    func linkedItems(below directory: ItemID) throws(Errno) -> Set<ItemID> {
        Set(
            try all(
                """
                WITH RECURSIVE below(item) AS (SELECT ?1 UNION
                    SELECT e.item FROM below b JOIN entries e ON e.parent = b.item JOIN items i ON i.id = e.item WHERE i.kind = 1)
                SELECT i.id FROM below b JOIN entries e ON e.parent = b.item JOIN items i ON i.id = e.item
                    WHERE i.kind <> 1 AND i.nlink > 1
                """,
                .item(directory),
                read: { $0.item(0) }
            )
        )
    }

    /// True for a directory, of this name, that people see as one document.
    func isPackage(_ name: FileName, _ id: ItemID) throws(Errno) -> Bool {
        let ending = String(decoding: name.stemAndExtension.extension.dropFirst(), as: UTF8.self)
        if PackageTypes.contains(ending) { return true }
        return try extendedAttribute(PackageTypes.attribute, of: id) == [0x31]
    }

    /// Replaces all attributes of an item.
    func replaceExtendedAttributes(_ all: [[UInt8]: [UInt8]], of id: ItemID) throws(Errno) {
        if try extendedAttribute(PackageTypes.attribute, of: id) != all[PackageTypes.attribute] { touchTree(id) }
        try run("DELETE FROM xattrs WHERE item = ?", .item(id))
        for (name, value) in all {
            try run("INSERT INTO xattrs VALUES(?, ?, ?)", .item(id), .blob(name), .blob(value))
        }
    }

    func meta(_ key: String) throws(Errno) -> [UInt8]? {
        try first("SELECT value FROM meta WHERE key = ?", .text(key), read: { $0.blob(0) })
    }

    func setMeta(_ key: String, _ value: [UInt8]?) throws(Errno) {
        if let value {
            try run("INSERT OR REPLACE INTO meta VALUES(?, ?)", .text(key), .blob(value))
        } else {
            try run("DELETE FROM meta WHERE key = ?", .text(key))
        }
    }
}
