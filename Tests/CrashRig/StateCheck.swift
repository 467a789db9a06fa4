import CoveTestSupport
import Foundation

/// What must hold in a state directory after a settled account was stopped.
struct StateCheck {
    let state: String

    /// Each gives one row for whatever is wrong.
    private static let queries = [
        "integrity": "SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
        "entry without item": "SELECT name FROM entries WHERE item NOT IN (SELECT id FROM items)",
        "entry in no directory": "SELECT name FROM entries WHERE parent NOT IN (SELECT id FROM items WHERE kind = 1)",
        "item without entry": """
        SELECT id FROM items WHERE id <> 1 AND id NOT IN (SELECT item FROM entries)
            AND id NOT IN (SELECT item FROM trash WHERE item IS NOT NULL)
            AND id NOT IN (SELECT item FROM versions WHERE item IS NOT NULL)
        """,
        "version without its bytes": """
        SELECT v.id FROM versions v LEFT JOIN items i ON i.id = v.item
        WHERE v.item IS NOT NULL AND (i.id IS NULL OR i.state <> 0 OR i.size <> v.size)
        """,
        "trash without item": "SELECT path FROM trash WHERE item IS NOT NULL AND item NOT IN (SELECT id FROM items)",
        "links of a file": """
        SELECT id FROM items i WHERE kind <> 1 AND nlink <> (SELECT count(*) FROM entries WHERE item = i.id)
        """,
        "links of a directory": """
        SELECT id FROM items i WHERE kind = 1 AND state = 0 AND nlink <> 0 AND nlink <> 2 +
            (SELECT count(*) FROM entries e JOIN items c ON c.id = e.item WHERE e.parent = i.id AND c.kind = 1)
        """,
        "still to be sent": "SELECT entry FROM journal",
        "still to be deleted": "SELECT path FROM trash WHERE pending = 1",
        "still elsewhere": "SELECT name FROM entries WHERE remote_parent IS NOT NULL",
        "never sent": "SELECT name FROM entries WHERE remote_id IS NULL AND flags & 1 = 0",
        "ranges of nothing": """
        SELECT r.item FROM ranges r LEFT JOIN items i ON i.id = r.item
        WHERE i.id IS NULL OR i.state <> 2 OR r.stop > i.size OR r.start >= r.stop
        """,
        "resident bytes": """
        SELECT id FROM items i WHERE kind = 0 AND resident <> CASE state WHEN 0 THEN size WHEN 1 THEN 0
            ELSE (SELECT coalesce(sum(stop - start), 0) FROM ranges WHERE item = i.id) END
        """,
        "attributes of nothing": "SELECT item FROM xattrs WHERE item NOT IN (SELECT id FROM items)",
        "not ended cleanly": "SELECT key FROM meta WHERE key IN ('boot', 'sweep')",
    ]

    func problems() throws -> [String] {
        let named = StateCheck.queries.map { name, query in
            "WITH found(what) AS (\(query)) SELECT '\(name): ' || CAST(what AS TEXT) FROM found"
        }
        return try ask(named.joined(separator: ";")) + contentProblems()
    }

    /// Every content file is an item's and as long as it says.
    private func contentProblems() throws -> [String] {
        var items: [String: (state: Int, size: Int)] = [:]
        for line in try ask("SELECT id, state, size FROM items WHERE kind = 0") {
            let fields = line.split(separator: "|")
            guard fields.count == 3, let state = Int(fields[1]), let size = Int(fields[2]) else { continue }
            items[String(fields[0])] = (state, size)
        }
        var found: [String] = []
        let walker = FileManager.default.enumerator(atPath: "\(state)/content")
        while let path = walker?.nextObject() as? String {
            guard walker?.fileAttributes?[.type] as? FileAttributeType == .typeRegular else { continue }
            let name = (path as NSString).lastPathComponent
            let size = walker?.fileAttributes?[.size] as? Int ?? -1
            let item = items.removeValue(forKey: name)
            switch item?.state {
            case nil: found.append("content of no item: \(name)")
            case 0:
                if item?.size != size { found.append("content of item \(name): \(size) bytes, not \(item?.size ?? 0)") }
            case 1: found.append("content of dataless item \(name)")
            default: break
            }
        }
        for (name, item) in items where item.state == 0 && item.size > 0 { found.append("no content of item \(name)") }
        return found
    }

    private func ask(_ query: String) throws -> [String] {
        try Command.run("sqlite3", ["\(state)/catalog.db", query]).output.split(separator: "\n").map(String.init)
    }
}
