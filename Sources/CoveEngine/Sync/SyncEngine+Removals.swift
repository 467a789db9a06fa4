internal import CoveCore
internal import Synchronization

/// Taking in that documents are gone at the provider.
extension SyncEngine {
    /// Removes documents that are gone at the provider.
    func remove(_ paths: [RemotePath]) async {
        guard !paths.isEmpty else { return }
        let engine = engine
        let found = try? await engine.onContentQueue { () throws(Errno) in
            try engine.catalog.read { database throws(Errno) -> ([Int64], documents: Int, total: Int) in
                var entries: [Int64] = []
                var documents = 0
                for path in Set(paths) {
                    guard let name = path.name, let parent = try database.directory(atRemotePath: path.parent),
                        let entry = try database.entry(remoteParent: parent, remoteName: name.bytes)
                    else { continue }
                    entries.append(entry.id)
                    documents += try self.tree(below: entry, database).count
                }
                let total = try database.first("SELECT count(*) FROM entries WHERE remote_id IS NOT NULL") { $0.int(0) }
                return (entries, documents, Int(total ?? 0))
            }
        }
        guard let (entries, documents, total) = found, !entries.isEmpty else { return }
        let now = engine.milliseconds()
        // What goes in portions counts together.
        if acceptsDeletions { lateRemovals = (now, 0) }
        if now - lateRemovals.since > SyncEngine.brakeTime { lateRemovals = (now, 0) }
        let sum = documents + lateRemovals.count
        if sum > SyncEngine.deletionBrake, sum * 2 > total + lateRemovals.count, !acceptsDeletions {
            shared.withLock { $0.heldRemovals = documents }
            engine.log.notice("the source no longer has \(documents) of \(total) documents: waiting for approval")
            // The next poll lists again, and finds them missing again.
            mustListAgain = true
            _ = try? engine.catalog.write { database throws(Errno) in try database.setMeta("anchor", nil) }
            return
        }
        shared.withLock { $0.heldRemovals = 0 }
        if !acceptsDeletions { lateRemovals.count = sum }
        acceptsDeletions = false
        for entry in entries {
            if let seen = await confirmGone(entry) { await removeTree(entry, seen: seen) }
        }
    }

    /// Asks for the name once more: what was sent since the change was noticed is not gone.
    ///
    /// Returns when the look began, nil when it is not gone.
    private func confirmGone(_ id: Int64) async -> Int64? {
        let engine = engine
        func entry() async -> EntryRow? {
            let found = try? await engine.onContentQueue { () throws(Errno) in
                try engine.catalog.read { database throws(Errno) in try database.entry(id: id) }
            }
            return found ?? nil
        }
        if let document = await entry()?.document { await waitUntilIdle(document) }
        guard let known = await entry(), known.isUploaded else { return nil }
        // Moved here too: the push finds out what became of it.
        guard !known.isMoved else {
            wake()
            return nil
        }
        let seen = System.monotonic()
        do throws(ProviderError) {
            let (found, path) = try await look(for: known.name, in: known.parent)
            guard let path else { return nil }
            guard let found else { return await entry()?.document == known.document ? seen : nil }
            await update(found, path, seen: seen)
        } catch {
            if error.parksAccount { disconnect(error) }
        }
        return nil
    }

    /// The entries of a tree, deepest first.
    private nonisolated func tree(below root: EntryRow, _ database: Database) throws(Errno) -> [EntryRow] {
        var result = [root]
        var index = 0
        while index < result.count {
            let entry = result[index]
            try database.eachEntry(of: entry.item, after: 0) { child in
                result.append(child)
                return true
            }
            index += 1
        }
        return result.reversed()
    }

    func removeTree(_ id: Int64, seen: Int64) async {
        let engine = engine
        let tree: [EntryRow]? = try? await engine.onContentQueue { () throws(Errno) in
            try engine.catalog.read { database throws(Errno) -> [EntryRow] in
                guard let entry = try database.entry(id: id) else { return [] }
                return try self.tree(below: entry, database)
            }
        }
        for entry in tree ?? [] {
            await waitUntilIdle(entry.document)
            // What was never sent stays, and keeps its directories.
            guard entry.isUploaded else { continue }
            do throws(ProviderError) {
                try await show(Transition(kind: .remove(entry: entry.id), remote: nil, seen: seen))
            } catch {
                engine.log.info("removing entry \(entry.id): \(error)")
            }
        }
    }
}
