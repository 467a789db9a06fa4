internal import CoveCore
internal import Synchronization

/// Guesses that a program reads one small file of a directory after the other, and fetches the next ones ahead of it.
///
/// A guess begins with the second file in order whose bytes are missing, and goes on only as fast as what was fetched
/// ahead is really opened: a wrong one costs `firstWindow` small files.
final class SiblingFetch: Sendable {
    /// Larger files are no prey of a walk, and cost too much when they aren't.
    static let largest: Int64 = 256 << 10
    private static let firstWindow = 8
    private static let lastWindow = 64
    private static let walks = 8
    /// What was begun this long ago says nothing of now.
    private static let patience: Int64 = 10_000_000_000

    /// A directory whose files are read in the order of its listing.
    private struct Walk {
        let directory: ItemID
        /// The last entry that was read, and the last one asked for.
        var read: Int64
        var asked: Int64
        var ahead: Set<ItemID> = []
        var window = 0
        var time: Int64
    }

    /// What is to be fetched: files after an entry.
    struct Order: Sendable, Equatable {
        let directory: ItemID
        let after: Int64
        let count: Int
    }

    private let state = Mutex<[Walk]>([])
    private let isWatching = Atomic(false)

    /// True while an open may be one that was foreseen; cheap.
    var awaitsOpens: Bool { isWatching.load(ordering: .relaxed) }

    /// A file was read whose bytes are missing; what to fetch beside it.
    func noteMiss(_ entry: Int64, in directory: ItemID, now: Int64) -> Order? {
        state.withLock { walks in
            walks.removeAll { now - $0.time > Self.patience }
            guard let index = walks.firstIndex(where: { $0.directory == directory }) else {
                // Whoever walks on into the next directory is believed at once.
                let isKnown = walks.contains { $0.window > Self.firstWindow }
                var walk = Walk(directory: directory, read: entry, asked: entry, time: now)
                if isKnown { walk.window = Self.firstWindow }
                walks.append(walk)
                if walks.count > Self.walks { walks.removeFirst() }
                isWatching.store(true, ordering: .relaxed)
                return isKnown ? Self.next(&walks[walks.count - 1]) : nil
            }
            let isInOrder = entry > walks[index].read
            walks[index].read = entry
            walks[index].time = now
            guard isInOrder else {
                walks[index].window = 0
                walks[index].asked = entry
                return nil
            }
            walks[index].window = max(walks[index].window, Self.firstWindow)
            walks[index].asked = max(walks[index].asked, entry)
            return Self.next(&walks[index])
        }
    }

    /// A file was opened; what to fetch next if that was foreseen.
    func noteOpen(_ item: ItemID, now: Int64) -> Order? {
        state.withLock { walks in
            guard let index = walks.firstIndex(where: { $0.ahead.contains(item) }) else { return nil }
            walks[index].ahead.remove(item)
            walks[index].time = now
            walks[index].window = min(walks[index].window * 2, Self.lastWindow)
            return Self.next(&walks[index])
        }
    }

    /// Half a window at a time, so that the catalog is asked seldom.
    private static func next(_ walk: inout Walk) -> Order? {
        let count = walk.window - walk.ahead.count
        guard count > 0, count >= walk.window / 2 else { return nil }
        return Order(directory: walk.directory, after: walk.asked, count: count)
    }

    /// These are being fetched; `asked` is the last entry that was looked at.
    func noteFetched(_ items: [ItemID], upTo asked: Int64, of order: Order) {
        state.withLock { walks in
            guard let index = walks.firstIndex(where: { $0.directory == order.directory }) else { return }
            walks[index].ahead.formUnion(items)
            walks[index].asked = max(walks[index].asked, asked)
        }
    }
}

extension Engine {
    /// Notes that a program reads a small file that is not here.
    func noteMiss(of id: ItemID, size: Int64) {
        guard size <= SiblingFetch.largest else { return }
        contentQueue.async { [self] in
            let entry = try? catalog.read { database throws(Errno) in try database.entries(of: id).first }
            guard let entry else { return }
            if let order = siblings.noteMiss(entry.id, in: entry.parent, now: System.monotonic()) { carryOut(order) }
        }
    }

    /// Notes that a program opens a file.
    func noteOpen(of id: ItemID) {
        guard siblings.awaitsOpens, let order = siblings.noteOpen(id, now: System.monotonic()) else { return }
        contentQueue.async { [self] in carryOut(order) }
    }

    private func carryOut(_ order: SiblingFetch.Order) {
        guard !disk.isFull else { return }
        let found = try? catalog.read { database throws(Errno) in
            try database.all(
                """
                SELECT e.id, i.id FROM entries e JOIN items i ON i.id = e.item WHERE e.parent = ? AND e.id > ?
                    AND i.kind = 0 AND i.state != 0 AND i.size BETWEEN 1 AND ? ORDER BY e.id LIMIT ?
                """,
                .item(order.directory),
                .int(order.after),
                .int(SiblingFetch.largest),
                .int(Int64(order.count))
            ) { ($0.int(0), $0.item(1)) }
        }
        guard let found, let last = found.last else { return }
        siblings.noteFetched(found.map(\.1), upTo: last.0, of: order)
        for (_, item) in found { materialize(item) { _ in } }
    }
}
