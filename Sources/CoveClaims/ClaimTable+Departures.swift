package import CoveCore

/// A file that was renamed while it was claimed or presented: perhaps to a backup, and what takes its name is the document.
struct Departure {
    var number: Int
    var steps: [PathStep]
    /// Until when the name is the document's.
    var until: MonotonicTime
    /// The claims that came to the name before, or to one in the package; which of their items it was, and where.
    var intents: [(claim: Int, index: Int, steps: [PathStep])]
    var presenters: [(number: Int, steps: [PathStep])]
    /// Those of them that hear of the move: all but the mover's own.
    var told: Set<Int>
}

/// A name that an item of a claim has left, and may come back to.
package struct Home {
    /// Which of the claim's items it is.
    package var index: Int
    /// What was renamed: the item, or a package that it is in.
    package var left: RemotePath
    /// The item's own name.
    package var path: RemotePath
    /// Until when it is kept for the item.
    package var until: MonotonicTime
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
    package static let vacancy = TimeSpan.seconds(15)
    /// Programs that save take the name again within this: presenters don't hear that it was ever left.
    static let moveDelay = TimeSpan.seconds(1)

    /// A program has renamed a file; true where its name may be taken again.
    @discardableResult
    package mutating func left(_ path: RemotePath, to target: [PathStep], now: MonotonicTime) -> Bool {
        guard let node = existingNode(at: path), isSilentlyLeft(node, path) else {
            moved(path, to: target, now: now)
            return false
        }
        // What is in a package goes with it, and comes back with it.
        let nodes = [node] + (node.isPackage ? node.usedBelow : [])
        var intents: [(claim: Int, index: Int, steps: [PathStep])] = []
        for node in nodes {
            for intent in node.intents where intent.use != .write(.forMoving) && intent.use != .write(.forReplacing) {
                if let index = intent.claim.intents.firstIndex(where: { $0 === intent }) {
                    intents.append((intent.claim.number, index, node.steps))
                }
            }
        }
        let own = writer(of: path)?.request.presenter
        let presenters = nodes.flatMap { node in node.presenters.map { (presenter: $0, steps: node.steps) } }
        let told = presenters.filter { $0.presenter.number != own }
        for (presenter, steps) in told { delayMove(of: presenter, from: RemotePath(steps.map(\.name)), now: now) }
        let departure = Departure(
            number: nextNumber(),
            steps: node.steps,
            until: now + Self.vacancy,
            intents: intents,
            presenters: presenters.map { ($0.presenter.number, $0.steps) },
            told: Set(told.map(\.presenter.number))
        )
        relocate(path, to: target)
        forgetDeparture(from: path, now: now)
        begin(departure, from: path)
        // Who waited for the name waits on where it is kept.
        findWaitsAgain(of: pending, now: now)
        return true
    }

    /// From now on the name is kept for what has left it.
    private mutating func begin(_ departure: Departure, from path: RemotePath) {
        departures[path] = departure
        schedule(.departure(path, departure.number), at: departure.until)
        for (number, index, steps) in departure.intents {
            guard let claim = claims[number], claim.isGranted, claim.isExplicit else { continue }
            let shade = ClaimIntent(claim.intents[index].use, of: claim, at: self.node(at: steps))
            claim.shades.append(Shade(departure: departure.number, intent: shade))
            place(shade)
        }
    }

    /// The names that a claim's items have left and may come back to: the name that was left, and the item's own.
    package func homes(of claim: Int) -> [Home] {
        departures.flatMap { path, departure in
            departure.intents.filter { $0.claim == claim }.map { intent in
                let own = RemotePath(intent.steps.map(\.name))
                return Home(index: intent.index, left: path, path: own, until: departure.until)
            }
        }
    }

    /// The names that a presented item has left and may come back to.
    package func homes(ofPresenter number: Int) -> [Home] {
        departures.flatMap { path, departure in
            departure.presenters.filter { $0.number == number }.map { presenter in
                Home(index: 0, left: path, path: RemotePath(presenter.steps.map(\.name)), until: departure.until)
            }
        }
    }

    /// A name that what was claimed or presented has left, under the table before this one, is kept for it again.
    package mutating func restoreDeparture(
        from name: [PathStep],
        until: MonotonicTime,
        intents: [(claim: Int, index: Int, steps: [PathStep])],
        presenters: [(number: Int, steps: [PathStep])]
    ) {
        let path = RemotePath(name.map(\.name))
        guard departures[path] == nil else { return }
        let presenters = presenters.filter { self.presenters[$0.number] != nil }
        let departure = Departure(
            number: nextNumber(),
            steps: name,
            until: until,
            intents: intents.filter { claims[$0.claim]?.intents.indices.contains($0.index) == true },
            presenters: presenters,
            told: Set(presenters.map(\.number))
        )
        begin(departure, from: path)
    }

    /// The presenter's program does not know yet where its item is: it hears of that soon, unless the item comes back.
    mutating func delayMove(of presenter: Presenter, from path: RemotePath, now: MonotonicTime) {
        guard presenter.pendingMove == nil else { return }
        presenter.pendingMove = PendingMove(from: path, at: now + Self.moveDelay)
        schedule(.move(presenter.number), at: now + Self.moveDelay)
    }

    /// False where who moves it has claimed to do just that, or nobody has to do with it.
    private func isSilentlyLeft(_ node: PathNode, _ path: RemotePath) -> Bool {
        let nodes = [node] + (node.isPackage ? node.usedBelow : [])
        guard nodes.contains(where: { !$0.presenters.isEmpty || $0.intents.contains(where: \.claim.isExplicit) }) else {
            return false
        }
        return !node.intents.contains { $0.claim.isGranted && $0.use == .write(.forMoving) && $0.claim.isExplicit }
    }

    /// A name is taken: what left it a moment ago and belongs to the name comes back.
    package mutating func taken(_ path: RemotePath, now: MonotonicTime) {
        guard let departure = departures.removeValue(forKey: path) else { return }
        dropShades(of: departure)
        for (number, index, steps) in departure.intents {
            let node = self.node(at: steps)
            guard let intent = claims[number]?.intents[index], intent.node !== node,
                intent.node.intents.contains(where: { $0 === intent })
            else {
                prune(node)
                continue
            }
            unplace(intent)
            intent.node = node
            place(intent)
            node.intents.sort { $0.claim.number < $1.claim.number }
        }
        for (number, steps) in departure.presenters {
            let node = self.node(at: steps)
            guard let presenter = presenters[number], let former = presenter.node, former !== node else {
                prune(node)
                continue
            }
            let left = former.path
            put(presenter, at: node)
            guard departure.told.contains(number) else { continue }
            let own = RemotePath(steps.map(\.name))
            if let move = presenter.pendingMove {
                if move.from == own { presenter.pendingMove = nil }
            } else {
                tell(presenter, .didMove, left, to: own)
            }
        }
        prune(node(at: departure.steps))
        findWaitsAgain(of: pending, now: now)
    }

    /// Whoever moved a file says that it is another place it went to.
    package mutating func confirmMove(from path: RemotePath, now: MonotonicTime) {
        for (number, _) in departures[path]?.presenters ?? [] {
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
        for (number, _, _) in departure.intents {
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
