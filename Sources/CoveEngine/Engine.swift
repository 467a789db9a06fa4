internal import CLinux
public import CoveCore
internal import Dispatch
internal import Glibc
internal import Synchronization

/// One account: its catalog, its content, its sync with the provider, and every file system operation on it.
///
/// All operations are thread-safe and local; what needs the provider comes back as `Outcome.later`.
public final class Engine: Sendable {
    /// What the engine is told at its start.
    public typealias Configuration = EngineConfiguration

    let configuration: EngineConfiguration
    let provider: any Provider
    let log: Log
    let disk: StateDisk
    let catalog: Catalog
    let store: ContentStore
    let live: LiveTable
    let counters = Counters()
    let tombstones = Tombstones()
    let departing = Departing()
    /// Threads that walk a path again because what they opened was just replaced.
    let walkers = RareTable<Int32, Walker>()
    let conflictSearch = ConflictSearch()
    let freshVersions = FreshVersions()
    /// Items whose last bytes came in a moment ago, and their sizes: the catalog doesn't say yet that they are whole.
    let completedItems = RareTable<ItemID, Int64>()
    let removedDirectories = RemovedDirectories()
    let lookups = PendingLookups()
    /// Names that stay on this device.
    let localNames: NamePatterns
    let incoming = IncomingTable()
    /// Claims and presenters.
    let coordination: Coordination
    let observedAttributes = ObservedAttributes()
    let remoteClaims = RemoteClaims()
    /// Programs that wait to cut a file.
    let truncations = Truncations()
    let touched: TouchedDirectories
    let usedDirectories = UsedDirectories()
    let siblings = SiblingFetch()
    /// What needs the provider waits here for the first attempt to connect.
    let connected = Gate()
    /// Counts what the provider told: a listing that it overlapped may lack some of it.
    let takenChanges = Atomic<Int>(0)
    let listings = EngineMutex<[ItemID: PendingListing]>(.listings, [:])
    let kernel = EngineMutex<(any KernelNotifier)?>(.kernel, nil)
    let announcer = EngineMutex<(any Announcer)?>(.announcer, nil)
    /// Runs what follows a fetch: blocking, and never on Swift's cooperative pool.
    let contentQueue = ThreadPool(threads: 8)
    /// Makes the copies that claims ask for, which may have gigabytes: what follows a fetch does not wait for them.
    let snapshotQueue = ThreadPool(threads: 2)
    /// Items whose content files wait for the commit that evicted them to be durable.
    let evicted = EngineMutex<Set<ItemID>>(.evicted, [])
    /// False once content files must not be swept any more.
    let sweeping = EngineMutex(.sweeping, true)
    private let clock = DispatchQueue(label: "cove.clock")
    private let timer = EngineMutex<(any DispatchSourceTimer)?>(.timer, nil)
    private let sleepWatch = EngineMutex(.sleepWatch, SleepWatch())
    private let workload = EngineMutex(.workload, Workload())
    private let syncSlot = EngineMutex<SyncEngine?>(.syncSlot, nil)
    /// How often something changed here.
    let localChanges = Atomic<Int>(0)
    /// How the kernel reads and writes content files by itself.
    let passthrough = EngineMutex(.passthrough, Passthrough())
    /// The bytes of content on this disk.
    let cache: EngineMutex<CacheBudget>
    /// Which items are open, in memory that outlives this daemon.
    let ledger: HandleLedger
    /// What is in hand, in memory that outlives this daemon.
    public let work: WorkLedger
    /// The announcer of the daemon that had the ledger before.
    let formerAnnouncer: Int32

    /// Opens the catalog and recovers what an earlier daemon left; does not touch the network.
    ///
    /// With a ledger that an earlier daemon of the same mount has left, programs go on to use what they have open.
    public init(
        configuration: EngineConfiguration,
        provider: any Provider,
        log: Log,
        ledger: HandleLedger? = nil,
        work: WorkLedger? = nil
    ) throws(EngineError) {
        self.configuration = configuration
        coordination = Coordination(presenterTimeout: configuration.answerTimeout, log: log)
        self.log = log
        do throws(Errno) {
            if let ledger { self.ledger = ledger } else { self.ledger = try HandleLedger() }
            if let work { self.work = work } else { self.work = try WorkLedger() }
        } catch {
            throw EngineError("memory for open files can't be had: \(error); check the limits of memory")
        }
        self.provider = NotedProvider(provider, work: self.work)
        live = LiveTable(ledger: self.ledger)
        touched = TouchedDirectories(areAll: self.ledger.isInherited)
        formerAnnouncer = self.ledger.announcer
        let state = configuration.stateDirectory
        localNames = NamePatterns(configuration.ignoredNames)
        do throws(Errno) {
            store = try ContentStore(directory: state + "/content")
        } catch {
            throw EngineError("\(state)/content: it can't be made: \(error); check the folder's owner and the disk")
        }
        disk = StateDisk(directory: state, reserve: configuration.reserve, log: log)
        let recovery = Recovery(
            configuration: configuration,
            store: store,
            live: live,
            disk: disk,
            isTakeover: self.ledger.isInherited,
            log: log
        )
        catalog = try recovery.openCatalog()
        do throws(Errno) {
            let resident = try catalog.read { database throws(Errno) in
                try database.first("SELECT coalesce(sum(resident), 0) FROM items WHERE resident > 0") { $0.int(0) }
            }
            let limit = configuration.cacheLimit ?? max(64 << 20, (store.freeSpace()?.total ?? 0) / 10)
            cache = EngineMutex(.cache, CacheBudget(limit: limit, resident: resident ?? 0))
            try takeOver()
            try keepSetAside()
            try heedLocalNames()
        } catch {
            throw EngineError("\(state)/catalog.db: it can't be read: \(error); run `cove doctor`")
        }
        beginCoordination()
        disk.holdReserve()
    }

    /// Starts to sync: connects in the background, sends what waits, follows the provider's changes.
    public func start(kernel: (any KernelNotifier)?, announcer: (any Announcer)?) {
        self.kernel.withLock { $0 = kernel }
        self.announcer.withLock { $0 = announcer }
        let sync = SyncEngine(self)
        syncSlot.withLock { $0 = sync }
        // What needs the provider fails until then.
        if work.isHeld { connected.open() }
        Task { await sync.start() }
        contentQueue.async { [self] in fetchPinned() }
        if wasCutOff() { contentQueue.async { [self] in sweepContent() } }
        timer.withLock { timer in
            let source = DispatchSource.makeTimerSource(queue: clock)
            source.schedule(deadline: .now() + 1, repeating: 1, leeway: .milliseconds(100))
            source.setEventHandler { [weak self] in self?.tick() }
            source.activate()
            timer = source
        }
    }

    /// True when no clean end has followed the last end that was not.
    private func wasCutOff() -> Bool {
        (try? catalog.read { database throws(Errno) in try database.meta(Recovery.sweepKey) != nil }) ?? false
    }

    /// What is to be kept here may have been dropped when the machine went down.
    private func fetchPinned() {
        let files = try? catalog.read { database throws(Errno) in
            try database.all(
                "SELECT i.id FROM entries e JOIN items i ON i.id = e.item WHERE e.flags & ? AND i.kind = 0 AND i.state <> 0",
                .int(EntryRow.Flags.pinned.rawValue),
                read: { $0.item(0) }
            )
        }
        for file in files ?? [] { materialize(file) { _ in } }
    }

    /// Ends sync, saves what is unsaved and closes the catalog.
    public func stop() async {
        timer.withLock { source in
            source?.cancel()
            source = nil
        }
        if let sync { await sync.stop() }
        // The two refer to each other until here.
        syncSlot.withLock { $0 = nil }
        connected.open()
        for item in live.all() {
            endFetches(of: item)
            try? save(item, closing: false)
        }
        stopSweeping()
        // What waits for a commit to be durable is not left to a next start, which a clean end gives no reason to look.
        try? catalog.synchronize()
        for id in evicted.withLock({ $0 }) { removeEvicted(id) }
        Recovery(
            configuration: configuration,
            store: store,
            live: live,
            disk: disk,
            isTakeover: ledger.isInherited,
            log: log
        ).seal(catalog)
        catalog.close()
        disk.reserve.remove()
        await provider.stop()
    }

    /// Saves what is unsaved for the daemon that takes the mount over; what is on its way to the provider starts again.
    public func handOver() {
        coordination.handOver()
        for item in live.all() { try? save(item, closing: false) }
    }

    /// The provider tells of no changes by itself.
    var mustPoll: Bool { provider.mustBePolled }

    /// The sync engine, once started.
    var sync: SyncEngine? { syncSlot.withLock { $0 } }

    /// Tells that the machine's network has changed: what could not be reached is tried again at once.
    public func networkChanged() {
        provider.networkChanged()
        guard let sync else { return }
        Task { await sync.retryConnecting() }
    }

    /// Tells sync that something changed here.
    func wakeSync() {
        localChanges.add(1, ordering: .relaxed)
        sync?.wakeSoon()
    }

    /// The clock's round, each second: fetches end that make no progress or that nobody waits for.
    private func tick() {
        let now = System.monotonic()
        if sleepWatch.withLock({ $0.hasSlept(awake: now, all: System.boottime()) }) {
            log.info("the machine was asleep")
            networkChanged()
        }
        for item in live.all() {
            expireFetches(of: item, now: now)
            endDeadReaders(of: item)
            settlePassing(item)
        }
        if disk.look() {
            wakeSync()
            Task { await sync?.requestPoll() }
        } else if disk.isFull {
            makeRoomOnDisk()
        }
        sync?.watchProgress(now)
        lookups.expire(before: now)
        expireRemoteClaims()
        expireTruncations(before: now)
        tombstones.expire(before: now)
        giveBackMemory()
    }

    /// Gives memory back once there was much work and has been none for a while.
    private func giveBackMemory() {
        let done =
            counters.fuseRequests.load(ordering: .relaxed) + counters.providerRequests.load(ordering: .relaxed)
        guard workload.withLock({ $0.isOver(done) }) else { return }
        contentQueue.async { [self] in
            catalog.releaseMemory()
            malloc_trim(0)
        }
    }

    /// Refuses changes to a read-only account.
    func requireWritable() throws(Errno) {
        if configuration.isReadOnly { throw .readOnly }
    }

    /// The wall clock without parts of a millisecond, as the journal keeps it.
    func journalTime() -> Timestamp { System.now().inMilliseconds }

    /// Counts one request of the kernel.
    public func countRequest() { counters.fuseRequests.add(1, ordering: .relaxed) }

    /// Counts requests that were parked or taken up again.
    public func parkedDelta(_ by: Int) { counters.parkedRequests.add(by, ordering: .relaxed) }
}

/// Counters since the daemon started.
final class Counters: Sendable {
    let downloadsStarted = Atomic<Int>(0)
    let bytesDownloaded = Atomic<Int64>(0)
    let contentUpdates = Atomic<Int>(0)
    let bytesUploaded = Atomic<Int64>(0)
    let deletions = Atomic<Int>(0)
    let moves = Atomic<Int>(0)
    let providerRequests = Atomic<Int>(0)
    let fuseRequests = Atomic<Int>(0)
    let readHits = Atomic<Int>(0)
    let readMisses = Atomic<Int>(0)
    let parkedRequests = Atomic<Int>(0)
    let announcements = Atomic<Int>(0)
    /// True while content is being evicted in the background.
}
