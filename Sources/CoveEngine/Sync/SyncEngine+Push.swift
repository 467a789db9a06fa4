internal import CoveCore
internal import Synchronization

/// Sending what differs from what the provider has acknowledged.
extension SyncEngine {
    /// What became of a push.
    enum PushResult {
        /// Nothing differs any more, or it was sent.
        case done
        /// Look again after so many milliseconds.
        case later(Int64)
        /// It did not work out; look again after so many milliseconds, and count the attempt.
        case retry(after: Int64)
        /// Something else must be sent first; it was asked for.
        case blocked
        case failed(ProviderError)
    }

    /// Starts pushes of what has settled, oldest change first.
    func pushReady(_ now: Int64) {
        let slots = pushSlots(now)
        guard activePushes < slots, !engine.configuration.isReadOnly, !engine.disk.isStuck else { return }
        let settle = engine.configuration.settleTime.milliseconds
        let catalog = engine.catalog
        let held = engine.tombstones.waiting()
        var earliest = Int64.max
        try? catalog.read { database throws(Errno) in
            try database.eachReady(now: now) { row in
                guard activePushes < slots else { return false }
                let due = row.changed < forcedBefore ? 0 : row.changed + settle
                guard due <= now else {
                    // The rest changed later.
                    earliest = min(earliest, due)
                    return false
                }
                if let key = held.entries[row.entry], isBeingRewritten(key) {
                    earliest = min(earliest, now + 200)
                    return true
                }
                guard beginPush(row.document) else { return true }
                Task { await self.push(row) }
                return true
            }
            if let retry = try database.nextRetry(after: now) { earliest = min(earliest, retry) }
        }
        pushTrash(now, settle: settle, held: held.trash, &earliest)
        if earliest != .max { alarm(at: earliest, now: now) }
    }

    /// How many pushes may go on: none while programs change much, which they are not to be slowed in, and after ten
    /// seconds of that, or when a person asked for it, one.
    private func pushSlots(_ now: Int64) -> Int {
        if now - lastActivity.time >= 100 {
            let count = engine.localChanges.load(ordering: .relaxed)
            let isHigh = count - lastActivity.count > 50
            lastActivity = (now, count, isHigh ? lastActivity.highSince ?? now : nil)
        }
        guard let since = lastActivity.highSince else { return SyncEngine.parallelPushes }
        guard now - since < 10_000, forcedBefore < since else { return 1 }
        alarm(at: now + 150, now: now)
        return 0
    }

    /// True while a file that may take over a departed document's name is being written.
    func isBeingRewritten(_ key: Place) -> Bool {
        let engine = engine
        let entry = try? engine.catalog.read { database throws(Errno) in try database.entry(key.parent, key.name) }
        guard let found = entry, !found.isUploaded else { return false }
        return engine.live.isWritable(found.item)
    }

    private func push(_ journal: JournalRow) async {
        let result = await attempt(journal)
        let engine = engine
        switch result {
        case .done: break
        case .later(let milliseconds):
            let retry = engine.milliseconds() + milliseconds
            try? engine.catalog.write { database throws(Errno) in
                try database.postpone(journal.entry, attempts: journal.attempts, retry: retry, error: journal.error)
            }
        case .retry(let milliseconds):
            let retry = engine.milliseconds() + milliseconds
            try? engine.catalog.write { database throws(Errno) in
                try database.postpone(journal.entry, attempts: journal.attempts + 1, retry: retry, error: journal.error)
            }
        case .blocked:
            let retry = engine.milliseconds() + Int64.random(in: 20...200)
            try? engine.catalog.write { database throws(Errno) in
                try database.postpone(journal.entry, attempts: journal.attempts, retry: retry, error: journal.error)
            }
        case .failed(.cancelled): break
        case .failed(let error) where error.parksAccount: disconnect(error)
        case .failed(let error):
            let retry = backoff(attempts: journal.attempts)
            engine.log.info("entry \(journal.entry): sending failed: \(error)")
            try? engine.catalog.write { database throws(Errno) in
                try database.postpone(
                    journal.entry,
                    attempts: journal.attempts + 1,
                    retry: retry,
                    error: "\(error)"
                )
            }
            alarm(at: retry, now: engine.milliseconds())
        }
        endPush(journal.document)
    }

    private func attempt(_ journal: JournalRow) async -> PushResult {
        do throws(ProviderError) {
            guard let plan = try await plan(journal) else { return .done }
            if let unanswered = plan.unanswered {
                try await takeUp(unanswered)
                return .later(0)
            }
            if let obstacle = plan.obstacle { return try await clear(obstacle) }
            return try await send(plan)
        } catch .failed(_, .wouldBlock) {
            return .blocked
        } catch .failed(_, .stale) {
            // A save gave the document another item meanwhile.
            return .later(20)
        } catch .noSuchItem where journal.attempts < 5 {
            // What was in the way, or was to be compared, went away meanwhile.
            return .retry(after: 100)
        } catch .busy where journal.attempts < 8 {
            // Somebody holds a lock there, which ends by itself.
            return .retry(after: 250 << min(journal.attempts, 5))
        } catch {
            return .failed(error)
        }
    }

    func move(
        _ item: RemoteReference,
        _ base: ContentVersion?,
        _ directory: RemoteReference,
        _ name: FileName
    ) async throws(ProviderError) -> RemoteItem {
        engine.counters.providerRequests.add(1, ordering: .relaxed)
        return try await engine.provider.move(item, base: base, to: directory, name: name)
    }

    private func send(_ plan: PushPlan) async throws(ProviderError) -> PushResult {
        engine.log.debug(
            "sending \(plan.entry.document) \(plan.directory.path)/\(FileName(unchecked: plan.entry.name)), "
                + "at the provider \(plan.current.map { "\($0.path)" } ?? "new")"
        )
        guard let current = plan.current else { return try await create(plan) }
        if plan.entry.isMoved {
            try await beginUnderway(UnderwayRow(plan.entry, to: plan.entry.place, plan.row))
            do throws(ProviderError) {
                let moved = try await move(current, nil, plan.directory, FileName(unchecked: plan.entry.name))
                engine.counters.moves.add(1, ordering: .relaxed)
                try await acknowledgeMove(
                    of: plan.entry,
                    isDirectory: plan.row.kind == .directory,
                    moved,
                    to: plan.entry.parent,
                    FileName(unchecked: plan.entry.name),
                    from: current.path
                )
                return .later(0)
            } catch .filenameCollision(let other) {
                return try await collide(plan, with: other)
            } catch .noSuchItem {
                return try await recreate(plan)
            } catch .conflict {
                // Another document has its old name now.
                return try await recreate(plan)
            }
        }
        let hasContent = plan.row.kind == .file && plan.entry.hasUnsentContent(generation: plan.row.generation)
        return try await modify(plan, current, hasContent: hasContent)
    }

    /// Records what is about to be sent; durably, for the power may fail before its answer is.
    private nonisolated func record(underway row: UnderwayRow) throws(Errno) {
        try engine.catalog.write(durable: true) { database throws(Errno) in try database.beginUnderway(row) }
    }

    private func beginUnderway(_ row: UnderwayRow) async throws(ProviderError) {
        try await engine.onContentQueue { () throws(Errno) in try self.record(underway: row) }
    }

    private func create(_ plan: PushPlan) async throws(ProviderError) -> PushResult {
        let template = ItemTemplate(kind: plan.row.kind, metadata: plan.metadata, linkTarget: plan.row.target)
        let name = FileName(unchecked: plan.entry.name)
        let provider = engine.provider
        do throws(ProviderError) {
            return try await withContent(plan) { source throws(ProviderError) in
                try await provider.create(template, name: name, in: plan.directory, content: source)
            }
        } catch .filenameCollision(let other) {
            return try await collide(plan, with: other)
        } catch .noSuchItem {
            // Its directory has moved or is gone there; the change feed tells more.
            requestPoll()
            if plan.attempts < 3 { return .retry(after: 200) }
            throw .failed("its folder is no longer at the source; it is looked for again", nil)
        }
    }

    private func modify(
        _ plan: PushPlan,
        _ current: RemoteReference,
        hasContent: Bool
    ) async throws(ProviderError) -> PushResult {
        let base = plan.entry.remoteVersion ?? ContentVersion([])
        let provider = engine.provider
        do throws(ProviderError) {
            if hasContent {
                return try await withContent(plan) { source throws(ProviderError) in
                    try await provider.modify(current, base: base, metadata: plan.metadata, content: source)
                }
            }
            engine.counters.providerRequests.add(1, ordering: .relaxed)
            let remote = try await provider.modify(current, base: base, metadata: plan.metadata, content: nil)
            try await acknowledge(plan, remote, generation: nil, bytes: nil)
            return .done
        } catch .conflict(let other) {
            guard hasContent else {
                // Only dates or permissions: the newer bytes come in first, then these are sent again.
                requestPoll()
                if let other { enqueue([.updated(other, directory: current.path.parent)], seen: 0) }
                return .later(500)
            }
            return try await conflict(plan, current, with: other)
        } catch .noSuchItem {
            return try await recreate(plan)
        }
    }

    /// Sends bytes from a snapshot, and acknowledges what was sent if nothing changed meanwhile.
    private func withContent(
        _ plan: PushPlan,
        _ send: @Sendable ((any ContentSource)?) async throws(ProviderError) -> RemoteItem
    ) async throws(ProviderError) -> PushResult {
        let engine = engine
        let entry = plan.entry.id
        guard plan.row.kind == .file else {
            engine.counters.providerRequests.add(1, ordering: .relaxed)
            try await beginUnderway(UnderwayRow(plan.entry, to: plan.entry.place, plan.row))
            let remote = try await send(nil)
            try await acknowledge(plan, remote, generation: plan.row.generation, bytes: nil)
            return .done
        }
        // A program still reads the bytes that these would replace.
        if engine.departing.needs(plan.entry.document) { return .later(500) }
        let rest = try await engine.onContentQueue { () throws(Errno) in try engine.databaseRest(beside: plan.entry) }
        if rest > 0 { return .later(rest) }
        let progress = shared.withLock { $0.claims.progress(of: plan.entry.document) } ?? PushProgress()
        let outcome = try await engine.onContentQueue { () throws(Errno) in
            let outcome = try engine.beginSnapshot(
                plan.row.id,
                for: entry,
                of: plan.entry.document,
                progress: progress
            )
            guard case .ready(let source, let generation, let size) = outcome else { return outcome }
            var sent = UnderwayRow(plan.entry, to: plan.entry.remotePlace, plan.row)
            (sent.item, sent.generation, sent.size) = (plan.row.id, generation, size)
            do throws(Errno) {
                try self.record(underway: sent)
            } catch {
                engine.endSnapshot(source)
                throw error
            }
            return outcome
        }
        switch outcome {
        case .busy(let milliseconds): return .later(max(milliseconds, 20))
        case .incomplete:
            do throws(Errno) {
                try await engine.materialize(plan.row.id)
            } catch {
                throw .failed("its base version can't be fetched (\(error)); its changes stay here", nil)
            }
            return .later(0)
        case .ready(let source, let generation, let size):
            defer { engine.endSnapshot(source) }
            engine.counters.providerRequests.add(1, ordering: .relaxed)
            let remote: RemoteItem
            do throws(ProviderError) {
                remote = try await send(source)
            } catch {
                if error == .cancelled { return .later(0) }
                throw error
            }
            try await acknowledge(plan, remote, generation: generation, bytes: size)
            return .done
        }
    }
}
