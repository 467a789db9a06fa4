internal import CoveCore
internal import Synchronization

/// Sending what differs from what the provider has acknowledged.
extension SyncEngine {
    /// What became of a push.
    enum PushResult {
        /// Nothing differs any more, or it was sent.
        case done
        /// Look again after so long; what is in the way until then.
        case later(TimeSpan, because: WaitReason = .beingChanged)
        /// It did not work out; look again after so long, and count the attempt.
        case retry(after: TimeSpan)
        /// Something else has come in the way since it was chosen.
        case blocked
        case failed(ProviderError)
    }

    /// Sends one row of the journal, whose document is reserved.
    func push(_ id: Int64, _ row: QueueRow) async {
        let host = host
        let found = try? host.catalog.read { database throws(Errno) in try database.journalRow(id) }
        guard let journal = found ?? nil else { return }
        // It has another document's identity since it was chosen, which is not the one that is reserved.
        guard journal.document == row.document else { return block(row) }
        let result = await attempt(journal)
        switch result {
        case .done: noteProgress(row)
        case .later(let pause, let reason): postpone(row, pause, reason)
        case .blocked: block(row)
        case .retry(let pause):
            let retry = host.journalTime() + pause
            try? host.catalog.write { database throws(Errno) in
                try database.postpone(journal.entry, attempts: journal.attempts + 1, retry: retry, error: journal.error)
            }
        case .failed(.cancelled): break
        case .failed(.throttled(let pause)): throttle(row, pause)
        case .failed(let error) where error.parksAccount: disconnect(error)
        case .failed(let error):
            if error == .timedOut { pushLimit.refused(host.journalTime()) }
            let retry = backoff(attempts: journal.attempts)
            host.log.info("entry \(journal.entry): sending failed: \(error)")
            try? host.catalog.write { database throws(Errno) in
                try database.postpone(
                    journal.entry,
                    attempts: journal.attempts + 1,
                    retry: retry,
                    error: "\(error)"
                )
            }
        }
    }

    private func attempt(_ journal: JournalRow) async -> PushResult {
        do throws(ProviderError) {
            guard let plan = try await plan(journal) else { return .done }
            if let unanswered = plan.unanswered {
                let isOther = unanswered.document != plan.entry.document
                if isOther, !beginPush(unanswered.document) { return .blocked }
                defer { if isOther { endPush(unanswered.document) } }
                try await takeUp(unanswered, for: plan.entry.document)
                return .later(.zero)
            }
            if let obstacle = plan.obstacle { return try await clear(obstacle, for: plan.entry.document) }
            return try await send(plan)
        } catch .failed(_, .wouldBlock) {
            return .blocked
        } catch .failed(_, .stale) {
            // A save gave the document another item meanwhile.
            return .later(.milliseconds(20))
        } catch .noSuchItem where journal.attempts < 5 {
            // What was in the way, or was to be compared, went away meanwhile.
            return .retry(after: .milliseconds(100))
        } catch .busy where journal.attempts < 8 {
            // Somebody holds a lock there, which ends by itself.
            return .retry(after: .milliseconds(250).doubled(min(journal.attempts, 5)))
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
        host.counters.providerRequests.add(1, ordering: .relaxed)
        return try await host.provider.move(item, base: base, to: directory, name: name)
    }

    private func send(_ plan: PushPlan) async throws(ProviderError) -> PushResult {
        host.log.debug(
            "sending \(plan.entry.document) \(plan.directory.path)/\(FileName(unchecked: plan.entry.name)), "
                + "at the provider \(plan.current.map { "\($0.path)" } ?? "new")"
        )
        if let result = try await takeFromSource(plan) { return result }
        guard var current = plan.current else {
            // Where the directory is gone in which it was, only what is here as a whole can be made anew; what this device has
            // hidden there may be found with the directory.
            let isInPart = plan.row.kind == .file && plan.row.residency != .whole
            if plan.entry.isUploaded, isInPart || plan.entry.isHiddenThere {
                return try await recreate(plan)
            }
            return try await create(plan)
        }
        if plan.entry.isMoved {
            try await beginUnderway(UnderwayRow(plan.entry, to: plan.entry.place, plan.row))
            do throws(ProviderError) {
                // Another device's file may have the directory's old name by now, or its directory that of the file.
                let base: ContentVersion? = plan.row.kind == .directory ? .directory : nil
                current.isFile = plan.row.kind != .directory
                let moved = try await move(current, base, plan.directory, FileName(unchecked: plan.entry.name))
                host.counters.moves.add(1, ordering: .relaxed)
                try await acknowledgeMove(
                    of: plan.entry,
                    isDirectory: plan.row.kind == .directory,
                    moved,
                    to: plan.entry.parent,
                    FileName(unchecked: plan.entry.name),
                    from: current.path
                )
                return .later(.zero)
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

    /// Records what is about to be sent; durably where bytes or places are, for the power may fail before its answer is.
    nonisolated func record(underway row: UnderwayRow, isDurable: Bool = true) throws(Errno) {
        try host.catalog.write(durable: isDurable) { database throws(Errno) in
            // It may have left the cloud since it was planned, or have become the bytes of something that stays here.
            guard let entry = try database.entry(document: row.document) else { throw .wouldBlock }
            if try self.host.namespace.isKeptOut(entry, database) { throw .wouldBlock }
            // It has other bytes since, which may be only at the provider by now: these must not replace them.
            if let item = row.item, item != entry.item { throw .wouldBlock }
            try database.beginUnderway(row)
        }
    }

    private func beginUnderway(_ row: UnderwayRow, isDurable: Bool = true) async throws(ProviderError) {
        try await host.onContentQueue { () throws(Errno) in try self.record(underway: row, isDurable: isDurable) }
    }

    private func create(_ plan: PushPlan) async throws(ProviderError) -> PushResult {
        let template = ItemTemplate(kind: plan.row.kind, metadata: plan.metadata, linkTarget: plan.row.target)
        let name = FileName(unchecked: plan.entry.name)
        let provider = host.provider
        do throws(ProviderError) {
            return try await withContent(plan) { source throws(ProviderError) in
                try await provider.create(template, name: name, in: plan.directory, content: source)
            }
        } catch .filenameCollision(let other) {
            return try await collide(plan, with: other)
        } catch .noSuchItem {
            return try restBeforeFolder(of: plan)
        }
    }

    private func modify(
        _ plan: PushPlan,
        _ current: RemoteReference,
        hasContent: Bool
    ) async throws(ProviderError) -> PushResult {
        let base = plan.entry.remoteVersion ?? ContentVersion([])
        let provider = host.provider
        do throws(ProviderError) {
            if hasContent {
                return try await withContent(plan) { source throws(ProviderError) in
                    try await provider.modify(current, base: base, metadata: plan.metadata, content: source)
                }
            }
            // A date may be a part of the version: without an answer nobody knows what the bytes there are called then.
            if host.provider.capabilities.stableIDs, plan.row.kind == .file {
                let row = UnderwayRow(plan.entry, to: plan.entry.remotePlace, plan.row)
                // After a power failure it may pass for another device's change, which loses nothing.
                try await beginUnderway(row, isDurable: false)
            }
            host.counters.providerRequests.add(1, ordering: .relaxed)
            let remote = try await provider.modify(current, base: base, metadata: plan.metadata, content: nil)
            return try await acknowledge(plan, remote, generation: nil, bytes: nil)
        } catch .conflict(let other) {
            guard hasContent else {
                // Only dates or permissions: the newer bytes come in first, then these are sent again.
                requestPoll()
                if let other { enqueue([.updated(other, directory: current.path.parent)], seen: .distantPast) }
                return .later(.milliseconds(500))
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
        let host = host
        let entry = plan.entry.id
        guard plan.row.kind == .file else {
            host.counters.providerRequests.add(1, ordering: .relaxed)
            try await beginUnderway(UnderwayRow(plan.entry, to: plan.entry.place, plan.row))
            let remote = try await send(nil)
            return try await acknowledge(plan, remote, generation: plan.row.generation, bytes: nil)
        }
        // A program still reads the bytes that these would replace.
        if host.contents.departing.needs(plan.entry.document) {
            return .later(.milliseconds(500), because: .stillRead)
        }
        let rest = try await host.onContentQueue { () throws(Errno) in try host.databaseRest(beside: plan.entry) }
        if rest > .zero { return .later(rest, because: .databaseLog) }
        let progress =
            shared.withLock { $0.reservations.progress(of: plan.entry.document) }
            ?? PushProgress(started: clock.monotonic())
        let outcome = try await host.onContentQueue { () throws(Errno) in
            let outcome = try host.beginSnapshot(
                plan.row.id,
                for: entry,
                of: plan.entry.document,
                progress: progress
            )
            guard case .ready(let source, let generation, let size) = outcome else { return outcome }
            var sent = UnderwayRow(plan.entry, to: plan.entry.remotePlace, plan.row)
            (sent.item, sent.generation, sent.size) = (plan.row.id, generation, size)
            sent.sum = source.sum()
            do throws(Errno) {
                // A write came since this was planned: what was sent before may have arrived, and is looked for first.
                let before = try host.catalog.read { database throws(Errno) in
                    try database.underway(plan.entry.document)
                }
                if let before, before.item != nil, before.item != sent.item || before.generation != generation {
                    host.endSnapshot(source)
                    return .busy(.zero)
                }
                try self.record(underway: sent)
            } catch {
                host.endSnapshot(source)
                throw error
            }
            return outcome
        }
        switch outcome {
        case .busy(let pause):
            return .later(max(pause, .milliseconds(20)), because: .openOrClaimed)
        case .incomplete:
            do throws(Errno) {
                try await host.contents.materialize(plan.row.id)
            } catch {
                if error == .stale { return try await endWithoutBase(plan) }
                throw .failed("its base version can't be fetched (\(error)); its changes stay here", nil)
            }
            return .later(.zero)
        case .ready(let source, let generation, let size):
            defer { host.endSnapshot(source) }
            host.counters.providerRequests.add(1, ordering: .relaxed)
            let remote: RemoteItem
            host.context.note(.send, plan.row.id, nil, "\(size) bytes")
            do throws(ProviderError) {
                remote = try await send(source)
            } catch {
                if error == .cancelled {
                    host.context.note(.stop, plan.row.id)
                    return .later(.zero)
                }
                host.context.note(.fail, plan.row.id, nil, "\(error)")
                throw error
            }
            host.context.note(.sent, plan.row.id)
            return try await acknowledge(plan, remote, generation: generation, bytes: size)
        }
    }
}
