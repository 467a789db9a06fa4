public import CoveCore
internal import Glibc
internal import Synchronization

/// A local directory as the cloud: an external disk, a network mount, or a folder that another tool keeps in sync.
///
/// Other programs may change the directory at any time. Every change made here is conditional: the new state is built
/// beside the old, put in place in one rename, and taken back when what it displaced was not the base version.
///
/// A file with several hard links is one document per name; replacing its content breaks the link, as saving by rename
/// does. Where renameat2(2) can't exchange (NFS), the base is checked just before the rename instead.
public final class FolderProvider: Provider {
    /// The directory's absolute path.
    public let root: String

    let calls = WorkQueue(label: "cove.folder.calls", width: 4)
    let transfers = WorkQueue(label: "cove.folder.transfers", width: 8)
    let cursors = CursorTable<DirectoryCursor>()
    private let signal = ChangeSignal()
    private let timing: WatchTiming
    private let maximumWatches: Int
    let log: @Sendable (String) -> Void
    private let state = Mutex(State())

    private struct State {
        var identity: SourceIdentity?
        var capabilities = ProviderCapabilities()
        var readsAttributes = true
        var watcher: FolderWatcher?
    }

    /// Takes the absolute path of a directory; nothing is opened before `start()`.
    ///
    /// The rescan finds what inotify(7) does not tell, such as what other machines do on a network mount.
    public convenience init(
        root: String,
        rescanInterval: TimeSpan = .seconds(300),
        log: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        self.init(root: root, timing: WatchTiming(rescan: rescanInterval), maximumWatches: .max, log: log)
    }

    init(
        root: String,
        timing: WatchTiming,
        maximumWatches: Int = .max,
        log: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        self.root = root
        self.log = log
        self.timing = timing
        self.maximumWatches = maximumWatches
    }

    deinit { state.withLock { $0.watcher }?.end() }

    /// What the directory's file system can do, probed by `start()`.
    public var capabilities: ProviderCapabilities { state.withLock { $0.capabilities } }

    /// The root directory's inode, birth time and file system, in 24 bytes; nil before the first `start()`.
    ///
    /// It is the same after the disk was unmounted and mounted again.
    public func sourceIdentity() async -> [UInt8]? { state.withLock { $0.identity?.bytes } }

    /// What a person may want to know of the watching, one line each; empty when all is well.
    public func diagnostics() -> [String] { state.withLock { $0.watcher }?.diagnostics() ?? [] }

    /// Opens the directory, checks that it can be read, and begins to watch it.
    ///
    /// Throws `serverUnreachable` when it is missing or not the one of an earlier start, `notPermitted` when it can't be
    /// read.
    public func start() async throws(ProviderError) {
        try await calls.run { _ throws(ProviderError) in try self.open() }
    }

    /// Ends watching; running operations go on to their end.
    public func stop() async {
        let watcher = state.withLock { $0.watcher.take() }
        watcher?.end()
        cursors.removeAll()
    }

    /// Fires when `changes(since:)` has something new, and when a lost source is back.
    public var changeSignal: AsyncStream<Void>? { signal.stream() }

    /// It watches.
    public var mustBePolled: Bool { false }

    /// The file system's room; what root keeps for itself does not count as available.
    public func quota() async throws(ProviderError) -> ProviderQuota? {
        try await calls.run { _ throws(ProviderError) in
            let tree = try self.tree()
            let room = try attempt(self.root) { () throws(Errno) in try System.fileSystem(tree.root.raw) }
            let bytes = DiskRoom(unit: room.f_frsize, total: room.f_blocks, available: room.f_bavail)
            return ProviderQuota(total: bytes.total, available: bytes.available)
        }
    }

    /// The source, checked to be the one that was started; every operation begins with it.
    func tree() throws(ProviderError) -> FolderTree {
        guard let identity = state.withLock({ $0.identity }) else {
            throw .serverUnreachable("\(root): not started")
        }
        do throws(ProviderError) {
            return try FolderTree.open(root, expecting: identity)
        } catch {
            if error.parksAccount { state.withLock { $0.watcher }?.noteLost() }
            throw error
        }
    }

    func watcher() throws(ProviderError) -> FolderWatcher {
        guard let watcher = state.withLock({ $0.watcher }) else { throw .serverUnreachable("\(root): not started") }
        return watcher
    }

    func reader(_ tree: borrowing FolderTree) -> ItemReader {
        ItemReader(device: tree.device, readsAttributes: state.withLock { $0.readsAttributes })
    }

    private func open() throws(ProviderError) {
        let tree = try FolderTree.open(root, expecting: state.withLock { $0.identity })
        try attempt(root) { () throws(Errno) in System.close(try System.openat(tree.root.raw, [], O_RDONLY)) }
        let probe = SourceProbe(tree, path: root)
        let identity = tree.identity
        let isWatching = state.withLock { state in
            state.identity = identity
            state.capabilities = probe.capabilities
            state.readsAttributes = probe.capabilities.extendedAttributes
            return state.watcher != nil
        }
        if isWatching { return }
        let watcher = try FolderWatcher(
            tree,
            root: root,
            isRemote: probe.isRemote,
            timing: timing,
            maximumWatches: maximumWatches,
            signal: signal,
            log: log
        )
        try watcher.begin(tree)
        let other = state.withLock { state in
            defer { if state.watcher == nil { state.watcher = watcher } }
            return state.watcher
        }
        if other != nil { watcher.end() }
    }
}
