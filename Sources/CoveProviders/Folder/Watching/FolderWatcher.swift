internal import CoveCore
internal import Dispatch
internal import Glibc
internal import Synchronization

/// Watches directories of a source with inotify(7), on a thread of its own, and keeps what has changed in them.
///
/// The lock is held across adding a watch, so that no event of it is read before the watch is known; never across
/// other system calls.
final class FolderWatcher: Sendable {
    struct State {
        var tree = WatchTree()
        var changes = ChangeLog()
        /// -1 where there is no inotify instance to be had: then every directory is polled.
        var inotify: Int32
        var wake: Int32
        /// Directories that lost their place while events were lost, kept until they are found again.
        var strays: Set<Int> = []
        /// Directories of which something was told lately, as they were placed then.
        var told: [Int: (placed: Int, time: MonotonicTime)] = [:]
        var watches = 0
        var isLost = false
        var hasEnded = false
        var problem: String?
        /// Those who wait until every event so far is in the log.
        var drains: [DispatchSemaphore] = []
    }

    let state: Mutex<State>
    let root: String
    let identity: SourceIdentity
    let isRemote: Bool
    let timing: WatchTiming
    let signal: ChangeSignal
    private let maximumWatches: Int
    private let log: @Sendable (String) -> Void

    init(
        _ tree: borrowing FolderTree,
        root: String,
        isRemote: Bool,
        timing: WatchTiming,
        maximumWatches: Int,
        signal: ChangeSignal,
        log: @escaping @Sendable (String) -> Void
    ) throws(ProviderError) {
        self.root = root
        identity = tree.identity
        self.isRemote = isRemote
        self.timing = timing
        self.signal = signal
        self.maximumWatches = maximumWatches
        self.log = log
        let wake = try attempt("watching \(root)") { () throws(Errno) in try System.eventDescriptor() }
        state = Mutex(State(inotify: (try? Inotify.open()) ?? -1, wake: wake))
        if state.withLock({ $0.inotify }) < 0 { note("no inotify instance is left (fs.inotify.max_user_instances)") }
    }

    /// Watches the root and starts the thread.
    func begin(_ tree: borrowing FolderTree) throws(ProviderError) {
        _ = try watch(.root, tree.root.raw, in: tree)
        do throws(ProviderError) {
            // Not one of those that queues share, of which there are not many: this one waits nearly always.
            try attempt("\(root)") { () throws(Errno) in try BlockingThread.start(stackSize: 8 << 20) { self.run() } }
        } catch {
            // There is no thread that would see the end.
            end()
            run()
            throw error
        }
    }

    /// Ends the thread, which closes what is open.
    func end() {
        state.withLock { state in
            state.hasEnded = true
            wake(&state)
        }
    }

    /// Waits until everything that has happened so far is in the log, but for files that are still being written.
    ///
    /// An open batch still ends as it would: half of another program's save must not be told for a quick answer.
    func drain() {
        let done = DispatchSemaphore(value: 0)
        let isRunning = state.withLock { state in
            guard !state.hasEnded else { return false }
            state.drains.append(done)
            wake(&state)
            return true
        }
        if isRunning { _ = done.wait(timeout: .now() + 5) }
    }

    /// Looks for the source until it is back; called by whoever did not find it.
    func noteLost() {
        state.withLock { state in
            if !state.isLost { wake(&state) }
            state.isLost = true
        }
    }

    func diagnostics() -> [String] {
        state.withLock { state in
            var lines = state.isLost ? ["the source \(root) is gone"] : []
            if let problem = state.problem, state.tree.polled > 0 {
                lines.append("\(state.tree.polled) directories are polled, not watched: \(problem)")
            }
            return lines
        }
    }

    private func wake(_ state: inout State) {
        var one: UInt64 = 1
        if state.wake >= 0 { _ = write(state.wake, &one, 8) }
    }

    func note(_ problem: String) {
        let isNew = state.withLock { state in
            defer { state.problem = problem }
            return state.problem != problem
        }
        if isNew { log("\(root): \(problem); directories are polled instead") }
    }

    /// Watches an open directory, and those above it so that their renames keep the path right.
    ///
    /// False when it is not at the path any more: nothing will tell where it went, unless that is looked for now.
    func watch(
        _ path: RemotePath,
        _ descriptor: Int32,
        in tree: borrowing FolderTree
    ) throws(ProviderError) -> Bool {
        var above: [RemotePath] = []
        for name in path.names.dropLast() {
            let ancestor = (above.last ?? .root).appending(name)
            above.append(ancestor)
            if isWatched(ancestor, in: tree) { continue }
            let opened = try tree.directory(ancestor)
            try register(ancestor, opened.raw, in: tree)
        }
        try register(path, descriptor, in: tree)
        if path.isRoot || state.withLock({ $0.hasEnded }) { return true }
        // From here on every move is told; one that came before is seen.
        let status = try attempt("\(path)") { () throws(Errno) in try System.status(descriptor) }
        let isHere = state.withLock { state in
            state.tree.node(at: path).flatMap { state.tree.nodes[$0] }?.key.isSame(status) ?? false
        }
        above.append(path)
        if isHere, above.allSatisfy({ isWatched($0, in: tree) }) { return true }
        state.withLock { state in
            if let number = state.tree.node(at: path) { state.tree.detach(number) }
        }
        return false
    }

    /// True when the directory that is at a path is the one that is watched there.
    func isWatched(_ path: RemotePath, in tree: borrowing FolderTree) -> Bool {
        let place = path.isRoot ? [0x2E] : path.bytes
        guard let status = try? System.status(tree.root.raw, place) else { return false }
        return state.withLock { state in
            state.tree.node(at: path).flatMap { state.tree.nodes[$0] }?.key.isSame(status) ?? false
        }
    }

    /// Has a directory listed again.
    func report(_ path: RemotePath) {
        let number = state.withLock { $0.tree.node(at: path) }
        if let number { record([.directory(number)]) }
    }

    private func register(
        _ path: RemotePath,
        _ descriptor: Int32,
        in tree: borrowing FolderTree
    ) throws(ProviderError) {
        let status = try attempt("\(path)") { () throws(Errno) in try System.status(descriptor) }
        let key = DirectoryKey(status)
        // A change within the same step of the clock would leave the time as it is: then look again.
        let isSettled = System.now() - status.modificationTime > .milliseconds(10)
        let modified = isSettled ? status.modificationTime : Timestamp(0)
        let (problem, before) = state.withLock { state -> (String?, WatchedEntry?) in
            if state.hasEnded { return (nil, nil) }
            let (watch, problem) = addWatch(descriptor, &state)
            let known = watch >= 0 ? state.tree.node(watch: watch).flatMap { state.tree.nodes[$0] } : nil
            place(path, key, watch, modified, &state)
            guard let known, !known.isDetached else { return (problem, nil) }
            return (problem, WatchedEntry(directory: known.parent, name: known.name))
        }
        if let problem { note(problem) }
        // It was opened there, and has moved since: what was known of its place may be what is true.
        guard let before, !isWatched(path, in: tree) else { return }
        state.withLock { state in
            guard let number = state.tree.node(key: key), state.tree.node(at: path) == number else { return }
            state.tree.attach(number, at: before)
        }
    }

    private func addWatch(_ descriptor: Int32, _ state: inout State) -> (Int32, String?) {
        guard state.inotify >= 0 else { return (-1, nil) }
        guard state.tree.nodes.count - state.tree.polled < maximumWatches else { return (-1, "no watch is left") }
        do throws(Errno) {
            return (try Inotify.add(state.inotify, descriptor), nil)
        } catch .noSpace {
            return (-1, "no inotify watch is left (fs.inotify.max_user_watches)")
        } catch {
            return (-1, "inotify: \(error)")
        }
    }

    private func place(
        _ path: RemotePath,
        _ key: DirectoryKey,
        _ watch: Int32,
        _ modified: Timestamp,
        _ state: inout State
    ) {
        guard let name = path.name, let parent = state.tree.node(at: path.parent) else {
            guard path.isRoot else { return }
            if state.tree.nodes[WatchTree.root] == nil {
                state.tree.insertRoot(key, watch: watch, modified: modified)
            } else {
                state.tree.setWatch(WatchTree.root, watch)
                state.tree.setModified(WatchTree.root, modified)
            }
            return
        }
        let entry = WatchedEntry(directory: parent, name: name.bytes)
        if let known = watch >= 0 ? state.tree.node(watch: watch) : nil {
            state.tree.attach(known, at: entry)
            state.strays.remove(known)
        }
        if let known = state.tree.node(at: entry), state.tree.nodes[known]?.key == key {
            state.tree.setWatch(known, watch)
            state.tree.setModified(known, modified)
        } else {
            state.tree.insert(entry, key, watch: watch, modified: modified)
        }
    }

    /// Finds a directory again that lost its place; one that lost it while events were lost is listed with all below.
    func adopt(_ status: FileStatus, at path: RemotePath) {
        let found = state.withLock { state in
            guard !state.tree.detached.isEmpty, let name = path.name, let parent = state.tree.node(at: path.parent),
                let number = state.tree.detachedNode(DirectoryKey(status))
            else { return false }
            state.tree.attach(number, at: WatchedEntry(directory: parent, name: name.bytes))
            if state.strays.remove(number) == nil { return true }
            let below = state.tree.nodes.keys.filter { state.tree.path($0)?.isInside(path) ?? false }
            state.changes.append(below.map { .directory($0) })
            return true
        }
        if found { signal.fire() }
    }
}
