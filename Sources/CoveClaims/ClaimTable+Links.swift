package import CoveCore

/// Symbolic links that take the names of what is claimed or presented.
extension ClaimTable {
    /// How much that links lead to one claim may get beside its own items.
    static let mostLinks = 100

    /// A link has taken a name, or that of a directory above; true where that concerns anybody.
    ///
    /// A claim by the name of a link is one on what that leads to. Who holds a claim keeps the name and has what the link
    /// leads to as well, beside whoever has it already; who waits for the name waits there, and presenters go there.
    /// Deleting, moving and replacing are of a link itself, and of what a link above leads to: they go with `takingAll`.
    package mutating func linked(
        _ path: RemotePath,
        to target: [PathStep],
        takingAll: Bool = false,
        now: MonotonicTime
    ) -> Bool {
        guard let node = existingNode(at: path), RemotePath(target.map(\.name)) != path else { return false }
        // A snapshot that is made holds nothing any more.
        let intents = node.intents.filter { intent in
            let isOver = intent.use.isForUploading && intent.claim.isGranted
            return intent.claim.isExplicit && intent.use.takesAll == takingAll && !isOver
        }
        let presenters = takingAll ? [] : node.presenters
        guard !intents.isEmpty || !presenters.isEmpty else { return false }
        let end = self.node(at: target)
        for intent in intents {
            let claim = intent.claim
            if claim.isGranted {
                let isHeld = claim.intents.contains { own in
                    own.node === end && own.isPlaced && (own.use.isWrite || !intent.use.isWrite)
                }
                // Who makes one link after the other gets no more than these.
                if isHeld || claim.intents.count >= claim.request.items.count + Self.mostLinks { continue }
                // One of the claim's own from now on: it goes along with what the link leads to.
                let other = ClaimIntent(intent.use, of: claim, at: end)
                other.existed = false
                claim.intents.append(other)
                place(other)
            } else {
                unplace(intent)
                intent.node = end
                place(intent)
            }
        }
        end.intents.sort { $0.claim.number < $1.claim.number }
        for presenter in presenters { put(presenter, at: end) }
        prune(node)
        prune(end)
        findWaitsAgain(of: pending, now: now)
        return true
    }
}
