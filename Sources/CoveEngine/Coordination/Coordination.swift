internal import CoveClaims
internal import CoveCore
internal import Dispatch
internal import Glibc
internal import Synchronization

/// The account's claim table with those who ask it, one input at a time.
///
/// Lock order: this one's state, then the catalog's writer, then `events`; nothing is called back under it but `deliver`,
/// which only puts a message into a queue.
final class Coordination: Sendable {
    typealias Interface = CoordinationInterface

    /// How much one account's programs may ask for; more is `EUSERS`.
    struct Limits {
        var sessions = 1000
        var claimsPerSession = 10_000
        var presentersPerSession = 10_000
        var presenters = 100_000
        var intentsPerClaim = 1000
        /// Of programs' claims, in all.
        var intents = 200_000
        /// Messages for a session that is to come back.
        var untold = 20_000
    }

    /// Who a session belongs to.
    struct Holder {
        var process: Int32
        /// When that process began, so that another one of its number is not taken for it.
        var began: UInt64
        /// The processes that it runs below.
        var ancestors: [Int32]
        var token: String?
        var kind: String
        /// False when the session has to end because nobody takes its messages.
        var deliver: (@Sendable (Interface.Message) -> Bool)?
        /// Until when a session of before this daemon may come back.
        var grace: MonotonicTime?
        /// What it is told until then.
        var untold: [Interface.Message] = []
    }

    /// What the engine does for the table; see `CatalogFollower`.
    struct Settler: Sendable {
        /// Makes ready what a claim needs.
        let settle: @Sendable (Int) -> Void
        /// Where a path leads, by links on the way and, if it is said so, by one at the end; nil where that can't be told.
        let place: @Sendable (RemotePath, _ following: Bool) -> CatalogPlace?
    }

    typealias Completion = @Sendable (Result<Int, ClaimFailure>) -> Void

    struct State: ~Copyable {
        var table: ClaimTable
        var holders: [Int: Holder] = [:]
        var tokens: [String: Int] = [:]
        var completions: [Int: Completion] = [:]
        var snapshots: [Int: [String]] = [:]
        /// Items that claims or presenters are at, by their nodes' entries.
        var watched: [ItemID: Int] = [:]
        var items: [Int64: ItemID] = [:]
        /// Names that were left a moment ago: what comes there is the same document.
        var vacated: [RemotePath: MonotonicTime] = [:]
        var vacatedLimit = 1000
        var programSession = 0
        var syncSession = 0
        var store: ClaimStore?
        var alarm = MonotonicTime.distantFuture
        /// How many events were taken: what was looked up before one may be elsewhere by now.
        var eventCount = 0
    }

    let limits = Limits()
    let state: EngineMutex<State>
    /// True while anybody claims or presents anything: what others look at first.
    let isActive = Atomic(false)
    /// Those who look up what they are about to claim or present.
    let arriving = Atomic<Int>(0)
    /// True once a presenter observes attributes.
    let hasObservers = Atomic(false)
    /// True once a presenter's program has its item by a reference.
    let hasAliases = Atomic(false)
    /// True once another daemon goes on.
    private let isHandedOver = Atomic(false)
    /// What commits have changed, in their order.
    let events = EngineMutex<[CatalogEvent]>(.coordinationEvents, [])
    let hasEvents = Atomic(false)
    /// Settles off every lock, and looks places up under this one's.
    let settler = EngineMutex<Settler?>(.settler, nil)
    let queue = DispatchQueue(label: "cove.coordination")
    let clock: EngineClock
    let log: Log

    init(presenterTimeout: TimeSpan, clock: EngineClock = .system, log: Log) {
        self.clock = clock
        self.log = log
        // Whoever kept a token of an earlier mount ends nobody's claim of this one by it.
        let first = Int.random(in: 0..<1 << 32)
        let limits = ClaimTable.Limits(presenter: presenterTimeout)
        let table = ClaimTable(limits: limits, after: first, messagesAfter: .random(in: 0..<1 << 40))
        state = EngineMutex(.coordination, State(table: table))
        state.withLock { state in
            state.programSession = state.table.beginSession(.isTrusted)
            state.syncSession = state.table.beginSession(.isTrusted)
        }
    }

    /// Gives the table an input and does what follows.
    @discardableResult
    func act<Result: Sendable>(_ body: (inout State, MonotonicTime) -> Result) -> Result {
        let now = clock.monotonic()
        let (result, later): (Result, Later) = state.withLock { state in
            takeEvents(&state, now)
            let result = body(&state, now)
            return (result, perform(&state, now))
        }
        later.run(self)
        return result
    }

    /// What is left to do once the lock is free.
    private struct Later: Sendable {
        var completions: [(Completion, Swift.Result<Int, ClaimFailure>)] = []
        var settling: [Int] = []
        var broken: [Int] = []
        var probes: [Int] = []

        func run(_ coordination: Coordination) {
            for (completion, result) in completions { completion(result) }
            if !settling.isEmpty, let settler = coordination.settler.withLock({ $0 }) {
                for claim in settling { settler.settle(claim) }
            }
            for session in broken { coordination.endSession(session) }
            for session in probes { coordination.probe(session) }
        }
    }

    private func perform(_ state: inout State, _ now: MonotonicTime) -> Later {
        var later = Later()
        for effect in state.table.takeEffects() {
            switch effect {
            case .tell(let session, let message):
                // From here on its program knows where its item is.
                if message.kind == Interface.MessageKind.didMove.rawValue,
                    let presenter = message.presenter.flatMap({ Token.number($0, "p") })
                {
                    keepPresenter(presenter, &state)
                }
                if let deliver = state.holders[session]?.deliver {
                    if !deliver(message) { later.broken.append(session) }
                } else if let holder = state.holders[session], holder.grace != nil {
                    if holder.untold.count >= limits.untold { later.broken.append(session) }
                    state.holders[session]?.untold.append(message)
                }
            case .settle(let claim): later.settling.append(claim)
            case .granted(let claim):
                keep(claim, &state)
                if let completion = state.completions.removeValue(forKey: claim) {
                    later.completions.append((completion, .success(claim)))
                }
            case .failed(let claim, let failure):
                if let completion = state.completions.removeValue(forKey: claim) {
                    later.completions.append((completion, .failure(failure)))
                }
            case .lost(let claim):
                log.notice("claim \(Token.claim(claim)): its holder did not answer, others get it")
                forget(claim, &state)
            case .probe(let session): later.probes.append(session)
            }
        }
        let isIdle = state.table.isEmpty && arriving.load(ordering: .sequentiallyConsistent) == 0
        isActive.store(!isIdle, ordering: .sequentiallyConsistent)
        if let next = state.table.nextDeadline, next < state.alarm {
            state.alarm = next
            queue.asyncAfter(deadline: .now() + (next - now).dispatchInterval) { [weak self] in
                self?.tick(next)
            }
        }
        return later
    }

    /// An alarm that an earlier one was set before sets none itself, or there would be more and more of them.
    private func tick(_ alarm: MonotonicTime) {
        act { state, now in
            if state.alarm == alarm { state.alarm = .distantFuture }
            state.table.tick(now: now)
        }
    }

    // MARK: Sessions

    /// Begins a session; throws `EUSERS` when there are too many.
    func beginSession(
        process: Int32,
        kind: String,
        token: String? = nil,
        deliver: (@Sendable (Interface.Message) -> Bool)?
    ) throws(ClaimFailure) -> Int {
        let ancestors = ProcessTree.ancestors(of: process)
        let holder = Holder(
            process: process,
            began: ProcessTree.start(of: process) ?? 0,
            ancestors: ancestors,
            token: token,
            kind: kind,
            deliver: deliver
        )
        let number: Int? = act { state, _ in
            guard state.holders.count < limits.sessions else { return nil }
            let number = state.table.beginSession(deliver == nil ? .isProbed : .answers)
            state.holders[number] = holder
            if let token { state.tokens[token] = number }
            return number
        }
        guard let number else { throw ClaimFailure(Errno(EUSERS), "too many sessions; end some of them") }
        return number
    }

    /// A session of before this daemon goes on, with the presenters that it still has; throws `ESTALE` when its time is over.
    func resumeSession(
        _ token: String,
        process: Int32,
        keepsPresenters: Bool,
        deliver: @escaping @Sendable (Interface.Message) -> Bool
    ) throws(ClaimFailure) -> Resumed {
        let found: (resumed: Resumed, isBroken: Bool)? = act { state, now in
            guard let number = state.tokens[token], let holder = state.holders[number], let grace = holder.grace,
                now < grace
            else { return nil }
            state.holders[number]?.grace = nil
            state.holders[number]?.process = process
            state.holders[number]?.began = ProcessTree.start(of: process) ?? 0
            state.holders[number]?.deliver = deliver
            state.holders[number]?.untold = []
            // It adds them again.
            if !keepsPresenters {
                for presenter in state.table.sessions[number]?.presenters ?? [] {
                    state.store?.dropPresenter(presenter)
                    state.table.removePresenter(presenter, now: now)
                }
            }
            let isBroken = !holder.untold.allSatisfy(deliver)
            return (Resumed(number, state.table), isBroken)
        }
        if let found, !found.isBroken { return found.resumed }
        if let found { endSession(found.resumed.session) }
        throw ClaimFailure(.stale, "the session is over; begin a new one")
    }

    /// From now on sessions belong to the next daemon: the ends of their connections here are none.
    func handOver() { isHandedOver.store(true, ordering: .releasing) }

    func endSession(_ number: Int) {
        if isHandedOver.load(ordering: .acquiring) { return }
        act { state, now in
            guard let holder = state.holders.removeValue(forKey: number) else { return }
            if let token = holder.token { state.tokens[token] = nil }
            for claim in state.table.sessions[number]?.claims ?? [] { forget(claim, &state) }
            for presenter in state.table.sessions[number]?.presenters ?? [] { state.store?.dropPresenter(presenter) }
            state.table.endSession(number, now: now)
        }
    }

    /// A holder that can't be asked lives if its process is neither stopped nor dead.
    private func probe(_ session: Int) {
        let process: Int32? = state.withLock { $0.holders[session]?.process }
        guard let process, ProcessTree.isRunning(process) else { return }
        act { state, now in state.table.heard(session, now: now) }
    }

    /// Sessions whose holders are a process or one that it runs below.
    func sessions(above process: Int32, _ state: borrowing State, itself: Bool) -> [Int] {
        guard !state.holders.isEmpty else { return [] }
        return sessions(of: ProcessTree.ancestors(of: process) + (itself ? [process] : []), state)
    }

    func sessions(of processes: [Int32], _ state: borrowing State) -> [Int] {
        var found: [Int] = []
        for (number, holder) in state.holders where processes.contains(holder.process) { found.append(number) }
        return found
    }

    // MARK: Claims

    /// Somebody begins to look up what to claim or present: commits are followed from here on.
    func beginArrival() -> Int {
        arriving.add(1, ordering: .sequentiallyConsistent)
        return act { state, _ in state.eventCount }
    }

    func endArrival() { arriving.subtract(1, ordering: .sequentiallyConsistent) }

    /// Asks for a claim; the completion comes once.
    ///
    /// `again` looks the items and their entries up once more when events have come since `count` of them.
    func claim(
        _ request: ClaimRequest,
        timeout: TimeSpan? = nil,
        entries: [CatalogPlace] = [],
        since count: Int? = nil,
        again: ((inout [WantedItem], inout [CatalogPlace]) -> Void)? = nil,
        _ completion: @escaping Completion
    ) -> Int? {
        act { state, now in
            guard let session = state.table.sessions[request.session] else {
                return nil
            }
            let isWithinLimits =
                session.claims.count < limits.claimsPerSession
                && state.table.itemCount + request.items.count <= limits.intents
            guard isWithinLimits || session.liveness == .isTrusted else { return nil }
            var request = request
            var entries = entries
            if let count, let again, count != state.eventCount { again(&request.items, &entries) }
            if let timeout { request.deadline = now + max(.zero, timeout) }
            let number = state.table.request(request, now: now)
            if let claim = state.table.claims[number] {
                for (intent, place) in zip(claim.intents, entries) { watch(intent.node, place, &state) }
            }
            state.completions[number] = completion
            return number
        }
    }

    /// Says which entry and item a node stands for.
    func watch(_ node: PathNode, _ place: CatalogPlace, _ state: inout State) {
        guard let entry = place.entry, let item = place.item else { return }
        state.table.setEntry(entry, of: node)
        setItem(item, of: entry, &state)
    }

    func setItem(_ item: ItemID?, of entry: Int64, _ state: inout State) {
        let former = state.items[entry]
        guard former != item else { return }
        if let former {
            let count = (state.watched[former] ?? 1) - 1
            state.watched[former] = count > 0 ? count : nil
        }
        state.items[entry] = item
        if let item { state.watched[item, default: 0] += 1 }
        // Nodes that went have left theirs behind.
        guard state.items.count > 4096, state.items.count > 2 * state.table.entries.count else { return }
        state.items = state.items.filter { state.table.entries[$0.key] != nil }
        state.watched = [:]
        for item in state.items.values { state.watched[item, default: 0] += 1 }
    }

    /// Ends a claim; true when it was there.
    @discardableResult
    func release(_ number: Int, exists: [Bool]? = nil) -> Bool {
        act { state, now in
            guard state.table.claims[number] != nil else { return false }
            forget(number, &state)
            state.table.release(number, exists: exists, now: now)
            return true
        }
    }

    /// True for a claim that waits for those of programs, not for what presenters answer, and not for the moment that a change
    /// from the source takes.
    func isBehindClaims(_ number: Int) -> Bool {
        state.withLock { state in
            guard let claim = state.table.claims[number], claim.state == .waiting else { return false }
            return claim.waitsFor.contains { !$0.request.isFromSource }
        }
    }

    /// Whoever waited for a claim has gone, or has got enough of it.
    func withdraw(_ number: Int, _ failure: ClaimFailure) {
        act { state, now in
            forget(number, &state)
            state.table.withdraw(number, failure, now: now)
        }
    }
}
