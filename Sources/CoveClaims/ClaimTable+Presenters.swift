package import CoveCore

/// Names a message: the session it went to, and its number there.
struct QuestionKey: Hashable {
    var session: Int
    var message: Int
}

/// A message that waits for its reply.
struct Question {
    var claim: Int
    var presenter: Int
    /// Where the call that it was for has ended, and may come again.
    var standing: StandingKey?
}

/// Presenters: what they are asked before a claim is granted.
extension ClaimTable {
    /// Adds a presenter, which need not present anything yet.
    package mutating func addPresenter(
        session number: Int,
        at path: [PathStep]?,
        implements: Set<CoordinationInterface.MessageKind>,
        observes: Set<String>,
        purpose: String? = nil,
        alias: Alias? = nil,
        now: MonotonicTime
    ) -> Int? {
        guard sessions[number] != nil else { return nil }
        let presenter = Presenter(
            number: nextNumber(),
            session: number,
            implements: implements,
            observes: observes,
            purpose: purpose
        )
        presenter.alias = alias
        add(presenter, at: path, now: now)
        return presenter.number
    }

    /// A presenter that was there when the daemon before this one died is there again; what it is asked waits for it.
    ///
    /// `known` is where its program knows its item to be: what it did not hear of a move, it hears.
    package mutating func restorePresenter(
        _ number: Int,
        session: Int,
        at path: [PathStep]?,
        known: RemotePath?,
        implements: Set<CoordinationInterface.MessageKind>,
        observes: Set<String>,
        purpose: String?,
        alias: Alias? = nil,
        now: MonotonicTime
    ) {
        use(number)
        let presenter = Presenter(
            number: number,
            session: session,
            implements: implements,
            observes: observes,
            purpose: purpose
        )
        presenter.alias = alias
        add(presenter, at: path, now: now)
        if let known, let own = presenter.node?.path, known != own { delayMove(of: presenter, from: known, now: now) }
    }

    private mutating func add(_ presenter: Presenter, at path: [PathStep]?, now: MonotonicTime) {
        presenters[presenter.number] = presenter
        sessions[presenter.session]?.presenters.insert(presenter.number)
        if let path { put(presenter, at: path) }
        heedPackages(now: now)
    }

    /// A presenter presents another item, or none.
    package mutating func movePresenter(
        _ number: Int,
        to path: [PathStep]?,
        alias: Alias? = nil,
        now: MonotonicTime
    ) {
        guard let presenter = presenters[number] else { return }
        takeAway(presenter)
        presenter.alias = alias
        presenter.pendingMove = nil
        for path in departures.keys { departures[path]?.presenters.removeAll { $0.number == number } }
        if let path { put(presenter, at: path) }
        heedPackages(now: now)
    }

    /// A presenter is gone: what it was asked counts as answered.
    package mutating func removePresenter(_ number: Int, now: MonotonicTime) {
        guard let presenter = presenters[number] else { return }
        sessions[presenter.session]?.presenters.remove(number)
        takeAway(presenter)
        forget([presenter], now: now)
    }

    /// All of a session's presenters are gone.
    mutating func removePresenters(of session: ClaimSession, now: MonotonicTime) {
        let gone = session.presenters.sorted().compactMap { presenters[$0] }
        var nodes: [ObjectIdentifier: PathNode] = [:]
        for presenter in gone {
            guard let node = presenter.node else { continue }
            nodes[ObjectIdentifier(node)] = node
            node.countPresenters(-1)
            setWide(presenter, false)
            presenter.node = nil
        }
        for node in nodes.values {
            node.presenters.removeAll { $0.node == nil }
            prune(node)
        }
        forget(gone, now: now)
    }

    private mutating func forget(_ gone: [Presenter], now: MonotonicTime) {
        var released: [Int: Claim] = [:]
        for presenter in gone {
            presenters[presenter.number] = nil
            for message in presenter.questions {
                let key = QuestionKey(session: presenter.session, message: message)
                guard let question = questions.removeValue(forKey: key), let claim = claims[question.claim] else {
                    continue
                }
                claim.script[presenter.number] = nil
                released[claim.number] = claim
            }
        }
        if !standings.isEmpty { standings = standings.filter { presenters[$0.key.presenter] != nil } }
        if !late.isEmpty { late = late.filter { presenters[$0.value] != nil } }
        for claim in released.values.sorted(by: { $0.number < $1.number }) where claim.state == .presenters {
            advance(claim, now: now)
        }
    }

    private mutating func put(_ presenter: Presenter, at path: [PathStep]) { put(presenter, at: node(at: path)) }

    mutating func put(_ presenter: Presenter, at node: PathNode) {
        if presenter.node != nil { takeAway(presenter) }
        node.presenters.append(presenter)
        node.countPresenters(1)
        presenter.node = node
        setWide(presenter, node.isPackage)
    }

    private mutating func takeAway(_ presenter: Presenter) {
        guard let node = presenter.node else { return }
        node.presenters.removeAll { $0 === presenter }
        node.countPresenters(-1)
        presenter.node = nil
        setWide(presenter, false)
        prune(node)
    }

    // MARK: Questions

    /// Asks all presenters that a claim concerns.
    mutating func askPresenters(for claim: Claim, now: MonotonicTime) {
        if presenters.isEmpty { return }
        var scripts: [Int: [Claim.Step]] = [:]
        for intent in claim.intents {
            if claim.request.manner == .plain, isCovered(intent) { continue }
            let path = intent.node.path
            if claim.request.manner == .evicting {
                guard addEvictionSteps(intent, path, &scripts) else {
                    return fail(claim, ClaimFailure(.busy, path: path), now: now)
                }
            } else {
                addSteps(for: intent, path, all: claim.request.manner == .preparing, &scripts)
            }
        }
        if let own = claim.request.presenter { scripts[own] = nil }
        var first: [Int] = []
        for (number, steps) in scripts {
            guard let presenter = presenters[number] else { continue }
            // Processes are not asked about what they, or programs that they started, do themselves.
            if claim.request.manner == .plain, claim.request.inside.contains(presenter.session) { continue }
            let implemented = Self.once(steps.filter { presenter.implements.contains($0.kind) })
            if implemented.isEmpty { continue }
            if claim.request.isBrief {
                claim.asked[number] = implemented
                if goOn(with: StandingKey(presenter: number, steps: implemented), for: claim) { continue }
            }
            claim.script[number] = implemented.reversed()
            claim.replyBy[number] = now + limits.presenter
            first.append(number)
        }
        for number in first.sorted() { askNext(number, for: claim, now: now) }
    }

    /// What a presenter is asked for several items, it is asked once; only of each item that goes it hears.
    private static func once(_ steps: [Claim.Step]) -> [Claim.Step] {
        if steps.count < 2 { return steps }
        let isWritten = steps.contains { $0.kind == .relinquishToWriter }
        var seen: Set<CoordinationInterface.MessageKind> = []
        let kept = steps.filter { step in
            if step.kind == .relinquishToReader, isWritten { return false }
            return step.kind == .accommodateSubitemDeletion || seen.insert(step.kind).inserted
        }
        // First it lets others in, then it saves.
        return kept.filter(\.isRelinquishing) + kept.filter { !$0.isRelinquishing }
    }

    /// True for a program's operation on what a claim of its own side is granted for.
    private func isCovered(_ intent: ClaimIntent) -> Bool {
        var isCovered = false
        eachCover(of: intent) { _ in isCovered = true }
        return isCovered
    }

    /// What a program's own side does on its items, it does for these.
    func coveringPurposes(of claim: Claim) -> Set<String> {
        var found: Set<String> = []
        for intent in claim.intents {
            eachCover(of: intent) { if let purpose = $0.claim.request.purpose { found.insert(purpose) } }
        }
        return found
    }

    /// Visits what a program's own side is granted that allows an operation of it.
    private func eachCover(of intent: ClaimIntent, _ body: (ClaimIntent) -> Void) {
        let inside = intent.claim.request.inside
        guard !inside.isEmpty else { return }
        let unit = intent.node.unit
        for node in unit.isPackage ? [unit] + nodesBelow(unit) : [unit] + unit.ancestors {
            for other in node.intents
            where other.claim.isGranted && inside.contains(other.claim.session)
                && (node.unit === unit || other.use.takesAll) && (other.use.isWrite || !intent.use.isWrite)
            { body(other) }
        }
    }

    private func nodesBelow(_ node: PathNode) -> [PathNode] {
        var found: [PathNode] = []
        for child in node.children.values { child.eachNode { found.append($0) } }
        return found
    }

    private func addSteps(
        for intent: ClaimIntent,
        _ path: RemotePath,
        all: Bool,
        _ scripts: inout [Int: [Claim.Step]]
    ) {
        let use = intent.use
        var concerned = intent.node.presenters
        for node in intent.node.ancestors where node.isPackage { concerned += node.presenters }
        var contained: [Presenter] = []
        if use.takesAll || all { intent.node.eachPresenterBelow { contained.append($0) } }
        let relinquish: CoordinationInterface.MessageKind = use.isWrite ? .relinquishToWriter : .relinquishToReader
        for presenter in concerned + contained {
            scripts[presenter.number, default: []].append(Claim.Step(kind: relinquish, path: path))
        }
        if use.wantsChanges {
            for presenter in concerned + (all ? contained : []) {
                scripts[presenter.number, default: []].append(Claim.Step(kind: .saveChanges, path: path))
            }
        }
        guard use.removes else { return }
        for presenter in intent.node.presenters + contained {
            let own = presenter.node?.path ?? path
            scripts[presenter.number, default: []].append(Claim.Step(kind: .accommodateDeletion, path: own))
        }
        for node in intent.node.ancestors {
            for presenter in node.presenters {
                scripts[presenter.number, default: []].append(Claim.Step(kind: .accommodateSubitemDeletion, path: path))
            }
        }
    }

    /// False when a presenter does not let go of the item's bytes.
    private func addEvictionSteps(
        _ intent: ClaimIntent,
        _ path: RemotePath,
        _ scripts: inout [Int: [Claim.Step]]
    ) -> Bool {
        var concerned = intent.node.presenters
        for node in intent.node.ancestors where node.isPackage { concerned += node.presenters }
        for presenter in concerned {
            guard presenter.implements.contains(.accommodateEviction) else { return false }
            scripts[presenter.number] = [Claim.Step(kind: .accommodateEviction, path: path)]
        }
        return true
    }
}
