public import CoveCore

/// What is asked of versions, and of the folder in which they are files.
extension Engine {
    /// Finds a name; nil where there is none.
    public func lookupHidden(_ parent: HiddenNode, _ name: [UInt8]) throws(Errno) -> ItemAttributes? {
        try history.lookupHidden(parent, name)
    }

    /// What stat(2) says of a node; `ESTALE` for a version that is gone.
    public func hiddenAttributes(of node: HiddenNode) throws(Errno) -> ItemAttributes {
        if case .reference(let row) = node { return try access.danglingAttributes(row) }
        return try history.hiddenAttributes(of: node)
    }

    /// Calls the body for each name after a cookie until it returns false; cookies 1 and 2 are `.` and `..`.
    public func readHidden(
        _ node: HiddenNode,
        after cookie: UInt64,
        _ body: (borrowing DirectoryEntry) -> Bool
    ) throws(Errno) { try history.readHidden(node, after: cookie, body) }

    /// A version may be opened to be read; `ESTALE` when it is gone, `EROFS` for a writer.
    public func openHidden(_ node: HiddenNode, flags: Int32) throws(Errno) {
        if case .reference = node { throw .stale }
        try history.openHidden(node, flags: flags)
    }

    /// Reads bytes of a version; `ESTALE` when it is gone.
    public func readHidden(_ node: HiddenNode, offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(Errno)
        -> Int
    { try history.readHidden(node, offset: offset, into: buffer) }

    /// All earlier contents of a file, the newest first, and then the files that hold other sides of its conflicts.
    public func allVersions(of path: RemotePath) async throws(Errno) -> [VersionStatus] {
        try await history.allVersions(of: path)
    }

    /// Finds the conflicts of a file in a folder that nobody has listed; without a connection those that are known must do.
    public func lookForConflicts(of path: RemotePath) async { await history.lookForConflicts(of: path) }

    /// Says that a person has dealt with a file's conflicts, or with one; how many there were.
    public func resolveConflicts(of path: RemotePath, _ id: String?) throws(Errno) -> Int {
        try history.resolveConflicts(of: path, id)
    }

    /// The earlier contents of a file, newest first, and then the files that hold other sides of its conflicts.
    public func versions(of path: RemotePath) throws(Errno) -> [VersionStatus] { try history.versions(of: path) }

    /// Opens a version to read it.
    public func versionContent(_ id: String, of path: RemotePath) async throws(Errno) -> VersionContent {
        try await history.versionContent(id, of: path)
    }

    /// Gives a file the content of one of its versions, as if a program had saved it; what it replaces becomes a version.
    public func restoreVersion(_ id: String, of path: RemotePath) async throws(Errno) {
        try await history.restoreVersion(id, of: path)
    }

    /// Deletes one of a file's versions, or all; how many.
    public func removeVersions(of path: RemotePath, _ id: String?) throws(Errno) -> Int {
        try history.removeVersions(of: path, id)
    }
}
