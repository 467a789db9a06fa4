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
            var later: Set<ChangeLog.Change> = []
            for located in taken.changes {
                let path = located.path
                guard let directory = self.directory(located, tree) else {
                    // It has left its place, and the watching will know soon: told now, the change would be of another.
                    later.insert(.directory(located.number))
                    continue
                }
                guard case .entry(let entry) = located.change else {
                    listed.append(.directoryChanged(path))
                    continue
                }
                try flag.check()
                let name = FileName(unchecked: entry.name)
                let place = Place(directory: directory, name: entry.name, path: path.appending(name))
                if let item = try self.item(place, reader) {
                    updated.append(.updated(item, directory: path))
                } else {
                    removed.append(.removed(place.path))
                }
            }
            if !later.isEmpty { watcher.state.withLock { [later] in $0.changes.append(later) } }
            return Changes(events: updated + removed + listed, anchor: taken.anchor, moreComing: taken.more)
        }
    }

    private func item(_ place: borrowing Place, _ reader: ItemReader) throws(ProviderError) -> RemoteItem? {
        do throws(ProviderError) {
            return try current(place, reader)
        } catch .noSuchItem {
            return nil
        }
    }

    /// Opens the directory that a change is in, if that is still where the watching has it.
    private func directory(_ located: FolderWatcher.Located, _ tree: borrowing FolderTree) -> Descriptor? {
        guard let opened = try? tree.directory(located.path) else { return nil }
        if located.path.isRoot { return opened }
        let descriptor = opened.raw
        guard let status = try? System.status(descriptor), located.key.isSame(status) else { return nil }
        return opened
    }
}

extension FolderWatcher {
    /// A change whose directory has a path.
    struct Located {
        let change: ChangeLog.Change
        let number: Int
        let key: DirectoryKey
        let path: RemotePath
    }

    /// Takes changes out of the log; a directory that is on the move stays in it, to be listed where it comes up.
    func take(since anchor: Anchor) -> (changes: [Located], anchor: Anchor, more: Bool)? {
        state.withLock { state in
            let now = System.monotonic()
            tellAgain(&state, now)
            guard let taken = state.changes.take(since: anchor, about: 1000) else { return nil }
            var moving: Set<ChangeLog.Change> = []
            var found: [Located] = []
            for change in taken.changes {
                let number = change.directory
                guard let node = state.tree.nodes[number] else { continue }
                if let path = state.tree.path(number), let placed = state.tree.placed(number) {
                    state.told[number] = (placed, now)
                    found.append(Located(change: change, number: number, key: node.key, path: path))
                } else {
                    moving.insert(.directory(number))
                }
            }
            if !moving.isEmpty { state.changes.append(moving) }
            return (found, taken.anchor, taken.more)
        }
    }

    /// Whoever hears of a change is done with it after this long.
    private static let memory = TimeSpan.seconds(60)

    /// Has directories listed that have moved since something was told of them: it was looked for where they are no more.
    private func tellAgain(_ state: inout State, _ now: MonotonicTime) {
        var moved: [ChangeLog.Change] = []
        for (number, told) in state.told {
            let isKnown = state.tree.nodes[number] != nil && now - told.time < Self.memory
            if isKnown, state.tree.placed(number) == told.placed { continue }
            state.told[number] = nil
            if isKnown { moved.append(.directory(number)) }
        }
        if !moved.isEmpty { state.changes.append(moved) }
    }
}
