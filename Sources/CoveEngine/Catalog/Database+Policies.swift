internal import CoveCore

/// Content policies: what an entry, or a directory above it, says.
extension Database {
    private static let rootKey = "policy"
    /// No tree is deeper; what goes round in a damaged one ends here.
    private static let deepest = 4096

    /// What the root says.
    func rootPolicy() throws(Errno) -> ContentPolicy {
        let known = try meta(Self.rootKey).flatMap { ContentPolicy(rawValue: String(decoding: $0, as: UTF8.self)) }
        return known ?? .lazilyAndEvict
    }

    /// Says what holds where nothing else is said.
    func setRootPolicy(_ policy: ContentPolicy) throws(Errno) {
        try setMeta(Self.rootKey, Array((policy == .inherited ? .lazilyAndEvict : policy).rawValue.utf8))
    }

    /// What holds for an entry: its own policy, or that of the nearest directory which has one.
    func policy(of entry: EntryRow) throws(Errno) -> ContentPolicy {
        if entry.flags.policy != .inherited { return entry.flags.policy }
        // Mostly nothing was ever said.
        guard try hasPolicies() else { return try rootPolicy() }
        var parent = entry.parent
        for _ in 0..<Self.deepest where parent != .root {
            guard let above = try entries(of: parent).first else { break }
            if above.flags.policy != .inherited { return above.flags.policy }
            parent = above.parent
        }
        return try rootPolicy()
    }

    private func hasPolicies() throws(Errno) -> Bool {
        try first("SELECT 1 FROM entries WHERE flags & 58 LIMIT 1", read: { _ in true }) ?? false
    }

    /// Has all that is below a directory go by it again.
    func clearPolicies(below directory: ItemID) throws(Errno) {
        try run(
            """
            WITH RECURSIVE below(id, item) AS (
                SELECT id, item FROM entries WHERE parent = ?
                UNION SELECT e.id, e.item FROM below b JOIN entries e ON e.parent = b.item)
            UPDATE entries SET flags = flags & ~58 WHERE flags & 58 AND id IN (SELECT id FROM below)
            """,
            .item(directory)
        )
    }

    /// What is below a directory need not come by itself any more, but for what its policy says.
    func endWanted(below directory: ItemID) throws(Errno) {
        try run(
            """
            WITH RECURSIVE below(id, item) AS (
                SELECT id, item FROM entries WHERE parent = ?
                UNION SELECT e.id, e.item FROM below b JOIN entries e ON e.parent = b.item)
            UPDATE entries SET flags = flags & ~32 WHERE flags & 58 AND flags & 32 AND id IN (SELECT id FROM below)
            """,
            .item(directory)
        )
    }

    /// What was to come by itself and is here has come.
    func endWantedHere() throws(Errno) {
        try run(
            """
            UPDATE entries SET flags = flags & ~32 WHERE flags & 58 AND flags & 32
                AND NOT EXISTS (SELECT 1 FROM items i WHERE i.id = entries.item AND i.state <> 0)
            """
        )
    }

    /// True where something is to come by itself, whatever its policy says now.
    func hasWanted() throws(Errno) -> Bool {
        try first("SELECT 1 FROM entries WHERE flags & 58 AND flags & 32 LIMIT 1", read: { _ in true }) ?? false
    }

    /// What is to be here and is not: files without all their bytes, and directories never listed; after an item, in the
    /// order of their numbers.
    func missingKept(after last: ItemID, limit: Int) throws(Errno) -> [(item: ItemID, kind: ItemKind)] {
        guard try keepsAny() else { return [] }
        return try all(
            """
            SELECT i.id, i.kind
                FROM (SELECT item FROM kept UNION SELECT item FROM entries WHERE flags & 58 AND flags & 32) k
                JOIN items i ON i.id = k.item
                WHERE i.id > ? AND i.state <> 0 AND i.kind IN (0, 1) ORDER BY i.id LIMIT ?
            """,
            .item(last),
            .int(Int64(limit))
        ) { row in
            (row.item(0), ItemKind(rawValue: UInt8(truncatingIfNeeded: row.int(1))) ?? .file)
        }
    }

    /// The files with bytes here that are to stay.
    func keptFiles() throws(Errno) -> Set<ItemID> {
        guard try keepsAny() else { return [] }
        return Set(
            try all("SELECT i.id FROM kept k JOIN items i ON i.id = k.item WHERE i.resident > 0 AND i.kind = 0") {
                $0.item(0)
            }
        )
    }

    private func keepsAny() throws(Errno) -> Bool {
        if try rootPolicy() == .eagerly { return true }
        return try hasPolicies()
    }

    /// The bytes of an item need not come by themselves any more.
    func endWanted(_ item: ItemID) throws(Errno) {
        try run("UPDATE entries SET flags = flags & ~32 WHERE item = ? AND flags & 32", .item(item))
    }
}

extension EntryRow.Flags {
    /// The item's own policy.
    var policy: ContentPolicy {
        get {
            if contains(.pinned) { return .eagerly }
            if contains(.refreshed) { return .lazily }
            return contains(.evicted) ? .lazilyAndEvict : .inherited
        }
        set {
            subtract([.pinned, .refreshed, .evicted])
            switch newValue {
            case .inherited: break
            case .eagerly: insert(.pinned)
            case .lazily: insert(.refreshed)
            case .lazilyAndEvict: insert(.evicted)
            }
        }
    }
}
