internal import CoveCore

/// What a person keeps out of the cloud: it stays on this device, whatever it is called.
extension Namespace {
    /// Keeps an item out of the cloud, or does so no longer.
    ///
    /// What the provider has of a file is deleted there; `EAGAIN` while its bytes, the only ones then, are not all here. A
    /// directory of which something in it was sent is `ENOTEMPTY`, and the account's root `EINVAL`.
    func setExcluded(_ id: ItemID, _ isExcluded: Bool) throws(Errno) {
        guard id != .root else { throw .invalidArgument }
        if isExcluded, try catalog.read({ database throws(Errno) in try database.existingItem(id) }).kind == .file {
            // Its last bytes may have come just now.
            try contents.live.use(id) { item throws(Errno) in
                try item.state.withLock { state throws(Errno) in
                    _ = try contents.load(id, &state)
                    contents.completeMaterialization(item, &state)
                }
            }
            try contents.fsync(id, dataOnly: false)
        }
        try catalog.write { database throws(Errno) in
            let row = try database.existingItem(id)
            let entries = try database.entries(of: id)
            if entries.isEmpty { throw .stale }
            for entry in entries where entry.flags.contains(.excluded) != isExcluded {
                if isExcluded {
                    try self.exclude(entry, row, database)
                } else {
                    try self.include(entry, row, database)
                }
            }
        }
        wakeSync()
    }

    /// True for what is kept out of the cloud by its own flag.
    func isExcluded(_ id: ItemID) throws(Errno) -> Bool {
        try catalog.read { database throws(Errno) in
            let entries = try database.entries(of: id)
            return !entries.isEmpty && entries.allSatisfy { $0.flags.contains(.excluded) }
        }
    }

    func exclude(_ entry: EntryRow, _ row: ItemRow, _ database: Database) throws(Errno) {
        var excluded = entry
        excluded.flags.formUnion([.excluded, .localOnly])
        if entry.isUploaded {
            switch row.kind {
            case .directory:
                // What is on its way into it would have no folder there.
                guard row.residency == .whole, try !database.hasUploadedEntries(row.id),
                    try !database.isOccupiedRemotely(row.id), try database.underway(in: row.id).isEmpty
                else { throw .notEmpty }
            case .file: guard row.residency == .whole else { throw .wouldBlock }
            default: break
            }
            return try withdraw(excluded, row.kind, database)
        }
        try database.update(excluded)
        try database.dequeue(entry.id)
        try takeUpUnanswered(entry.document, database)
    }

    /// Has what the provider holds of an entry deleted there; here it is a document that was never sent.
    func withdraw(_ entry: EntryRow, _ kind: ItemKind, _ database: Database) throws(Errno) {
        _ = try trash(entry, database.existingItem(entry.item), keepsItem: false, database)
        var kept = entry
        kept.document = .random()
        forgetRemote(&kept)
        try database.update(kept)
        try database.dequeue(entry.id)
        // In a folder that stays here it is sent when that is.
        if !kept.flags.contains(.localOnly) { try database.enqueue(entry.id, at: journalTime()) }
    }

    private func include(_ entry: EntryRow, _ row: ItemRow, _ database: Database) throws(Errno) {
        var included = entry
        included.flags.subtract([.excluded, .localOnly])
        included.flags.formUnion(localFlags(row.kind, entry.name))
        try database.update(included)
        if !included.flags.contains(.localOnly) { try database.enqueue(entry.id, at: journalTime()) }
    }
}
