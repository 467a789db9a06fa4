public import CoveCore
internal import Synchronization

/// A bucket of any S3 server, or what lies below a prefix in it, as the cloud.
///
/// A directory is what keys have in common up to a slash; one made here is kept by an empty object of that name, so that
/// it stays when it is emptied. Changes are conditional on ETags; where a server can't do that, and where it copies, devices
/// that use Cove exclude each other by `S3Claim` and look right before they write.
public final class S3Provider: Provider {
    let client: S3Client
    let log: @Sendable (String) -> Void
    let work = WorkQueue(label: "cove.s3", width: 4)
    let journal: UploadJournal
    /// What this device's claims begin with.
    let owner: String
    /// What this device is called where it writes: other devices are told who changed a file.
    let editor: String?
    /// What may be in memory of uploads, counted in pieces.
    let buffers = BufferGate(limit: 6)
    let pieceSize: Int64
    /// What is larger is copied in parts.
    let copyLimit: Int64
    let cursors = CursorTable<S3Cursor>()
    let claimLooks = SharedLooks<[UInt8], String, Set<String>>()
    let folderLooks = SharedLooks<[UInt8], [UInt8], S3FolderView>()
    let publications = PublicationClock()
    let placedLooks = SharedLooks<[UInt8], [UInt8], [[UInt8]: S3Object]>()
    /// For so long a move that does not end is waited for: its device may never come back.
    let patience: TimeSpan
    /// Goes on while the machine sleeps.
    let clock: @Sendable () -> MonotonicTime
    private let state = Mutex(State())

    private struct State {
        var capabilities = ProviderCapabilities()
        var features = S3Features()
        /// Directories that are known to have an object of their own.
        var marked: Set<[UInt8]> = []
        /// Claims that are made, held or taken back just now.
        var claims: [[UInt8]: S3Claim] = [:]
        /// Keys on which something may go on at the server that was asked for under a claim, and for how long.
        var doubts: [[UInt8]: TimeSpan] = [:]
        /// After which times claims are looked through for those that were taken back.
        var sweeps: Set<TimeSpan> = []
        /// Moves of directories that may have been cut off.
        var unfinished: [S3Move] = []
        /// Moves that failed again and again, by their notes, and since when they are left alone.
        var givenUp: [[UInt8]: (move: S3Move, since: MonotonicTime)] = [:]
        /// Moves that go on, by their notes.
        var foreignMoves: [[UInt8]: S3ForeignMove] = [:]
        var moving: Task<Void, Never>?
    }

    /// Takes the address of an `s3://` source; nothing is asked before `start()`.
    ///
    /// Uploads that a crash cuts off are remembered in a folder. Without credentials those of the AWS environment
    /// variables or of `~/.aws/credentials` count.
    init(
        _ source: SourceAddress,
        _ options: HTTPOptions = HTTPOptions(),
        editor: String? = nil,
        uploads: String? = nil,
        pieceSize: Int64 = S3Upload.pieceSize,
        copyLimit: Int64 = 5 << 30,
        patience: TimeSpan = .seconds(600),
        clock: @escaping @Sendable () -> MonotonicTime = System.boottime,
        credentials: @escaping @Sendable () async -> Credentials?,
        log: @escaping @Sendable (String) -> Void = { _ in }
    ) throws(ProviderError) {
        client = S3Client(try S3Address(source), login: credentials, try HTTPClient(options))
        self.log = log
        self.clock = clock
        self.pieceSize = pieceSize
        self.copyLimit = copyLimit
        self.patience = patience
        journal = UploadJournal(folder: uploads)
        owner = journal.owner()
        self.editor = editor
    }

    deinit { state.withLock { $0.moving }?.cancel() }

    /// What the server can do, probed by `start()`.
    public var capabilities: ProviderCapabilities { state.withLock { $0.capabilities } }

    /// What the server was seen to do.
    var features: S3Features { state.withLock { $0.features } }

    var address: S3Address { client.address }

    /// Lists once, which proves bucket, region and credentials, and tries out which conditions the server knows.
    public func start() async throws(ProviderError) {
        client.forgetCredentials()
        _ = try await client.list(address.prefix, delimiter: true, limit: 1)
        let (features, _) = try await both { () throws(ProviderError) in
            try await S3Probe.find(self.client)
        } and: { () throws(ProviderError) in
            try await self.findMoves()
        }
        var capabilities = ProviderCapabilities()
        capabilities.conditionalWrites = features.putsConditionally
        capabilities.serverSideCopy = true
        capabilities.movesInSteps = true
        capabilities.replacesAtOnce = true
        // New files of one folder share what is asked about it.
        capabilities.parallelChanges = 64
        capabilities.trash = true
        capabilities.versions = features.keepsVersions
        capabilities.readOnly = features.isReadOnly
        capabilities.keepsThumbnails = true
        capabilities.publishes = true
        capabilities.erases = !features.isReadOnly
        capabilities.carriesNews = true
        let (found, probed) = (capabilities, features)
        state.withLock { state in
            state.capabilities = found
            state.features = probed
            if probed.isReadOnly { state.unfinished = [] }
        }
        guard !probed.isReadOnly else { return }
        try await keepLeftClaims()
        resumeMoves()
        publications.begin(after: PublicationClock.firstRest) { [weak self] in await self?.sweepPublished() }
    }

    /// The bucket and the prefix.
    public func sourceIdentity() async -> [UInt8]? { Array("s3:\(address.bucket)/".utf8) + address.prefix }

    /// Connections from before are not used any more.
    public func networkChanged() { client.renewConnections() }

    /// Ends what goes on in the background.
    public func stop() async {
        publications.stop()
        let task = state.withLock { $0.moving.take() }
        task?.cancel()
        await task?.value
        cursors.removeAll()
    }

    /// A bucket tells nobody of changes: directories are listed again.
    public var changeSignal: AsyncStream<Void>? { nil }

    /// All that was asked of the bucket.
    public var requests: RequestCounts? { client.requests }

    /// An anchor at most: a bucket has no record of changes.
    public func changes(since anchor: Anchor?) async throws(ProviderError) -> Changes {
        let here = Anchor(Array("s3".utf8))
        guard anchor == nil || anchor == here else { throw .anchorExpired }
        return Changes(events: [], anchor: here, moreComing: false)
    }

    /// A bucket has no end.
    public func quota() async throws(ProviderError) -> ProviderQuota? { nil }

    // MARK: keys

    /// The key of what has a path.
    func key(_ path: RemotePath) -> [UInt8] { address.prefix + features.names.encode(path.bytes) }

    /// What the keys of a directory's items begin with.
    func directoryKey(_ path: RemotePath) -> [UInt8] { path.isRoot ? address.prefix : key(path) + [0x2F] }

    // MARK: directories

    /// True when something is in the directory, if only the object that stands for it.
    ///
    /// SeaweedFS remembers a folder for a while when nothing is in it any more. A listing with a delimiter shows it, as that
    /// of its parent does, and one without does not.
    func hasDirectory(_ path: RemotePath) async throws(ProviderError) -> Bool {
        if path.isRoot { return true }
        return try await client.hasAny(directoryKey(path), delimiter: features.cleansLate)
    }

    /// Makes sure that a directory stays when what is in it goes.
    func keepStanding(_ path: RemotePath) async throws(ProviderError) {
        let key = markerKey(path)
        if path.isRoot || path.names.contains(where: \.isReserved) { return }
        if state.withLock({ $0.marked.contains(key) }) { return }
        if try await !isStored(key) {
            var isMade = false
            let isDone = try await besideNoFile(directoryKey(path), .byMakingFolder, for: "keep") {
                () throws(ProviderError) in
                isMade = try await writeMarker(key, isNew: false)
            }
            // A file has its name: there is nothing to keep.
            if !isDone || !isMade { return }
        }
        noteMarked(key)
    }

    /// The key of the object that stands for a directory.
    func markerKey(_ path: RemotePath) -> [UInt8] { directoryKey(path) + features.names.marker }

    func noteMarked(_ key: [UInt8]) {
        state.withLock { state in
            if state.marked.count >= 10_000 { state.marked.removeAll() }
            state.marked.insert(key)
        }
    }

    /// Forgets the objects that stand for directories at and below a key.
    func forgetMarked(_ key: [UInt8]) {
        state.withLock { state in state.marked = state.marked.filter { !$0.starts(with: key) } }
    }

    // MARK: claims

    func hold(_ claim: [UInt8]) { state.withLock { $0.claims[claim] = $0.claims[claim] ?? S3Claim() } }
    func held(_ claim: [UInt8]) -> S3Claim? { state.withLock { $0.claims[claim] } }

    /// The claims held under some names.
    func claims(_ isMeant: ([UInt8]) -> Bool) -> [S3Claim] {
        state.withLock { state in state.claims.filter { isMeant($0.key) }.map(\.value) }
    }

    /// Holds it no more; true when it may come to be though it was taken back.
    func drop(_ claim: [UInt8]) -> Bool { state.withLock { $0.claims.removeValue(forKey: claim)?.mayLand ?? false } }

    func note(_ claim: [UInt8], written: MonotonicTime? = nil, mayLand: Bool) {
        state.withLock { state in
            guard var known = state.claims[claim] else { return }
            known.written = written ?? known.written
            known.mayLand = mayLand
            state.claims[claim] = known
        }
    }

    func doubt(_ key: [UInt8], _ size: Int64) { doubt(key, for: Self.linger(size)) }

    /// Claims on a key stay for so long when what they were made for is over.
    func doubt(_ key: [UInt8], for time: TimeSpan) {
        state.withLock { $0.doubts[key] = max($0.doubts[key] ?? time, time) }
    }

    /// For how long something may go on, if it may.
    func takeDoubt(_ key: [UInt8]) -> TimeSpan? { state.withLock { $0.doubts.removeValue(forKey: key) } }

    /// False when somebody does so already.
    func beginSweep(_ time: TimeSpan) -> Bool { state.withLock { $0.sweeps.insert(time).inserted } }

    func endSweep(_ time: TimeSpan) { state.withLock { _ = $0.sweeps.remove(time) } }

    // MARK: moves that were cut off

    var unfinishedMoves: [S3Move] { state.withLock { $0.unfinished.filter { !$0.isActive } } }

    /// The moves that were known to go on, by their notes, when it was looked last.
    var foreignMoves: [[UInt8]: S3ForeignMove] {
        get { state.withLock { $0.foreignMoves } }
        set { state.withLock { $0.foreignMoves = newValue } }
    }

    /// Remembers a move that is under way; in one step, for whoever finishes what was cut off would take it for that.
    func begin(_ move: S3Move) { note(move, isActive: true) }

    func pause(_ move: S3Move) {
        state.withLock { state in
            guard let index = state.unfinished.firstIndex(where: { $0.note == move.note }) else { return }
            state.unfinished[index].isActive = false
        }
    }

    /// Remembers a move; one that is known stays as it is, unless it is begun.
    func note(_ move: S3Move, isActive: Bool = false) {
        state.withLock { state in
            state.givenUp[move.note] = nil
            if let index = state.unfinished.firstIndex(where: { $0.note == move.note }) {
                if isActive { state.unfinished[index].isActive = true }
            } else {
                state.unfinished.append(move)
                state.unfinished[state.unfinished.count - 1].isActive = isActive
            }
        }
    }

    /// Forgets a move whose note is gone, unless it was begun anew and its note is yet to come.
    func forgetCutOff(_ move: S3Move) {
        state.withLock { $0.unfinished.removeAll { $0.note == move.note && !$0.isActive } }
    }

    func forget(_ move: S3Move) {
        state.withLock { state in
            state.unfinished.removeAll { $0.note == move.note }
            state.givenUp[move.note] = nil
        }
    }

    /// The moves that have been left alone since then or longer, to be ended.
    func takeGivenUp(before time: MonotonicTime) -> [S3Move] {
        state.withLock { state in
            let old = state.givenUp.filter { $0.value.since <= time }
            for note in old.keys { state.givenUp[note] = nil }
            return old.values.map(\.move)
        }
    }

    /// One that could not be ended is ended another time, unless it was asked for again.
    func leaveAlone(_ move: S3Move) {
        state.withLock { state in
            guard !state.unfinished.contains(where: { $0.note == move.note }) else { return }
            state.givenUp[move.note] = (move, .distantPast)
        }
    }

    /// Counts a failure; true when there were so many that the move is left as it is, unless it is asked for again.
    func giveUp(_ move: S3Move) -> Bool {
        state.withLock { state in
            guard let index = state.unfinished.firstIndex(where: { $0.note == move.note }) else { return true }
            if state.unfinished[index].isActive { return false }
            state.unfinished[index].failures += 1
            guard state.unfinished[index].failures > 10 else { return false }
            state.givenUp[move.note] = (state.unfinished.remove(at: index), System.monotonic())
            return true
        }
    }

    /// Finishes moves of directories that were cut off, and drops uploads that nobody wants.
    private func resumeMoves() {
        state.withLock { state in
            guard state.moving == nil else { return }
            state.moving = Task { [weak self] in
                await self?.finishMoves()
                await self?.abortOldUploads()
            }
        }
    }
}
