internal import CoveCore
internal import Synchronization

/// The bytes of an account: content files, open items, what is fetched, what is kept and what goes.
final class Contents: EnginePart {
    let context: EngineContext
    let store: ContentStore
    /// The open item table.
    let live: LiveTable
    /// Which items are open, in memory that outlives this daemon.
    let ledger: HandleLedger
    /// The bytes of content on this disk.
    let cache: EngineMutex<CacheBudget>
    /// How the kernel reads and writes content files by itself.
    let passthrough = EngineMutex(.passthrough, Passthrough())
    /// Content files that are to go.
    let leavings = Leavings()
    let siblings = SiblingFetch()
    let departing = Departing()
    /// Threads that walk a path again because what they opened was just replaced.
    let walkers = RareTable<Int32, Walker>()
    /// Items whose last bytes came in a moment ago, and their sizes: the catalog doesn't say yet that they are whole.
    let completedItems = RareTable<ItemID, Int64>()
    let freshVersions = FreshVersions()
    private let delegate = EngineMutex(.contentsDelegate, ContentsDelegateSlot())

    init(
        context: EngineContext,
        store: ContentStore,
        live: LiveTable,
        ledger: HandleLedger,
        cache: CacheBudget
    ) {
        self.context = context
        self.store = store
        self.live = live
        self.ledger = ledger
        self.cache = EngineMutex(.cache, cache)
    }

    /// Saves what is unsaved of open items.
    func saveAll() { for item in live.all() { try? save(item, closing: false) } }

    /// The clock's round: fetches end that make no progress or that nobody waits for.
    func look(_ now: MonotonicTime) {
        for item in live.all() {
            expireFetches(of: item, now: now)
            endDeadReaders(of: item)
            settlePassing(item)
        }
    }

    /// Ends what goes on and saves what is unsaved.
    func stop() {
        for item in live.all() {
            endFetches(of: item)
            try? save(item, closing: false)
        }
        stopSweeping()
        // What waits for a commit to be durable is not left to a next start, which a clean end gives no reason to look.
        try? catalog.synchronize()
        for id in leavings.evicted.withLock({ $0 }) { removeEvicted(id) }
    }

    /// Says who is asked what bytes alone don't tell.
    func ask(_ delegate: any ContentsDelegate) { self.delegate.withLock { $0.delegate = delegate } }

    /// Who is asked; throws `EINTR` where the engine is gone, as for requests that its end cuts off.
    func owner() throws(Errno) -> any ContentsDelegate {
        guard let found = delegate.withLock({ $0.delegate }) else { throw .interrupted }
        return found
    }
}

/// What contents ask of those who know of names and of programs.
protocol ContentsDelegate: AnyObject, Sendable {
    /// True when a file that is closed may take the identity of a document that left its name a moment ago.
    var mayAdoptIdentities: Bool { get }

    /// Has the entries of an item that stand at a vacated name take the departed document's identity over.
    func adoptIdentities(of id: ItemID, _ database: Database) throws(Errno)

    /// Gives an item a name again because a program wrote to it after a remote change had taken its name.
    func rescue(_ id: ItemID, home: Place, _ database: Database) throws(Errno) -> RescuedEntry

    /// Tells the kernel of that name after the commit.
    func showRescued(_ entry: RescuedEntry)

    /// Asks the programs that present an item whether its bytes may go; blocks.
    func askForEviction(_ id: ItemID) -> Bool

    /// True where a program presents an item, or a package that it is in.
    func isPresented(_ id: ItemID) -> Bool
}

/// An entry that a conflict made, to be shown to the kernel after the commit.
struct RescuedEntry: Sendable {
    var parent: ItemID
    var name: [UInt8]
}

/// Where contents find their delegate, which has them.
private struct ContentsDelegateSlot: Sendable {
    weak var delegate: (any ContentsDelegate)?
}

/// Content files that are to go.
final class Leavings: Sendable {
    /// Items whose content files wait for the commit that evicted them to be durable.
    let evicted = EngineMutex<Set<ItemID>>(.evicted, [])
    /// False once content files must not be swept any more.
    let sweeping = EngineMutex(.sweeping, true)
}
