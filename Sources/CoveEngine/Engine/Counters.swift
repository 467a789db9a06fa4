internal import Synchronization

/// Counters since the daemon started.
final class Counters: Sendable {
    let downloadsStarted = Atomic<Int>(0)
    let bytesDownloaded = Atomic<Int64>(0)
    let contentUpdates = Atomic<Int>(0)
    let bytesUploaded = Atomic<Int64>(0)
    let deletions = Atomic<Int>(0)
    let moves = Atomic<Int>(0)
    let providerRequests = Atomic<Int>(0)
    let fuseRequests = Atomic<Int>(0)
    let readHits = Atomic<Int>(0)
    let readMisses = Atomic<Int>(0)
    let parkedRequests = Atomic<Int>(0)
    let announcements = Atomic<Int>(0)
    let thumbnailsFetched = Atomic<Int>(0)
    let thumbnailsMade = Atomic<Int>(0)
    let thumbnailsSent = Atomic<Int>(0)
}
