internal import CoveCore

/// Decides which rows of the queue are sent now: a state machine without I/O, clock or locks.
///
/// A row is started only when nothing is in its way. What is in its way is started in its place, if that can go; if it is
/// under way already, the row is blocked, and its end wakes it. So whatever is blocked waits for an operation that goes on,
/// and while anything can go, an operation goes on or a time is set. Rows in folders that are not sent yet are not even
/// looked at: the catalog holds them back until their folder is there. Blocked rows cost no commit.
struct Schedule: Sendable {
    /// Rows remembered; where there are more, they are looked at again and again.
    static let capacity = 4096
    /// Rows of a stream looked at in one go beyond that.
    static let beyondCapacity = 64
    /// Large bodies passed over in one go, behind which a small one may be found.
    static let mostPassed = 16384
    /// How long it takes until more of those are looked at.
    static let cutRest = TimeSpan.milliseconds(200)
    /// With so many that rest each of them rests longer, as if it took its turn.
    static let restingTogether = 64
    /// What rests for no longer than this by itself does not for longer because of others.
    static let longestTurn = TimeSpan.seconds(15)
    /// How many rows in each other's way are followed; what is behind is moved aside.
    static let longestChain = 64
    /// How long a row rests that waits for others in a way that nobody understands.
    static let doubtfulRest = TimeSpan.seconds(1)
    /// How long one rests that can't be looked at.
    static let unreadableRest = TimeSpan.seconds(60)
    /// So many that can't be looked at in one go are the disk's fault and not theirs.
    static let mostUnreadable = 1000

    /// A row that is to be looked at again at some time.
    struct Rest: Sendable, Equatable {
        var until: Timestamp
        var stamp: Timestamp
        var reason: WaitReason
    }

    private(set) var rests: [QueueKey: Rest] = [:]
    /// What operation a row waits for.
    private(set) var blocked: [QueueKey: DocumentID] = [:]
    private var waiting: [DocumentID: [QueueKey]] = [:]
    private var turn = 0
    /// How many of the rows of a stream beyond capacity were looked at before: others have their turn next.
    private var cursors: [QueueStream: Int] = [:]
    /// True where the last go has left out rows beyond capacity.
    private(set) var isCut = false
    /// Why the last row that could not be looked at could not be.
    private(set) var lastFailure: Errno?

    var isFull: Bool { rests.count + blocked.count >= Schedule.capacity }

    /// Chooses rows to be started: until they weigh as much, or more by the last of them.
    ///
    /// `spare`: so many rows of the least weight, where there are any, are chosen in any case.
    ///
    /// `reserve` begins an operation of a document; where another one is in its way, it begins none and tells which.
    mutating func pick(
        _ weight: Int,
        spare: Int = 0,
        from view: some QueueView,
        now: Timestamp,
        reserve: (DocumentID, QueueNeeds) -> DocumentID?
    ) throws(Errno) -> [QueueRow] {
        for (key, rest) in rests where rest.until <= now { rests[key] = nil }
        var started: [QueueRow] = []
        var (left, spare) = (weight, spare)
        guard left > 0 || spare > 0 else { return [] }
        turn &+= 1
        isCut = false
        var passed = 0
        var unreadable = 0
        for stream in Schedule.order(turn) {
            var failure: Errno?
            let cursor = cursors[stream] ?? 0
            var (skipped, looks, startedBefore) = (0, 0, started.count)
            var isAtEnd = true
            do throws(Errno) {
                try view.eachDue(stream, at: now) { row in
                    if left <= 0, row.weight > 1 {
                        passed += 1
                        return passed < Schedule.mostPassed
                    }
                    guard blocked[row.key] == nil, rests[row.key]?.stamp != row.stamp else { return true }
                    if isFull {
                        if skipped < cursor {
                            skipped += 1
                            return true
                        }
                        guard looks < Schedule.beyondCapacity else {
                            (isAtEnd, isCut) = (false, true)
                            return false
                        }
                        looks += 1
                    }
                    do throws(Errno) {
                        if let found = try offer(row, view, now, reserve) {
                            started.append(found)
                            left -= found.weight
                            if found.weight == 1 { spare -= 1 }
                        }
                    } catch {
                        // It holds up no other row.
                        rest(row, until: now + Schedule.unreadableRest, .unreadable)
                        unreadable += 1
                        lastFailure = error
                        if unreadable > Schedule.mostUnreadable { failure = error }
                    }
                    isAtEnd = (left > 0 || spare > 0) && failure == nil
                    return isAtEnd
                }
            } catch {
                // What is reserved already is started all the same.
                failure = error
                lastFailure = error
            }
            // What was started is in the stream no more.
            cursors[stream] = isAtEnd ? nil : skipped + max(0, looks - (started.count - startedBefore))
            if let failure {
                if started.isEmpty { throw failure }
                break
            }
            if left <= 0, spare <= 0 { break }
        }
        return started
    }

    /// Folders go first, for others wait for them; but no stream is without its turn, however long another one is.
    static func order(_ turn: Int) -> [QueueStream] {
        switch turn % 4 {
        case 1: [.deletions, .folders, .changes, .changeRetries, .deletionRetries]
        case 2: [.changeRetries, .deletionRetries, .folders, .changes, .deletions]
        case 3: [.changes, .folders, .deletions, .changeRetries, .deletionRetries]
        default: [.folders, .changes, .deletions, .changeRetries, .deletionRetries]
        }
    }

    /// Follows what is in a row's way to what can go; what is to be started, if anything.
    private mutating func offer(
        _ row: QueueRow,
        _ view: some QueueView,
        _ now: Timestamp,
        _ reserve: (DocumentID, QueueNeeds) -> DocumentID?
    ) throws(Errno) -> QueueRow? {
        /// The rows that are in each other's way, and whether the next one can be moved aside.
        var chain: [(row: QueueRow, stepsAside: Bool)] = []
        var current = row
        while true {
            let obstacle: QueueRow
            switch try view.look(at: current, now: now) {
            case .ready(let needs):
                if let other = reserve(current.document, needs) {
                    block(row.key, on: other)
                    return nil
                }
                if current.key != row.key { block(row.key, on: current.document) }
                return current
            case .rest(let pause, let reason):
                return stepAside(chain, reserve) ?? resting(row, until: now + prolonged(pause), reason)
            case .after(let next, let time, let way):
                chain.append((current, way == .name))
                if case .at(let due) = time {
                    return stepAside(chain, reserve) ?? resting(row, until: due, .otherChange)
                }
                if time == .unknown {
                    return stepAside(chain, reserve)
                        ?? resting(row, until: now + Schedule.doubtfulRest, .otherChange)
                }
                obstacle = next
            }
            if let other = blocked[obstacle.key] {
                block(row.key, on: other)
                return nil
            }
            if let rest = rests[obstacle.key], rest.stamp == obstacle.stamp {
                return stepAside(chain, reserve) ?? resting(row, until: rest.until, rest.reason)
            }
            if chain.count >= Schedule.longestChain || chain.contains(where: { $0.row.key == obstacle.key }) {
                return stepAside(chain, reserve)
                    ?? resting(row, until: now + Schedule.doubtfulRest, .ring)
            }
            current = obstacle
        }
    }

    /// Starts the last row of a chain that can do without the next: that one is moved out of its way.
    private mutating func stepAside(
        _ chain: [(row: QueueRow, stepsAside: Bool)],
        _ reserve: (DocumentID, QueueNeeds) -> DocumentID?
    ) -> QueueRow? {
        guard let first = chain.first?.row, let last = chain.last(where: \.stepsAside)?.row else { return nil }
        if let other = reserve(last.document, QueueNeeds()) {
            block(first.key, on: other)
            return nil
        }
        if first.key != last.key { block(first.key, on: last.document) }
        return last
    }

    /// How long a row rests among all that do: looks at very many take time.
    private func prolonged(_ pause: TimeSpan) -> TimeSpan {
        min(pause * (1 + rests.count / Schedule.restingTogether), max(pause, Schedule.longestTurn))
    }

    private mutating func resting(_ row: QueueRow, until time: Timestamp, _ reason: WaitReason) -> QueueRow? {
        // Blocked where it could have been moved aside: nothing is to rest.
        if blocked[row.key] == nil { rest(row, until: time, reason) }
        return nil
    }

    private mutating func block(_ key: QueueKey, on document: DocumentID) {
        guard !isFull else { return }
        blocked[key] = document
        waiting[document, default: []].append(key)
    }

    /// Has a row looked at again at some time, or once it changed; false when too many rest already.
    @discardableResult
    mutating func rest(_ row: QueueRow, until time: Timestamp, _ reason: WaitReason) -> Bool {
        guard !isFull || rests[row.key] != nil else { return false }
        rests[row.key] = Rest(until: time, stamp: row.stamp, reason: reason)
        return true
    }

    /// What is to be told of rows that could not be looked at; once.
    mutating func takeFailure() -> Errno? { lastFailure.take() }

    /// Ends all rests: a person wants it now, or the clock was set.
    mutating func endRests() { rests = [:] }

    /// An operation has ended, well or badly: what waited for it is looked at again.
    mutating func ended(_ document: DocumentID) {
        for key in waiting.removeValue(forKey: document) ?? [] { blocked[key] = nil }
    }

    /// When the next rest ends.
    var nextRest: Timestamp? { rests.values.map(\.until).min() }
}
