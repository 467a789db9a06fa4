internal import CoveCore
internal import Synchronization

/// The versions that were moved into place when the line broke: they may have arrived, and then they are this device's own.
final class UnansweredUploads: Sendable {
    /// Of more than so many the earliest are forgotten: they would be called conflicts then, and both contents kept.
    private static let maximum = 1000
    private let sent = Mutex<[RemotePath: (version: ContentVersion, time: MonotonicTime)]>([:])

    subscript(_ path: RemotePath) -> ContentVersion? { sent.withLock { $0[path]?.version } }

    func begin(_ path: RemotePath, _ version: ContentVersion) {
        let now = System.monotonic()
        sent.withLock { sent in
            sent[path] = (version, now)
            guard sent.count > Self.maximum, let oldest = sent.min(by: { $0.value.time < $1.value.time }) else {
                return
            }
            sent[oldest.key] = nil
        }
    }

    func end(_ path: RemotePath) { sent.withLock { $0[path] = nil } }
}
