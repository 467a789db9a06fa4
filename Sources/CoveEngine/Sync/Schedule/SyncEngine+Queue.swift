internal import CoveCore
internal import Synchronization

/// Starting what the schedule chooses, and telling it what became of it.
extension SyncEngine {
    /// How long a row rests that was blocked by what changed since it was chosen.
    private static let blockedRest = TimeSpan.milliseconds(20)
    /// Who has sent nothing for so long sends the next change of a file's bytes as soon as a new file.
    private static let calmTime = TimeSpan.seconds(30)

    /// Starts what can go.
    func pushReady(_ now: Timestamp) {
        guard !host.configuration.isReadOnly, !host.disk.isStuck else { return }
        guard now >= throttledUntil else { return alarm(at: throttledUntil, now: now) }
        let host = host
        let most = pushSlots(now)
        let slots = most - activeWeight
        // A large body may be sent for hours: small ones go beside it.
        let spare = most > 0 && activeSmall == 0 && host.provider.capabilities.parallelChanges > 1 ? 1 : 0
        guard slots > 0 || spare > 0 else { return }
        let configuration = host.configuration
        let holdsDeletions = holdsDeletions(now)
        let held = host.coordinator.heldNames
        var next: Timestamp?
        do throws(Errno) {
            let rows = try host.catalog.read { database throws(Errno) -> [QueueRow] in
                let forced = forcedBefore - .milliseconds(1)
                let newSettled = max(now - configuration.newSettleTime, forced)
                // The first save in a while need not wait for the next one.
                let isCalm = clock.monotonic() - lastSent > Self.calmTime
                let queue = CatalogQueue(
                    host: host,
                    database: database,
                    settled: settled(now),
                    newSettled: newSettled,
                    contentSettled: isCalm ? newSettled : settled(now),
                    holdsDeletions: holdsDeletions,
                    departed: departed(now),
                    held: held
                )
                let rows = try schedule.pick(slots, spare: spare, from: queue, now: now) { document, needs in
                    shared.withLock { $0.reservations.begin(document, needs) }
                }
                activePushes += rows.count
                let weight = rows.reduce(0) { $0 + $1.weight }
                activeWeight += weight
                // The end of the others starts more. What is reserved is started whether or not the next time can be read.
                if weight < max(slots, 0) + spare {
                    do throws(Errno) { next = try queue.nextTime(after: now, configuration) } catch {
                        host.log.error("when the queue goes on can't be read: \(error)")
                        next = now + .seconds(1)
                    }
                }
                return rows
            }
            if let failure = schedule.takeFailure() {
                host.log.error("what the catalog has of a row of the queue can't be read: \(failure)")
            }
            for row in rows {
                noteOvertaken(by: row)
                host.catalog.touches.add(row.document)
                start(row)
            }
            let isStill = rows.isEmpty && activePushes == 0
            if isStill, next == nil && schedule.nextRest == nil || now - lastRevival > .seconds(60) {
                lastRevival = now
                try reviveQueue()
            }
        } catch {
            host.log.error("the queue can't be read: \(error)")
            next = now + .seconds(1)
        }
        if let rest = schedule.nextRest { next = min(next ?? rest, rest) }
        if schedule.isCut { next = min(next ?? .distantFuture, now + Schedule.cutRest) }
        if let next { alarm(at: max(next, now + .milliseconds(1)), now: now) }
    }

    /// How many of the operations that go on send no large body.
    private var activeSmall: Int {
        activePushes - (activeWeight - activePushes) / (PushLimit.largeWeight - 1)
    }

    /// What was changed up to this moment has settled.
    func settled(_ now: Timestamp) -> Timestamp {
        max(now - host.configuration.settleTime, forcedBefore - .milliseconds(1))
    }

    /// The names whose document may still be taken over.
    private func departed(_ now: Timestamp) -> (entries: [Int64: Place], trash: [Int64: Place]) {
        guard !host.namespace.tombstones.isEmpty else { return ([:], [:]) }
        let changes = host.context.localChanges.load(ordering: .relaxed)
        if changes != knownDeparted.changes || (now - knownDeparted.time).magnitude > .seconds(1) {
            knownDeparted = (now, changes, host.namespace.tombstones.waiting())
        }
        return knownDeparted.rows
    }

    private func start(_ row: QueueRow) {
        Task {
            let began = clock.monotonic()
            switch row.key {
            case .entry(let id): await self.push(id, row)
            case .trash(let id): await self.deleteRemotely(id, row)
            }
            // What every push counts for is taken off with its reservation.
            activeWeight -= row.weight - 1
            pushPace.ended(after: clock.monotonic() - began, at: host.journalTime())
            self.endPush(row.document)
        }
    }

    /// A row came to an end, whatever it was.
    func noteProgress(_ row: QueueRow) {
        eager[row.key] = nil
        looks[row.document] = nil
        lastSent = clock.monotonic()
        shared.withLock { $0.sent &+= 1 }
        pushLimit.succeeded(upTo: host.provider.capabilities.parallelChanges)
    }

    /// Nothing can go and nothing will: rows that wait for a folder which does not wait itself are put right.
    private func reviveQueue() throws(Errno) {
        let host = host
        let isHeld = try host.catalog.read { database throws(Errno) in
            try database.first("SELECT 1 FROM journal WHERE held > 0 AND held <> 2 LIMIT 1", read: { _ in true })
                ?? false
        }
        guard isHeld else { return }
        let count = try host.catalog.write { database throws(Errno) in try database.reviveHeld() }
        host.log.info("nothing could be sent: \(count) rows were put right")
        if count > 0 { wake() }
    }

    /// How many pushes may go on: few or none while programs change much, which they are not to be slowed in.
    private func pushSlots(_ now: Timestamp) -> Int {
        pushPace.count(host.context.localChanges.load(ordering: .relaxed), at: now)
        let slots = pushPace.slots(of: pushLimit.count, at: now, forcedBefore: forcedBefore)
        if let next = pushPace.nextTime(after: now) { alarm(at: next, now: now) }
        return slots
    }

    /// The brake: true while there are so many deletions, at once or in portions, that a person is to be asked.
    ///
    /// What is held stays so, whatever time passes.
    private func holdsDeletions(_ now: Timestamp) -> Bool {
        // Counting them takes time where they are many.
        let changes = host.context.localChanges.load(ordering: .relaxed)
        if now >= lastBrake.time, now - lastBrake.time < .milliseconds(100), changes == lastBrake.changes {
            return lastBrake.holds
        }
        let (catalog, approved) = (host.catalog, approvedDeletions)
        if now - lateDeletions.since > SyncEngine.brakeTime, !lastBrake.holds { lateDeletions = (now, 0) }
        let count: Int
        var holds = false
        do throws(Errno) {
            count = try catalog.read { database throws(Errno) in try database.pendingDeletions(since: approved) }
            // Those of earlier portions were there too.
            let sum = count + lateDeletions.count
            if count > 0, sum > SyncEngine.deletionBrake {
                holds = try !catalog.read { database throws(Errno) in try database.hasUploaded(atLeast: sum) }
            }
        } catch {
            // What can't be counted may be many.
            host.log.error("the deletions that wait can't be counted: \(error)")
            alarm(at: now + .seconds(1), now: now)
            return true
        }
        shared.withLock { $0.heldDeletions = holds ? count : 0 }
        lastBrake = (now, changes, holds)
        return holds
    }

    /// The provider has deleted something: with what follows it may be so much that a person is to be asked.
    func noteSent(deletion row: TrashRow) {
        host.counters.deletions.add(1, ordering: .relaxed)
        if row.deleted > approvedDeletions { lateDeletions.count += 1 }
        // Until now it may have been counted as waiting, too.
        lastBrake.time = .distantPast
    }

    /// Has a row looked at again after a while, without a commit where that can be.
    func postpone(_ row: QueueRow, _ pause: TimeSpan, _ reason: WaitReason) {
        var pause = pause
        if pause <= .zero {
            // At once; but what that leads nowhere takes no more and more turns.
            if eager.count > 256 { eager = [:] }
            let times = eager[row.key, default: 0] + 1
            eager[row.key] = times
            guard times > 5 else { return }
            pause = min(SyncEngine.blockedRest.doubled(times - 5), .seconds(5))
        }
        let due = host.journalTime() + pause
        guard !schedule.rest(row, until: due, reason) else { return }
        try? host.catalog.write { database throws(Errno) in
            switch row.key {
            case .entry(let id): try database.postpone(id, retry: due)
            case .trash(let id): try database.postponeTrash(id, retry: due)
            }
        }
    }

    /// What was chosen can't go after all: something has changed since.
    func block(_ row: QueueRow) { postpone(row, SyncEngine.blockedRest, .otherChange) }

    /// The source asks for patience: everything rests, and nothing counts as failed.
    func throttle(_ row: QueueRow, _ pause: TimeSpan?) {
        let now = host.journalTime()
        let pause = min(max(pause ?? .seconds(1), .milliseconds(100)), SyncEngine.longestPause)
        throttledUntil = max(throttledUntil, now + pause)
        pushLimit.refused(now)
        postpone(row, pause, .throttled)
        alarm(at: throttledUntil, now: now)
    }
}

extension Database {
    /// Has folders wait that others wait for, and puts right who waits for what; returns how many rows that changed.
    func reviveHeld() throws(Errno) -> Int {
        var count = try change(
            """
            INSERT OR IGNORE INTO journal(entry, changed, attempts, retry, sent)
            SELECT DISTINCT p.id, 0, 0, 0, 0 FROM journal j JOIN entries e ON e.id = j.entry
                JOIN entries p ON p.item = e.parent
            WHERE j.held = 1 AND p.remote_id IS NULL AND p.flags & 1 = 0
            """,
            []
        )
        // A folder that stays here keeps all below it: a level each time.
        for _ in 0..<64 {
            let changed = try change(
                """
                UPDATE journal SET held = (SELECT p.held FROM journal_places p WHERE p.entry = journal.entry)
                WHERE entry IN
                    (SELECT p.entry FROM journal j JOIN journal_places p ON p.entry = j.entry WHERE p.held <> j.held)
                """,
                []
            )
            count += changed
            if changed == 0 { break }
        }
        return count
    }
}
