import CoveCore
import CoveTestSupport
import Testing

@testable import CoveClaims

/// Random schedules against a reference that looks at all pairs of claims.
@Suite(.serialized) struct ClaimModelTests {
    private static let paths = [
        "a", "a/x", "a/y", "d", "d/e", "d/e/f", "p.pkg", "p.pkg/1", "p.pkg/in.pkg", "p.pkg/in.pkg/2", "d/in.pkg/3",
    ]
    private static let uses: [ItemUse] = [
        .read([]), .read([]), .read(.withoutChanges), .write(nil), .write(.forMerging),
        .write(.contentIndependentMetadataOnly), .write(.forDeleting), .write(.forMoving), .write(.forReplacing),
    ]

    private typealias Item = (path: String, use: ItemUse)

    /// One claim as the reference knows it.
    private struct Known {
        var number: Int
        var items: [Item]
        var purpose: String?
        var isGranted = false
    }

    private static func unit(_ path: String) -> String {
        let names = path.split(separator: "/")
        let index = names.firstIndex { TableDriver.packages.contains(String($0)) } ?? names.count - 1
        return names[...index].joined(separator: "/")
    }

    /// The matrix, as the document has it.
    private static func conflict(_ earlier: (path: String, use: ItemUse), _ later: (path: String, use: ItemUse)) -> Bool
    {
        let (one, two) = (unit(earlier.path), unit(later.path))
        if one == two { return earlier.use.isWrite || later.use.isWrite }
        func ends(_ item: Item, _ unit: String) -> Bool {
            guard item.path == unit else { return false }
            switch item.use {
            case .write(.forDeleting), .write(.forMoving), .write(.forReplacing): return true
            default: return false
            }
        }
        if two.hasPrefix(one + "/") { return ends(earlier, one) }
        if one.hasPrefix(two + "/") { return ends(later, two) }
        return false
    }

    private static func conflict(_ earlier: Known, _ later: Known) -> Bool {
        if let purpose = earlier.purpose, purpose == later.purpose { return false }
        return earlier.items.contains { one in later.items.contains { conflict(one, $0) } }
    }

    private static func items(_ random: inout SeededGenerator) -> [Item] {
        (0..<(random.oneIn(3) ? 2 : 1)).map { _ in
            (
                paths[Int.random(in: 0..<paths.count, using: &random)],
                uses[Int.random(in: 0..<uses.count, using: &random)]
            )
        }
    }

    /// In turn, and never two together that must not be: after every step exactly those are granted for which no earlier
    /// claim stands in the way.
    @Test(arguments: 0..<4) func `who comes first is served first`(part: Int) async {
        await blocking { runTurns(part) }
    }

    private func runTurns(_ part: Int) {
        let seed = UInt64.random(in: 0...UInt64(UInt32.max))
        print("claim model test \(part): seed \(seed)")
        var random = SeededGenerator(seed: seed)
        for schedule in 0..<15_000 {
            let driver = TableDriver()
            let sessions = (0..<3).map { _ in driver.session() }
            var known: [Known] = []
            for step in 0..<12 {
                let index = Int.random(in: 0..<max(1, known.count), using: &random)
                if known.isEmpty || random.oneIn(2) {
                    let items = Self.items(&random)
                    let number = driver.claim(sessions[Int.random(in: 0..<3, using: &random)], items)
                    known.append(Known(number: number, items: items))
                } else if known[index].isGranted {
                    driver.release(known.remove(at: index).number)
                } else if random.oneIn(4) {
                    let number = known.remove(at: index).number
                    driver.act { $0.withdraw(number, ClaimFailure(.cancelled), now: 0) }
                }
                for index in known.indices {
                    let isFree = known[..<index].allSatisfy { !Self.conflict($0, known[index]) }
                    known[index].isGranted = isFree
                    guard driver.isGranted(known[index].number) == isFree else {
                        Issue.record("seed \(seed), schedule \(schedule), step \(step): \(known[index]) of \(known)")
                        return
                    }
                }
            }
            for claim in known { driver.release(claim.number) }
            guard driver.isEmpty else {
                Issue.record("seed \(seed), schedule \(schedule): something is left")
                return
            }
        }
    }

    /// What one party of a schedule does: it holds claims, and while it waits for another it lets go of none.
    private struct Actor {
        var session: Int
        var presenter: Int?
        var held: [Int] = []
        var waiting: Int?
    }

    /// With nested claims, shared purposes, presenters, moves, silence and deaths: never two together that must not be,
    /// and everything comes to an end.
    @Test(arguments: 0..<4) func `nothing waits for ever`(part: Int) async {
        await blocking { runNested(part) }
    }

    private func runNested(_ part: Int) {
        let seed = UInt64.random(in: 0...UInt64(UInt32.max))
        print("claim liveness test \(part): seed \(seed)")
        var random = SeededGenerator(seed: seed)
        for schedule in 0..<10_000 {
            let outcome = runActors(&random)
            if let outcome {
                Issue.record("seed \(seed), schedule \(schedule): \(outcome)")
                return
            }
        }
    }

    private func runActors(_ random: inout SeededGenerator) -> String? {
        let driver = TableDriver()
        var known: [Int: Known] = [:]
        var checked = 0
        var wrong: String?
        var moves = false
        var actors = (0..<4).map { _ in Actor(session: driver.session()) }
        if random.oneIn(2) {
            for index in 0..<2 {
                let path = Self.paths[Int.random(in: 0..<Self.paths.count, using: &random)]
                actors[index].presenter = driver.present(actors[index].session, path)
            }
        }
        func settle() {
            while checked < driver.granted.count {
                let number = driver.granted[checked]
                checked += 1
                for index in actors.indices where actors[index].waiting == number {
                    actors[index].waiting = nil
                    actors[index].held.append(number)
                }
                guard let claim = known[number], !moves else { continue }
                for actor in actors {
                    for other in actor.held where other != number {
                        guard let other = known[other], !isOwn(number, other.number, actors) else { continue }
                        if Self.conflict(other, claim) || Self.conflict(claim, other) {
                            wrong = "\(claim) beside \(other)"
                        }
                    }
                }
            }
            for index in actors.indices {
                if let waiting = actors[index].waiting, driver.failed[waiting] != nil { actors[index].waiting = nil }
            }
        }
        func answer(all: Bool, _ random: inout SeededGenerator) {
            for index in actors.indices {
                guard let presenter = actors[index].presenter, all || random.oneIn(2) else { continue }
                driver.replyAll(presenter)
            }
        }
        for _ in 0..<14 {
            let index = Int.random(in: 0..<actors.count, using: &random)
            switch Int.random(in: 0..<8, using: &random) {
            case 0...3 where actors[index].waiting == nil:
                let items = Self.items(&random)
                let purpose = random.oneIn(5) ? "shared" : nil
                let next = driver.claim(
                    actors[index].session,
                    items,
                    coordinator: "only",
                    purpose: purpose,
                    presenter: actors[index].presenter
                )
                known[next] = Known(number: next, items: items, purpose: purpose)
                actors[index].waiting = next
            case 4 where actors[index].waiting == nil:
                if let last = actors[index].held.popLast() { driver.release(last) }
            case 5: answer(all: false, &random)
            case 6 where random.oneIn(3):
                moves = true
                let from = Self.paths[Int.random(in: 0..<Self.paths.count, using: &random)]
                let to = Self.paths[Int.random(in: 0..<Self.paths.count, using: &random)] + "m"
                driver.act { $0.moved(TableDriver.path(from), to: TableDriver.steps(to), now: 0) }
            case 7 where random.oneIn(6):
                driver.act { $0.endSession(actors[index].session, now: 0) }
                actors.remove(at: index)
                if actors.isEmpty { return nil }
            default: break
            }
            settle()
            if let wrong { return wrong }
        }
        // Whoever does not wait lets go; presenters answer. In the end nobody may be left.
        for _ in 0..<200 {
            answer(all: true, &random)
            settle()
            for index in actors.indices where actors[index].waiting == nil {
                for claim in actors[index].held { driver.release(claim) }
                actors[index].held = []
            }
            settle()
            if actors.allSatisfy({ $0.waiting == nil && $0.held.isEmpty }) { break }
        }
        if let wrong { return wrong }
        if let stuck = actors.first(where: { $0.waiting != nil }) {
            return "\(stuck) waits for ever:\n\(driver.summary)"
        }
        return known.keys.allSatisfy({ !driver.holds($0) }) ? nil : "claims are left"
    }

    private func isOwn(_ one: Int, _ two: Int, _ actors: [Actor]) -> Bool {
        actors.contains { ($0.held + [$0.waiting ?? 0]).contains(one) && $0.held.contains(two) }
    }
}
