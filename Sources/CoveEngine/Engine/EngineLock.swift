internal import CoveCore

/// The locks of an engine, in the order in which a thread may take them: each inside those before it only.
enum EngineLock: UInt8, LockRank {
    /// `Coordination.state`: claims and presenters.
    case coordination = 1
    /// `Leavings.sweeping`: held while files that no row stands for are dropped.
    case sweeping
    /// `LiveItem.state`: what is known of one open item. A thread holds one at a time.
    case item
    /// `Catalog.checkpointer`: the connection that copies the log into the database.
    case catalogCheckpointer
    /// `Catalog.writer`: the one connection that commits.
    case catalogWriter
    /// `LiveTable`: a part of the table of open items. A thread holds one at a time.
    case liveTable

    // What follows is held for a look or a change of memory, and mostly calls nothing.

    case listings
    case listing
    case lookups
    case siblings
    case remoteClaims
    case truncations
    case askedClaim
    case plainClaim
    case coordinationEvents
    case settler
    case catalogFollower
    case catalogReaders
    case catalogLogFile
    case catalogAfterSync
    case contentDurable
    case conflictSearch
    case contentsDelegate
    case attributeReader
    case usedDirectories
    case excludedSweep
    case newsOutbox
    case requestHistory
    case keptItems
    case syncShared
    case syncSlot
    case syncEngineSlot
    case gate
    case observedAttributes
    case touchedDirectories
    case announcedSlot
    case fetchTask
    case countedBytes
    case releases
    case cache
    case evicted
    case touches
    case accountReader
    case access
    case turns
    case containerNames
    case thumbnails
    case thumbnailQueue
    case trace
    case timer
    case sleepWatch
    case workload
    case kernel
    case announcer
    case passthrough
    case rareTable
    case pendingState
    case pendingCancel
    case liveRecord
    case handleLedger
    case stateDisk
    case reserve
}

/// A mutex of the engine.
typealias EngineMutex<Value: ~Copyable> = RankedMutex<EngineLock, Value>
