package import CoveCore

/// What is in the middle of a change: nothing of it is to be sent.
package struct HeldNames: Sendable {
    private var names: Set<RemotePath> = []
    /// Directories of which all that is below is held, too.
    private var trees: Set<RemotePath> = []

    package init() {}

    package var isEmpty: Bool { names.isEmpty && trees.isEmpty }

    mutating func insert(_ path: RemotePath, withAllBelow: Bool) {
        names.insert(path)
        if withAllBelow { trees.insert(path) }
    }

    package func contains(_ path: RemotePath) -> Bool {
        if names.contains(path) { return true }
        guard !trees.isEmpty else { return false }
        var above = path
        while !above.isRoot {
            above = above.parent
            if trees.contains(above) { return true }
        }
        return false
    }
}
