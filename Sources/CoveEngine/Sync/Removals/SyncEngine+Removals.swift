internal import CoveCore
internal import Synchronization

/// Taking in that documents are gone at the provider.
extension SyncEngine {
    /// How long a server may take to put a file in the place of another one that it has removed.
    private static let replacement = TimeSpan.milliseconds(500)

    /// Removes documents that are gone at the provider.
    func remove(_ paths: [RemotePath]) async {
        // What is in a directory goes with it.
        let paths = Self.topmost(paths)
        guard !paths.isEmpty else { return }
        try? await forgetProblems { database throws(Errno) in
            var found: [[UInt8]] = []
            for path in paths { found += try database.problems(at: path) }
            return found
        }
        guard await lookBeside(paths) != nil else { return }
        var entries = await takeRenamed(await entries(at: paths))
        guard !entries.isEmpty, let listed = await lookInside(entries) else { return }
        if listed > 0 { entries = await takeRenamed(await self.entries(at: paths)) }
        // Those of which something is being sent are counted, and looked for, once that has ended.
        entries = await withoutBusy(entries)
        guard !entries.isEmpty, await mayRemove(entries) else { return }
        var gone: [(entry: Int64, seen: MonotonicTime)] = []
        for entry in entries {
            if let seen = await confirmGone(entry) { gone.append((entry, seen)) }
        }
        if !gone.isEmpty, !host.provider.capabilities.replacesAtOnce { gone = await stillGone(gone) }
        guard !gone.isEmpty, await isRootThere() else { return }
        for (entry, seen) in gone {
            guard let document = await removeTree(entry, seen: seen) else { continue }
            if let path = await remotePath(of: entry) { enqueueOnceIdle(.removed(path), after: document) }
        }
    }

    private func withoutBusy(_ entries: [Int64]) async -> [Int64] {
        var idle: [Int64] = []
        for entry in entries {
            if let document = await documentBeingSent(below: entry) {
                if let path = await remotePath(of: entry) { enqueueOnceIdle(.removed(path), after: document) }
            } else {
                idle.append(entry)
            }
        }
        return idle
    }

    /// A document of a tree that is being sent, and for more than a moment; nil where there is none.
    func documentBeingSent(below id: Int64) async -> DocumentID? {
        guard activePushes > 0 else { return nil }
        let host = host
        let tree: [EntryRow]? = try? await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) -> [EntryRow] in
                guard let entry = try database.entry(id: id) else { return [] }
                return try self.tree(below: entry, database)
            }
        }
        for entry in tree ?? [] where isPushing(entry.document) {
            if await !isIdleSoon(entry.document) { return entry.document }
        }
        return nil
    }

    /// The entries of documents at places of the provider; directories that are elsewhere here are looked for.
    private func entries(at paths: Set<RemotePath>) async -> [Int64] {
        let host = host
        let found = try? await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) -> (entries: [Int64], elsewhere: Set<RemotePath>) in
                var entries: [Int64] = []
                var elsewhere: Set<RemotePath> = []
                for path in paths {
                    guard let name = path.name else { continue }
                    guard let parent = try database.directory(atRemotePath: path.parent) else {
                        elsewhere.insert(path.parent)
                        continue
                    }
                    guard let entry = try database.entry(remoteParent: parent, remoteName: name.bytes) else { continue }
                    entries.append(entry.id)
                }
                return (entries, elsewhere)
            }
        }
        for path in found?.elsewhere ?? [] { await seek(path) }
        return found?.entries ?? []
    }

    /// What was wrong with names that a listing does not have any more is told no more.
    func forgetProblems(at path: RemotePath, except names: SeenNames) async throws(ProviderError) {
        try await forgetProblems { database throws(Errno) in try database.problems(in: path, except: names) }
    }

    private func forgetProblems(
        _ find: @escaping @Sendable (Database) throws(Errno) -> [[UInt8]]
    ) async throws(ProviderError) {
        let host = host
        try await host.onContentQueue { () throws(Errno) in
            let found = try host.catalog.read(find)
            guard !found.isEmpty else { return }
            try host.catalog.write { database throws(Errno) in
                for path in found { try database.forgetProblem(at: path) }
            }
        }
    }

    /// Paths that are in none of the others.
    private static func topmost(_ paths: [RemotePath]) -> Set<RemotePath> {
        let all = Set(paths)
        return all.filter { path in
            var above = path
            while !above.isRoot {
                above = above.parent
                if all.contains(above) { return false }
            }
            return true
        }
    }

    /// Asked after everything else: a server may begin to say of all that it is gone, one answer after the other.
    func isRootThere() async -> Bool {
        let failure: ProviderError
        do throws(ProviderError) {
            host.counters.providerRequests.add(1, ordering: .relaxed)
            _ = try await host.provider.list(RemoteReference(id: nil, path: .root), page: nil)
            return true
        } catch .noSuchItem {
            failure = SyncEngine.withoutRoot
        } catch {
            failure = error
        }
        mustFindMissingAgain()
        if failure.parksAccount { disconnect(failure) }
        return false
    }

    /// The next poll lists again, and finds missing again what is.
    func mustFindMissingAgain() {
        mustListAgain = true
        _ = try? host.catalog.write { database throws(Errno) in try database.setMeta("anchor", nil) }
    }

    /// The brake: false when so much is gone, at once or in portions, that a person is to be asked.
    func mayRemove(_ entries: [Int64]) async -> Bool {
        let host = host
        let counts = try? await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) -> (gone: Int, all: Int) in
                var gone = 0
                for id in entries {
                    guard let entry = try database.entry(id: id) else { continue }
                    gone += try self.tree(below: entry, database).count
                }
                // What is elsewhere now is not lost.
                let tooMany = gone - SyncEngine.deletionBrake
                if tooMany > 0 { gone -= try self.accounted(entries, enough: tooMany, database) }
                let all = try database.first("SELECT count(*) FROM entries WHERE remote_id IS NOT NULL") { $0.int(0) }
                return (gone, Int(all ?? 0))
            }
        }
        guard let (gone, all) = counts else { return false }
        let now = host.journalTime()
        if gone > 0, gone * 2 > all, await isErased() {
            hasLookedEverywhere = false
            shared.withLock { $0.heldRemovals = 0 }
            return true
        }
        if acceptsDeletions || now - lateRemovals.since > SyncEngine.brakeTime { lateRemovals = (now, 0) }
        let sum = gone + lateRemovals.count
        if sum > SyncEngine.deletionBrake, sum * 2 > all + lateRemovals.count, !acceptsDeletions {
            mustFindMissingAgain()
            // Somewhere that was not listed yet they may have come up.
            guard hasLookedEverywhere else {
                hasLookedEverywhere = true
                requestPoll()
                return false
            }
            // Those of earlier portions are gone there too.
            shared.withLock { $0.heldRemovals = sum }
            let before = all + lateRemovals.count
            host.log.notice("the source no longer has \(sum) of \(before) documents: waiting for approval")
            return false
        }
        hasLookedEverywhere = false
        shared.withLock { $0.heldRemovals = 0 }
        if !acceptsDeletions { lateRemovals.count = sum }
        return true
    }

    /// Leaves out files that were only being replaced, in two steps.
    private func stillGone(
        _ gone: [(entry: Int64, seen: MonotonicTime)]
    ) async -> [(entry: Int64, seen: MonotonicTime)] {
        let host = host
        let files = try? await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) -> Set<Int64> in
                var files: Set<Int64> = []
                for (id, _) in gone {
                    guard let entry = try database.entry(id: id) else { continue }
                    if try database.item(entry.item)?.kind == .file { files.insert(id) }
                }
                return files
            }
        }
        guard let files, !files.isEmpty else { return gone }
        do { try await Task.sleep(for: Self.replacement) } catch {
            mustFindMissingAgain()
            return []
        }
        var left: [(entry: Int64, seen: MonotonicTime)] = []
        for (entry, seen) in gone {
            guard files.contains(entry) else {
                left.append((entry, seen))
                continue
            }
            if let seen = await confirmGone(entry) { left.append((entry, seen)) }
        }
        return left
    }

    /// Asks for the name once more: what was sent since the change was noticed is not gone.
    ///
    /// Returns when the look began, nil when it is not gone.
    func confirmGone(_ id: Int64) async -> MonotonicTime? {
        let host = host
        func entry() async -> EntryRow? {
            let found = try? await host.onContentQueue { () throws(Errno) in
                try host.catalog.read { database throws(Errno) in try database.entry(id: id) }
            }
            return found ?? nil
        }
        if let document = await entry()?.document, await !isIdleSoon(document) {
            if let path = await remotePath(of: id) { enqueueOnceIdle(.removed(path), after: document) }
            return nil
        }
        guard let known = await entry(), known.isUploaded else { return nil }
        // Moved here too: the push finds out what became of it, unless it comes back before.
        guard !known.isMoved else {
            wake()
            if let path = await remotePath(of: id) { takeAgain(.removed(path)) }
            return nil
        }
        let seen = clock.monotonic()
        do throws(ProviderError) {
            let (found, path) = try await look(for: known.name, in: known.parent)
            guard let path else { return nil }
            guard let found else { return await entry()?.document == known.document ? seen : nil }
            await update(found, path, seen: seen)
        } catch {
            if let path = await remotePath(of: id) { takeAgain(.removed(path)) }
            if error.parksAccount { disconnect(error) }
        }
        return nil
    }

    /// True for a directory that is not found because the one that it is in is not there either.
    ///
    /// A folder that was renamed takes what is in it along, which is not gone: what became of the folder is found where that
    /// is looked at the next time.
    func isGoneWithParent(_ path: RemotePath) async throws(ProviderError) -> Bool {
        guard let name = path.parent.name else { return false }
        let (host, above) = (host, path.parent.parent)
        let directory = try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in try database.directory(atRemotePath: above) }
        }
        guard let directory else { return false }
        listedPages += 1
        let (found, place) = try await look(for: name.bytes, in: directory)
        guard found == nil, place == above else { return false }
        failedListings += 1
        takeAgain(.directoryChanged(above))
        return true
    }

    private func remotePath(of id: Int64) async -> RemotePath? {
        let host = host
        let found = try? await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in
                try database.entry(id: id).flatMap { entry throws(Errno) in
                    try database.remoteReference(of: entry)?.path
                }
            }
        }
        return found ?? nil
    }

    /// The entries of a tree, deepest first; what is in a directory that the provider has elsewhere is not part of it.
    private nonisolated func tree(below root: EntryRow, _ database: Database) throws(Errno) -> [EntryRow] {
        var result = [root]
        var index = 0
        while index < result.count {
            let entry = result[index]
            index += 1
            if entry.id != root.id, !entry.isUploaded || entry.isMoved { continue }
            try database.eachEntry(of: entry.item, after: 0) { child in
                result.append(child)
                return true
            }
        }
        return result.reversed()
    }

    /// Removes what is gone at the provider, with all that is in it; returns the document for which that waits, as it is being sent.
    func removeTree(_ id: Int64, seen: MonotonicTime) async -> DocumentID? {
        let host = host
        let tree: [EntryRow]? = try? await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) -> [EntryRow] in
                guard let entry = try database.entry(id: id) else { return [] }
                return try self.tree(below: entry, database)
            }
        }
        for entry in tree ?? [] {
            guard await isIdleSoon(entry.document) else {
                // It decides whether the directories above it stay.
                return entry.document
            }
            // What was never sent or comes from elsewhere stays, and keeps its directories.
            guard entry.isUploaded, !entry.isMoved else { continue }
            do throws(ProviderError) {
                let transition = Transition(kind: .remove(entry: entry.id), remote: nil, seen: seen, top: id)
                let showing = try await show(transition) { [weak self, putOff = PutOff(putOff)] in
                    Task { [weak self] in
                        if let path = await self?.remotePath(of: entry.id) {
                            self?.enqueue([.removed(path)], seen: .distantPast)
                        }
                        putOff.end()
                    }
                }
                if showing == .overtaken, let path = await remotePath(of: entry.id) { enqueueLater(.removed(path)) }
            } catch {
                host.log.info("removing entry \(entry.id): \(error)")
            }
        }
        return nil
    }
}
