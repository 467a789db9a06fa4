/// What `cove status` without a path says: the account as a whole.
public struct AccountStatus: Codable, Sendable, Equatable {
    /// The account's name.
    public var account: String
    /// Where the cloud is, without credentials.
    public var source: String
    /// Where it is mounted.
    public var mountpoint: String
    /// The folder that holds the account's state.
    public var stateDirectory: String
    /// `idle`, `syncing`, `paused`, `paused-not-migrated`, `offline` or `waiting-for-approval`.
    public var state: String
    /// Why it is offline or waits, with what to do.
    public var reason: String?
    /// Changes made here that wait for the provider.
    public var queuedOperations: Int
    /// Transfers going on now.
    public var transfers: [TransferStatus]
    /// Documents with an unresolved conflict.
    public var conflicts: Int
    /// Documents whose last upload or download failed, the first of them.
    public var errors: [ItemError]
    /// How many errors there are in all.
    public var errorCount: Int
    /// Bytes of content on this disk.
    public var residentBytes: Int64
    /// The most bytes of clean content kept on this disk.
    public var cacheLimit: Int64
    /// What the server can't do, and what follows from it, a sentence each.
    public var weaknesses: [String]
    /// Why nothing was sent for more than a minute though the source answers.
    public var standstill: Standstill?
    /// What has waited for more than a minute while others were sent, without a reason that the status tells otherwise;
    /// nil for nothing.
    public var heldUp: [Standstill]?
    /// `drive` for a device that uses the account's apps, else `legacy`.
    public var generation: String?
    /// How many requests the source was asked for in the last hour, or since the daemon's start.
    public var requestsLastHour: Int?
    /// What these cost at Amazon's list price, in dollars; nil for what is no bucket.
    public var requestCostLastHour: Double?
    /// How many names a person keeps out of the cloud.
    public var excluded: Int?

    /// Makes a status.
    public init(
        account: String,
        source: String,
        mountpoint: String,
        stateDirectory: String,
        state: String,
        reason: String?,
        queuedOperations: Int,
        transfers: [TransferStatus],
        conflicts: Int,
        errors: [ItemError],
        errorCount: Int,
        residentBytes: Int64,
        cacheLimit: Int64,
        weaknesses: [String],
        standstill: Standstill? = nil,
        heldUp: [Standstill]? = nil,
        generation: String? = nil,
        requestsLastHour: Int? = nil,
        requestCostLastHour: Double? = nil,
        excluded: Int? = nil
    ) {
        self.generation = generation
        self.requestsLastHour = requestsLastHour
        self.requestCostLastHour = requestCostLastHour
        self.excluded = excluded
        self.account = account
        self.source = source
        self.mountpoint = mountpoint
        self.stateDirectory = stateDirectory
        self.state = state
        self.reason = reason
        self.queuedOperations = queuedOperations
        self.transfers = transfers
        self.conflicts = conflicts
        self.errors = errors
        self.errorCount = errorCount
        self.residentBytes = residentBytes
        self.cacheLimit = cacheLimit
        self.weaknesses = weaknesses
        self.standstill = standstill
        self.heldUp = heldUp
    }
}

/// What waits to be sent and makes no progress while the source answers.
public struct Standstill: Codable, Sendable, Equatable {
    /// What waits, relative to the mount point; of a queue that stands still, what waits longest.
    public var path: String
    /// What it waits for.
    public var reason: String
    /// For how long nothing was sent, or how long it was seen to wait.
    public var seconds: Double

    /// Makes one.
    public init(path: String, reason: String, seconds: Double) {
        self.path = path
        self.reason = reason
        self.seconds = seconds
    }
}

/// One transfer that is going on.
public struct TransferStatus: Codable, Sendable, Equatable {
    /// The document, relative to the mount point.
    public var path: String
    /// `download` or `upload`.
    public var direction: String
    /// Bytes done.
    public var doneBytes: Int64
    /// Bytes in all.
    public var totalBytes: Int64
    /// Mean bytes per second since it began.
    public var bytesPerSecond: Double

    /// Makes a status.
    public init(path: String, direction: String, doneBytes: Int64, totalBytes: Int64, bytesPerSecond: Double) {
        self.path = path
        self.direction = direction
        self.doneBytes = doneBytes
        self.totalBytes = totalBytes
        self.bytesPerSecond = bytesPerSecond
    }
}

/// Why a document is not in step with the cloud.
public struct ItemError: Codable, Sendable, Equatable {
    /// The document, relative to the mount point.
    public var path: String
    /// What happened and what to do.
    public var message: String
    /// When it is tried again, in seconds from now; nil when only a person can help.
    public var retryInSeconds: Double?

    /// Makes an error.
    public init(path: String, message: String, retryInSeconds: Double?) {
        self.path = path
        self.message = message
        self.retryInSeconds = retryInSeconds
    }
}

/// Everything known of one item.
public struct ItemStatus: Codable, Sendable, Equatable {
    /// Relative to the mount point, empty for its root.
    public var path: String
    /// The path's bytes in base64, where they are not UTF-8 and `path` only resembles them.
    public var pathBase64: String?
    /// The last name of the path.
    public var name: String
    /// `file`, `directory`, `symlink`, `fifo`, `socket` or `device`.
    public var kind: String
    /// `dataless`, `partial`, `materialized` or `local` (never uploaded by rule).
    public var state: String
    /// True while the provider has not acknowledged the last change.
    public var isDirty: Bool
    /// True while its bytes travel up.
    public var isUploading: Bool
    /// True while its bytes travel down.
    public var isDownloading: Bool
    /// True when it is kept on this disk.
    public var isPinned: Bool
    /// True when a person keeps it, or a directory that it is in, out of the cloud; nil from a daemon that knows of none.
    public var isExcluded: Bool?
    /// The raw value of a `ContentPolicy`: when its bytes come here and may leave, by its own or that of a directory above it.
    ///
    /// Nil from a daemon that knows of none.
    public var policy: String?
    /// True when it is one of two contents of a conflict.
    public var hasConflict: Bool
    /// Logical size.
    public var size: Int64
    /// Bytes on this disk.
    public var localBytes: Int64
    /// 0 to 100, of the transfer going on or of the bytes on this disk.
    public var percent: Double
    /// Seconds since 1970.
    public var modificationTime: Double
    /// The lower twelve bits of `st_mode`.
    public var permissions: Int
    /// Owner.
    public var user: Int
    /// Group.
    public var group: Int
    /// Names the item.
    public var itemID: UInt64
    /// Names the document.
    public var documentID: String
    /// The version of the bytes the provider has; nil before the first upload.
    public var contentVersion: String?
    /// The provider's id; nil before the first upload.
    public var remoteID: String?
    /// What went wrong last and what to do.
    public var error: String?

    /// Makes a status.
    public init(
        path: String,
        name: String,
        kind: String,
        state: String,
        isDirty: Bool,
        isUploading: Bool,
        isDownloading: Bool,
        isPinned: Bool,
        isExcluded: Bool? = nil,
        policy: String?,
        hasConflict: Bool,
        size: Int64,
        localBytes: Int64,
        percent: Double,
        modificationTime: Double,
        permissions: Int,
        user: Int,
        group: Int,
        itemID: UInt64,
        documentID: String,
        contentVersion: String?,
        remoteID: String?,
        error: String?,
        pathBase64: String? = nil
    ) {
        self.path = path
        self.pathBase64 = pathBase64
        self.name = name
        self.kind = kind
        self.state = state
        self.isDirty = isDirty
        self.isUploading = isUploading
        self.isDownloading = isDownloading
        self.isPinned = isPinned
        self.isExcluded = isExcluded
        self.policy = policy
        self.hasConflict = hasConflict
        self.size = size
        self.localBytes = localBytes
        self.percent = percent
        self.modificationTime = modificationTime
        self.permissions = permissions
        self.user = user
        self.group = group
        self.itemID = itemID
        self.documentID = documentID
        self.contentVersion = contentVersion
        self.remoteID = remoteID
        self.error = error
    }

    private enum CodingKeys: String, CodingKey {
        case path
        case pathBase64 = "path_base64"
        case name, kind, state, isDirty, isUploading, isDownloading, isPinned, isExcluded, policy, hasConflict
        case size, localBytes, percent, modificationTime, permissions, user, group
        case itemID, documentID, contentVersion, remoteID, error
    }
}

/// Two contents of one document, both kept.
public struct ConflictStatus: Codable, Sendable, Equatable {
    /// The document that has the name.
    public var path: String
    /// The other content's file beside it.
    public var copyPath: String
    /// Which device wrote the copy.
    public var host: String
    /// When the conflict was found, seconds since 1970.
    public var time: Double

    /// Makes a status.
    public init(path: String, copyPath: String, host: String, time: Double) {
        self.path = path
        self.copyPath = copyPath
        self.host = host
        self.time = time
    }
}

/// A deleted document that can still be restored.
public struct TrashEntry: Codable, Sendable, Equatable {
    /// Names the entry for `cove trash restore`.
    public var documentID: String
    /// Where it was.
    public var path: String
    /// When it was deleted, seconds since 1970.
    public var time: Double
    /// Logical size.
    public var size: Int64
    /// `local` (bytes on this disk) or `remote` (kept at the source).
    public var location: String

    /// Makes an entry.
    public init(documentID: String, path: String, time: Double, size: Int64, location: String) {
        self.documentID = documentID
        self.path = path
        self.time = time
        self.size = size
        self.location = location
    }
}

/// A name that a person keeps out of the cloud.
public struct ExcludedItem: Codable, Sendable, Equatable {
    /// Where it is; empty for one that is not UTF-8.
    public var path: String
    /// The path where it is not UTF-8.
    public var pathBase64: String?
    /// True where a person said so, false where only something excluded was moved there.
    public var isAsked: Bool
    /// True while something has the name.
    public var isThere: Bool

    /// Makes an item.
    public init(path: String, pathBase64: String?, isAsked: Bool, isThere: Bool) {
        self.path = path
        self.pathBase64 = pathBase64
        self.isAsked = isAsked
        self.isThere = isThere
    }

    private enum CodingKeys: String, CodingKey {
        case path
        case pathBase64 = "path_base64"
        case isAsked, isThere
    }
}

/// What one look of `cove doctor` found.
public struct DoctorFinding: Codable, Sendable, Equatable {
    /// What was looked at.
    public var check: String
    /// `ok`, `warning` or `problem`.
    public var level: String
    /// What was seen.
    public var message: String
    /// What to do; nil when nothing needs doing.
    public var remedy: String?

    /// Makes a finding.
    public init(check: String, level: String, message: String, remedy: String?) {
        self.check = check
        self.level = level
        self.message = message
        self.remedy = remedy
    }
}

/// How a `cove sync` stands.
public struct SyncReport: Codable, Sendable, Equatable {
    /// True when nothing is left to send or fetch.
    public var isSettled: Bool
    /// Operations that still wait.
    public var remaining: Int
    /// What failed and waits for a person or a retry.
    public var errors: [ItemError]

    /// Makes a report.
    public init(isSettled: Bool, remaining: Int, errors: [ItemError]) {
        self.isSettled = isSettled
        self.remaining = remaining
        self.errors = errors
    }
}
