internal import CoveCore

/// A row of the queue: an entry that differs from what the provider has, or a deletion the provider is not told of yet.
enum QueueKey: Hashable, Sendable {
    case entry(Int64)
    case trash(Int64)
}

/// What the schedule knows of a row.
struct QueueRow: Sendable, Equatable {
    var key: QueueKey
    var document: DocumentID
    /// When it was changed last, or deleted; what rests is looked at again once it is another time.
    var stamp: Timestamp
    /// For how many pushes it counts.
    var weight = 1
}

/// The orders in which rows are looked at, those that may go by their own times only.
enum QueueStream: CaseIterable, Sendable {
    /// Folders, oldest change first: others wait for them.
    case folders
    /// All changed entries, oldest change first.
    case changes
    /// Deletions, oldest first.
    case deletions
    /// Entries and deletions that are to be tried again, the one that waits longest first.
    case changeRetries, deletionRetries
}

/// What an operation relies on at the provider.
struct QueueNeeds: Sendable, Equatable {
    /// The directories that its paths go through.
    var path: Set<ItemID> = []
    /// The directory whose own place it changes.
    var moving: ItemID?
    /// The names that it changes.
    var places: [Place] = []
}

/// What a look at a row finds.
enum QueueFinding: Sendable {
    /// Nothing but other operations can be in its way.
    case ready(QueueNeeds)
    /// Another row is to be sent before it.
    case after(QueueRow, QueueTime, QueueObstacle)
    /// It is to be looked at again in a while.
    case rest(TimeSpan, WaitReason)
}

/// When a row may go by its own times.
enum QueueTime: Sendable, Equatable {
    case now
    case at(Timestamp)
    /// Not before a person says so.
    case unknown
}

/// In which way one row is in another's way.
enum QueueObstacle: Sendable {
    /// It has the name there: it can be moved aside.
    case name
    /// It is the folder that the other goes into, or one that has to leave a folder before that can move.
    case folder
}

/// What the schedule asks of the queue; asked again, it may answer otherwise, for others change it.
protocol QueueView {
    /// Visits the rows of a stream that may go at some time, until the body returns false.
    func eachDue(_ stream: QueueStream, at now: Timestamp, _ body: (QueueRow) -> Bool) throws(Errno)

    /// Looks at one row.
    func look(at row: QueueRow, now: Timestamp) throws(Errno) -> QueueFinding
}
