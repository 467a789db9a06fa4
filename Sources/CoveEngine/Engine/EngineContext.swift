internal import CoveCore
internal import Synchronization

/// What the parts of an engine share, and none of them owns.
final class EngineContext: Sendable {
    let configuration: EngineConfiguration
    let clock: EngineClock
    let provider: any Provider
    let log: Log
    let disk: StateDisk
    let catalog: Catalog
    /// What is in hand, in memory that outlives this daemon.
    let work: WorkLedger
    let counters = Counters()
    /// Whether this device uses the account's apps.
    let generation = Generation()
    /// Where something was changed at the source that other devices are to be told of.
    let news: NewsOutbox
    /// Who follows what happens to files.
    let trace = Trace()
    /// What needs the provider waits here for the first attempt to connect.
    let connected = Gate()
    /// Who finds out what containers are called, before a listing shows the first of their folders.
    let accountReader = EngineMutex<(any AccountReader)?>(.accountReader, nil)
    /// Runs what follows a fetch: blocking, and never on Swift's cooperative pool.
    let contentQueue = ThreadPool(threads: 8)
    let kernel = EngineMutex<(any KernelNotifier)?>(.kernel, nil)
    let announcer = EngineMutex<(any Announcer)?>(.announcer, nil)
    /// How often something changed here.
    let localChanges = Atomic<Int>(0)
    let syncSlot = EngineMutex<(any Synchronizer)?>(.syncSlot, nil)
    /// True where the kernel dates what programs write, and tells that before they have closed the file.
    let kernelKeepsDates = Atomic<Bool>(false)

    init(
        configuration: EngineConfiguration,
        provider: any Provider,
        log: Log,
        disk: StateDisk,
        catalog: Catalog,
        work: WorkLedger,
        news: NewsOutbox
    ) {
        self.configuration = configuration
        clock = configuration.clock
        self.provider = provider
        self.log = log
        self.disk = disk
        self.catalog = catalog
        self.work = work
        self.news = news
    }
}

/// Who reads the account's own documents; above those who list.
protocol AccountReader: AnyObject, Sendable {
    /// True until they were read for the first time.
    var isNew: Bool { get }

    /// Reads what a listing of the root needs to know.
    func readForListing() async

    /// Nothing of them is there.
    func noteNone()
}

/// What the parts of an engine ask of the one that sends and receives; it is above them all.
protocol Synchronizer: AnyObject, Sendable {
    /// False while there is no connection to the provider.
    var isConnected: Bool { get }
    /// True while what nobody waits for may be fetched: the source answers, and nobody has paused the account.
    var mayFetch: Bool { get }

    /// Says that something changed here.
    func wakeSoon()

    /// Has what was sent of a document looked for that is not to be sent any more.
    func takeUpLater(_ document: DocumentID)

    /// Whether an operation at the provider, since `seen`, says more of a document or a place than the look that began then.
    func doubt(_ seen: MonotonicTime, of document: DocumentID?, at place: Place?) -> Reservations.Doubt?

    /// Does something at the provider while no push moves a directory or one above it; nil where it has none of it.
    func inPlace<T: Sendable>(
        _ directory: ItemID,
        _ body: @Sendable (RemoteReference) async throws(ProviderError) -> T
    ) async throws(ProviderError) -> T?

    /// Has changes taken in that a look at the provider showed, which began at a time.
    func enqueue(_ events: [RemoteChange], seen time: MonotonicTime)

    /// A directory was listed for the first time, in so many requests.
    func noteListed(_ directory: ItemID, pages: Int)

    /// Asks for the provider's changes; with `listing`, compares everything listed instead.
    func requestPoll(listing: Bool) async

    /// Takes in what the provider has under a file's name now; false when the name stands for something else since.
    func isCurrent(_ id: ItemID) async -> Bool

    /// Shows a change once the programs that claim the document let it in; false when the tree has overtaken it.
    func isShown(_ transition: Transition) async throws(ProviderError) -> Bool

    /// Remembers why bytes of an item could not be fetched.
    func noteFetchFailure(_ id: ItemID, _ ranges: [Range<Int64>], _ error: ProviderError, isStandIn: Bool)

    /// Forgets that once they are here, or there are none any more.
    func noteFetched(_ id: ItemID, _ state: LiveItem.State)

    /// Remembers that the provider is about to give bytes of an item.
    func noteGiven(_ id: ItemID, at place: RemoteReference) async

    /// Nobody may use an item any more, or fetch of it.
    func noteIdle(_ id: ItemID)
}
