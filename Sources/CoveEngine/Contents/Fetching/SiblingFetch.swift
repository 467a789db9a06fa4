internal import CoveCore
internal import Synchronization

/// Guesses that a program reads one small file of a directory after the other, and fetches the next ones ahead of it.
///
/// A guess begins with the second file in order whose bytes are missing, and goes on only as fast as what was fetched
/// ahead is really opened: a wrong one costs `firstWindow` small files.
final class SiblingFetch: Sendable {
    /// Larger files are not fetched ahead: a walk seldom reads them, and a wrong guess would cost too much.
    static let largest: Int64 = 256 << 10
    private static let firstWindow = 8
    private static let lastWindow = 64
    private static let walks = 8
    /// What was begun this long ago says nothing of now.
    private static let patience = TimeSpan.seconds(10)

    /// Where a file is in its directory: in the order of the listing, which `grep -r` follows, and by name, as for a shell's `*`.
    struct Place: Sendable, Equatable {
        var entry: Int64
        var name: [UInt8]

        func isBehind(_ other: Place, _ sequence: Sequence) -> Bool {
            switch sequence {
            case .listed: entry > other.entry
            case .named: other.name.lexicographicallyPrecedes(name)
            }
        }
    }

    /// The order in which a directory's files are read.
    enum Sequence: Sendable, CaseIterable { case listed, named }

    /// A directory whose files are read one after the other.
    private struct Walk {
        let directory: ItemID
        /// The last file that was read, and the last one asked for.
        var read: Place
        var asked: Place
        var sequence = Sequence.listed
        /// How often in a row each order was kept.
        var kept: [Sequence: Int] = [:]
        /// What was fetched, or is being, and was not opened since.
        var ahead: [ItemID: Place] = [:]
        /// The one of them that was read last, before its bytes were here: nobody saw it opened.
        var overtaken: ItemID?
        var window = 0
        var time: MonotonicTime

        /// Notes that the program was quicker than what was fetched for it.
        mutating func overtake(_ place: Place) {
            if let overtaken { ahead[overtaken] = nil }
            overtaken = ahead.first { $0.value == place }?.key
        }

        /// Notes the next miss; false when it is in neither order.
        mutating func follow(_ place: Place) -> Bool {
            for sequence in Sequence.allCases {
                kept[sequence] = place.isBehind(read, sequence) ? kept[sequence, default: 0] + 1 : 0
            }
            read = place
            guard let best = kept.values.max(), best > 0 else { return false }
            if kept[sequence, default: 0] < best {
                sequence = sequence == .listed ? .named : .listed
                asked = place
                // What was fetched in the other order comes up sometime, or never: nothing waits for it.
                ahead = [:]
            }
            if place.isBehind(asked, sequence) { asked = place }
            return true
        }
    }

    /// What is to be fetched: files behind another.
    struct Order: Sendable, Equatable {
        let directory: ItemID
        let after: Place
        let sequence: Sequence
        let count: Int
    }

    private let state = EngineMutex<[Walk]>(.siblings, [])
    private let isWatching = Atomic(false)

    /// True while an open may be one that was foreseen; cheap.
    var awaitsOpens: Bool { isWatching.load(ordering: .relaxed) }

    /// Changes the walks, without those of long ago.
    private func update<Result: Sendable>(now: MonotonicTime, _ body: (inout [Walk]) -> Result) -> Result {
        state.withLock { walks in
            walks.removeAll { now - $0.time > Self.patience }
            defer { isWatching.store(walks.contains { !$0.ahead.isEmpty }, ordering: .relaxed) }
            return body(&walks)
        }
    }

    /// A file was read whose bytes are missing; what to fetch beside it.
    func noteMiss(_ place: Place, in directory: ItemID, now: MonotonicTime) -> Order? {
        update(now: now) { walks in
            guard let index = walks.firstIndex(where: { $0.directory == directory }) else {
                // Whoever walks on into the next directory is believed at once.
                let isKnown = walks.contains { $0.window > Self.firstWindow }
                var walk = Walk(directory: directory, read: place, asked: place, time: now)
                if isKnown { walk.window = Self.firstWindow }
                walks.append(walk)
                if walks.count > Self.walks { walks.removeFirst() }
                return isKnown ? Self.next(&walks[walks.count - 1]) : nil
            }
            walks[index].time = now
            walks[index].overtake(place)
            guard walks[index].follow(place) else {
                walks[index].window = 0
                walks[index].asked = place
                return nil
            }
            walks[index].window = max(walks[index].window, Self.firstWindow)
            return Self.next(&walks[index])
        }
    }

    /// A file was opened; what to fetch next if that was foreseen.
    func noteOpen(_ item: ItemID, now: MonotonicTime) -> Order? {
        update(now: now) { walks in
            guard let index = walks.firstIndex(where: { $0.ahead[item] != nil }) else { return nil }
            walks[index].ahead[item] = nil
            walks[index].time = now
            walks[index].window = min(walks[index].window * 2, Self.lastWindow)
            return Self.next(&walks[index])
        }
    }

    /// Half a window at a time, so that the catalog is asked seldom.
    private static func next(_ walk: inout Walk) -> Order? {
        let waiting = walk.overtaken.map { walk.ahead[$0] != nil } == true ? walk.ahead.count - 1 : walk.ahead.count
        let count = walk.window - waiting
        guard count > 0, count >= walk.window / 2 else { return nil }
        return Order(directory: walk.directory, after: walk.asked, sequence: walk.sequence, count: count)
    }

    /// These are being fetched; `asked` is the last one that was looked at.
    ///
    /// What the program has read already is not waited for.
    func noteFetched(_ items: [(item: ItemID, place: Place)], upTo asked: Place, of order: Order, now: MonotonicTime) {
        update(now: now) { walks in
            guard let index = walks.firstIndex(where: { $0.directory == order.directory }) else { return }
            guard walks[index].sequence == order.sequence else { return }
            for (item, place) in items where place.isBehind(walks[index].read, order.sequence) {
                walks[index].ahead[item] = place
            }
            if asked.isBehind(walks[index].asked, order.sequence) { walks[index].asked = asked }
        }
    }
}

extension Contents {
    /// Notes that a program reads a small file that is not here.
    func noteMiss(of id: ItemID, size: Int64) {
        guard size <= SiblingFetch.largest else { return }
        contentQueue.async { [self] in
            let entry = try? catalog.read { database throws(Errno) in try database.entries(of: id).first }
            guard let entry else { return }
            let place = SiblingFetch.Place(entry: entry.id, name: entry.name)
            if let order = siblings.noteMiss(place, in: entry.parent, now: clock.monotonic()) { carryOut(order) }
        }
    }

    /// Notes that a program opens a file.
    func noteOpen(of id: ItemID) {
        guard siblings.awaitsOpens, let order = siblings.noteOpen(id, now: clock.monotonic()) else { return }
        contentQueue.async { [self] in carryOut(order) }
    }

    private func carryOut(_ order: SiblingFetch.Order) {
        guard !disk.isFull else { return }
        let (sql, after): (StaticString, Database.Value) =
            switch order.sequence {
            case .listed: (Self.siblingsByEntry, .int(order.after.entry))
            case .named: (Self.siblingsByName, .blob(order.after.name))
            }
        let found = try? catalog.read { database throws(Errno) in
            try database.all(
                sql,
                .item(order.directory),
                after,
                .int(SiblingFetch.largest),
                .int(Int64(order.count))
            ) { (item: $0.item(2), place: SiblingFetch.Place(entry: $0.int(0), name: $0.blob(1))) }
        }
        guard let found, let last = found.last else { return }
        siblings.noteFetched(found, upTo: last.place, of: order, now: clock.monotonic())
        for (item, _) in found { materialize(item) { _ in } }
    }

    private static let siblingsByEntry: StaticString = """
        SELECT e.id, e.name, i.id FROM entries e JOIN items i ON i.id = e.item WHERE e.parent = ? AND e.id > ?
            AND i.kind = 0 AND i.state != 0 AND i.size BETWEEN 1 AND ? ORDER BY e.id LIMIT ?
        """

    private static let siblingsByName: StaticString = """
        SELECT e.id, e.name, i.id FROM entries e JOIN items i ON i.id = e.item WHERE e.parent = ? AND e.name > ?
            AND i.kind = 0 AND i.state != 0 AND i.size BETWEEN 1 AND ? ORDER BY e.name LIMIT ?
        """
}
