internal import CoveCore
internal import Synchronization

/// Removing content files that a death left between a commit and what was to follow it.
extension Contents {
    /// Goes through all content files, on the content queue; what a stop leaves undone is done after the next start.
    func sweepContent() {
        do throws(Errno) {
            try store.forEach { id throws(Errno) in
                // Before the stop's last commit: another engine may use the folder after it.
                try leavings.sweeping.withLock { mayGoOn throws(Errno) in
                    guard mayGoOn else { throw .cancelled }
                    try sweep(id)
                }
            }
            try catalog.write { database throws(Errno) in try database.setMeta(Recovery.sweepKey, nil) }
        } catch {
            log.debug("content files are looked at again after the next start: \(error)")
        }
    }

    /// Ends a sweep that is going on.
    func stopSweeping() { leavings.sweeping.withLock { $0 = false } }

    private func sweep(_ id: ItemID) throws(Errno) {
        let residency = try catalog.read { database throws(Errno) in
            try database.first("SELECT state FROM items WHERE id = ?", .item(id)) { Residency(rawValue: $0.int(0)) }
        }
        switch residency {
        // Ids are never used again.
        case nil: store.remove(id)
        case .dataless??: removeEvicted(id)
        case .whole??, .partial??, .some(nil): break
        }
    }
}
