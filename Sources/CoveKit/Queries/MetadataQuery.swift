internal import CoveCore
public import Foundation
internal import Synchronization

/// Finds the documents of a mounted account of which a predicate holds, whether their bytes are here or not, and follows what
/// becomes of them.
///
/// ```swift
/// let query = MetadataQuery(in: mount)
/// query.predicate = MetadataKey.fsName.ends(with: ".txt")
/// for await event in query.events {              // from here on
///     if case .didFinishGathering = event { print(query.results.map(\.url.path)) }
/// }
/// ```
///
/// A query that was started gathers, tells that it has finished, and goes on with updates until it is stopped. The events come
/// as an asynchronous sequence, and as notifications under the names of `NSMetadataQuery`. What a program does in the mounted
/// tree is in the results right after it, without a connection, too. A daemon that dies or is upgraded in between is followed
/// by the next one: the results stay, and what differs comes as an update. All methods can be called on any thread.
public final class MetadataQuery: Sendable {
    /// Which part of the account is looked at.
    public enum Scope: String, Sendable, CaseIterable {
        /// All below a folder `Documents` at the top.
        case ubiquitousDocuments = "documents"
        /// All else that belongs to the account.
        case ubiquitousData = "data"
        /// Documents of other apps to which there are references.
        case accessibleUbiquitousExternalDocuments = "external"
    }

    /// An order of results.
    public struct SortDescriptor: Sendable, Hashable {
        /// By which values.
        public var key: String
        /// False for the largest first.
        public var isAscending: Bool

        /// Orders by a key; items without a value come first.
        public init<Value>(_ key: MetadataKey<Value>, ascending: Bool = true) {
            self.key = key.name
            isAscending = ascending
        }

        /// Orders by the key of a name, such as `FSName`.
        public init(key: String, ascending: Bool = true) {
            self.key = key
            isAscending = ascending
        }
    }

    /// What has become of the results.
    public struct Update: Sendable {
        /// Results that are new.
        public var added: [MetadataItem] = []
        /// Results of which a value or the place is another one now.
        public var changed: [MetadataItem] = []
        /// What is none any more, as it was.
        public var removed: [MetadataItem] = []
    }

    /// What a query tells.
    public enum Event: Sendable {
        /// It was started, or begins again because something it was asked is another now.
        case didStartGathering
        /// There are more results.
        case gatheringProgress
        /// All results are there; comes once, also for none.
        case didFinishGathering
        /// Results have changed since.
        case didUpdate(Update)
        /// It has stopped: there is no daemon, or it can't do what it was asked.
        case didFail(CoveError)
    }

    let state: Mutex<State>
    /// Posts notifications in their order, on no thread that waits for anything.
    let posting = DispatchQueue(label: "cove.metadata-query")
    /// How many of them wait: an observer that is too slow for them loses some.
    let waitingPosts = Atomic<Int>(0)

    /// A query over the account that a mount shows.
    ///
    /// With a folder of it, only that and what is below it is found.
    public init(in folder: URL) { state = Mutex(State(folder: folder)) }

    deinit {
        state.withLock { state in
            state.run?.end()
            for listener in state.listeners { listener.finish() }
        }
    }

    // MARK: What it asks. A change while it runs discards the results and begins again.

    /// What holds of the results.
    public var predicate: MetadataPredicate? {
        get { state.withLock { $0.settings.predicate } }
        set { change { $0.predicate = newValue } }
    }

    /// The parts of the account that are looked at; documents and data where none is named.
    public var searchScopes: Set<Scope> {
        get { state.withLock { $0.settings.scopes } }
        set { change { $0.scopes = newValue } }
    }

    /// The order of the results; by their age in the account where there is none.
    public var sortDescriptors: [SortDescriptor] {
        get { state.withLock { $0.settings.order } }
        set { change { $0.order = newValue } }
    }

    /// The names of the values that items tell; all where none is named.
    ///
    /// A change of any of these is an update: fewer are quicker to gather.
    public var attributes: [String] {
        get { state.withLock { $0.settings.attributes } }
        set { change { $0.attributes = newValue } }
    }

    /// Attributes whose values ``valueLists`` counts.
    public var valueListAttributes: [String] {
        get { state.withLock { $0.settings.valueLists } }
        set { change { $0.valueLists = newValue } }
    }

    /// Attributes by which ``groupedResults`` groups, the outermost first.
    public var groupingAttributes: [String] {
        get { state.withLock { $0.settings.grouping } }
        set { change { $0.grouping = newValue } }
    }

    /// Seconds between two updates, at least; 1 where nothing else is said.
    public var notificationBatchingInterval: TimeInterval {
        get { state.withLock { $0.settings.interval } }
        set { change { $0.interval = newValue.isNaN ? 1 : min(max(newValue, 0), 3600) } }
    }

    /// True for folders that nobody has opened to be left as they are, so that nothing is found in them.
    public var searchesListedFoldersOnly: Bool {
        get { state.withLock { $0.settings.listedOnly } }
        set { change { $0.listedOnly = newValue } }
    }

    private func change(_ body: (inout Settings) -> Void) {
        var former = Settings()
        state.withLock { state in
            former = state.settings
            body(&state.settings)
            state.order = nil
            // Without a predicate there is nothing to ask.
            if state.settings.predicate == nil { state.stop() }
        }
        _ = begin(if: { $0.run != nil && former != $0.settings })
    }

    // MARK: Running

    /// True from the start until it is stopped.
    public var isStarted: Bool { state.withLock { $0.run != nil } }
    /// True until all results are there.
    public var isGathering: Bool { state.withLock { $0.run != nil && $0.isGathering } }
    /// True after it was stopped, or has failed.
    public var isStopped: Bool { state.withLock { $0.run == nil && $0.wasStarted } }

    /// How many folders could not be looked into when all was gathered: what is in them is not among the results.
    ///
    /// They are tried again, unless only listed folders are searched, and what is found in them comes as an update.
    public var unlistedFolderCount: Int { state.withLock { $0.unlisted } }

    /// Starts; false without a predicate, and where it was started already.
    @discardableResult
    public func start() -> Bool { begin(if: { $0.run == nil && $0.settings.predicate != nil }) }

    /// Nothing is told from now on; the results stay, and it can be started again.
    ///
    /// No call of `disableUpdates()` is left then.
    public func stop() { state.withLock { $0.stop() } }

    /// The results stay as they are until as many calls of `enableUpdates()` have come.
    public func disableUpdates() { state.withLock { $0.freezes += 1 } }

    /// What has changed meanwhile is told as one update, once no call of `disableUpdates()` is left.
    public func enableUpdates() {
        state.withLock { state in
            state.freezes = max(0, state.freezes - 1)
            if state.run != nil { show(&state) }
        }
    }

    /// What the query tells from now on, until whoever iterates it ends or the query goes; each call makes a sequence of its own.
    ///
    /// Starts the query, if it has a predicate and was not started. Who is a thousand events behind loses the oldest ones; the
    /// results are whole at any time.
    public var events: AsyncStream<Event> {
        let (stream, continuation) = AsyncStream.makeStream(of: Event.self, bufferingPolicy: .bufferingNewest(1000))
        state.withLock { $0.listeners.append(continuation) }
        start()
        return stream
    }
}

extension Notification.Name {
    /// A query was started.
    public static let metadataQueryDidStartGathering = Self("NSMetadataQueryDidStartGatheringNotification")
    /// There are more results.
    public static let metadataQueryGatheringProgress = Self("NSMetadataQueryGatheringProgressNotification")
    /// All results are there.
    public static let metadataQueryDidFinishGathering = Self("NSMetadataQueryDidFinishGatheringNotification")
    /// Results have changed; `userInfo` has lists of items for the three keys of ``MetadataQuery``.
    public static let metadataQueryDidUpdate = Self("NSMetadataQueryDidUpdateNotification")
    /// A query has stopped by itself; `userInfo` has the ``CoveError`` for ``MetadataQuery/errorKey``.
    public static let metadataQueryDidFail = Self("CoveMetadataQueryDidFailNotification")
}

extension MetadataQuery {
    /// In an update's `userInfo`: results that are new.
    public static let updateAddedItemsKey = "kMDQueryUpdateAddedItems"
    /// In an update's `userInfo`: results that have changed.
    public static let updateChangedItemsKey = "kMDQueryUpdateChangedItems"
    /// In a failure's `userInfo`: why.
    public static let errorKey = "CoveMetadataQueryError"
    /// In an update's `userInfo`: what is none any more.
    public static let updateRemovedItemsKey = "kMDQueryUpdateRemovedItems"
}
