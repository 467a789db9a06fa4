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

    /// Visits the intents further down.
    func eachIntentBelow(_ body: (ClaimIntent) -> Void) {
        guard intentsBelow > 0 else { return }
        for child in children.values {
            for intent in child.intents { body(intent) }
            child.eachIntentBelow(body)
        }
    }

    /// Visits the presenters further down.
    func eachPresenterBelow(_ body: (Presenter) -> Void) {
        guard presentersBelow > 0 else { return }
        for child in children.values {
            for presenter in child.presenters { body(presenter) }
            child.eachPresenterBelow(body)
        }
    }

    /// The nodes further down that claims or presenters are at.
    package var usedBelow: [PathNode] {
        guard intentsBelow > 0 || presentersBelow > 0 else { return [] }
        var found: [PathNode] = []
        for child in children.values {
            child.eachNode { if !$0.intents.isEmpty || !$0.presenters.isEmpty { found.append($0) } }
        }
        return found
    }

    /// Visits this node and all below.
    package func eachNode(_ body: (PathNode) -> Void) {
        body(self)
        for child in children.values { child.eachNode(body) }
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
        if let existing = children[newName] {
            existing.take(node)
            return existing
        }
        node.name = newName
        node.parent = self
        children[newName] = node
        node.countIntent(node.intents.count + node.intentsBelow)
        node.countPresenters(node.presenters.count + node.presentersBelow)
        return node
    }

    private func take(_ other: PathNode) {
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
        for (name, child) in taken { _ = adopt(child, as: name) }
    }

    /// Takes an empty node out.
    func remove(_ child: PathNode) {
        children[child.name] = nil
        child.parent = nil
    }
}
