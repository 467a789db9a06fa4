package import CoveCore

/// A path that claims or presenters are at, or that leads to one.
///
/// Claims and presenters move with their node when an item is moved. Its fields are unchecked as those of `Claim`.
package final class PathNode {
    @exclusivity(unchecked) private(set) var name: FileName
    /// It outlives its children: one that goes is detached before.
    @exclusivity(unchecked) private(set) unowned(unsafe) var parent: PathNode?
    @exclusivity(unchecked) private(set) var children: [FileName: PathNode] = [:]
    @exclusivity(unchecked) package internal(set) var isPackage: Bool
    /// In the order of their claims.
    @exclusivity(unchecked) package internal(set) var intents: [ClaimIntent] = []
    @exclusivity(unchecked) package internal(set) var presenters: [Presenter] = []
    /// Intents and presenters further down.
    @exclusivity(unchecked) package private(set) var intentsBelow = 0
    @exclusivity(unchecked) private(set) var presentersBelow = 0
    /// True while the table looks at it again before it makes room.
    @exclusivity(unchecked) var isIdle = false
    /// The catalog's row of the entry, where it is known.
    @exclusivity(unchecked) package internal(set) var entry: Int64?

    package init(name: FileName, parent: PathNode?, isPackage: Bool) {
        self.name = name
        self.parent = parent
        self.isPackage = isPackage
    }

    /// One whose end would end a long row of others below takes that apart before.
    deinit {
        var left = Array(children.values)
        children = [:]
        while var node = left.popLast() {
            guard isKnownUniquelyReferenced(&node) else { continue }
            left += node.children.values
            node.children = [:]
        }
    }

    /// True where claims or presenters are, or are below.
    package var isUsed: Bool { !intents.isEmpty || !presenters.isEmpty || intentsBelow > 0 || presentersBelow > 0 }

    var isEmpty: Bool { intents.isEmpty && presenters.isEmpty && children.isEmpty }

    package func child(_ step: PathStep) -> PathNode {
        if let child = children[step.name] {
            // What is at the place of an unused node may be something else by now: the changes of used ones are told.
            if !child.isUsed { child.isPackage = step.isPackage }
            return child
        }
        let child = PathNode(name: step.name, parent: self, isPackage: step.isPackage)
        children[step.name] = child
        return child
    }

    /// The node that claims exclude each other on: the outermost package around this one, or itself.
    package var unit: PathNode {
        var unit = self
        var node = parent
        while let current = node {
            if current.isPackage { unit = current }
            node = current.parent
        }
        return unit
    }

    /// Counts an intent in or out above.
    func countIntent(_ by: Int) {
        var node = parent
        while let current = node {
            current.intentsBelow += by
            node = current.parent
        }
    }

    /// Counts presenters in or out above.
    func countPresenters(_ by: Int) {
        var node = parent
        while let current = node {
            current.presentersBelow += by
            node = current.parent
        }
    }

    // What goes down the tree does so by lists of what is left, for the depth is not ours to choose: directories are moved into
    // each other, and a thread's stack is small.

    /// Visits the intents further down.
    func eachIntentBelow(_ body: (ClaimIntent) -> Void) {
        eachBelow(where: { $0.intentsBelow > 0 }, { for intent in $0.intents { body(intent) } })
    }

    /// Visits the presenters further down.
    func eachPresenterBelow(_ body: (Presenter) -> Void) {
        eachBelow(where: { $0.presentersBelow > 0 }, { for presenter in $0.presenters { body(presenter) } })
    }

    /// Visits the nodes further down, below those alone of which that is wanted.
    private func eachBelow(where isWanted: (PathNode) -> Bool, _ body: (PathNode) -> Void) {
        guard isWanted(self) else { return }
        var left = Array(children.values)
        while let node = left.popLast() {
            body(node)
            if isWanted(node) { left += node.children.values }
        }
    }

    /// The nodes further down that claims or presenters are at.
    package var usedBelow: [PathNode] {
        var found: [PathNode] = []
        eachBelow(where: { $0.intentsBelow > 0 || $0.presentersBelow > 0 }) { node in
            if !node.intents.isEmpty || !node.presenters.isEmpty { found.append(node) }
        }
        return found
    }

    /// Visits this node and all below.
    package func eachNode(_ body: (PathNode) -> Void) {
        body(self)
        eachBelow(where: { _ in true }, body)
    }

    /// The nodes above, the nearest first.
    var ancestors: [PathNode] {
        var found: [PathNode] = []
        var node = parent
        while let current = node {
            found.append(current)
            node = current.parent
        }
        return found
    }

    /// The names that lead to it, the topmost first.
    var steps: [PathStep] {
        ([self] + ancestors).dropLast().reversed().map { PathStep(name: $0.name, isPackage: $0.isPackage) }
    }

    package var path: RemotePath {
        var names: [FileName] = []
        var node = self
        while let parent = node.parent {
            names.append(node.name)
            node = parent
        }
        return RemotePath(names.reversed())
    }

    /// Takes the node out of its parent, and what is below it with it.
    func detach() {
        countIntent(-(intents.count + intentsBelow))
        countPresenters(-(presenters.count + presentersBelow))
        parent?.children[name] = nil
        parent = nil
    }

    /// Puts a detached node here; what is here already under the name gets its claims and presenters.
    ///
    /// Returns the node that has them now.
    func adopt(_ node: PathNode, as newName: FileName) -> PathNode {
        guard let existing = children[newName] else {
            put(node, as: newName)
            return node
        }
        var left = [(existing, node)]
        while let (kept, taken) = left.popLast() {
            for (name, child) in kept.takeOwn(of: taken) {
                if let same = kept.children[name] { left.append((same, child)) } else { kept.put(child, as: name) }
            }
        }
        return existing
    }

    /// Puts a detached node here, under a name that nothing has.
    private func put(_ node: PathNode, as newName: FileName) {
        node.name = newName
        node.parent = self
        children[newName] = node
        node.countIntent(node.intents.count + node.intentsBelow)
        node.countPresenters(node.presenters.count + node.presentersBelow)
    }

    /// Takes the claims and presenters of a detached node, and returns what is below that.
    private func takeOwn(of other: PathNode) -> [FileName: PathNode] {
        for intent in other.intents { intent.node = self }
        for presenter in other.presenters { presenter.node = self }
        intents = (intents + other.intents).sorted { $0.claim.number < $1.claim.number }
        presenters += other.presenters
        countIntent(other.intents.count)
        countPresenters(other.presenters.count)
        let taken = other.children
        other.intents = []
        other.presenters = []
        other.children = [:]
        other.parent = nil
        return taken
    }

    /// Takes an empty node out.
    func remove(_ child: PathNode) {
        children[child.name] = nil
        child.parent = nil
    }
}
