internal import CoveCore
internal import Synchronization

/// What a query that goes on has to look at again.
struct Touched: Sendable {
    /// Rows of `entries`.
    var entries: Set<Int64> = []
    /// Items, for all of their entries.
    var items: Set<ItemID> = []
    /// Items whose place has changed, or that went: what is below them has another place too.
    var trees: Set<ItemID> = []
    /// Documents, for their entries.
    var documents: Set<DocumentID> = []
    /// True where more was touched than is kept: all has to be looked at.
    var isLost = false

    var isEmpty: Bool { !isLost && count == 0 }

    fileprivate var count: Int { entries.count + items.count + trees.count + documents.count }

    fileprivate mutating func add(_ other: Touched, upTo horizon: Touches.Horizon) {
        guard !isLost else { return }
        entries.formUnion(other.entries.lazy.filter { $0 <= horizon.entry })
        items.formUnion(other.items.lazy.filter { $0 <= horizon.item })
        // A new folder may have old ones in it.
        trees.formUnion(other.trees)
        documents.formUnion(other.documents)
        if count > Touches.most { self = Touched(isLost: true) }
    }
}

/// Collects what changes for queries that go on; costs one look while there is none.
final class Touches: Sendable {
    /// So much is kept for one that is slow to take it; then it has to look at everything again.
    fileprivate static let most = 100_000
    /// How many queries may go on at a time.
    private static let mostFollowers = 64
    /// How many of these may be one app's, and all apps'.
    private static let (mostOfOne, mostOfApps) = (12, 48)

    /// What came into the catalog behind these is not told: a query that still gathers finds it by itself.
    struct Horizon: Sendable {
        var entry = Int64.max
        var item = ItemID(.max)
    }

    /// One query that goes on.
    final class Follower: Sendable {
        private let signals: AsyncStream<Void>
        fileprivate let continuation: AsyncStream<Void>.Continuation
        /// Set where a task is cancelled, which waits for no lock: who holds one may be about to wake that task.
        fileprivate let hasGone = Atomic<Bool>(false)
        /// True while something moves that it tells of: it wants a signal each second.
        let seesMoving = Atomic<Bool>(false)
        /// True while folders could not be listed for it, so that it wants one too.
        let missesFolders = Atomic<Bool>(false)

        fileprivate var wantsTicks: Bool {
            seesMoving.load(ordering: .relaxed) || missesFolders.load(ordering: .relaxed)
        }

        fileprivate init() {
            (signals, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        }

        /// Waits until there may be something to take; false at the end of the engine or of the task.
        func next() async -> Bool {
            var iterator = signals.makeAsyncIterator()
            return await iterator.next() != nil
        }

        /// Wants no more.
        func leave() { hasGone.store(true, ordering: .releasing) }
    }

    private struct Place {
        let follower: Follower
        let app: AppIdentifier?
        var touched = Touched()
        var horizon = Horizon()
    }

    private struct State {
        var places: [Place] = []
        var hasEnded = false
    }

    private let hasFollowers = Atomic<Bool>(false)
    private let state = EngineMutex(.touches, State())

    /// True while somebody wants to know.
    @inline(__always)
    var isFollowed: Bool { hasFollowers.load(ordering: .acquiring) }

    /// From now on; nil where the engine ends, `EBUSY` where too many follow.
    ///
    /// No app keeps others from it, nor do all apps together keep the user.
    /// What is being committed while this is called is not told of; a look at the catalog after `Catalog.barrier()` shows it.
    func follow(for app: AppIdentifier? = nil) throws(Errno) -> Follower? {
        let follower = Follower()
        return try state.withLock { state throws(Errno) in
            state.places.removeAll { $0.follower.hasGone.load(ordering: .acquiring) }
            guard !state.hasEnded else { return nil }
            guard state.places.count < Self.mostFollowers else { throw .busy }
            if let app {
                let apps = state.places.compactMap(\.app)
                guard apps.count < Self.mostOfApps, apps.count(where: { $0 == app }) < Self.mostOfOne else {
                    throw .busy
                }
            }
            state.places.append(Place(follower: follower, app: app))
            hasFollowers.store(true, ordering: .releasing)
            return follower
        }
    }

    /// What was touched since this was asked the last time.
    func take(_ follower: Follower) -> Touched {
        state.withLock { state in
            guard let index = state.places.firstIndex(where: { $0.follower === follower }) else { return Touched() }
            defer { state.places[index].touched = Touched() }
            return state.places[index].touched
        }
    }

    /// What is behind the horizon is not told to a follower from now on.
    func bound(_ follower: Follower, by horizon: Horizon) {
        state.withLock { state in
            guard let index = state.places.firstIndex(where: { $0.follower === follower }) else { return }
            state.places[index].horizon = horizon
        }
    }

    /// Ends all that follow, and whoever comes later.
    func end() {
        let places = state.withLock { state in
            defer { state.places = [] }
            state.hasEnded = true
            hasFollowers.store(false, ordering: .releasing)
            return state.places
        }
        for place in places { place.follower.continuation.finish() }
    }

    /// An item's state has changed, which no row tells.
    @inline(__always)
    func add(_ id: ItemID) { if isFollowed { add(Touched(items: [id])) } }

    /// The same of the item that has a document.
    @inline(__always)
    func add(_ document: DocumentID) { if isFollowed { add(Touched(documents: [document])) } }

    /// Tells all that follow.
    func add(_ touched: Touched) {
        guard !touched.isEmpty else { return }
        let followers = state.withLock { state in
            state.places.removeAll { $0.follower.hasGone.load(ordering: .acquiring) }
            hasFollowers.store(!state.places.isEmpty, ordering: .releasing)
            var followers: [Follower] = []
            for index in state.places.indices {
                let wasEmpty = state.places[index].touched.isEmpty
                if touched.isLost {
                    state.places[index].touched = touched
                } else {
                    state.places[index].touched.add(touched, upTo: state.places[index].horizon)
                }
                // Who has not taken what there was has a signal.
                if wasEmpty, !state.places[index].touched.isEmpty { followers.append(state.places[index].follower) }
            }
            return followers
        }
        for follower in followers { follower.continuation.yield() }
    }

    /// The clock's round.
    func tick() {
        guard isFollowed else { return }
        let followers = state.withLock { $0.places.map(\.follower) }
        for follower in followers where follower.wantsTicks { follower.continuation.yield() }
    }
}
