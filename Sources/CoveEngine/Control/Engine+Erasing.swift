public import CoveCore
internal import Synchronization

/// Erasing all that an account holds, on all devices.
extension Engine {
    /// Leaves a note at the provider by which all devices know that everything is meant to go.
    ///
    /// Throws `ENOTSUP` where the provider can't keep one, `EHOSTUNREACH` without it, and `EBUSY` while that goes on already.
    public func beginErasure() async throws(Errno) {
        try requireWritable()
        guard syncEngine?.isConnected == true else { throw .hostUnreachable }
        guard provider.capabilities.erases else { throw .notSupported }
        let erasure = Erasure(token: "\(DocumentID.random())", time: clock.now())
        // Whoever finds this takes the note back.
        try await onQueue { [self] () throws(Errno) in
            try catalog.write(durable: true) { database throws(Errno) in
                try erasure.begin(database)
            }
        }
        do throws(Errno) {
            try await leave(erasure.note)
            try await onQueue { [self] () throws(Errno) in
                try catalog.write { database throws(Errno) in
                    try database.setMeta(Erasure.key, erasure.kept(since: clock.now()))
                }
                try access.noteErasing(true)
            }
        } catch {
            await abandonErasure()
            throw error
        }
    }

    private func leave(_ note: [UInt8]) async throws(Errno) {
        counters.providerRequests.add(1, ordering: .relaxed)
        do throws(ProviderError) { try await provider.noteErasure(note) } catch { throw error.errno }
    }

    /// What was begun and not finished is given up: from now on devices ask again before they delete much.
    public func abandonErasure() async {
        let wasOpen = try? await onQueue { [access, catalog] () throws(Errno) -> Bool in
            try access.noteErasing(false)
            return try catalog.write(durable: true) { database throws(Errno) in
                try Erasure.giveUp(database)
            }
        }
        if wasOpen == true { await syncEngine?.withdrawErasure() }
    }

    /// When all documents are gone, deletes what is kept of them here and at the provider; how many were in the trash.
    ///
    /// Throws `ENOTEMPTY` while the provider has documents.
    public func finishErasure() async throws(Errno) -> Int {
        let left = try await onQueue { [self] () throws(Errno) in
            try catalog.read { database throws(Errno) in
                try database.first("SELECT count(*) FROM entries WHERE remote_id IS NOT NULL") { $0.int(0) }
            }
        }
        guard left == 0 else { throw .notEmpty }
        guard syncEngine?.isConnected == true else { throw .hostUnreachable }
        let count = await emptyTrash(olderThan: nil)
        await syncEngine?.dropAllVersions()
        context.news.setSilent(true)
        defer { context.news.setSilent(false) }
        await syncEngine?.endLeaving()
        do throws(ProviderError) {
            counters.providerRequests.add(1, ordering: .relaxed)
            try await provider.eraseRest()
        } catch {
            throw error.errno
        }
        try await onQueue { [access, catalog] () throws(Errno) in
            try access.noteErasing(false)
            try catalog.write(durable: true) { database throws(Errno) in try database.setMeta(Erasure.openKey, nil) }
        }
        return count
    }

    /// True where this device has not known the account before.
    static func isFirstStart(_ catalog: Catalog) throws(Errno) -> Bool {
        try catalog.read { database throws(Errno) in try database.meta(Erasure.firstKey) == nil }
    }

    /// Notes since when this device knows the account: it took no part in an erasure before.
    static func noteFirstStart(_ catalog: Catalog, _ now: Timestamp) throws(Errno) {
        try catalog.write { database throws(Errno) in
            try database.setMeta(Erasure.firstKey, Array(String(now.seconds).utf8))
        }
    }
}
