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
        try first("SELECT 1 FROM entries WHERE flags & 26 LIMIT 1", read: { _ in true }) ?? false
    }

    /// Has all that is below a directory go by it again.
    func clearPolicies(below directory: ItemID) throws(Errno) {
        try run(
            """
            WITH RECURSIVE below(id, item) AS (
                SELECT id, item FROM entries WHERE parent = ?
                UNION SELECT e.id, e.item FROM below b JOIN entries e ON e.parent = b.item)
            UPDATE entries SET flags = flags & ~26 WHERE flags & 26 AND id IN (SELECT id FROM below)
            """,
            .item(directory)
        )
    }

    /// What is to be kept on this disk and is not here: files without all their bytes, and directories never listed; after
    /// an item, in the order of their numbers.
    func missingKept(after last: ItemID, limit: Int) throws(Errno) -> [(item: ItemID, kind: ItemKind)] {
        let isRoot = try rootPolicy() == .eagerly
        if !isRoot, try !hasPolicies() { return [] }
        return try all(
            """
            WITH RECURSIVE kept(item) AS (
                SELECT item FROM entries WHERE flags & 26 AND flags & 2
                UNION SELECT id FROM items WHERE ? AND id = ?
                UNION SELECT e.item FROM kept k JOIN entries e ON e.parent = k.item WHERE e.flags & 24 = 0)
            SELECT i.id, i.kind FROM kept k JOIN items i ON i.id = k.item
                WHERE i.id > ? AND i.state <> 0 AND i.kind IN (0, 1) ORDER BY i.id LIMIT ?
            """,
            .int(isRoot ? 1 : 0),
            .item(.root),
            .item(last),
            .int(Int64(limit))
        ) { row in
            (row.item(0), ItemKind(rawValue: UInt8(truncatingIfNeeded: row.int(1))) ?? .file)
        }
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
