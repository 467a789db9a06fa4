internal import CoveCore
internal import Glibc
internal import Synchronization

/// Making content durable before it is sent, many files at a time: the disk's journal is then written once for all.
extension SyncHost {
    /// Files synced along with the one that is to be sent now.
    private static let syncedTogether = 64

    /// Makes the content of an item durable, and that of the files to be sent after it.
    func syncAhead(of id: ItemID) throws(Errno) {
        let item = contents.live.retain(id)
        defer { contents.live.release(id) }
        try contents.save(item, closing: false)
        let isSynced = try item.state.withLock { state throws(Errno) in
            // What may change unseen is made durable when it is copied.
            try contents.load(id, &state).isSynced || state.seen != nil
        }
        if isSynced { return }
        var waiting: [SyncingItem] = []
        defer { for one in waiting { one.end(contents.live) } }
        if let one = try beginSync(id) { waiting.append(one) }
        for other in try nextToSend() where other != id {
            // What is wrong with another one is told when that is sent.
            if let one = try? beginSync(other) { waiting.append(one) }
        }
        // All are on their way before the first is waited for.
        for one in waiting { System.startWriting(one.descriptor, 0, 0) }
        for one in waiting {
            try disk.writing("bytes of a file can't be made durable") { () throws(Errno) in
                try contents.store.sync(one.item.id, one.descriptor)
            }
        }
        let done = waiting.filter { one in
            one.item.state.withLock { state in
                guard one.isUnchanged(state) else { return false }
                state.row?.isSynced = true
                // The next write must take that back first.
                state.isMarked = false
                return true
            }
        }
        try catalog.write { database throws(Errno) in
            for one in done {
                try database.run(
                    "UPDATE items SET synced = 1 WHERE id = ? AND generation = ?",
                    .item(one.item.id),
                    .int(one.generation)
                )
            }
        }
    }

    private func nextToSend() throws(Errno) -> [ItemID] {
        let due = journalTime() - configuration.newSettleTime
        return try catalog.read { database throws(Errno) in
            try database.all(
                """
                SELECT i.id FROM journal j JOIN entries e ON e.id = j.entry JOIN items i ON i.id = e.item
                WHERE j.changed <= ? AND j.retry <= ? AND i.kind = 0 AND i.state = 0 AND i.synced = 0 AND i.size > 0
                ORDER BY j.changed LIMIT ?
                """,
                .milliseconds(due),
                .milliseconds(journalTime()),
                .int(Int64(Self.syncedTogether)),
                read: { $0.item(0) }
            )
        }
    }

    /// Nil for what changes just now.
    private func beginSync(_ id: ItemID) throws(Errno) -> SyncingItem? {
        let item = contents.live.retain(id)
        let found = Result { () throws(Errno) -> SyncingItem? in
            try item.state.withLock { state throws(Errno) in
                let row = try contents.load(id, &state)
                guard row.kind == .file, row.residency == .whole, !row.isSynced, !state.hasUnsavedContent,
                    state.writesInFlight == 0, state.seen == nil
                else { return nil }
                let descriptor = try contents.descriptor(id, &state)
                let copy = try System.retry { dup(descriptor) }
                return SyncingItem(item: item, descriptor: copy, generation: row.generation, lastWrite: state.lastWrite)
            }
        }
        if case .success(.some(let one)) = found { return one }
        contents.live.release(id)
        // Gone meanwhile: nothing is to be sent of it.
        if case .failure(let error) = found, error != .stale { throw error }
        return nil
    }
}

/// An item whose content is being synced.
private struct SyncingItem {
    let item: LiveItem
    let descriptor: Int32
    let generation: Int64
    let lastWrite: MonotonicTime

    /// True while its bytes are those that were synced.
    func isUnchanged(_ state: borrowing LiveItem.State) -> Bool {
        state.row?.generation == generation && state.lastWrite == lastWrite && state.writesInFlight == 0
            && !state.hasUnsavedContent && state.row?.residency == .whole && state.seen == nil
    }

    func end(_ live: LiveTable) {
        System.close(descriptor)
        live.release(item.id)
    }
}
