internal import CoveCore
internal import Dispatch
internal import Synchronization

/// Keeps the tree and the provider in step: sends what the journal holds, and makes the provider's changes visible.
///
/// State-based: what is sent is the difference between an entry and what the provider has acknowledged of it, so
/// renames, deletions and rewrites that cancel each other out are never sent.
actor SyncEngine {
    /// A deletion of more documents than this, and of more than half of all, waits for a person.
    static let deletionBrake = 100

    /// Removals at the source within this time count as one, and so do deletions made here.
    static let brakeTime = TimeSpan.seconds(600)

    let host: SyncHost
    nonisolated var clock: EngineClock { host.clock }
    nonisolated let executor = QueueExecutor(label: "cove.sync")
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }
    /// Announcements block on the mount: a queue of their own.
    nonisolated let announceQueue = DispatchQueue(label: "cove.announce")

    /// What others may read without waiting.
    struct Shared {
        var isPaused = false
        var isConnected = false
        var reason: String?
        var heldRemovals = 0
        var heldDeletions = 0
        var quota: ProviderQuota?
        var reservations: Reservations
        var inbox: [Seen] = []
        /// Changes that are taken in once documents are not being sent any more.
        var late: Set<LateChange> = []
        /// Documents that are not sent any more, of which something may have arrived.
        var unanswered: Set<DocumentID> = []
        var isPolling = true
        /// Why bytes could not be fetched, and which.
        var failures: [ItemID: (reason: String, ranges: [Range<Int64>])] = [:]
        /// Rows that came to an end.
        var sent = 0
        var progress = Progress()
        var standstill: Standstill?
        /// Rows that others go before.
        var heldUp: [Standstill] = []
        /// Hidden items at the provider that nothing here stands for, and when they were first seen.
        var strays = Strays()
    }

    nonisolated let shared: EngineMutex<Shared>
    nonisolated let releases = ReleaseNotices()
    /// Changes that the provider told of and that only this process knows of until they are taken in.
    nonisolated let putOff = PutOffCount()
    private nonisolated let wakePending = Atomic<Bool>(false)
    private nonisolated let lookPending = Atomic<Bool>(false)

    private(set) var isStopped = false
    var connectAttempts = 0
    var nextConnect = Timestamp.epoch
    var isConnecting = false
    /// The network changed while an attempt was under way, which may wait for what is no more.
    var hasNetworkChanged = false
    var isPollingNow = false
    private var pollRequested = true
    private var timerDue = Timestamp.distantFuture
    private var signalTask: Task<Void, Never>?
    /// Changes made before this moment are sent without settling.
    var forcedBefore = Timestamp.epoch
    var acceptsDeletions = false
    /// Documents that the source lost lately, and since when they are counted.
    var lateRemovals: (since: Timestamp, count: Int) = (.epoch, 0)
    /// True once it was asked whether it was an erasure that left nothing.
    var hasAskedForErasure = false
    /// It is being looked for what became of directories that are gone.
    var isLookingAround = false
    /// So much is gone that everything was listed again before a person is asked.
    var hasLookedEverywhere = false
    /// Removals were held back: the next poll lists everything again.
    var mustListAgain = false
    /// True once it is known whether an earlier daemon had put changes off.
    var hasAskedForPutOff = false
    /// What was deleted here up to this moment a person has approved.
    var approvedDeletions = Timestamp.distantPast
    /// Other deletions that were sent lately, and since when they are counted.
    var lateDeletions: (since: Timestamp, count: Int) = (.epoch, 0)
    /// Which rows of the queue are sent when.
    var schedule = Schedule()
    /// Nothing is sent before that: the source asked for patience.
    var throttledUntil = Timestamp.epoch
    /// What was found when the deletions that wait were counted last.
    var lastBrake: (time: Timestamp, changes: Int, holds: Bool) = (.distantPast, 0, false)
    /// Who left a name lately, as of some time and number of local changes.
    var knownDeparted: (time: Timestamp, changes: Int, rows: (entries: [Int64: Place], trash: [Int64: Place])) = (
        .distantPast, -1, ([:], [:])
    )
    /// How often rows were to be looked at again at once.
    var eager: [QueueKey: Int] = [:]
    /// Rows that are not sent, and since when that is seen.
    var watched: [QueueKey: WatchedRow] = [:]
    /// How often documents were not there to be moved aside.
    var missing: [DocumentID: Int] = [:]
    /// Looks at what was sent, and never answered, that have failed.
    var unansweredLooks = UnansweredLooks()
    /// How often documents were looked for whose directories may be elsewhere.
    var looks: [DocumentID: (first: MonotonicTime, count: Int)] = [:]
    /// With so many, those are forgotten that are over.
    var looksLimit = 1000
    /// When rows that wait for a folder were put right last.
    var lastRevival = Timestamp.epoch
    var activePushes = 0
    /// What they count for.
    var activeWeight = 0
    var pushLimit = PushLimit()
    var reservationWaiters: [CheckedContinuation<Void, Never>] = []
    var endedReservations = 0
    /// Nothing is sent before the provider's changes since the last connection were taken in.
    var hasPolled = false
    /// Directories that were moved at the provider lately: changes told of their old places are not lost.
    var recentMoves: [(from: RemotePath, to: RemotePath, time: MonotonicTime)] = []
    /// Changes that could not be taken in.
    var failedLooks = FailedLooks()
    /// How much of the machine pushes may take now.
    var pushPace = PushPace()
    /// A person asked for all changes: the next poll lists every listed directory.
    var pollsEverywhere = false
    /// The last directory that was polled in its turn.
    var pollCursor: Int64 = 0
    /// When anything was sent last.
    var lastSent = MonotonicTime.distantPast
    /// What may go to looking for changes that nobody tells of.
    var budget = RequestBudget()
    /// The pages that were listed again.
    var listedPages = 0
    /// Word of other devices and for them, and what this one is called in it.
    var news = NewsState()
    var device = ""
    /// When directories whose changes are told were listed all the same, and whether that is due.
    var lastLook = Timestamp.epoch
    var mustLookAround = false
    /// Listings that did not work out, so far.
    var failedListings = 0
    /// When the last round was; at first, what an earlier daemon has dated later than now is looked for.
    private var lastRound = Timestamp.distantFuture
    /// The same by the clock that nobody sets.
    private var lastRoundByBoot: MonotonicTime?
    private var lastPoll = Timestamp.epoch
    var lastQuota = Timestamp.epoch
    private var lastExpiry = Timestamp.epoch

    init(_ host: SyncHost) {
        self.host = host
        shared = EngineMutex(.syncShared, Shared(reservations: Reservations(clock: host.clock)))
        if host.context.work.isHeld { shared.withLock { $0.isPaused = true } }
    }

    /// What statfs(2) shows.
    nonisolated var knownQuota: ProviderQuota? { shared.withLock { $0.quota } }

    /// Says that something may be ready; cheap, from any thread.
    nonisolated func wake() {
        guard !wakePending.exchange(true, ordering: .acquiringAndReleasing) else { return }
        Task { await self.round() }
    }

    /// Says that something changed here: it rests before it is sent, so one look serves all that change meanwhile.
    nonisolated func wakeSoon() {
        guard !lookPending.exchange(true, ordering: .acquiringAndReleasing) else { return }
        executor.after(min(.milliseconds(50), host.configuration.settleTime / 4)) { [weak self] in
            self?.lookPending.store(false, ordering: .releasing)
            self?.wake()
        }
    }

    func start() {
        if let signal = host.provider.changeSignal {
            signalTask = Task { [weak self] in
                for await _ in signal { await self?.requestPoll() }
            }
        }
        wake()
    }

    func stop() async {
        isStopped = true
        signalTask?.cancel()
        // Pushes that are under way end by themselves, or stay in the journal when a stalled source holds them.
        let deadline = clock.monotonic() + .seconds(5)
        while activePushes > 0 || isPollingNow, clock.monotonic() < deadline {
            await withCheckedContinuation { continuation in
                executor.after(.milliseconds(20)) { continuation.resume() }
            }
        }
        await leaveLastWord(until: clock.monotonic() + .seconds(2))
    }

    /// Asks for the provider's changes; with `listing`, compares everything listed instead.
    func requestPoll(listing: Bool = false) {
        if listing { mustListAgain = true }
        // There is a reason to look, whatever was spent before.
        budget.grant(RequestBudget.inUse)
        pollRequested = true
        shared.withLock { $0.isPolling = true }
        wake()
    }

    /// One look at everything: connects, takes remote changes in, sends what is ready, and sets the next alarm.
    func round() async {
        wakePending.store(false, ordering: .releasing)
        guard !isStopped else { return }
        let now = host.journalTime()
        heedClock(now)
        if host.context.work.isHeld { return }
        if !shared.withLock({ $0.isConnected }) {
            await connect(now)
            return
        }
        if host.context.generation.isHeld { return }
        if mustPoll {
            let due = lastPoll + host.configuration.pollInterval
            if now < due {
                alarm(at: due, now: now)
            } else if !isPollingNow {
                // The one that goes on is dated when it is over, and looks for the next one then.
                pollRequested = true
            }
        } else {
            requestLook(now)
        }
        if hasPolled { requestNews(now) }
        if !isPollingNow, pollRequested || shared.withLock({ !$0.inbox.isEmpty || $0.hasUnansweredToTakeUp }) {
            isPollingNow = true
            shared.withLock { $0.isPolling = true }
            Task { await self.pollRound() }
        }
        if hasPolled, !shared.withLock({ $0.isPaused }) { pushReady(now) }
        if now - lastExpiry > .seconds(3600) {
            lastExpiry = now
            await expireTrash(olderThan: host.configuration.trashTime)
            host.contentQueue.async { [host] in host.contents.expireVersions() }
        }
    }

    /// Everything is dated by the wall clock: when that is set back, what is dated later would wait until then.
    private func heedClock(_ now: Timestamp) {
        let boottime = host.configuration.clock.boottime()
        defer { (lastRound, lastRoundByBoot) = (now, boottime) }
        if let last = lastRoundByBoot {
            let leap = (now - lastRound) - (boottime - last)
            if leap.magnitude > Self.largestSetting { move(by: leap, at: now, since: lastRound) }
        }
        guard now < lastRound - .seconds(1) else { return }
        (nextConnect, lastPoll, lastQuota) = (min(nextConnect, now), min(lastPoll, now), min(lastQuota, now))
        (lastExpiry, lastLook) = (min(lastExpiry, now), min(lastLook, now))
        (news.asked, news.rest) = (min(news.asked, now), min(news.rest, now))
        timerDue = .distantFuture
        forcedBefore = min(forcedBefore, now)
        // What is deleted from now on may have a date from before that.
        if approvedDeletions >= now { approvedDeletions = .distantPast }
        lateDeletions.since = min(lateDeletions.since, now)
        throttledUntil = min(throttledUntil, now)
        schedule.endRests()
        try? host.catalog.write { database throws(Errno) in
            try database.run("UPDATE journal SET changed = ?1 WHERE changed > ?1", .milliseconds(now))
            try database.run("UPDATE journal SET retry = 0 WHERE retry > ?", .milliseconds(now + Self.longestPause))
            try database.run("UPDATE trash SET deleted = ?1 WHERE deleted > ?1 AND pending = 1", .milliseconds(now))
            try database.run(
                "UPDATE trash SET retry = 0 WHERE retry > ? AND pending = 1",
                .milliseconds(now + Self.longestPause)
            )
        }
    }

    /// A clock that is set by more than this had been wrong, or is now.
    private static let largestSetting = TimeSpan.seconds(86_400)

    /// When the wall clock is set, what is kept for a time has become no older and no younger by that: its dates go along.
    ///
    /// Those that the new time has given are none of these.
    private func move(by leap: TimeSpan, at now: Timestamp, since lastRound: Timestamp) {
        // By the new time, what was done between the last round and now.
        let first = leap > .zero ? lastRound + leap - .seconds(1) : .distantPast
        if approvedDeletions > .distantPast { approvedDeletions = approvedDeletions + leap }
        let values = (Database.Value.milliseconds(leap), Database.Value.milliseconds(first))
        try? host.catalog.write { database throws(Errno) in
            try database.run(
                "UPDATE trash SET deleted = deleted + ?1 WHERE deleted < ?2 OR deleted > ?3",
                values.0,
                values.1,
                .milliseconds(now)
            )
            try database.run(
                "UPDATE versions SET replaced = replaced + ?1 WHERE replaced < ?2 OR replaced > ?3",
                values.0,
                values.1,
                .milliseconds(now)
            )
        }
    }

    /// No operation rests longer between two attempts.
    static let longestPause = TimeSpan.seconds(300)

    /// Calls `round` at a time, unless an earlier call is due already.
    func alarm(at due: Timestamp, now: Timestamp) {
        guard due < timerDue || timerDue <= now else { return }
        timerDue = due
        executor.after(max(.milliseconds(1), due - now)) { [weak self] in Task { await self?.ring(due) } }
    }

    private func ring(_ due: Timestamp) {
        // The clock that rings is not the one that is asked: it may be early.
        if timerDue == due { timerDue = .distantFuture }
        wake()
    }

    private func pollRound() async {
        while !isStopped, shared.withLock({ $0.isConnected }) {
            do throws(ProviderError) {
                if try await isLeftBehind() { break }
            } catch {
                // What can't be told now is asked before anything is exchanged: nothing is until then.
                disconnect(error)
                break
            }
            let events = shared.withLock { state in
                defer { state.inbox = [] }
                return state.inbox
            }
            if !events.isEmpty { await take(events) }
            await takeUpRemoved()
            guard pollRequested else {
                if events.isEmpty { break }
                continue
            }
            pollRequested = false
            let isAccepting = acceptsDeletions
            await poll()
            lastPoll = host.journalTime()
            if isAccepting, shared.withLock({ $0.isConnected }) { acceptsDeletions = false }
            hasPolled = true
        }
        isPollingNow = false
        shared.withLock { $0.isPolling = !$0.inbox.isEmpty }
        if host.journalTime() - lastQuota > (isIdle ? .seconds(600) : .seconds(30)) { await refreshQuota() }
        await endErasure()
        wake()
    }

    func setPaused(_ paused: Bool) {
        if !paused { host.context.work.goOn() }
        shared.withLock { $0.isPaused = paused }
        if !paused { host.namespace.fetchKept(afresh: true) }
        wake()
    }

    /// Sends everything changed so far without settling, and asks for the provider's changes.
    func sync(acceptDeletions: Bool, acceptLocalDeletions: Bool) async {
        let asked = host.journalTime()
        forcedBefore = asked + .milliseconds(1)
        // What changes after this returns is dated later, and settles; the clock goes on in steps of some milliseconds.
        for _ in 0..<20 where host.journalTime() <= forcedBefore {
            await withCheckedContinuation { continuation in executor.after(.milliseconds(2)) { continuation.resume() } }
        }
        if acceptDeletions {
            acceptsDeletions = true
            shared.withLock { $0.heldRemovals = 0 }
        }
        if acceptLocalDeletions {
            approvedDeletions = asked
            lateDeletions = (asked, 0)
            shared.withLock { $0.heldDeletions = 0 }
        }
        nextConnect = .epoch
        lastBrake.time = .distantPast
        // Whoever asks for it now has the source asked once more, however much patience that wanted.
        throttledUntil = .epoch
        schedule.endRests()
        host.context.forgetSetAside()
        let database = host.catalog
        try? database.write { database throws(Errno) in
            // What went wrong before is tried again first, and told only if it goes wrong again.
            try database.run("UPDATE journal SET retry = 0, error = NULL WHERE retry > 0 OR error IS NOT NULL")
            try database.run(
                "UPDATE trash SET retry = 0, error = NULL WHERE pending = 1 AND (retry > 0 OR error IS NOT NULL)"
            )
        }
        pollsEverywhere = true
        requestPoll()
    }

    /// When a failed operation is tried again: after 2 s, doubling to 5 minutes, moved at random.
    func backoff(attempts: Int64) -> Timestamp {
        let delay = min(Self.longestPause, TimeSpan.seconds(1).doubled(min(attempts, 9)))
        return host.journalTime() + .random(in: delay / 2...delay)
    }
}
