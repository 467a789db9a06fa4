/// Counters since the daemon started, and sizes now.
public struct Statistics: Codable, Sendable, Equatable {
    /// Fetches begun.
    public var downloadsStarted = 0
    /// Content bytes received.
    public var bytesDownloaded: Int64 = 0
    /// Content updates sent and acknowledged, new documents included.
    public var contentUpdates = 0
    /// Content bytes sent.
    public var bytesUploaded: Int64 = 0
    /// Deletions sent and acknowledged.
    public var deletions = 0
    /// Moves sent and acknowledged.
    public var moves = 0
    /// Calls of the provider.
    public var providerRequests = 0
    /// Requests the kernel sent.
    public var fuseRequests = 0
    /// Reads served from local bytes.
    public var readHits = 0
    /// Reads that waited for bytes.
    public var readMisses = 0
    /// Requests parked now.
    public var parkedRequests = 0
    /// Remote changes made visible through the mount.
    public var announcements = 0
    /// Pictures of documents that the source had.
    public var thumbnailsFetched = 0
    /// Made here of local bytes.
    public var thumbnailsMade = 0
    /// Given to the source for other devices.
    public var thumbnailsSent = 0
    /// Items changed here and not yet acknowledged.
    public var dirtyItems = 0
    /// Operations that wait for the provider.
    public var queuedOperations = 0
    /// Unresolved conflicts.
    public var conflicts = 0
    /// Bytes of content on this disk.
    public var residentBytes: Int64 = 0
    /// Items in the catalog.
    public var items = 0
    /// Open files and directories.
    public var openHandles = 0
    /// The daemon's memory in bytes, VmRSS.
    public var memoryBytes: Int64 = 0
    /// The daemon's process id.
    public var daemonPID = 0
    /// The process that holds the mount.
    public var keeperPID = 0

    /// All zero.
    public init() {}

    private enum CodingKeys: String, CodingKey {
        case downloadsStarted = "downloads_started"
        case bytesDownloaded = "bytes_downloaded"
        case contentUpdates = "content_updates"
        case bytesUploaded = "bytes_uploaded"
        case deletions
        case moves
        case providerRequests = "provider_requests"
        case fuseRequests = "fuse_requests"
        case readHits = "read_hits"
        case readMisses = "read_misses"
        case parkedRequests = "parked_requests"
        case announcements
        case thumbnailsFetched = "thumbnails_fetched"
        case thumbnailsMade = "thumbnails_made"
        case thumbnailsSent = "thumbnails_sent"
        case dirtyItems = "dirty_items"
        case queuedOperations = "queued_operations"
        case conflicts
        case residentBytes = "resident_bytes"
        case items
        case openHandles = "open_handles"
        case memoryBytes = "memory_bytes"
        case daemonPID = "daemon_pid"
        case keeperPID = "keeper_pid"
    }
}
