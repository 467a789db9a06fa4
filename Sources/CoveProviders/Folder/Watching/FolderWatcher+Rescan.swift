internal import CoveCore
internal import Glibc
internal import Synchronization

extension FolderWatcher {
    /// Looks at the directories' times: at all, or only at those without a watch.
    ///
    /// A full rescan reports every directory whose content can change unseen: without a watch, or on a remote file
    /// system. It also tries to watch again what is polled.
    func rescan(all: Bool) {
        guard let tree = try? FolderTree.open(root, expecting: identity) else { return noteLost() }
        let numbers = state.withLock { state in
            all ? Array(state.tree.nodes.keys) : state.tree.nodes.filter { $0.value.watch < 0 }.map(\.key)
        }
        var changes: [ChangeLog.Change] = []
        for number in numbers {
            let known = state.withLock { state in (state.tree.path(number), state.tree.nodes[number]) }
            guard let path = known.0, let node = known.1 else { continue }
            guard let status = try? System.status(tree.root.raw, path.isRoot ? [0x2E] : path.bytes),
                DirectoryKey(status) == node.key
            else {
                changes.append(.directory(node.parent))
                state.withLock { state in
                    state.tree.detach(number)
                    state.strays.insert(number)
                }
                continue
            }
            let isUnseen = all && (isRemote || node.watch < 0)
            if isUnseen || status.modificationTime != node.modified { changes.append(.directory(number)) }
            state.withLock { $0.tree.setModified(number, status.modificationTime) }
            if all, node.watch < 0 { watchAgain(path, in: tree) }
        }
        record(changes)
    }

    private func watchAgain(_ path: RemotePath, in tree: borrowing FolderTree) {
        guard let opened = try? tree.directory(path) else { return }
        _ = try? watch(path, opened.raw, in: tree)
    }

    /// Looks for a lost source; true when it is back.
    func search() -> Bool {
        guard let tree = try? FolderTree.open(root, expecting: identity) else { return false }
        state.withLock { $0.isLost = false }
        verify(tree)
        return true
    }

    /// After events were lost: watches every directory again where it was, and reports it as changed.
    ///
    /// One that is not there any more keeps its watch, if it has one, until a listing shows where it went.
    func verify(_ tree: borrowing FolderTree) {
        let known = state.withLock { state in
            state.tree.nodes.keys.compactMap { number in state.tree.path(number).map { (number, $0) } }
        }
        var changes: [ChangeLog.Change] = []
        for (number, path) in known.sorted(by: { $0.1 < $1.1 }) {
            guard state.withLock({ $0.tree.path(number) }) == path else { continue }
            if isStill(number, path, in: tree) {
                changes.append(.directory(state.withLock { $0.tree.node(at: path) } ?? number))
                continue
            }
            state.withLock { state in
                state.tree.detach(number)
                state.strays.insert(number)
            }
        }
        record(changes)
    }

    /// Watches a directory again if it is still where it was.
    private func isStill(_ number: Int, _ path: RemotePath, in tree: borrowing FolderTree) -> Bool {
        guard let opened = try? tree.directory(path) else { return false }
        let descriptor = opened.raw
        guard let status = try? System.status(descriptor) else { return false }
        let isSame = state.withLock { state in state.tree.nodes[number]?.key.isSame(status) ?? false }
        guard isSame || path.isRoot else { return false }
        return (try? watch(path, descriptor, in: tree)) == true
    }
}

extension DirectoryKey {
    /// The same directory, though its file system may have been mounted anew under another device number.
    func isSame(_ status: FileStatus) -> Bool {
        inode == status.inode && birthTime == status.birthTime
    }
}
