import CoveCore
import CoveTestSupport
import Testing

@testable import CoveClaims

/// Random programs that hold claims while they ask for more, and whose presenters claim something to save before they
/// answer.
///
/// A claim fails with `EDEADLK` exactly when it could never be granted: the reference finds out who could still go on.
@Suite(.serialized) struct DeadlockModelTests {
    private typealias Item = (path: String, use: ItemUse)

    private static let paths = ["a", "b", "d", "d/c"]
    private static let uses: [ItemUse] = [.read([]), .read([]), .write(nil), .write(.forMerging), .write(.forDeleting)]

    /// A program with a thread that claims and, if it presents something, others that answer.
    private struct Party {
        var session: Int
        var presenter: Int?
        var held: [Int] = []
        var waiting: Int?
        var questions: [TableDriver.Told] = []
        /// What it claims to save under, for all that want it saved.
        var saving: Int?
        /// True when it was asked once more since it has asked for that: it asks anew.
        var asksAnew = false
    }

    private struct Known {
        var items: [Item]
        var session: Int
        var coordinator: String
        var presenter: Int?
    }

    /// One schedule.
    private struct Run {
        let driver = TableDriver()
        var random: SeededGenerator
        var parties: [Party] = []
        var known: [Int: Known] = [:]
        var answers = 0
        var seen = 0
        var deadlocks = 0

        init(_ random: SeededGenerator) {
            self.random = random
            for index in 0..<4 {
                var party = Party(session: driver.session())
                if index < 3 { party.presenter = driver.present(party.session, pick(paths)) }
                parties.append(party)
            }
        }

        mutating func pick<Element>(_ elements: [Element]) -> Element {
            elements[Int.random(in: 0..<elements.count, using: &random)]
        }

        /// Takes some steps at random, then lets everybody go on who can; what was wrong.
        mutating func run() -> String? {
            for _ in 0..<16 {
                let index = Int.random(in: 0..<parties.count, using: &random)
                let failure =
                    switch Int.random(in: 0..<5, using: &random) {
                    case 0, 1: ask(index)
                    case 2: release(index)
                    default: answer(index, isLast: false)
                    }
                if let failure { return failure }
            }
            for _ in 0..<100 {
                for index in parties.indices {
                    if let failure = answer(index, isLast: true) ?? release(index) { return failure }
                }
                if parties.allSatisfy({ $0.waiting == nil && $0.held.isEmpty && $0.questions.isEmpty }) { return nil }
            }
            return "somebody waits for ever:\n\(driver.summary)\n\(parties)"
        }

        private mutating func ask(_ index: Int) -> String? {
            guard parties[index].waiting == nil, parties[index].held.count < 3 else { return nil }
            // What is asked for in a presenter's name while it is to save is asked for to save.
            let saves = parties[index].questions.contains { $0.isSave }
            let presenter = !saves && random.oneIn(2) ? parties[index].presenter : nil
            return ask(index, items(), coordinator: "main", presenter) { $0.waiting = $1 }
        }

        private mutating func ask(
            _ index: Int,
            _ items: [Item],
            coordinator: String,
            _ presenter: Int?,
            _ note: (inout Party, Int) -> Void
        ) -> String? {
            let session = parties[index].session
            let number = driver.claim(session, items, coordinator: coordinator, presenter: presenter)
            known[number] = Known(items: items, session: session, coordinator: coordinator, presenter: presenter)
            note(&parties[index], number)
            return look()
        }

        private mutating func release(_ index: Int) -> String? {
            guard parties[index].waiting == nil, let last = parties[index].held.popLast() else { return nil }
            driver.release(last)
            return look()
        }

        /// An answer goes on: with a claim to save under first, or by the reply.
        private mutating func answer(_ index: Int, isLast: Bool) -> String? {
            guard let presenter = parties[index].presenter, !parties[index].questions.isEmpty else { return nil }
            let place = Int.random(in: 0..<parties[index].questions.count, using: &random)
            let question = parties[index].questions[place]
            if question.isSave {
                if let saving = parties[index].saving { return goOn(index, presenter, saving) }
                if !isLast, !random.oneIn(3) { return save(index, presenter, items(saving: true)) }
            }
            parties[index].questions.remove(at: place)
            driver.act { $0.reply(session: question.session, message: question.number, failure: nil, now: 0) }
            return look()
        }

        private mutating func goOn(_ index: Int, _ presenter: Int, _ saving: Int) -> String? {
            if driver.isGranted(saving) {
                parties[index].saving = nil
                driver.release(saving)
                return look()
            }
            guard parties[index].asksAnew, let known = known[saving] else { return nil }
            parties[index].asksAnew = false
            parties[index].saving = nil
            driver.act { $0.withdraw(saving, ClaimFailure(.cancelled), now: 0) }
            return look() ?? save(index, presenter, known.items)
        }

        private mutating func save(_ index: Int, _ presenter: Int, _ items: [Item]) -> String? {
            answers += 1
            return ask(index, items, coordinator: "answer \(answers)", presenter) { $0.saving = $1 }
        }

        private mutating func items(saving: Bool = false) -> [Item] {
            // Who saves asks nobody else to save.
            let uses = saving ? uses.filter { !$0.wantsChanges } : uses
            return (0..<(random.oneIn(3) ? 2 : 1)).map { _ in (pick(paths), pick(uses)) }
        }

        /// Notes what followed; what was wrong with it.
        private mutating func look() -> String? {
            let failed = parties.flatMap { [$0.waiting, $0.saving] }.compactMap(\.self)
                .filter { driver.failed[$0] != nil }
            if failed.count == 1, let wrong = judge(failed[0]) { return wrong }
            deadlocks += failed.count
            while seen < driver.told.count {
                let told = driver.told[seen]
                seen += 1
                guard TableDriver.Kind(rawValue: told.kind)?.wantsReply == true,
                    let index = parties.firstIndex(where: { $0.presenter.map { "p\($0)" } == told.presenter })
                else { continue }
                parties[index].questions.append(told)
                if told.isSave, parties[index].saving != nil { parties[index].asksAnew = true }
            }
            for index in parties.indices {
                if let waiting = parties[index].waiting {
                    if driver.isGranted(waiting) { parties[index].held.append(waiting) }
                    if driver.isGranted(waiting) || driver.failed[waiting] != nil { parties[index].waiting = nil }
                }
                if let saving = parties[index].saving, driver.failed[saving] != nil { parties[index].saving = nil }
                if parties[index].saving == nil { parties[index].asksAnew = false }
            }
            return nil
        }

        // MARK: The reference

        /// Why a claim should not have failed.
        private func judge(_ number: Int) -> String? {
            guard let claim = known[number], let failure = driver.failed[number] else { return nil }
            guard failure.errno == .deadlock else { return "\(number): \(failure)" }
            var able: Set<Int> = []
            while true {
                let more = driver.numbers.filter { !able.contains($0) && canEnd($0, able, without: number) }
                if more.isEmpty { break }
                able.formUnion(more)
            }
            let inTheWay = driver.numbers.filter { other in
                guard let earlier = known[other], !isOwn(earlier, claim),
                    earlier.items.contains(where: { one in claim.items.contains { Run.conflict(one, $0) } })
                else { return false }
                if other > number { return earlier.presenter != nil || earlier.coordinator == "main" }
                return driver.isGranted(other) || !isHeldUp(other, by: claim)
            }
            guard inTheWay.allSatisfy(able.contains) else { return nil }
            return "\(number) \(claim) fails, yet \(inTheWay) can end:\n\(driver.summary)\n\(parties)"
        }

        /// Whether a claim comes to its end when one is never granted.
        private func canEnd(_ number: Int, _ able: Set<Int>, without missing: Int) -> Bool {
            if driver.isGranted(number) {
                guard let party = parties.first(where: { $0.held.contains(number) || $0.waiting == number }),
                    let waiting = party.waiting, waiting != number
                else { return true }
                return waiting != missing && (able.contains(waiting) || driver.isGranted(waiting))
            }
            guard driver.waits(of: number).allSatisfy(able.contains) else { return false }
            return needed(by: number).allSatisfy {
                $0 != missing && (able.contains($0) || driver.isGranted($0))
            }
        }

        /// What presenters claim before they answer a claim's questions.
        private func needed(by number: Int) -> [Int] {
            parties.filter { !$0.asksAnew && isAsked($0, by: number) }.compactMap(\.saving)
        }

        /// True for a party that is to save for a claim.
        private func isAsked(_ party: Party, by number: Int) -> Bool {
            party.questions.contains { $0.isSave && $0.claim == "c\(number)" }
        }

        /// True for claims that can't be granted before one of the claim's own side ends, or its presenter answers.
        private func isHeldUp(_ number: Int, by claim: Known) -> Bool {
            var found: Set<Int> = []
            var left = [number]
            while let next = left.popLast() {
                guard found.insert(next).inserted else { continue }
                if driver.isGranted(next) {
                    if let other = known[next], isOwn(other, claim) { return true }
                    left += parties.filter { $0.held.contains(next) }.compactMap(\.waiting)
                }
                if parties.contains(where: { $0.presenter == claim.presenter && isAsked($0, by: next) }) { return true }
                left += driver.waits(of: next) + needed(by: next)
            }
            return false
        }

        private func isOwn(_ one: Known, _ two: Known) -> Bool {
            one.session == two.session && one.coordinator == two.coordinator
        }

        private static func conflict(_ one: Item, _ two: Item) -> Bool {
            if one.path == two.path { return one.use.isWrite || two.use.isWrite }
            if two.path.hasPrefix(one.path + "/") { return one.use.takesAll }
            return one.path.hasPrefix(two.path + "/") && two.use.takesAll
        }
    }

    @Test(arguments: 0..<4) func `a claim fails where it could never be granted, and nowhere else`(part: Int) async {
        await blocking {
            let seed = UInt64.random(in: 0...UInt64(UInt32.max))
            print("deadlock model test \(part): seed \(seed)")
            var deadlocks = 0
            for schedule in 0..<25_000 {
                var run = Run(SeededGenerator(seed: seed &+ UInt64(schedule)))
                if let wrong = run.run() {
                    Issue.record("seed \(seed), schedule \(schedule): \(wrong)")
                    return
                }
                deadlocks += run.deadlocks
            }
            print("deadlock model test \(part): \(deadlocks) claims failed")
            #expect(deadlocks > 100)
        }
    }
}

extension TableDriver.Told {
    fileprivate var isSave: Bool { kind == TableDriver.Kind.saveChanges.rawValue }
}
