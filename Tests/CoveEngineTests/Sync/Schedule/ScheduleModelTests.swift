import CoveCore
import CoveTestSupport
import Foundation
import Testing

@testable import CoveEngine

/// The schedule against a source that does what it is told, later, or not: whatever order things were changed in, all gets there.
@Suite(.timeLimit(.minutes(30))) struct ScheduleModelTests {
    private static let environment = ProcessInfo.processInfo.environment
    private static let seed =
        environment["COVE_MODEL_SEED"].flatMap(UInt64.init) ?? UInt64.random(in: 0...UInt64(UInt32.max))
    private static let walks = environment["COVE_SCHEDULE_WALKS"].flatMap(Int.init) ?? 300

    @Test func `whatever the order of dates, everything is sent, and nothing before it can go`() throws {
        print("schedule model: seed \(Self.seed), \(Self.walks) walks")
        for walk in 0..<Self.walks {
            let seed = Self.seed &+ UInt64(walk)
            var run = ScheduleRun(seed: seed)
            do { try run.walk() } catch { throw ScheduleWorld.Fault(description: "seed \(seed): \(error)") }
        }
    }

    @Test func `a folder that was changed after all in it is sent first, and no child is looked at before`() throws {
        var run = ScheduleRun(seed: 1)
        let folder = run.make(in: .root, isFolder: true, changed: 3000)
        for number in 0..<1500 { run.make(in: folder, isFolder: false, changed: 1000 + Int64(number)) }
        run.world.now = Timestamp(milliseconds: 9000)
        try run.drain(failures: 0)
        #expect(run.order.first == folder)
        #expect(run.looks <= 1501 * 3, "\(run.looks) looks for 1501 rows")
        #expect(run.world.idleCommits == 0)
    }

    @Test func `a chain of names goes from its end, a ring moves one aside`() throws {
        for isRing in [false, true] {
            var run = ScheduleRun(seed: 2)
            let files = (0..<40).map { run.makeSent(name: "f\($0)", changed: Int64($0)) }
            for (index, file) in files.enumerated() where isRing || index < 39 {
                run.world.nodes[file]?.here?.name = Array("f\((index + 1) % 40)".utf8)
                run.world.nodes[file]?.changed = Timestamp(milliseconds: Int64(index))
            }
            if !isRing {
                run.world.nodes[files[39]]?.here?.name = Array("last".utf8)
                run.world.nodes[files[39]]?.changed = Timestamp(milliseconds: 39)
            }
            try run.drain(failures: 0)
            #expect(run.movedAside == (isRing ? 1 : 0))
        }
    }

    /// Rows some of which can't be looked at.
    private struct Damaged: QueueView {
        let rows: [QueueRow]
        let isDamaged: @Sendable (Int64) -> Bool

        init(_ count: Int64, _ isDamaged: @escaping @Sendable (Int64) -> Bool) {
            self.isDamaged = isDamaged
            rows = (0..<count).map { QueueRow(key: .entry($0), document: .random(), stamp: .epoch) }
        }

        func eachDue(_ stream: QueueStream, at now: Timestamp, _ body: (QueueRow) -> Bool) throws(Errno) {
            for row in rows where !body(row) { return }
        }

        func look(at row: QueueRow, now: Timestamp) throws(Errno) -> QueueFinding {
            if case .entry(let id) = row.key, isDamaged(id) { throw .noSuchEntry }
            return .ready(QueueNeeds())
        }
    }

    @Test func `a row that can't be looked at holds up no other, and is told of`() throws {
        var schedule = Schedule()
        let view = Damaged(40) { $0 % 4 == 0 }
        var underWay: Set<DocumentID> = []
        var started: [QueueKey] = []
        for second in Int64(0)..<4 {
            let rows = try schedule.pick(8, from: view, now: Timestamp(milliseconds: second * 1000)) { document, _ in
                underWay.insert(document).inserted ? nil : document
            }
            started += rows.map(\.key)
        }
        let damaged = schedule.rests.filter { $0.value.reason == .unreadable }.keys
        #expect(started.count == 30 && damaged.count == 10 && Set(started).isDisjoint(with: damaged))
    }

    @Test func `a catalog of which nothing can be looked at is an error of the queue`() {
        var schedule = Schedule()
        #expect(throws: Errno.noSuchEntry) {
            try schedule.pick(8, from: Damaged(2000) { _ in true }, now: .epoch) { _, _ in nil }
        }
    }

    @Test func `as many rows as are remembered in the way of others keep nothing up`() throws {
        var schedule = Schedule()
        for number in 0..<Schedule.capacity {
            let row = QueueRow(key: .entry(Int64(number)), document: .random(), stamp: .epoch)
            let isKept = schedule.rest(row, until: .distantFuture, .retry)
            #expect(isKept)
        }
        let more = QueueRow(key: .entry(-1), document: .random(), stamp: .epoch)
        let isKept = schedule.rest(more, until: .distantFuture, .retry)
        #expect(!isKept)
        var world = ScheduleWorld()
        world.now = Timestamp(milliseconds: 10_000)
        world.nodes[ItemID(100_000)] = ScheduleWorld.Node(
            isFolder: false,
            here: Place(.root, [1]),
            there: nil,
            changed: .epoch
        )
        let started = try schedule.pick(4, from: world, now: world.now) { _, _ in nil }
        #expect(started.map(\.key) == [.entry(100_000)])
    }
}

extension ScheduleModelTests {
    /// Rows under a claim, and one behind them that can go.
    private final class Claimed: QueueView {
        let rows: [QueueRow]
        let isFolder: Bool
        private(set) var looks = 0

        init(_ count: Int64, areFolders: Bool) {
            rows = (0...count).map { QueueRow(key: .entry($0), document: .random(), stamp: .epoch) }
            isFolder = areFolders
        }

        func eachDue(_ stream: QueueStream, at now: Timestamp, _ body: (QueueRow) -> Bool) throws(Errno) {
            // A claimed folder is in both.
            guard stream == .changes || stream == .folders && isFolder else { return }
            for row in rows where stream == .changes || row != rows.last { if !body(row) { return } }
        }

        func look(at row: QueueRow, now: Timestamp) throws(Errno) -> QueueFinding {
            looks += 1
            return row == rows.last ? .ready(QueueNeeds()) : .rest(.milliseconds(200), .openOrClaimed)
        }
    }

    @Test(arguments: [true, false])
    func `more rows under claims than are remembered keep nothing up, nor the machine busy`(areFolders: Bool) throws {
        let view = Claimed(Int64(Schedule.capacity) + 1500, areFolders: areFolders)
        var schedule = Schedule()
        var started: [QueueRow] = []
        for turn in Int64(0)..<300 {
            let now = Timestamp(milliseconds: 1000 + turn * 200)
            let rows = try schedule.pick(8, from: view, now: now) { document, _ in
                started.contains { $0.document == document } ? document : nil
            }
            started += rows
            if turn == 60 { #expect(started == view.rows.suffix(1)) }
        }
        #expect(started == view.rows.suffix(1))
        // A minute; each of them five times in a second would be more than a million.
        #expect(view.looks < 100_000, "\(view.looks)")
    }
}

/// One random walk.
struct ScheduleRun {
    var world = ScheduleWorld()
    var schedule = Schedule()
    var reservations = Reservations()
    var inFlight: [(row: QueueRow, id: ItemID)] = []
    var order: [ItemID] = []
    var looks = 0
    var movedAside = 0
    let slots: Int
    private var random: SeededGenerator

    init(seed: UInt64) {
        random = SeededGenerator(seed: seed)
        slots = Int.random(in: 1...8, using: &random)
    }

    @discardableResult
    mutating func make(in parent: ItemID, isFolder: Bool, changed: Int64) -> ItemID {
        let id = ItemID(world.nextID)
        world.nextID += 1
        world.nodes[id] = ScheduleWorld.Node(
            isFolder: isFolder,
            here: Place(parent, Array("new\(id.rawValue)".utf8)),
            there: nil,
            changed: Timestamp(milliseconds: changed)
        )
        return id
    }

    mutating func makeSent(name: String, changed: Int64) -> ItemID {
        let id = make(in: .root, isFolder: false, changed: changed)
        world.nodes[id]?.here?.name = Array(name.utf8)
        let place = world.nodes[id]?.here
        world.nodes[id]?.there = place
        world.nodes[id]?.changed = nil
        return id
    }

    mutating func walk() throws {
        for _ in 0..<Int.random(in: 5...60, using: &random) { mutate() }
        for _ in 0..<Int.random(in: 0...120, using: &random) {
            switch Int.random(in: 0..<4, using: &random) {
            case 0: mutate()
            case 1: try round()
            case 2: try finish(failures: 20)
            default: world.now = world.now + .milliseconds(Int64.random(in: 0...3000, using: &random))
            }
        }
        try drain(failures: 10)
    }

    /// Rounds until everything is sent, with no more changes here.
    mutating func drain(failures: Int) throws {
        var rounds = 0
        while !world.isDone || !inFlight.isEmpty {
            rounds += 1
            guard rounds < 200 + 40 * world.nodes.count + 10 * failures * world.nodes.count else {
                throw ScheduleWorld.Fault(description: "no end after \(rounds) rounds: \(left)")
            }
            try round()
            if inFlight.isEmpty {
                guard !world.isDone else { break }
                let times = world.nodes.compactMap { id, node -> Timestamp? in
                    guard let changed = node.changed, !world.isDue(id) else { return nil }
                    return node.retry > .epoch ? node.retry : changed + world.settle
                }
                guard let next = (times + [schedule.nextRest].compactMap { $0 }).min() else {
                    throw ScheduleWorld.Fault(description: "nothing goes and no time is set: \(left)")
                }
                world.now = max(world.now, next)
            } else {
                try finish(failures: rounds > 100 ? 0 : failures)
            }
        }
    }

    private var left: [String] {
        world.nodes.filter { world.differs($0.key) }.map { id, node in
            "\(id): \(node), after \(world.obstacle(of: id).map { "\($0)" } ?? "nothing")"
        }
    }

    private mutating func mutate() {
        let date = Int64.random(in: 0...1_000_000, using: &random)
        let folders = world.nodes.filter { $0.key == .root || $0.value.isFolder && $0.value.here != nil }.keys.sorted()
        let items = world.nodes.filter { $0.value.here != nil }.keys.sorted()
        let folder = folders.randomElement(using: &random) ?? .root
        switch Int.random(in: 0..<10, using: &random) {
        case 0..<4: make(in: folder, isFolder: random.next() % 3 == 0, changed: date)
        case 4..<6:
            guard let id = items.randomElement(using: &random), !world.ancestors(here: folder).contains(id)
            else { return }
            move(id, to: Place(folder, Array("n\(Int.random(in: 2...12, using: &random))".utf8)), date)
        case 6:
            guard let one = items.randomElement(using: &random), let other = items.randomElement(using: &random),
                one != other, let first = world.nodes[one]?.here, let second = world.nodes[other]?.here,
                !world.ancestors(here: first.parent).contains(other),
                !world.ancestors(here: second.parent).contains(one)
            else { return }
            world.nodes[one]?.here = second
            world.nodes[other]?.here = first
            touch(one, date)
            touch(other, date + 1)
        case 7, 8:
            guard let id = items.randomElement(using: &random), world.children(of: id).isEmpty else { return }
            remove(id, date)
        default:
            guard let id = items.randomElement(using: &random) else { return }
            touch(id, date)
        }
    }

    private mutating func touch(_ id: ItemID, _ date: Int64) {
        world.nodes[id]?.changed = Timestamp(milliseconds: date)
        world.nodes[id]?.retry = .epoch
    }

    private mutating func move(_ id: ItemID, to place: Place, _ date: Int64) {
        if let other = world.occupant(here: place) {
            guard other != id, world.children(of: other).isEmpty,
                !world.ancestors(here: place.parent).contains(other)
            else { return }
            remove(other, date)
        }
        world.nodes[id]?.here = place
        touch(id, date)
    }

    private mutating func remove(_ id: ItemID, _ date: Int64) {
        world.nodes[id]?.here = nil
        touch(id, date)
        // What is under way of it is looked at when it has ended.
        if world.nodes[id]?.there == nil, !reservations.contains(world.nodes[id]?.document ?? .random()) {
            world.nodes[id] = nil
        }
    }

    private mutating func round() throws {
        let free = slots - inFlight.count
        let view = CountedView(world: world)
        var reservations = reservations
        let rows = try schedule.pick(free, from: view, now: world.now) { reservations.begin($0, $1) }
        self.reservations = reservations
        looks += view.looks.count
        guard rows.count <= max(0, free), Set(rows.map(\.document)).count == rows.count else {
            throw ScheduleWorld.Fault(description: "\(rows.count) rows for \(free) slots: \(rows)")
        }
        for row in rows {
            let id = ScheduleWorld.id(row)
            if let parent = world.nodes[id]?.here?.parent, !world.isThere(parent) {
                throw ScheduleWorld.Fault(description: "\(id) was started before its folder")
            }
            if let other = world.obstacle(of: id), world.nodes[other]?.there != world.nodes[id]?.here {
                throw ScheduleWorld.Fault(description: "\(id) was started before \(other)")
            }
            inFlight.append((row, id))
            order.append(id)
        }
        // By force: nothing that could go and is not remembered for another is left while there is room.
        guard rows.count < free else { return }
        for id in world.nodes.keys where id != .root && world.differs(id) && world.isDue(id) {
            let row = world.row(id)
            if schedule.rests[row.key] != nil || schedule.blocked[row.key] != nil { continue }
            if reservations.contains(row.document) || world.obstacle(of: id) != nil { continue }
            if let parent = world.nodes[id]?.here?.parent, !world.isThere(parent) { continue }
            var copy = reservations
            guard copy.begin(row.document, world.needs(of: id)) != nil else {
                throw ScheduleWorld.Fault(description: "\(id) could go and was not started")
            }
        }
        for (key, document) in schedule.blocked where !reservations.contains(document) {
            throw ScheduleWorld.Fault(description: "\(key) waits for what is not under way")
        }
    }

    /// An operation ends, in any order.
    private mutating func finish(failures percent: Int) throws {
        guard !inFlight.isEmpty else { return }
        let (row, id) = inFlight.remove(at: Int.random(in: 0..<inFlight.count, using: &random))
        defer {
            reservations.end(row.document)
            schedule.ended(row.document)
        }
        guard let node = world.nodes[id] else { return }
        if node.here == nil, node.there == nil {
            world.nodes[id] = nil
            return
        }
        if Int.random(in: 0..<100, using: &random) < percent {
            world.nodes[id]?.retry = world.now + .milliseconds(Int64.random(in: 1...5000, using: &random))
            return
        }
        // What it is now counts, as it does for a plan.
        guard let target = node.here else {
            if world.isFull(id) {
                world.idleCommits += 1
                return
            }
            world.nodes[id] = nil
            return
        }
        let (_, missing) = world.chain(there: target.parent)
        guard missing == nil else { return }
        if let other = world.occupant(there: target), other != id {
            guard !reservations.contains(world.nodes[other]?.document ?? .random()) else { return }
            // Moved aside: to a hidden name.
            world.nodes[other]?.there = Place(target.parent, Array(".moving-\(other)".utf8))
            if world.nodes[other]?.changed == nil { touch(other, 0) }
            movedAside += 1
            return
        }
        guard !world.chain(there: target.parent).ancestors.contains(id) else { return }
        world.nodes[id]?.there = target
        world.nodes[id]?.changed = nil
        world.nodes[id]?.retry = .epoch
    }
}

/// A world that counts how often it is asked.
private struct CountedView: QueueView {
    final class Count { var count = 0 }

    let world: ScheduleWorld
    let looks = Count()

    func eachDue(_ stream: QueueStream, at now: Timestamp, _ body: (QueueRow) -> Bool) throws(Errno) {
        try world.eachDue(stream, at: now, body)
    }

    func look(at row: QueueRow, now: Timestamp) throws(Errno) -> QueueFinding {
        looks.count += 1
        return try world.look(at: row, now: now)
    }
}
