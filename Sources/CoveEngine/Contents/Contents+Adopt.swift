internal import CoveCore
internal import Glibc
internal import Synchronization

/// Taking bytes that somebody else has for those of an item.
extension Contents {
    /// Gives an item that is not all here the bytes of a file without a name, which has been found to be of that version.
    ///
    /// False where something uses the item, or has changed it meanwhile. Nothing is sent for it, and nothing of it is fetched.
    func adopt(_ id: ItemID, _ version: ContentVersion, _ copy: Int32, size: Int64) throws(Errno) -> Bool {
        let item = live.retain(id)
        defer { live.release(id) }
        let isTaken = try item.state.withLock { state throws(Errno) -> Bool in
            var row = try load(id, &state)
            guard row.kind == .file, row.residency != .whole, row.size == size, size > 0,
                row.version.map({ $0.isSame(as: version) || version.isSame(as: $0) }) == true
            else { return false }
            state.fetching.dropAbandoned()
            guard !live.isOpen(id), !state.hasUnsavedContent, state.writesInFlight == 0, state.fetching.isIdle,
                state.fetching.waiters.isEmpty
            else { return false }
            let entries = try catalog.read { database throws(Errno) in try database.entries(of: id) }
            guard entries.count == 1, let entry = entries.first, entry.isUploaded,
                !entry.hasUnsentContent(generation: row.generation), entry.remoteVersion?.isSame(as: version) == true
            else { return false }
            // The catalog on the disk may still trust the bytes that an eviction left.
            if leavings.evicted.withLock({ $0.contains(id) }) { try catalog.syncLog() }
            if state.descriptor >= 0 { System.close(state.descriptor) }
            state.descriptor = -1
            // What was here of it is trusted no more before it goes.
            let resident = row.resident
            row.residency = .dataless
            row.resident = 0
            row.isSynced = false
            let nothing = row
            try catalog.write(durable: true) { database throws(Errno) in
                try database.saveResidency(nothing)
                try database.setRanges(RangeSet(), of: id)
                database.whenCommitted { self.cache.withLock { $0.change(by: -resident) } }
            }
            state.row = row
            state.ranges = RangeSet()
            store.remove(id)
            try store.name(copy, id)
            // Only now: what is recorded is there.
            row.residency = .whole
            state.row = row
            state.ranges = RangeSet()
            state.hasUnsavedRanges = true
            _ = state.fetching.reset()
            return true
        }
        guard isTaken else { return false }
        try save(item, closing: false)
        departing.remove(id)
        catalog.touches.add(id)
        kernel?.invalidateAttributes(of: id)
        return true
    }

    /// A copy of a file, without a name, that nobody can change: a reflink where the disk can.
    func copyForAdoption(_ file: Int32, size: Int64) throws(Errno) -> Int32 {
        try disk.requireSound()
        guard disk.hasRoom(for: size) else { throw .noSpace }
        return try store.copy(file, size: size)
    }
}
