internal import CoveCore

/// What changed at the source and has not been acknowledged, in batches that are handed out whole.
///
/// A batch holds all that belongs together, such as both names of a rename. An entry that changes again before it was
/// handed out keeps its place: what it is now is read only then.
struct ChangeLog {
    enum Change: Hashable {
        case entry(WatchedEntry)
        /// All of a directory is to be listed again.
        case directory(Int)

        /// The number of the directory that it is in.
        var directory: Int {
            switch self {
            case .entry(let entry): entry.directory
            case .directory(let number): number
            }
        }
    }

    /// Above this many, the entries of a directory give way to the directory itself.
    static let limit = 65_536

    /// Tells the anchors of this process's watching from those of another.
    let instance = DocumentID.random().description
    private(set) var batch: UInt64 = 0
    /// What has not been handed out, and the batch it is in.
    private var waiting: [Change: UInt64] = [:]
    private var queue: [(batch: UInt64, change: Change)] = []
    private var acknowledged: UInt64 = 0

    var hasNews: Bool { !waiting.isEmpty }

    mutating func append(_ changes: some Sequence<Change>) {
        batch += 1
        for change in changes {
            if case .entry(let entry) = change, waiting[.directory(entry.directory)] != nil { continue }
            if waiting[change] != nil { continue }
            waiting[change] = batch
            queue.append((batch, change))
        }
        if waiting.count > Self.limit { condense() }
    }

    private mutating func condense() {
        var directories: [Int: UInt64] = [:]
        for (batch, change) in queue {
            switch change {
            case .entry(let entry): directories[entry.directory] = batch
            case .directory(let number): directories[number] = batch
            }
        }
        queue = directories.sorted { $0.value < $1.value }.map { ($0.value, .directory($0.key)) }
        waiting = Dictionary(uniqueKeysWithValues: queue.map { ($0.change, $0.batch) })
    }

    /// The anchor that stands for everything recorded until now.
    ///
    /// Whoever begins there is never handed what was recorded before: it must not absorb what comes after.
    mutating func begin() -> Anchor {
        waiting = [:]
        return anchor(batch)
    }

    private func anchor(_ batch: UInt64) -> Anchor { Anchor(Array("\(instance):\(batch)".utf8)) }

    /// Hands out whole batches after an anchor, until there are enough; nil when the anchor is not known any more.
    ///
    /// What the anchor acknowledges is forgotten, so that an older one can't be used again.
    mutating func take(since anchor: Anchor, about count: Int) -> (changes: [Change], anchor: Anchor, more: Bool)? {
        let parts = String(decoding: anchor.bytes, as: UTF8.self).split(separator: ":")
        guard parts.count == 2, parts[0] == instance, let since = UInt64(parts[1]), since >= acknowledged,
            since <= batch
        else { return nil }
        acknowledged = since
        let kept = queue.firstIndex { $0.batch > since } ?? queue.count
        forget(queue[..<kept])
        queue.removeFirst(kept)
        var end = min(count, queue.count)
        while end > 0, end < queue.count, queue[end].batch == queue[end - 1].batch { end += 1 }
        let changes = queue[..<end].map(\.change)
        forget(queue[..<end])
        let last = end < queue.count ? (queue[..<end].last?.batch ?? since) : batch
        return (changes, self.anchor(last), end < queue.count)
    }

    private mutating func forget(_ gone: ArraySlice<(batch: UInt64, change: Change)>) {
        for (batch, change) in gone where waiting[change] == batch { waiting[change] = nil }
    }
}
