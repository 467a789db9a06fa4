internal import CoveCore

/// Names that stay on this device, once other rules hold for them.
extension Namespace {
    private static let rulesKey = "local-names"

    /// Sends what stayed here under the rules of an earlier start, where those of this one let it go.
    func heedLocalNames() throws(Errno) {
        let rules = localNames.identity
        let known = try catalog.read { database throws(Errno) in try database.meta(Self.rulesKey) }
        guard known != rules else { return }
        try catalog.write { database throws(Errno) in
            var free: [Int64] = []
            try database.each(
                """
                SELECT e.id, e.name, i.kind FROM entries e JOIN items i ON i.id = e.item WHERE e.flags & ?
                    AND NOT EXISTS (SELECT 1 FROM excluded_places x WHERE x.parent = e.parent AND x.name = e.name)
                """,
                .int(EntryRow.Flags.localOnly.rawValue)
            ) { row in
                let kind = ItemKind(rawValue: UInt8(truncatingIfNeeded: row.int(2))) ?? .file
                if kind.isSynced, !self.localNames.matches(row.blob(1), kind) { free.append(row.int(0)) }
                return true
            }
            for id in free {
                guard var entry = try database.entry(id: id) else { continue }
                entry.flags.remove(.localOnly)
                try database.update(entry)
                try database.enqueue(id, at: self.journalTime())
            }
            try database.setMeta(Self.rulesKey, rules)
        }
    }
}
