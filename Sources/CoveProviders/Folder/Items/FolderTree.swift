internal import CoveCore
internal import Glibc

/// One operation's view of the source: its root, held open, and ways to what is below that follow no link.
///
/// The root is opened anew for every operation: a descriptor kept open would keep an external disk from being
/// unmounted, and would go on working in a directory that is no longer the one at that path.
struct FolderTree: ~Copyable {
    let root: Descriptor
    /// What is at the root's path now.
    let identity: SourceIdentity
    /// The root's device; items on another one carry theirs in their id.
    let device: UInt64

    /// Opens the source.
    ///
    /// Throws `serverUnreachable` when it is gone or another one than expected.
    static func open(
        _ path: String,
        expecting expected: SourceIdentity?
    ) throws(ProviderError) -> FolderTree {
        let root = Descriptor(
            try reach(path) { () throws(Errno) in try System.open(path, System.pathOnly | O_DIRECTORY) }
        )
        let descriptor = root.raw
        let identity = try reach(path) { () throws(Errno) in try SourceIdentity(descriptor) }
        let device = try reach(path) { () throws(Errno) in try System.status(descriptor).device }
        if let expected, expected != identity {
            throw .serverUnreachable("\(path): another directory is in its place")
        }
        return FolderTree(root: root, identity: identity, device: device)
    }

    private static func reach<R>(_ path: String, _ body: () throws(Errno) -> R) throws(ProviderError) -> R {
        do throws(Errno) { return try body() } catch {
            // Out of descriptors or memory: that says nothing of the source.
            if [Errno(EMFILE), Errno(ENFILE), Errno(ENOMEM)].contains(error) { throw ProviderError(error, path) }
            throw .serverUnreachable("\(path): \(error)")
        }
    }

    /// Opens what is at a path.
    func open(_ path: RemotePath, _ flags: Int32) throws(Errno) -> Descriptor {
        for name in path.names where FileName.problem(with: name.bytes) != nil { throw .noSuchEntry }
        do throws(Errno) {
            return Descriptor(try System.openBeneath(root.raw, path.bytes, flags | O_NOFOLLOW))
        } catch {
            // Seccomp filters of older container runtimes answer EPERM; EAGAIN means a rename raced with the walk.
            guard error == .notImplemented || error == .notPermitted || error == .wouldBlock else { throw error }
            return try walk(path, flags)
        }
    }

    func walk(_ path: RemotePath, _ flags: Int32) throws(Errno) -> Descriptor {
        guard let last = path.name else { return Descriptor(try System.openat(root.raw, [], flags)) }
        var directory = Descriptor(try System.openat(root.raw, [], System.pathOnly | O_DIRECTORY))
        for name in path.parent.names {
            let flags = System.pathOnly | O_DIRECTORY | O_NOFOLLOW
            directory = Descriptor(try System.openat(directory.raw, name.bytes, flags))
        }
        return Descriptor(try System.openat(directory.raw, last.bytes, flags | O_NOFOLLOW))
    }

    /// Opens a directory to work on its entries.
    func directory(_ path: RemotePath) throws(ProviderError) -> Descriptor {
        try attempt("\(path)") { () throws(Errno) in try open(path, System.pathOnly | O_DIRECTORY) }
    }

    /// Opens the directory that holds a path, and names the entry in it.
    ///
    /// The root has no entry.
    func place(_ path: RemotePath) throws(ProviderError) -> Place {
        guard let name = path.name else { throw .notPermitted("the root of the source can't be changed") }
        guard FileName.problem(with: name.bytes) == nil else { throw .noSuchItem }
        return Place(directory: try directory(path.parent), name: name.bytes, path: path)
    }

    /// Makes a directory's entries durable; a file system that can't is taken at its word.
    static func synchronize(_ directory: Int32) {
        guard let descriptor = try? System.openat(directory, [], O_RDONLY | O_DIRECTORY) else { return }
        try? System.fsync(descriptor)
        System.close(descriptor)
    }
}

/// An entry: a name in an open directory, whether or not anything has it.
struct Place: ~Copyable {
    let directory: Descriptor
    let name: [UInt8]
    let path: RemotePath

    func status() throws(Errno) -> FileStatus { try System.status(directory.raw, name) }

    /// The status, or nil when nothing has the name.
    func statusIfPresent() throws(ProviderError) -> FileStatus? {
        do throws(Errno) { return try status() } catch .noSuchEntry { return nil } catch {
            throw ProviderError(error, "\(path)")
        }
    }

    func synchronize() { FolderTree.synchronize(directory.raw) }
}
