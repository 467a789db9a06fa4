public import CoveCore
internal import Synchronization

/// Which apps and containers the account has, what is whose, and who may see it.
final class Access: EnginePart, AccountReader {
    /// What the account's documents say of apps and containers, checked.
    struct Registry: Sendable, Equatable {
        var apps: [AppIdentifier: AppRecord] = [:]
        var containers: [AppIdentifier: ContainerRecord] = [:]
        /// Whose a container is, by the name of its folder at the provider; nil for any other folder.
        func owner(ofFolder name: FileName) -> AppIdentifier? {
            AppIdentifier(name.description).flatMap { containers[$0]?.app }
        }
    }

    struct State {
        var registry = Registry()
        /// What the catalog has of it for the next start.
        var kept: Registry?
        /// What was read of each document, by its folder and name, and of which state of it.
        var read: [RemotePath: ReadRecord] = [:]
        /// How often any of them was changed here.
        var changes = 0
        /// What the documents looked like when they were read last; nil where something was missing.
        var fingerprint: Int?
        /// How many commits there were then.
        var commits = -1
        /// Nothing is read again before that.
        var rest = MonotonicTime.distantPast
        var isReading = false
        /// Who waits for the next time that they are read.
        var waiting: [CheckedContinuation<Void, Never>] = []
        var hasEnded = false
        /// Folders of the root that have the form of a container's name and are known to be none.
        var plain: Set<ItemID> = []
        /// Containers of which there is a document that could never be read.
        var unread: Set<AppIdentifier> = []
        /// True until they were read for the first time, by any daemon.
        var isNew = true
    }

    /// One document as it was read.
    struct ReadRecord: Sendable {
        var item: ItemID
        var generation: Int64
        var value: JSONValue?
    }

    let context: EngineContext
    let contents: Contents
    let namespace: Namespace
    let coordinator: Coordinator
    let names: ContainerNames
    let views: AppViews
    let programs: AppPrograms
    let state = EngineMutex(.access, State())
    /// Who changes the documents of apps, containers and references.
    let turns = Turns()
    /// Folders of the root that no listing shows, and containers, each with its identifier.
    let folders = RareTable<ItemID, FolderMark>()
    /// How many references and grants there are.
    let referenceCount = Atomic<Int>(0)
    /// Names that references left a moment ago, and files that were made under such names.
    let departed = RareTable<Place, DepartedReference>()
    let takeovers = RareTable<ItemID, Takeover>()
    /// True where documents of references are to be written or removed, or places may have changed.
    let hasReferenceWork = Atomic<Bool>(true)
    /// True while everything in the account is being deleted.
    let isErasing = Atomic<Bool>(false)
    /// Zero where no app uses a document by a scope.
    let scopeCount = Atomic<Int>(1)

    /// What a folder of the root is.
    enum FolderMark: Sendable, Equatable {
        /// The documents of apps and containers.
        case records
        case container(AppIdentifier, isPublic: Bool)
    }

    init(
        _ context: EngineContext,
        _ contents: Contents,
        _ namespace: Namespace,
        _ coordinator: Coordinator,
        _ names: ContainerNames
    ) throws(Errno) {
        self.context = context
        self.contents = contents
        self.namespace = namespace
        self.coordinator = coordinator
        self.names = names
        views = try AppViews(context.catalog, context.log)
        programs = try AppPrograms(context.catalog)
        try recall()
        try countReferences()
    }

    var registry: Registry { state.withLock { $0.registry } }

    /// The apps, in the order of their identifiers.
    var apps: [AppRecord] { registry.apps.values.sorted { $0.identifier < $1.identifier } }

    /// The containers, in the order of their identifiers.
    var containers: [ContainerRecord] { registry.containers.values.sorted { $0.identifier < $1.identifier } }

    /// The clock's round: reads documents that have changed.
    func tick() {
        views.expire()
        retryTakeovers()
        expireDeparted()
        expireScopes()
        settleReferences()
        let commits = catalog.commitCount
        let isDue = state.withLock { state in
            guard !state.isReading, !state.hasEnded, state.commits != commits else { return false }
            guard state.rest < clock.monotonic() else { return false }
            state.commits = commits
            return true
        }
        guard isDue else { return }
        contentQueue.async { [self] in
            if context.generation.isLegacy {
                // No listing shows what other devices keep there.
                if isThere { try? markFolders() }
                return
            }
            // Nobody is asked for what no listing has shown.
            guard isThere, let found = try? fingerprint() else { return }
            if state.withLock({ $0.fingerprint != found }) { Task { await read() } }
        }
    }

    var isNew: Bool { state.withLock { $0.isNew } }

    func readForListing() async { await read(isListing: true) }

    func noteNone() { state.withLock { $0.isNew = false } }

    /// True where the root has the folder of the documents.
    private var isThere: Bool {
        let entry = try? catalog.glance { database throws(Errno) in try database.entry(.root, DriveFolder.name.bytes) }
        return (entry ?? nil) != nil
    }

    /// Ends all work.
    func end() {
        let waiting = state.withLock { state in
            state.hasEnded = true
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    /// A caller of the daemon's own.
    var ownCaller: Caller { Caller(thread: 0, user: configuration.user, group: configuration.group) }
}

/// Why something of apps and containers was refused, in words for people.
public struct AccessError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The error of a system call that says the same.
    public let errno: Errno
    /// What happened; what to do.
    public let description: String
    /// True where it is said of a bookmark that is this account's: another account knows no better.
    public var isOfOwnBookmark = false

    /// Describes an error.
    public init(_ errno: Errno, _ description: String) {
        self.errno = errno
        self.description = description
    }

    /// The app may not use a bookmark of this account's.
    static func refused(_ description: String) -> AccessError {
        var error = AccessError(.accessDenied, description)
        error.isOfOwnBookmark = true
        return error
    }

    /// An error of files while something was done.
    static func failed(_ errno: Errno, _ what: String) -> AccessError {
        let remedy =
            switch errno {
            case .hostUnreachable, .timedOut: "try again once the source answers"
            case .readOnly: "mount the account without --read-only"
            default: "see `cove doctor`"
            }
        return AccessError(errno, "\(what): \(errno); \(remedy)")
    }
}
