public import CoveCore
internal import Synchronization

extension FolderProvider {
    /// The changes after an anchor, as things are now: what is there is an update, what is not a removal.
    ///
    /// Updates come before removals, so that a moved item is seen at its new place first. There is one consumer: an
    /// anchor older than the last one used has expired, and so have those of an earlier `start()`.
    public func changes(since anchor: Anchor?) async throws(ProviderError) -> Changes {
        try await calls.run { flag throws(ProviderError) in
            let tree = try self.tree()
            let watcher = try self.watcher()
            guard let anchor else {
                return Changes(events: [], anchor: watcher.state.withLock { $0.changes.begin() }, moreComing: false)
            }
            watcher.drain()
            guard let taken = watcher.take(since: anchor) else { throw .anchorExpired }
            let reader = self.reader(tree)
            var updated: [RemoteChange] = []
            var removed: [RemoteChange] = []
            var listed: [RemoteChange] = []
            for change in taken.changes {
                switch change {
                case .directory(let path): listed.append(.directoryChanged(path))
                case .entry(let name, let directory):
                    try flag.check()
                    if let item = try self.item(name, in: directory, tree, reader) {
                        updated.append(.updated(item, directory: directory))
                    } else {
                        removed.append(.removed(directory.appending(name)))
                    }
                }
            }
            return Changes(events: updated + removed + listed, anchor: taken.anchor, moreComing: taken.more)
        }
    }

    private func item(
        _ name: FileName,
        in directory: RemotePath,
        _ tree: borrowing FolderTree,
        _ reader: ItemReader
    ) throws(ProviderError) -> RemoteItem? {
        do throws(ProviderError) {
            return try current(tree.place(directory.appending(name)), reader)
        } catch .noSuchItem {
            return nil
        }
    }
}

extension FolderWatcher {
    /// A change whose directory has a path.
    enum Located {
        case entry(FileName, RemotePath)
        case directory(RemotePath)
    }

    /// Takes changes out of the log; those in a directory that is on the move go back into it.
    func take(since anchor: Anchor) -> (changes: [Located], anchor: Anchor, more: Bool)? {
        state.withLock { state in
            guard let taken = state.changes.take(since: anchor, about: 1000) else { return nil }
            var moving: [ChangeLog.Change] = []
            var found: [Located] = []
            for change in taken.changes {
                let number =
                    switch change {
                    case .entry(let entry): entry.directory
                    case .directory(let number): number
                    }
                guard let path = state.tree.path(number) else {
                    if state.tree.nodes[number] != nil { moving.append(change) }
                    continue
                }
                switch change {
                case .entry(let entry): found.append(.entry(FileName(unchecked: entry.name), path))
                case .directory: found.append(.directory(path))
                }
            }
            if !moving.isEmpty { state.changes.append(moving) }
            return (found, taken.anchor, taken.more)
        }
    }
}
