package import CoveCore

/// All claims and presenters of an account: decides who may use which item when, and what presenters are asked and told.
///
/// Deterministic and free of I/O, clock and locks: each call is one input at a given monotonic time, and leaves in `effects`
/// what is to be done. A claim waits for every earlier one that it conflicts with, so that all come in turn.
package struct ClaimTable: ~Copyable {
    /// How long presenters and holders may take to answer.
    package struct Limits {
        package var presenter: TimeSpan
        package var ping: TimeSpan
        /// How often a holder that others wait for is asked.
        package var pingInterval: TimeSpan

        package init(
            presenter: TimeSpan = .seconds(30),
            ping: TimeSpan = .seconds(10),
            pingInterval: TimeSpan = .seconds(5)
        ) {
            self.presenter = presenter
            self.ping = ping
            self.pingInterval = pingInterval
        }
    }

    let limits: Limits
    let root = PathNode(name: FileName(unchecked: []), parent: nil, isPackage: false)
    /// What is to be done; whoever called takes it.
    var effects: [Effect] = []
    package internal(set) var claims = NumberedTable<Claim>()
    package internal(set) var presenters = NumberedTable<Presenter>()
    package internal(set) var sessions: [Int: ClaimSession] = [:]
    /// Claims that were not granted at once, and are not yet.
    var pending: Set<Int> = []
    var questions: [QuestionKey: Question] = [:]
    /// Messages that were not answered in time, and whose.
    var late: [QuestionKey: Int] = [:]
    var standings: [StandingKey: Standing] = [:]
    var deadlines = DeadlineQueue()
    /// Nodes by their entry's row.
    package internal(set) var entries: [Int64: PathNode] = [:]
    /// Nodes that have become empty: programs come back to the same items, so a few stay.
    var idle: [PathNode] = []
    var departures: [RemotePath: Departure] = [:]
    /// A directory is a package now, which those that wait have not heard of.
    var hasNewPackages = false
    var wideIntents = 0
    var widePresenters = 0
    /// The greatest number of a claim, presenter or session until now.
    package private(set) var lastNumber = 0

    /// The number of the last message: an answer to one of another session, or of an earlier table, is none to another's.
    var lastMessage: Int

    package init(limits: Limits = Limits(), after number: Int = 0, messagesAfter message: Int = 0) {
        self.limits = limits
        lastNumber = number
        lastMessage = message
    }

    /// The items of all claims, also those that wait.
    package private(set) var itemCount = 0

    /// True when nobody claims or presents anything.
    package var isEmpty: Bool { claims.isEmpty && presenters.isEmpty }

    /// True when something may concern items that no node is at: packages, and claims on all that a directory holds.
    package var isWide: Bool { wideIntents > 0 || widePresenters > 0 }

    mutating func nextNumber() -> Int {
        lastNumber += 1
        return lastNumber
    }

    /// A number is taken: new ones are greater.
    package mutating func use(_ number: Int) { lastNumber = max(lastNumber, number) }

    /// Takes what is to be done; after each input.
    package mutating func takeEffects() -> [Effect] {
        if idle.count > Self.idleNodes { sweep() }
        if effects.isEmpty { return [] }
        defer { effects = [] }
        return effects
    }

    // MARK: Sessions

    package mutating func beginSession(_ liveness: ClaimSession.Liveness) -> Int {
        let number = nextNumber()
        sessions[number] = ClaimSession(number: number, liveness: liveness)
        return number
    }

    /// The holder is gone: its claims end, its presenters vanish, what they were asked counts as answered.
    package mutating func endSession(_ number: Int, now: MonotonicTime) {
        guard let session = sessions.removeValue(forKey: number) else { return }
        removePresenters(of: session, now: now)
        // The last first, so that none goes on in between.
        for claim in session.claims.sorted(by: >) { withdraw(claim, ClaimFailure(.cancelled), now: now) }
    }

    // MARK: Claims

    /// Asks for a claim; its number, which effects name.
    ///
    /// The session must be there.
    package mutating func request(_ request: ClaimRequest, now: MonotonicTime) -> Int {
        let claim = Claim(number: nextNumber(), request: request, since: now)
        claims[claim.number] = claim
        itemCount += request.items.count
        let session = sessions[request.session]
        session?.claims.insert(claim.number)
        claim.intents.reserveCapacity(request.items.count)
        for item in request.items { claim.intents.append(ClaimIntent(item.use, of: claim, at: node(at: item.path))) }
        heedPackages(now: now)
        if request.manner == .plain { claim.request.purposes = coveringPurposes(of: claim) }
        if let coordinator = request.coordinator, let session, !session.cancelled.isEmpty,
            session.cancelled.contains(coordinator)
        {
            fail(claim, ClaimFailure(.cancelled), now: now)
            return claim.number
        }
        if let coordinator = request.coordinator, let purpose = request.purpose,
            session?.begin(purpose, of: coordinator) == false
        {
            claim.request.purpose = nil
            fail(claim, ClaimFailure(.invalidArgument, "the coordinator has another purpose"), now: now)
            return claim.number
        }
        if request.manner == .explicit || request.manner == .plain {
            findWaits(of: claim)
            for intent in claim.intents { place(intent) }
            if !claim.waitsFor.isEmpty {
                guard !isDeadlocked(claim) else {
                    fail(claim, ClaimFailure(.deadlock), now: now)
                    return claim.number
                }
                guard claim.mayWait else {
                    fail(claim, ClaimFailure(.timedOut), now: now)
                    return claim.number
                }
                if let deadline = request.deadline { schedule(.claim(claim.number), at: deadline) }
                for other in claim.waitsFor where other.isGranted { watch(other.session, now: now) }
                pending.insert(claim.number)
                return claim.number
            }
        }
        advance(claim, now: now)
        if !claim.isGranted, claim.state != .ended { pending.insert(claim.number) }
        if let deadline = request.deadline, claim.mayWait, claim.state != .granted, claim.state != .ended {
            schedule(.claim(claim.number), at: deadline)
        }
        return claim.number
    }

    /// A session of before, numbered after its claims.
    package mutating func restoreSession(after number: Int) -> Int {
        use(number)
        return beginSession(.answers)
    }

    /// A claim that was held when the daemon before this one died is held again.
    ///
    /// Those who let it in hear of its end.
    package mutating func restore(
        _ request: ClaimRequest,
        number: Int,
        letIn: [LetIn] = [],
        existed: [Bool] = [],
        now: MonotonicTime
    ) {
        use(number)
        let claim = Claim(number: number, request: request, since: now)
        claims[number] = claim
        itemCount += request.items.count
        sessions[request.session]?.claims.insert(number)
        for item in request.items { claim.intents.append(ClaimIntent(item.use, of: claim, at: node(at: item.path))) }
        for (intent, existed) in zip(claim.intents, existed) { intent.existed = existed }
        // What was read for a snapshot has been free since that was made.
        for intent in claim.intents where !intent.use.isForUploading { place(intent) }
        for presenter in letIn {
            claim.relinquished.append(presenter.presenter)
            claim.askedAs[presenter.presenter] = presenter.claim
        }
        claim.state = .granted
    }

    /// What a claim needs is ready; `existed` tells of its items which are there.
    package mutating func settled(_ number: Int, existed: [Bool], now: MonotonicTime) {
        guard let claim = claims[number], claim.state == .settling else { return }
        for (intent, existed) in zip(claim.intents, existed) { intent.existed = existed }
        claim.state = .ready
        advance(claim, now: now)
    }

    /// Ends a claim; `exists` tells of its items which are there now.
    package mutating func release(_ number: Int, exists: [Bool]? = nil, now: MonotonicTime) {
        guard let claim = claims[number] else { return }
        if claim.isGranted, claim.request.manner == .explicit, !presenters.isEmpty { noteOwnChanges(claim, exists) }
        end(claim, now: now)
    }

    /// Ends a claim whose holder has done nothing with it.
    package mutating func giveBack(_ number: Int, now: MonotonicTime) {
        if let claim = claims[number] { end(claim, now: now) }
    }

    /// Ends a claim whose wait ends without a grant, or one that is granted.
    package mutating func withdraw(_ number: Int, _ failure: ClaimFailure, now: MonotonicTime) {
        guard let claim = claims[number] else { return }
        if claim.isGranted { release(number, now: now) } else { fail(claim, failure, now: now) }
    }

    /// Waiting and later claims of a coordinator fail.
    package mutating func cancel(_ coordinator: String, session number: Int, now: MonotonicTime) {
        guard let session = sessions[number] else { return }
        session.cancelled.insert(coordinator)
        for claim in session.claims.sorted() {
            guard let claim = claims[claim], claim.request.coordinator == coordinator, !claim.isGranted else {
                continue
            }
            fail(claim, ClaimFailure(.cancelled), now: now)
        }
    }

    /// The items of a claim that only lasts as long as a snapshot takes are free again.
    package mutating func dropSnapshots(of number: Int, now: MonotonicTime) {
        guard let claim = claims[number] else { return }
        for intent in claim.intents {
            guard case .read(let options) = intent.use, options.contains(.forUploading) else { continue }
            unplace(intent)
        }
        findWaitsAgain(of: claimsBehind(claim.blocks), now: now)
    }

    /// Takes a claim further, as far as it gets.
    mutating func advance(_ claim: Claim, now: MonotonicTime) {
        switch claim.state {
        case .waiting:
            guard claim.waitsFor.isEmpty else { return }
            claim.state = .presenters
            askPresenters(for: claim, now: now)
            advance(claim, now: now)
        case .presenters:
            noteWaiting(claim)
            guard claim.script.isEmpty else { return }
            guard claim.request.needsSettling else {
                claim.state = .ready
                return advance(claim, now: now)
            }
            claim.state = .settling
            effects.append(.settle(claim: claim.number))
        case .settling: return
        case .ready:
            guard claim.waitsFor.isEmpty else {
                if !claim.mayWait { fail(claim, ClaimFailure(.timedOut), now: now) }
                return
            }
            claim.state = .granted
            if !pending.isEmpty { pending.remove(claim.number) }
            claim.grantedAfter = lastNumber
            // A grant tells a presenter's own coordinator where its item is.
            if let own = claim.request.presenter, let presenter = presenters[own] { tellPendingMove(presenter) }
            effects.append(.granted(claim: claim.number))
            if !claim.blocks.isEmpty { watch(claim.session, now: now) }
            switch claim.request.manner {
            case .explicit, .plain, .preparing: break
            case .evicting: end(claim, now: now)
            }
        case .granted, .ended: return
        }
    }

    mutating func fail(_ claim: Claim, _ failure: ClaimFailure, now: MonotonicTime) {
        guard claim.state != .ended else { return }
        effects.append(.failed(claim: claim.number, failure))
        end(claim, now: now)
    }

    /// Takes a claim out, tells presenters, and lets those go on that waited for it.
    private mutating func end(_ claim: Claim, now: MonotonicTime) {
        guard claim.state != .ended else { return }
        let wasGranted = claim.isGranted
        let waited = !claim.waitsFor.isEmpty
        if waited { forgetWaits(of: claim) }
        claim.state = .ended
        claims[claim.number] = nil
        if !wasGranted { pending.remove(claim.number) }
        itemCount -= claim.request.items.count
        sessions[claim.session]?.claims.remove(claim.number)
        if let coordinator = claim.request.coordinator, let purpose = claim.request.purpose {
            sessions[claim.session]?.end(purpose, of: coordinator)
        }
        if !claim.script.isEmpty {
            for (presenter, steps) in claim.script.sorted(by: { $0.key < $1.key }) {
                dropQuestion(of: claim.number, to: presenter)
                // It may be letting go just now.
                if steps.last?.isRelinquishing == true { claim.relinquished.append(presenter) }
            }
            claim.script = [:]
        }
        noteWaiting(claim)
        for presenter in claim.relinquished { tellReacquire(presenter, claim) }
        if wasGranted, !claim.changes.isEmpty { tellChanges(of: claim) }
        for intent in claim.intents { unplace(intent) }
        for shade in claim.shades { unplace(shade.intent) }
        claim.shades = []
        let waiting = claim.blocks
        guard !waiting.isEmpty else { return }
        claim.blocks = []
        for other in waiting {
            other.waitsFor.removeAll { $0 === claim }
            noteWaiting(other)
        }
        // Those behind it wait for what it waited for.
        if waited { return findWaitsAgain(of: waiting.map(\.number), mayOvertake: false, now: now) }
        for other in waiting where other.waitsFor.isEmpty { advance(other, now: now) }
    }
}
