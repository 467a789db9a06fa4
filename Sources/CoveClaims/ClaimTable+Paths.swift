package import CoveCore

/// The nodes of the paths that claims and presenters are at.
extension ClaimTable {
    /// The node of a path, made where there is none; to be pruned when nothing is put there.
    mutating func node(at path: [PathStep]) -> PathNode {
        var node = root
        for step in path {
            node = node.child(step)
            guard step.isPackage, !node.isPackage else { continue }
            // Whoever tells of it was faster than the word that it has become one.
            mark(node, isPackage: true)
            hasNewPackages = true
        }
        return node
    }

    /// The node of a path, if there is one.
    package func existingNode(at path: RemotePath) -> PathNode? {
        var node = root
        for name in path.names {
            guard let child = node.children[name] else { return nil }
            node = child
        }
        return node
    }

    /// True when a claim or a presenter is where an item is, or may want to know of its end.
    package func concerns(_ path: RemotePath, _ use: ItemUse) -> Bool {
        var node = root
        for name in path.names {
            if use.takesAll, !node.presenters.isEmpty { return true }
            guard let child = node.children[name] else { return false }
            node = child
        }
        if !node.intents.isEmpty || !node.presenters.isEmpty { return true }
        return use.takesAll && (node.intentsBelow > 0 || node.presentersBelow > 0)
    }

    /// True where an item, or a package that it is in, is presented.
    package func isPresented(_ path: RemotePath) -> Bool {
        var node = root
        for name in path.names {
            if node.isPackage, !node.presenters.isEmpty { return true }
            guard let child = node.children[name] else { return false }
            node = child
        }
        return !node.presenters.isEmpty
    }

    /// What is changed under granted claims, and the names that their items or presented ones left a moment ago.
    ///
    /// What comes from the source is claimed too while it is shown, but nothing of that is to be sent.
    package var heldNames: HeldNames {
        var held = heldNames { !$0.request.isFromSource }
        for departure in departures.values {
            held.insert(
                RemotePath(departure.steps.map(\.name)),
                withAllBelow: departure.steps.last?.isPackage == true
            )
        }
        return held
    }

    /// What is changed under the claims of some sessions.
    package func heldNames(of sessions: [Int]) -> HeldNames { heldNames { sessions.contains($0.session) } }

    private func heldNames(where isWanted: (Claim) -> Bool) -> HeldNames {
        var held = HeldNames()
        for claim in claims.values where claim.isGranted && claim.isExplicit && isWanted(claim) {
            for intent in claim.intents + claim.shades.map(\.intent) where intent.use.isWrite {
                let unit = intent.node.unit
                held.insert(unit.path, withAllBelow: intent.use.takesAll || unit.isPackage)
            }
        }
        return held
    }

    /// Where the items of a claim are now.
    package func paths(of number: Int) -> [RemotePath] { claims[number]?.intents.map(\.node.path) ?? [] }

    /// Says which row of the catalog the entry at a path has, so that its moves are known.
    package mutating func setEntry(_ entry: Int64?, of node: PathNode) {
        guard node.entry != entry else { return }
        if let former = node.entry, entries[former] === node { entries[former] = nil }
        node.entry = entry
        if let entry { entries[entry] = node }
    }

    mutating func place(_ intent: ClaimIntent) {
        intent.isPlaced = true
        intent.node.intents.append(intent)
        intent.node.countIntent(1)
        markWide(intent)
    }

    /// Counts what may concern items that no node is at.
    mutating func markWide(_ intent: ClaimIntent) {
        guard !intent.isWide, intent.use.takesAll || intent.node.isPackage || intent.node.unit !== intent.node else {
            return
        }
        intent.isWide = true
        wideIntents += 1
    }

    mutating func setWide(_ presenter: Presenter, _ isWide: Bool) {
        if presenter.isWide != isWide { widePresenters += isWide ? 1 : -1 }
        presenter.isWide = isWide
    }

    mutating func unplace(_ intent: ClaimIntent) {
        let node = intent.node
        if let index = node.intents.firstIndex(where: { $0 === intent }) {
            node.intents.remove(at: index)
            intent.isPlaced = false
            node.countIntent(-1)
            if intent.isWide { wideIntents -= 1 }
            intent.isWide = false
        }
        prune(node)
    }

    /// The node may have become empty.
    ///
    /// It stays in the tree until the input has been dealt with: something may be about to be put there.
    mutating func prune(_ node: PathNode) {
        guard node.isEmpty, !node.isIdle else { return }
        node.isIdle = true
        idle.append(node)
    }

    /// With more empty nodes than these the table makes room.
    static let idleNodes = 1024

    /// Removes the nodes that lead nowhere.
    mutating func sweep() {
        for start in idle {
            start.isIdle = false
            var node = start
            while node.isEmpty, let parent = node.parent {
                setEntry(nil, of: node)
                parent.remove(node)
                node = parent
            }
        }
        idle.removeAll(keepingCapacity: true)
    }
}
