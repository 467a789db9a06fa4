internal import CoveCore
internal import Glibc
internal import Synchronization

/// Content files that the disk has lost, or the end of. These functions run under the item's lock.
///
/// What stands there instead is nobody's: it is not read as zeros, and nothing is written to it that would then be sent.
extension Contents {
    /// The row of an item whose bytes are to be used: bytes that are lost and at the provider are dataless, others `EIO`.
    ///
    /// `discarding`: whoever asks needs none of them, and has the file cut to nothing. Where they are lost it is open then,
    /// and `isLost` until it is cut.
    func loadBytes(
        _ id: ItemID,
        _ state: inout LiveItem.State,
        discarding: Bool = false
    ) throws(Errno) -> ItemRow {
        let row = try load(id, &state)
        guard state.descriptor < 0, row.kind == .file, row.residency != .dataless else { return row }
        do throws(Errno) { _ = try descriptor(id, &state) } catch {
            guard let now = state.row else { throw error }
            if now.residency == .dataless { return now }
            guard discarding, state.isLost else { throw error }
            state.descriptor = try store.open(id)
            return now
        }
        return state.row ?? row
    }

    /// Whoever uses the content file next opens it, and looks whether all is there.
    ///
    /// An empty one, which was made just now, would pass for one that was cut.
    func closeContent(_ id: ItemID, _ state: inout LiveItem.State) {
        guard state.descriptor >= 0 else { return }
        if (try? System.fstat(state.descriptor))?.st_size == 0 { store.remove(id) }
        System.close(state.descriptor)
        state.descriptor = -1
    }

    /// Bytes that were here are lost: where the provider has the same, none is here any more.
    ///
    /// Returns the error for whoever needs them now.
    func noteLoss(_ id: ItemID, _ state: inout LiveItem.State) -> Errno {
        let isNews = !state.isLost
        state.isLost = true
        do throws(Errno) {
            guard !state.hasUnsavedContent, state.writesInFlight == 0, state.seen == nil else { throw .inputOutput }
            let entries = try catalog.read { database throws(Errno) in try database.entries(of: id) }
            _ = try forgetBytes(id, &state, of: entries, isWanted: true)
            // Nobody trusts it any more.
            store.remove(id)
            state.isLost = false
            log.error("item \(id): the disk has lost bytes of its content file; they are fetched again")
            contentQueue.async { [self] in kernel?.invalidateAttributes(of: id) }
        } catch {
            if isNews {
                log.error("item \(id): the disk has lost bytes of its content file, which only this device had")
            }
        }
        return .inputOutput
    }

    /// Has catalog and item say that nothing of it is here; how many bytes were.
    ///
    /// Throws `EBUSY` where the provider doesn't have the same, or not under these entries. It is durable at once where the
    /// bytes are still wanted.
    func forgetBytes(
        _ id: ItemID,
        _ state: inout LiveItem.State,
        of entries: [EntryRow],
        isWanted: Bool
    ) throws(Errno) -> Int64 {
        var row = try load(id, &state)
        guard let first = entries.first else { throw .busy }
        let freed = row.resident
        row.residency = .dataless
        row.version = first.remoteVersion
        row.resident = 0
        row.isSynced = false
        let saved = row
        try catalog.write(durable: isWanted) { database throws(Errno) in
            // It may have been deleted, have left the cloud, or be on its way there, since this waits for the catalog.
            let found = try database.entries(of: id)
            let isSame =
                found.count == entries.count
                && zip(found, entries).allSatisfy { entry, known in
                    entry.id == known.id && entry.document == known.document && entry.isUploaded
                        && !entry.flags.contains(.localOnly) && entry.remoteVersion == known.remoteVersion
                        && !entry.hasUnsentContent(generation: saved.generation)
                }
            guard isSame, try !database.isReplacedUnderway(found) else { throw .busy }
            try database.saveResidency(saved)
            if !isWanted { try database.endWanted(id) }
            try database.setRanges(RangeSet(), of: id)
            try database.moveVersions(of: id, to: nil)
        }
        // Whatever comes next opens the file anew, as an empty one.
        closeContent(id, &state)
        cache.withLock { $0.change(by: -freed) }
        state.row = saved
        state.ranges = RangeSet()
        state.hasUnsavedRanges = false
        state.isMarked = false
        return freed
    }
}
