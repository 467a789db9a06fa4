package import CoveCore

/// A file that was renamed while it was claimed or presented: perhaps to a backup, and what takes its name is the document.
struct Departure {
    var number: Int
    var steps: [PathStep]
    /// The claims that came to the name before, and which of their items it was.
    var intents: [(claim: Int, index: Int)]
    var presenters: [Int]
    /// Those of them that hear of the move: all but the mover's own.
    var told: Set<Int>
}

/// A claim at a name that its item left.
struct Shade {
    let departure: Int
    let intent: ClaimIntent
}

/// A presenter that is to hear of a move, unless the item comes back at once.
struct PendingMove {
    var from: RemotePath
    var at: MonotonicTime
}

/// Names that were left a moment ago.
///
/// Claims and presenters go with a file that is renamed, and come back when the name is taken again soon. Until then claims
/// that are held keep others from the name, too.
extension ClaimTable {
    /// How long a name is the document's after it was left.
    static let vacancy = TimeSpan.seconds(15)
    /// Programs that save take the name again within this: presenters don't hear that it was ever left.
    static let moveDelay = TimeSpan.seconds(1)

    /// A program has renamed a file; true where its name may be taken again.
    @discardableResult
    package mutating func left(_ path: RemotePath, to target: [PathStep], now: MonotonicTime) -> Bool {
        guard let node = existingNode(at: path), isSilentlyLeft(node, path) else {
            moved(path, to: target, now: now)
            return false
        }
        var intents: [(claim: Int, index: Int)] = []
        for intent in node.intents where intent.use != .write(.forMoving) && intent.use != .write(.forReplacing) {
            if let index = intent.claim.intents.firstIndex(where: { $0 === intent }) {
                intents.append((intent.claim.number, index))
            }
        }
        let own = writer(of: path)?.request.presenter
        let presenters = node.presenters
        let told = presenters.filter { $0.number != own }
        for presenter in told where presenter.pendingMove == nil {
            presenter.pendingMove = PendingMove(from: path, at: now + Self.moveDelay)
            schedule(.move(presenter.number), at: now + Self.moveDelay)
        }
        let departure = Departure(
            number: nextNumber(),
            steps: ([node] + node.ancestors).dropLast().reversed().map {
                PathStep(name: $0.name, isPackage: $0.isPackage)
            },
            intents: intents,
            presenters: presenters.map(\.number),
            told: Set(told.map(\.number))
        )
        relocate(path, to: target)
        forgetDeparture(from: path, now: now)
        departures[path] = departure
        schedule(.departure(path, departure.number), at: now + Self.vacancy)
        for (number, index) in intents {
            guard let claim = claims[number], claim.isGranted, claim.isExplicit else { continue }
            let shade = ClaimIntent(claim.intents[index].use, of: claim, at: self.node(at: departure.steps))
            claim.shades.append(Shade(departure: departure.number, intent: shade))
            place(shade)
        }
        // Who waited for the name waits on where it is kept.
        findWaitsAgain(of: pending, now: now)
        return true
    }

    /// False where who moves it has claimed to do just that, or nobody has to do with it.
    private func isSilentlyLeft(_ node: PathNode, _ path: RemotePath) -> Bool {
        guard !node.presenters.isEmpty || node.intents.contains(where: \.claim.isExplicit) else {
            return false
        }
        return !node.intents.contains { $0.claim.isGranted && $0.use == .write(.forMoving) && $0.claim.isExplicit }
    }

    /// A name is taken: what left it a moment ago and belongs to the name comes back.
    package mutating func taken(_ path: RemotePath, now: MonotonicTime) {
        guard let departure = departures.removeValue(forKey: path) else { return }
        dropShades(of: departure)
        let node = self.node(at: departure.steps)
        for (number, index) in departure.intents {
            guard let intent = claims[number]?.intents[index], intent.node !== node,
                intent.node.intents.contains(where: { $0 === intent })
            else { continue }
            unplace(intent)
            intent.node = node
            place(intent)
        }
        node.intents.sort { $0.claim.number < $1.claim.number }
        for number in departure.presenters {
            guard let presenter = presenters[number], let former = presenter.node, former !== node else { continue }
            let left = former.path
            put(presenter, at: node)
            guard departure.told.contains(number) else { continue }
            if let move = presenter.pendingMove {
                if move.from == path { presenter.pendingMove = nil }
            } else {
                tell(presenter, .didMove, left, to: path)
            }
        }
        prune(node)
        findWaitsAgain(of: pending, now: now)
    }

    /// Whoever moved a file says that it is another place it went to.
    package mutating func confirmMove(from path: RemotePath, now: MonotonicTime) {
        for number in departures[path]?.presenters ?? [] {
            if let presenter = presenters[number] { tellPendingMove(presenter) }
        }
        forgetDeparture(from: path, now: now)
    }

    /// The name is free from now on.
    mutating func forgetDeparture(from path: RemotePath, number: Int? = nil, now: MonotonicTime) {
        guard let departure = departures[path], number == nil || departure.number == number else { return }
        departures[path] = nil
        let affected = dropShades(of: departure)
        if !affected.isEmpty { findWaitsAgain(of: claimsBehind(affected), now: now) }
    }

    /// Takes the claims off that only kept a name; the claims that may have waited for that.
    @discardableResult
    private mutating func dropShades(of departure: Departure) -> [Claim] {
        var affected: [Claim] = []
        for (number, _) in departure.intents {
            guard let claim = claims[number] else { continue }
            let dropped = claim.shades.filter { $0.departure == departure.number }
            guard !dropped.isEmpty else { continue }
            claim.shades.removeAll { $0.departure == departure.number }
            for shade in dropped { unplace(shade.intent) }
            affected += claim.blocks
        }
        return affected
    }

    /// What a presenter was to hear of a move, it hears before anything else.
    mutating func tellPendingMove(_ presenter: Presenter) {
        guard let move = presenter.pendingMove else { return }
        presenter.pendingMove = nil
        guard let path = presenter.node?.path, path != move.from else { return }
        tell(presenter, .didMove, move.from, to: path)
    }
}
