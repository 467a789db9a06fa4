internal import CoveCore
internal import Synchronization

/// The names of an account: which item has which, what the provider says of names, and which document a name stands for.
final class Namespace: EnginePart {
    /// How long a call waits that holds up others of its directory.
    static let namePatience = TimeSpan.seconds(1)

    let context: EngineContext
    let contents: Contents
    let tombstones = Tombstones()
    let removedDirectories: RemovedDirectories
    /// Names that the provider is asked for.
    let lookups = PendingLookups()
    /// Names that stay on this device.
    let localNames: NamePatterns
    /// Directories that the kernel may know.
    let touched: TouchedDirectories
    /// Directories that somebody opened lately.
    let usedDirectories = UsedDirectories()
    /// Rounds of fetching what is to be kept here.
    let kept = KeptItems()
    /// First listings that go on.
    let listings = EngineMutex<[ItemID: PendingListing]>(.listings, [:])
    /// Counts what the provider told: a listing that it overlapped may lack some of it.
    let takenChanges = Atomic<Int>(0)
    /// True once an item had an access control list.
    let listsExist = Atomic(false)
    /// True once a place was excluded.
    let excludesAny = Atomic(false)
    /// When places were looked at that nothing has any more.
    let lastSweep = EngineMutex<MonotonicTime>(.excludedSweep, .distantPast)

    init(_ context: EngineContext, _ contents: Contents) {
        self.context = context
        self.contents = contents
        localNames = NamePatterns(context.configuration.ignoredNames)
        removedDirectories = RemovedDirectories(contents.ledger)
        touched = TouchedDirectories(areAll: contents.ledger.isInherited)
    }

    /// Goes on where an earlier daemon of the same mount was killed.
    func takeOver() throws(Errno) {
        try catalog.read { database throws(Errno) in
            try removedDirectories.takeOver(database)
            excludesAny.store(try database.hasExcludedPlaces(), ordering: .releasing)
        }
        try loadAccessLists()
    }

    /// The directories that programs opened last, at most so many.
    func lastUsedDirectories(_ count: Int) -> [ItemID] { usedDirectories.latest(count) }

    /// The provider told of changes: listings that go on may lack them.
    func noteTakenChanges() { takenChanges.add(1, ordering: .releasing) }

    /// A directory is about to be removed through the mount.
    ///
    /// That is noted before the removal is committed: there is no moment in which nothing is known of it.
    func noteRemoved(_ row: ItemRow, at time: Timestamp) { removedDirectories.insert(row, at: time, isDead: true) }

    /// A directory was not removed after all.
    func noteKept(_ id: ItemID) { removedDirectories.remove(id) }

    /// True for a directory whose names the kernel may have.
    func mayBeKnown(_ directory: ItemID) -> Bool { touched.contains(directory) }

    /// The clock's round: answers look-ups that take too long, and forgets who left a name.
    func expire(before now: MonotonicTime) {
        lookups.expire(before: now)
        tombstones.expire(before: now)
        lookForKept(now)
        forgetVacated(now)
    }
}
