public import CoveCore
internal import Synchronization

/// A WebDAV server as the cloud (RFC 4918): Apache, nginx, Nextcloud, rclone and others.
///
/// What a server can do is tried out by `start()`, not guessed from its name. Where it refuses conditions, they are
/// checked just before each change instead, and `capabilities` says so.
public final class WebDAVProvider: Provider {
    /// Where the source is, as long as it is not known which names the server lists.
    private let plainAddress: DAVAddress
    let client: HTTPClient
    let listings = CursorTable<DAVListing>()
    let looks = SharedLooks<RemotePath, FileName, DAVFolderView>()
    /// True for a folder of hidden names that was not there before.
    let folderMaking = SharedLooks<RemotePath, FileName, Bool>()
    let stages: StageTable
    /// What this device's hidden names tell of it.
    let owner: String
    let home: DAVHome?
    let work = WorkQueue(label: "cove.webdav", width: 2)
    let journal: UploadJournal
    /// Larger contents are sent in chunks of this size, where the server takes them.
    let pieceSize: Int64
    let unanswered = UnansweredUploads()
    let cleaning = Cleaning()
    let publications = PublicationClock()
    let log: @Sendable (String) -> Void
    /// As the address has them.
    private let host: String
    private let user: String?
    private let credentials: @Sendable () async -> Credentials?
    private let state = Mutex(State())

    private struct State {
        var capabilities = ProviderCapabilities()
        var server: DAVServer?
        /// How many answers there were that may be of their moment only.
        var doubts = 0
        /// Who logs in, where the address does not say it.
        var login: String?
    }

    /// Takes the address of a `webdav://` or `webdavs://` source; nothing is asked before `start()`.
    ///
    /// The credentials are asked for at each start, so that new ones count. Uploads that a crash cuts off are remembered
    /// in a folder. A name that another device was about to put something to is left alone as long as the patience lasts.
    init(
        _ source: SourceAddress,
        _ options: HTTPOptions,
        uploads: String? = nil,
        pieceSize: Int64 = 16 << 20,
        patience: TimeSpan = .seconds(15),
        credentials: @escaping @Sendable () async -> Credentials?,
        log: @escaping @Sendable (String) -> Void = { _ in }
    ) throws(ProviderError) {
        plainAddress = DAVAddress(source)
        (host, user) = (source.host, source.user)
        home = DAVHome(plainAddress)
        journal = UploadJournal(folder: uploads)
        owner = StagedName.owner(journal.owner())
        self.pieceSize = pieceSize
        stages = StageTable(owner: owner, patience: patience)
        client = try HTTPClient(options)
        self.credentials = credentials
        self.log = log
    }

    /// What the server can do, as `start()` found out.
    public var capabilities: ProviderCapabilities { state.withLock { $0.capabilities } }

    /// Logs in, and tries out once what the server can do.
    public func start() async throws(ProviderError) {
        let credentials = await credentials() ?? Netrc.login(host: host, user: user)
        client.use(credentials)
        state.withLock { $0.login = user == nil ? credentials?.user : nil }
        let root: DAVResource
        do throws(ProviderError) {
            root = try await properties(.root, isDirectory: true)
        } catch .noSuchItem {
            throw Self.withoutRoot
        }
        if state.withLock({ $0.server != nil }) { return }
        let server = try await DAVServer.find(self)
        state.withLock { state in
            state.server = server
            state.capabilities = server.capabilities(root: root)
        }
        log("the server: \(server)")
        if server.takesChunks { Task { await dropOldChunks() } }
        guard server.makesShares else { return }
        publications.begin(after: PublicationClock.firstRest) { [weak self] in await self?.sweepPublished() }
    }

    /// Where the source is.
    var address: DAVAddress {
        var address = plainAddress
        address.undots = state.withLock { $0.server?.hidesDotNames ?? false }
        return address
    }

    var doubts: Int { state.withLock { $0.doubts } }

    func noteDoubt() { state.withLock { $0.doubts += 1 } }

    static let withoutRoot = ProviderError.serverUnreachable(
        "the server has no such folder; create it, or mount another"
    )

    /// What the server was found to do; only after a start.
    func server() throws(ProviderError) -> DAVServer {
        guard let server = state.withLock({ $0.server }) else { throw .serverUnreachable("not connected yet") }
        return server
    }

    /// The server refuses conditions that hold: from now on they are checked here.
    func distrustConditions() {
        state.withLock { state in
            state.server?.heedsPutConditions = false
            state.server?.heedsDeleteConditions = false
            state.server?.heedsMoveConditions = false
            state.capabilities.conditionalWrites = state.server?.isConditional ?? false
        }
        log("the server refuses to change versions that it says are current: its conditions are not used any more")
    }

    /// Who logs in, where the address does not say it: one address is another tree for each user.
    ///
    /// A server has no name of its own.
    public func sourceIdentity() async -> [UInt8]? { state.withLock { $0.login }.map { Array("user:\($0)".utf8) } }

    /// Ends listings under way.
    public func stop() async {
        publications.stop()
        listings.removeAll()
    }

    /// Connections from before are not used any more.
    public func networkChanged() { client.renewConnections() }

    /// Nil: the server must be polled.
    public var changeSignal: AsyncStream<Void>? { nil }

    /// All that was asked of the server.
    public var requests: RequestCounts? { RequestCounts(total: client.requestCount) }

    private static let anchor = Anchor(Array("listings".utf8))

    /// Tells nothing: directories are listed again instead.
    public func changes(since anchor: Anchor?) async throws(ProviderError) -> Changes {
        if let anchor, anchor != Self.anchor { throw .anchorExpired }
        return Changes(events: [], anchor: Self.anchor, moreComing: false)
    }

    /// The properties of RFC 4331, where the server has them.
    public func quota() async throws(ProviderError) -> ProviderQuota? {
        let found = try await propfind(.root, isDirectory: true, depth: 0, MultistatusReader.quotaRequest)
        guard let root = found.first, let available = root.availableBytes, available >= 0, let used = root.usedBytes,
            used >= 0
        else { return nil }
        let (total, overflow) = available.addingReportingOverflow(used)
        return ProviderQuota(total: overflow ? .max : total, available: available)
    }
}
