internal import CLinux
public import CoveCore
internal import Dispatch
internal import Glibc
internal import Synchronization

/// One account: its catalog, its content, its sync with the provider, and every file system operation on it.
///
/// All operations are thread-safe and local; what needs the provider comes back as `Outcome.later`.
public final class Engine: EnginePart {
    /// What the engine is told at its start.
    public typealias Configuration = EngineConfiguration

    let context: EngineContext
    let contents: Contents
    let namespace: Namespace
    let remoteChanges: RemoteChanges
    let history: History
    let thumbnails: Thumbnails
    let coordinator: Coordinator
    let access: Access
    private let rounds = DispatchQueue(label: "cove.clock")
    private let timer = EngineMutex<(any DispatchSourceTimer)?>(.timer, nil)
    let requestHistory = RequestHistory()
    private let sleepWatch = EngineMutex(.sleepWatch, SleepWatch())
    private let workload = EngineMutex(.workload, Workload())
    private let syncSlot = EngineMutex<SyncEngine?>(.syncEngineSlot, nil)

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
        let handles: HandleLedger
        let noted: WorkLedger
        do throws(Errno) {
            handles = if let ledger { ledger } else { try HandleLedger() }
            noted = if let work { work } else { try WorkLedger() }
        } catch {
            throw EngineError("memory for open files can't be had: \(error); check the limits of memory")
        }
        let state = configuration.stateDirectory
        let store: ContentStore
        do throws(Errno) {
            store = try ContentStore(directory: state + "/content")
        } catch {
            throw EngineError("\(state)/content: it can't be made: \(error); check the folder's owner and the disk")
        }
        let live = LiveTable(ledger: handles, clock: configuration.clock)
        let disk = StateDisk(directory: state, reserve: configuration.reserve, log: log)
        let recovery = Recovery(
            configuration: configuration,
            store: store,
            live: live,
            disk: disk,
            isTakeover: handles.isInherited,
            log: log
        )
        let catalog = try recovery.openCatalog()
        let names: ContainerNames
        do throws(Errno) {
            names = try ContainerNames(catalog)
        } catch {
            throw EngineError("\(state)/catalog.db: it can't be read: \(error); run `cove doctor`")
        }
        let news = NewsOutbox()
        context = EngineContext(
            configuration: configuration,
            provider: NotedProvider(NamingProvider(provider, names), work: noted) {
                if provider.capabilities.carriesNews { news.note($0) }
            },
            log: log,
            disk: disk,
            catalog: catalog,
            work: noted,
            news: news
        )
        do throws(Errno) {
            let resident = try catalog.read { database throws(Errno) in
                try database.first("SELECT CAST(min(total(resident), 9e18) AS INTEGER) FROM items WHERE resident > 0") {
                    $0.int(0)
                }
            }
            let limit = configuration.cacheLimit ?? max(64 << 20, (store.freeSpace()?.total ?? 0) / 10)
            let cache = CacheBudget(limit: limit, resident: resident ?? 0)
            contents = Contents(context: context, store: store, live: live, ledger: handles, cache: cache)
            namespace = Namespace(context, contents)
            remoteChanges = RemoteChanges(context, contents, namespace)
            history = History(context, contents, namespace, remoteChanges)
            thumbnails = Thumbnails(context, contents, namespace)
            coordinator = Coordinator(context, contents, namespace, history)
            access = try Access(context, contents, namespace, coordinator, names)
            contents.ask(self)
            try contents.takeOver()
            try namespace.takeOver()
            try context.keepSetAside()
            try namespace.heedLocalNames()
            do throws(Errno) { try namespace.takeBackStranded() } catch {
                log.error("what earlier versions left in the cloud can't be looked for: \(error)")
            }
            let isFirst = try Self.isFirstStart(catalog)
            try context.generation.recall(catalog, configuration.generation, isFirst: isFirst)
            // Last, so that a start that was cut off before is the first one again.
            if isFirst { try Self.noteFirstStart(catalog, configuration.clock.now()) }
        } catch {
            throw EngineError("\(state)/catalog.db: it can't be read: \(error); run `cove doctor`")
        }
        context.accountReader.withLock { $0 = access }
        coordinator.begin { [weak self] item, name in try? self?.answer(item, name) }
        disk.holdReserve()
    }

    /// Starts to sync: connects in the background, sends what waits, follows the provider's changes.
    public func start(kernel: (any KernelNotifier)?, announcer: (any Announcer)?) {
        context.kernel.withLock { $0 = kernel }
        context.announcer.withLock { $0 = announcer }
        let sync = SyncEngine(host)
        syncSlot.withLock { $0 = sync }
        context.syncSlot.withLock { $0 = sync }
        // What needs the provider fails until then.
        if work.isHeld { connected.open() }
        Task { await sync.start() }
        // It may have been dropped when the machine went down.
        namespace.fetchKept()
        contentQueue.async { [self] in thumbnails.sweep() }
        if wasCutOff() { contentQueue.async { [self] in contents.sweepContent() } }
        timer.withLock { timer in
            let source = DispatchSource.makeTimerSource(queue: rounds)
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

    /// Ends sync, saves what is unsaved and closes the catalog.
    public func stop() async {
        timer.withLock { source in
            source?.cancel()
            source = nil
        }
        context.trace.end()
        catalog.touches.end()
        thumbnails.end()
        access.end()
        if let syncEngine { await syncEngine.stop() }
        // They refer to each other until here.
        syncSlot.withLock { $0 = nil }
        context.syncSlot.withLock { $0 = nil }
        context.accountReader.withLock { $0 = nil }
        connected.open()
        contents.stop()
        Recovery(
            configuration: configuration,
            store: contents.store,
            live: contents.live,
            disk: disk,
            isTakeover: contents.ledger.isInherited,
            log: log
        ).seal(catalog)
        catalog.close()
        disk.reserve.remove()
        await provider.stop()
    }

    /// Saves what is unsaved for the daemon that takes the mount over; what is on its way to the provider starts again.
    public func handOver() {
        context.trace.end()
        catalog.touches.end()
        thumbnails.end()
        access.end()
        coordinator.handOver()
        contents.saveAll()
    }

    /// The parts, as sync has them.
    var host: SyncHost {
        SyncHost(
            context: context,
            contents: contents,
            namespace: namespace,
            remoteChanges: remoteChanges,
            history: history,
            thumbnails: thumbnails,
            coordinator: coordinator,
            access: access
        )
    }

    /// The sync engine, once started.
    var syncEngine: SyncEngine? { syncSlot.withLock { $0 } }

    /// What is in hand, in memory that outlives this daemon.
    public var work: WorkLedger { context.work }

    /// Tells that the machine's network has changed: what could not be reached is tried again at once.
    public func networkChanged() {
        provider.networkChanged()
        guard let sync = syncEngine else { return }
        Task { await sync.retryConnecting() }
    }

    /// The clock's round, each second: fetches end that make no progress or that nobody waits for.
    private func tick() {
        let now = clock.monotonic()
        if sleepWatch.withLock({ $0.hasSlept(awake: now, all: clock.boottime()) }) {
            log.info("the machine was asleep")
            networkChanged()
        }
        requestHistory.note(requestCounts, at: now)
        contents.look(now)
        if disk.look() {
            wakeSync()
            Task { await syncEngine?.requestPoll() }
        } else if disk.isFull {
            contents.makeRoomOnDisk()
        }
        syncEngine?.watchProgress(now)
        catalog.touches.tick()
        thumbnails.tick()
        access.tick()
        namespace.expire(before: now)
        coordinator.expireRemoteClaims()
        coordinator.expireTruncations(before: now)
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

    /// Counts one request of the kernel.
    public func countRequest() { counters.fuseRequests.add(1, ordering: .relaxed) }

    /// Counts requests that were parked or taken up again.
    public func parkedDelta(_ by: Int) { counters.parkedRequests.add(by, ordering: .relaxed) }
}
