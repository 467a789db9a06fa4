internal import CoveCore
internal import Glibc

/// Compares the catalog's tables with each other and with the content files, and mends what differs.
///
/// A document that the provider has may go: it comes back with the next look there. One that only this device has stays.
struct ConsistencyCheck {
    let database: Database
    let store: ContentStore
    private(set) var findings: [RepairFinding] = []
    /// The items of files that were changed here of which bytes are missing: they are to replace nothing at the provider.
    private(set) var lacking: [String] = []

    init(database: Database, store: ContentStore) {
        self.database = database
        self.store = store
    }

    mutating func run() throws(Errno) {
        try mendRoot()
        try mendEntries()
        try reachDirectories()
        try mendItems()
        for rule in ConsistencyCheck.rules {
            let count = try database.change(rule.sql, [])
            if count > 0 { found(rule.check, count, rule.message) }
        }
        try mendContent()
        try mendVersions()
    }

    private mutating func found(_ check: String, _ count: Int, _ message: String) {
        findings.append(RepairFinding(check: check, count: count, message: message))
    }

    private struct Rule {
        let check: String
        let message: String
        let sql: String
    }

    /// What one statement mends.
    private static let rules = [
        Rule(
            check: "journal",
            message: "changes that wait to be sent belonged to nothing and were dropped",
            sql: "DELETE FROM journal WHERE entry NOT IN (SELECT id FROM entries)"
        ),
        Rule(
            check: "ranges",
            message: "known parts of files that are whole, dataless or gone were dropped",
            sql: "DELETE FROM ranges WHERE item NOT IN (SELECT id FROM items WHERE kind = 0 AND state = 2)"
        ),
        Rule(
            check: "ranges",
            message: "known parts of files reached beyond the end and were cut",
            sql: """
                UPDATE ranges SET stop = (SELECT size FROM items i WHERE i.id = item)
                WHERE stop > (SELECT size FROM items i WHERE i.id = item)
                """
        ),
        Rule(
            check: "ranges",
            message: "known parts of files were empty and were dropped",
            sql: "DELETE FROM ranges WHERE stop <= start OR start < 0"
        ),
        Rule(
            check: "bytes",
            message: "folders and links had bytes of content",
            sql: "UPDATE items SET resident = 0 WHERE kind <> 0 AND resident <> 0"
        ),
        Rule(
            check: "attributes",
            message: "extended attributes belonged to nothing and were dropped",
            sql: "DELETE FROM xattrs WHERE item NOT IN (SELECT id FROM items)"
        ),
        Rule(
            check: "trash",
            message: "deleted documents had lost their bytes",
            sql: "UPDATE trash SET item = NULL WHERE item IS NOT NULL AND item NOT IN (SELECT id FROM items)"
        ),
        Rule(
            check: "links",
            message: "files had a wrong number of names",
            sql: """
                UPDATE items SET nlink = (SELECT count(*) FROM entries e WHERE e.item = items.id)
                WHERE kind <> 1 AND nlink <> (SELECT count(*) FROM entries e WHERE e.item = items.id)
                """
        ),
        Rule(
            check: "links",
            message: "folders had a wrong number of folders inside",
            sql: """
                UPDATE items SET nlink = 2 + (SELECT count(*) FROM entries e JOIN items i ON i.id = e.item
                    WHERE e.parent = items.id AND i.kind = 1)
                WHERE kind = 1 AND nlink > 0 AND (state = 0 OR nlink <> 1) -- 1: it was never listed
                    AND nlink <> 2 + (SELECT count(*) FROM entries e
                    JOIN items i ON i.id = e.item WHERE e.parent = items.id AND i.kind = 1)
                """
        ),
        Rule(
            check: "documents",
            message: "documents had the identity of others and got one of their own",
            sql: """
                UPDATE entries SET document = randomblob(16) WHERE id IN (SELECT e.id FROM entries e
                    JOIN (SELECT document, min(id) AS first FROM entries GROUP BY document HAVING count(*) > 1) d
                    ON d.document = e.document AND e.id > d.first)
                """
        ),
        Rule(
            check: "unsent",
            message: "documents differ from what the source has and did not wait to be sent; they do now",
            sql: """
                INSERT OR IGNORE INTO journal(entry, changed, attempts, retry, sent)
                SELECT e.id, 0, 0, 0, 1 FROM entries e JOIN items i ON i.id = e.item
                WHERE e.flags & 1 = 0 AND i.kind IN (0, 1, 2) AND e.id NOT IN (SELECT entry FROM journal)
                    AND (e.remote_id IS NULL OR e.remote_parent IS NOT NULL OR e.flags & 4 <> 0
                        OR i.kind = 0 AND (e.remote_item IS NOT i.id OR e.remote_generation IS NOT i.generation))
                """
        ),
    ]

    /// The top folder, without which nothing else is anywhere.
    private mutating func mendRoot() throws(Errno) {
        let isThere = try database.rows("SELECT id FROM items WHERE id = 1 AND kind = 1 AND nlink > 0") { $0.int(0) }
        guard isThere.isEmpty else { return }
        try database.change("DELETE FROM items WHERE id = 1", [])
        try database.insertRoot(user: geteuid(), group: getegid(), at: System.now())
        found("folders", 1, "the top folder was gone; it is listed again")
    }

    /// Names without an item, in what is no folder, or of a folder that has another name.
    private mutating func mendEntries() throws(Errno) {
        let lost = "item NOT IN (SELECT id FROM items)"
        for item in try database.rows("SELECT DISTINCT item FROM entries WHERE \(lost)", read: { $0.item(0) }) {
            // The bytes of what was never sent are the only ones.
            guard let status = try? System.lstat(store.path(item)) else { continue }
            try database.change(
                """
                INSERT INTO items SELECT ?1, 0, 384, i.uid, i.gid, 0, 1, ?2, ?3, ?3, ?3, 0, 1, NULL, ?2, 0, 0, NULL, NULL, ?3
                FROM items i WHERE i.id = 1 AND EXISTS (SELECT 1 FROM entries WHERE item = ?1 AND remote_id IS NULL)
                """,
                [.item(item), .int(Int64(status.st_size)), .time(Timestamp(status.st_mtim))]
            )
            let made = try database.item(item) != nil
            if made { found("entries", 1, "a document had lost its item; it has its bytes again, not its attributes") }
        }
        let second = """
            item = 1 OR item IN (SELECT id FROM items WHERE kind = 1)
                AND id > (SELECT min(id) FROM entries f WHERE f.item = entries.item)
            """
        let doubled = try database.change("DELETE FROM entries WHERE \(second)", [])
        if doubled > 0 { found("folders", doubled, "folders had second names, which were dropped") }
        let count = try database.change("DELETE FROM entries WHERE \(lost)", [])
        if count > 0 { found("entries", count, "names stood for nothing and were dropped; the source's come back") }
        let outside = "parent NOT IN (SELECT id FROM items WHERE kind = 1)"
        let moved = try database.rows("SELECT id FROM entries WHERE \(outside) AND remote_id IS NULL") { $0.int(0) }
        for id in moved { try moveToRoot(id) }
        if !moved.isEmpty {
            found("entries", moved.count, "documents were in folders that are gone; they are in the top folder now")
        }
        let gone = try database.change("DELETE FROM entries WHERE \(outside)", [])
        if gone > 0 { found("entries", gone, "names were in folders that are gone and were dropped; they come back") }
    }

    private func moveToRoot(_ id: Int64) throws(Errno) {
        guard var entry = try database.entry(id: id) else { return }
        let name = FileName(unchecked: entry.name)
        var number = 1
        var free = entry.name
        while try database.entry(.root, free) != nil {
            free = name.inserting(number == 1 ? " (recovered)" : " (recovered \(number))").bytes
            number += 1
        }
        entry.parent = .root
        entry.name = free
        try database.update(entry)
    }

    /// Folders that lead nowhere but to each other.
    private mutating func reachDirectories() throws(Errno) {
        var count = 0
        while count < 10_000 {
            let lost = try database.rows(
                """
                WITH RECURSIVE reached(id) AS (SELECT 1 UNION SELECT e.item FROM entries e JOIN reached r ON e.parent = r.id
                    JOIN items i ON i.id = e.item WHERE i.kind = 1)
                SELECT min(e.id) FROM entries e WHERE e.parent NOT IN reached AND EXISTS
                    (SELECT 1 FROM entries d WHERE d.item = e.parent)
                """
            ) { $0.optionalInt(0) }
            guard case .some(.some(let id)) = lost.first else { break }
            try moveToRoot(id)
            count += 1
        }
        if count > 0 { found("folders", count, "folders were inside themselves; they are in the top folder now") }
    }

    /// Items that have no name any more.
    private mutating func mendItems() throws(Errno) {
        let nameless = """
            id <> 1 AND nlink > 0 AND id NOT IN (SELECT item FROM entries)
                AND id NOT IN (SELECT item FROM trash WHERE item IS NOT NULL)
                AND id NOT IN (SELECT item FROM versions WHERE item IS NOT NULL)
            """
        let folders = try database.rows(
            "SELECT id FROM items WHERE kind = 1 AND \(nameless) AND EXISTS (SELECT 1 FROM entries WHERE parent = items.id)"
        ) { $0.item(0) }
        for id in folders {
            let name = Array("recovered \(id)".utf8)
            try moveToRoot(try database.insert(EntryRow(parent: .root, name: name, item: id)))
        }
        if !folders.isEmpty {
            found("items", folders.count, "folders had lost their names; they are in the top folder now")
        }
        let count = try database.change("DELETE FROM items WHERE \(nameless)", [])
        if count > 0 { found("items", count, "items had lost their names; their bytes are kept aside") }
    }

    /// Rows that promise bytes which are not there.
    private mutating func mendContent() throws(Errno) {
        let rows = try database.rows(
            """
            SELECT id, size, state, resident, (SELECT max(stop) FROM ranges r WHERE r.item = i.id),
                (SELECT CAST(min(total(stop - start), 9e18) AS INTEGER) FROM ranges r WHERE r.item = i.id),
                EXISTS (SELECT 1 FROM entries e WHERE e.item = i.id AND e.remote_id IS NOT NULL
                    AND e.remote_item = i.id AND e.remote_generation = i.generation)
            FROM items i WHERE kind = 0 AND (state <> 1 OR resident > 0)
            """
        ) { ($0.item(0), $0.int(1), $0.int(2), $0.int(3), $0.int(4), $0.int(5), $0.int(6) != 0) }
        var (dropped, cut, counted) = (0, 0, 0)
        for (id, size, state, resident, end, known, isClean) in rows {
            let actual = Int64((try? System.lstat(store.path(id)))?.st_size ?? 0)
            let needed = state == 0 ? size : state == 2 ? end : 0
            if actual < needed, isClean {
                dropped += 1
                try database.change(
                    """
                    UPDATE items SET state = 1, resident = 0, synced = 0,
                        version = (SELECT remote_version FROM entries e WHERE e.item = items.id LIMIT 1) WHERE id = ?
                    """,
                    [.item(id)]
                )
                try database.change("DELETE FROM ranges WHERE item = ?", [.item(id)])
            } else if actual < needed, state == 0 {
                cut += 1
                lacking.append("\(id)")
                try database.change(
                    "UPDATE items SET size = ?1, resident = ?1 WHERE id = ?2",
                    [.int(actual), .item(id)]
                )
            } else if resident != (state == 0 ? size : state == 2 ? known : 0) {
                counted += 1
                let right = state == 0 ? size : state == 2 ? known : 0
                try database.change("UPDATE items SET resident = ? WHERE id = ?", [.int(right), .item(id)])
            }
        }
        if dropped > 0 { found("content", dropped, "files lacked bytes that the source has; they are fetched again") }
        if cut > 0 {
            found("content", cut, "files that only this device has lacked bytes at their end; they are shorter now")
        }
        if counted > 0 { found("content", counted, "files had a wrong count of the bytes that are here") }
    }

    /// Versions without the bytes they had.
    private mutating func mendVersions() throws(Errno) {
        let count = try database.change(
            """
            DELETE FROM versions WHERE item IS NOT NULL AND NOT EXISTS
                (SELECT 1 FROM items i WHERE i.id = item AND i.kind = 0 AND i.state = 0 AND i.size = versions.size)
            """,
            []
        )
        if count > 0 { found("versions", count, "earlier contents of documents had lost their bytes and were dropped") }
    }

    /// Keeps content that no item knows where a person finds it; after the rows are durable.
    mutating func setAsideUnknown() throws(Errno) {
        var unknown: [ItemID] = []
        let database = database
        try store.forEach { id throws(Errno) in if try database.item(id) == nil { unknown.append(id) } }
        for id in unknown { _ = try store.setAside(id) }
        guard !unknown.isEmpty else { return }
        found(
            "content",
            unknown.count,
            "content files belonged to nothing; they are kept in \(ContentStore.foundFolder)"
        )
    }
}
