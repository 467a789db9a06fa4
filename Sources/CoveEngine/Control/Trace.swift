public import CoveCore
internal import Synchronization

/// Tells those who follow what happens to files; costs one look while nobody does.
final class Trace: Sendable {
    /// How many events wait for one that is slow to take them.
    private static let most = 10_000

    /// How many may follow at a time.
    private static let mostFollowers = 32

    private final class Follower: Sendable {
        /// What it is told of, with all below; nil for everything.
        let wanted: RemotePath?
        let continuation: AsyncStream<TraceEvent>.Continuation
        /// Set where a task is cancelled, which waits for no lock: who holds one may be about to wake that task.
        let hasGone = Atomic<Bool>(false)

        init(_ wanted: RemotePath?, _ continuation: AsyncStream<TraceEvent>.Continuation) {
            self.wanted = wanted
            self.continuation = continuation
        }
    }

    private struct State {
        /// Who follows, and how many events it has lost since the last one that it took.
        var followers: [(follower: Follower, lost: Int)] = []
        var hasEnded = false
    }

    private let hasFollowers = Atomic<Bool>(false)
    private let state = EngineMutex(.trace, State())

    /// True while a step is worth to be described.
    @inline(__always)
    var isFollowed: Bool { hasFollowers.load(ordering: .relaxed) }

    /// Events from now on, until whoever takes them ends; nil where too many follow.
    func follow(_ path: RemotePath?) -> AsyncStream<TraceEvent>? {
        let (stream, continuation) = AsyncStream.makeStream(
            of: TraceEvent.self,
            bufferingPolicy: .bufferingOldest(Self.most)
        )
        let follower = Follower(path.flatMap { $0.isRoot ? nil : $0 }, continuation)
        continuation.onTermination = { [weak follower] _ in follower?.hasGone.store(true, ordering: .releasing) }
        let (isIn, hasEnded) = state.withLock { state in
            dropGone(&state)
            let isIn = !state.hasEnded && state.followers.count < Self.mostFollowers
            if isIn { state.followers.append((follower, 0)) }
            hasFollowers.store(!state.followers.isEmpty, ordering: .releasing)
            return (isIn, state.hasEnded)
        }
        if hasEnded { continuation.finish() }
        return isIn || hasEnded ? stream : nil
    }

    private func dropGone(_ state: inout State) {
        state.followers.removeAll { $0.follower.hasGone.load(ordering: .acquiring) }
    }

    /// Ends all that follow, and whoever comes later.
    func end() {
        let followers = state.withLock { state in
            defer { state.followers = [] }
            state.hasEnded = true
            hasFollowers.store(false, ordering: .releasing)
            return state.followers
        }
        for (follower, _) in followers { follower.continuation.finish() }
    }

    /// Tells of a step of an item with these names.
    func tell(_ event: TraceEvent, of paths: [RemotePath]) {
        // Under the lock, so that all hear of it in the order of its times.
        state.withLock { state in
            dropGone(&state)
            hasFollowers.store(!state.followers.isEmpty, ordering: .releasing)
            var event = event
            event.time = System.now().secondsSinceEpoch
            for index in state.followers.indices {
                let (follower, lost) = state.followers[index]
                var path = paths.first
                if let wanted = follower.wanted {
                    path = paths.first { $0 == wanted || $0.isInside(wanted) }
                    if path == nil { continue }
                }
                event.path = path.map { PathParameter($0) } ?? PathParameter()
                event.lost = lost > 0 ? lost : nil
                let isLost = if case .dropped = follower.continuation.yield(event) { true } else { false }
                state.followers[index].lost = isLost ? lost + 1 : 0
            }
        }
    }
}

extension EngineContext {
    /// How much of what somebody else said is passed on, in bytes.
    private static let longestDetail = 1000

    /// Tells those who follow of a step in the life of an item, and queries that it may be another now, as reads of the catalog and of /proc show it.
    ///
    /// Not to be called inside a transaction, nor with a lock that stands behind `catalogReaders` in `EngineLock`.
    @inline(__always)
    func note(_ step: TraceEvent.Step, _ id: ItemID, _ caller: Caller? = nil, _ detail: String? = nil) {
        catalog.touches.add(id)
        guard trace.isFollowed else { return }
        tell(step, id, caller, detail)
    }

    private func tell(_ step: TraceEvent.Step, _ id: ItemID, _ caller: Caller?, _ detail: String?) {
        let paths = try? catalog.read { database throws(Errno) -> [RemotePath] in
            var paths: [RemotePath] = []
            for entry in try database.entries(of: id) { paths.append(try database.path(of: entry)) }
            return paths
        }
        var event = TraceEvent(step, of: id)
        event.detail = detail.map { String(decoding: $0.utf8.prefix(Self.longestDetail), as: UTF8.self) }
        if let caller, caller.thread > 0 {
            let process = ProcessTree.process(of: caller.thread)
            let name = ProcessTree.name(of: process)
            if !name.isEmpty { (event.process, event.program) = (Int(process), name) }
        }
        trace.tell(event, of: paths ?? [])
    }
}

extension Engine {
    /// What happens to a file from now on, to all below a directory, or to everything; nil where too many follow already.
    ///
    /// Each step of an open, a fetch and an upload, in order.
    public func trace(_ path: RemotePath?) -> AsyncStream<TraceEvent>? { context.trace.follow(path) }

    /// A program is about to do something; only opens are told of.
    public func noteBegin(_ use: PlainUse?, _ caller: Caller) {
        if case .open(let id, _)? = use { context.note(.open, id, caller) }
    }

    /// It can't.
    public func noteRefusal(_ use: PlainUse?, _ caller: Caller, _ error: Errno) {
        if case .open(let id, _)? = use { context.note(.refuse, id, caller, "\(error)") }
    }

    /// An open is about to be answered.
    public func noteGrant(_ id: ItemID, _ caller: Caller) { context.note(.grant, id, caller) }
}
