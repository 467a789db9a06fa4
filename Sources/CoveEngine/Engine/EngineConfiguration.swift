public import CoveCore

/// What an account's engine is told at its start.
public struct EngineConfiguration: Sendable {
    /// The account's name.
    public var account: String
    /// The source as shown to people, without credentials.
    public var source: String
    /// Where the account is mounted, absolute.
    public var mountpoint: String
    /// The folder of the account's state, absolute, mode 0700.
    public var stateDirectory: String
    /// The control socket, as `user.cove.socket` of the root tells it.
    public var socketPath = ""
    /// The socket of claims and presenters alone, as `user.cove.coordination-socket` of the root tells it.
    public var coordinationSocketPath = ""
    /// This device in the names of conflict copies.
    public var hostName: String
    /// The most bytes of clean content kept here; nil for a tenth of the disk.
    public var cacheLimit: Int64?
    /// Globs of names that stay on this device, beside the built-in scratch names.
    public var ignoredNames: [String] = []
    /// How long nothing is sent, though the source answers, before the status says so.
    public var standstillTime: TimeSpan = .seconds(60)
    /// Programs, by path or last name, that get `EDEADLK` instead of a download.
    public var noMaterialize: [String] = []
    /// Programs, by path or last name, that show people pictures of what is in a directory.
    public var fileManagers: [String] = []
    /// The user's cache folder, where programs of the desktop look for pictures; nil where they are to find none.
    public var cacheFolder: String?
    /// Whether the desktop's programs make pictures of the bytes that are here.
    public var makesThumbnails = false
    /// Is called before the catalog is brought to a version that earlier programs do not understand.
    public var whenMigrating: @Sendable () -> Void = {}
    /// How long a change rests before it is sent.
    public var settleTime: TimeSpan = .seconds(2)
    /// How long a new folder rests, and a new file with bytes that no program has open for writing any more.
    ///
    /// What an editor writes beside a document is renamed sooner; no less than half a second where changes rest longer.
    var newSettleTime: TimeSpan { max(settleTime / 4, min(settleTime, .milliseconds(500))) }
    /// What a person is to know of how the source is reached, a sentence each.
    public var sourceNotes: [String] = []
    /// How often a source that tells of no changes is asked for them.
    public var pollInterval = usualPollInterval
    /// The same where nobody says anything else.
    public static let usualPollInterval = TimeSpan.seconds(30)
    /// How long a program waits for a source that makes no progress.
    public var stallLimit: TimeSpan = .seconds(30)
    /// Whether a device that is new to the account uses its apps.
    public var generation = AccountGeneration.drive
    /// Whether what apps were given is told to other devices, by documents at the source.
    public var sharesReferences = true
    /// How long a program's open waits for a claim whose holder lives.
    public var openTimeout: TimeSpan = .seconds(45)
    /// How long a program that presents an item may take to answer.
    public var presenterTimeout: TimeSpan = .seconds(30)
    /// How long presenters have for their answers: less than an open waits, which goes on after that.
    var answerTimeout: TimeSpan { min(presenterTimeout, openTimeout * 2 / 3) }
    /// Where the engine reads the time.
    public var clock = EngineClock.system
    /// How long a vacated name passes its document on.
    public var tombstoneTime: TimeSpan = .seconds(15)
    /// How long a file that stays open must rest before a copy of it is sent.
    public var openFileRest: TimeSpan = .seconds(30)
    /// How long deleted documents are kept.
    public var trashTime: TimeSpan = .seconds(30 * 24 * 3600)
    /// How many earlier contents of a document are kept here; 0 for none.
    public var keptVersions = 10
    /// How long they are kept.
    public var versionTime: TimeSpan = .seconds(30 * 24 * 3600)
    /// Bytes of the state disk kept for what programs wrote and the kernel still holds; nil for as many as it may hold.
    public var reserve: Int64?
    /// Names this boot of the machine and this mount of the state disk; nil for what the system says.
    public var bootIdentity: [UInt8]?
    /// True when nothing may be changed.
    public var isReadOnly = false
    /// Owner of items whose provider knows none.
    public var user: UInt32 = 0
    /// Group of items whose provider knows none.
    public var group: UInt32 = 0

    /// Names the account and its places; everything else has a default.
    public init(account: String, source: String, mountpoint: String, stateDirectory: String, hostName: String) {
        self.account = account
        self.source = source
        self.mountpoint = mountpoint
        self.stateDirectory = stateDirectory
        self.hostName = hostName
    }
}

/// Why the engine can't start: what happened and what to do, in one line.
public struct EngineError: Error, Sendable, CustomStringConvertible {
    /// The line.
    public let description: String

    init(_ description: String) { self.description = description }
}

/// Makes the kernel forget what it has cached; implemented by the mount, never called inside a request or under a lock.
public protocol KernelNotifier: Sendable {
    /// The item's attributes are asked for again.
    func invalidateAttributes(of id: ItemID)
    /// The item's pages and attributes are asked for again.
    func invalidateContent(of id: ItemID)
    /// The name, and the directory's cached listing, are asked for again.
    func invalidateEntry(_ parent: ItemID, _ name: [UInt8])
}

/// Makes remote changes through system calls on the mount, from a process of its own.
public protocol Announcer: Sendable {
    /// Performs one system call on the mount and waits for it.
    func perform(_ announcement: Announcement) throws(Errno)
    /// True when a request comes from the announcing process; never for 0, which is nobody's thread.
    func isAnnouncer(_ thread: Int32) -> Bool
}

/// One system call on the mount; paths are relative to its root.
public enum Announcement: Sendable {
    /// rename(2)
    case rename(from: RemotePath, to: RemotePath)
    /// mkdir(2)
    case makeDirectory(RemotePath)
    /// unlink(2)
    case unlink(RemotePath)
    /// rmdir(2)
    case removeDirectory(RemotePath)
    /// sync_file_range(2): what programs wrote to a file reaches the daemon
    case flush(RemotePath)
    /// setxattr(2) of an attribute that nobody keeps: programs that watch the file hear that something of it has changed
    case notice(RemotePath)
    /// utimensat(2) of the modification time, not following symbolic links
    case setTimes(RemotePath, Timestamp)
}
