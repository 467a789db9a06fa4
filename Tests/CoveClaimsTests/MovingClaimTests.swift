import CoveCore
import CoveTestSupport
import Testing

@testable import CoveClaims

/// Random schedules in which items move and directories become packages, names are left and taken again, snapshots let go of items early, and what claims
/// need takes its time: never are two granted that exclude each other, unless both were when a move brought them together.
@Suite(.serialized) struct MovingClaimTests {
    private typealias Item = (path: String, use: ItemUse)

    private static let paths = ["a", "a/x", "a/y", "d", "d/e", "d/e/f", "p.pkg", "p.pkg/1", "p.pkg/in.pkg/2"]
    private static let uses: [ItemUse] = [
        .read([]), .read([]), .read(.forUploading), .write(nil), .write(nil), .write(.forMerging),
        .write(.forDeleting), .write(.forMoving), .write(.forReplacing),
    ]

    private struct Pair: Hashable {
        var one: Int
        var two: Int
    }

    private struct Run {
        let driver = TableDriver()
        var random: SeededGenerator
        var sessions: [Int] = []
        var presenters: [Int] = []
        /// All claims that were asked for.
        var asked: [Int] = []
        /// Pairs that a move brought together.
        var together: Set<Pair> = []
        /// Claims whose snapshots are made.
        var dropped: Set<Int> = []
        var steps: [String] = []

        init(_ random: SeededGenerator) {
            self.random = random
            driver.settlesAtOnce = false
            sessions = (0..<4).map { _ in driver.session(self.random.oneIn(3) ? .isTrusted : .answers) }
            for index in 0..<Int.random(in: 0...3, using: &self.random) {
                let path = MovingClaimTests.paths.randomElement(using: &self.random)
                presenters.append(driver.present(sessions[index], path))
            }
        }

        private mutating func pick<Element>(_ elements: [Element]) -> Element {
            elements[Int.random(in: 0..<elements.count, using: &random)]
        }

        /// What is wrong after some steps; nil when nothing is.
        mutating func run() -> String? {
            for _ in 0..<40 {
                let before = Set(held.map(\.number))
                step()
                if let wrong = look(before) { return wrong }
            }
            // Whoever holds lets go: in the end nobody is left.
            for _ in 0..<300 {
                let before = Set(held.map(\.number))
                answer(all: true)
                settle(all: true)
                if let wrong = look(before) { return wrong }
                if let last = held.map(\.number).max() { driver.release(last) }
                driver.now = driver.now + .seconds(1)
                if driver.numbers.isEmpty { return nil }
            }
            return "claims wait for ever:\n\(driver.summary)"
        }

        private mutating func step() {
            switch Int.random(in: 0..<16, using: &random) {
            case 0..<6: ask()
            case 6, 7: settle(all: false)
            case 8, 9: answer(all: false)
            case 10, 11:
                guard let claim = driver.numbers.randomElement(using: &random) else { return }
                steps.append("end \(claim)")
                driver.act { $0.withdraw(claim, ClaimFailure(.cancelled), now: driver.now) }
            case 12: drop()
            case 13, 14: move()
            default:
                driver.now = driver.now + .seconds(pick([1, 5, 20]))
                steps.append("time \(driver.now)")
                driver.act { $0.tick(now: driver.now) }
                for message in driver.told where message.kind == "ping" {
                    driver.act {
                        $0.reply(session: message.session, message: message.number, failure: nil, now: driver.now)
                    }
                }
            }
        }

        private mutating func ask() {
            let index = Int.random(in: 0..<sessions.count, using: &random)
            let items: [Item] = (0..<pick([1, 1, 2, 3])).map { _ in
                (pick(MovingClaimTests.paths), pick(MovingClaimTests.uses))
            }
            let isOwn = random.oneIn(4)
            let within = isOwn ? held.filter { $0.session == sessions[index] }.map(\.number) : []
            let presenter = index < presenters.count && random.oneIn(3) ? presenters[index] : nil
            let number = driver.claim(
                sessions[index],
                items,
                coordinator: random.oneIn(3) ? "one" : "c\(asked.count)",
                purpose: random.oneIn(8) ? "shared" : nil,
                presenter: presenter,
                manner: random.oneIn(4) ? .plain : .explicit,
                inside: random.oneIn(6) ? [pick(sessions)] : [],
                within: within
            )
            asked.append(number)
            steps.append("claim \(number) in \(sessions[index]): \(items), within \(within), of \(presenter ?? 0)")
        }

        private mutating func settle(all: Bool) {
            let waiting = driver.settling.filter { driver.table.claims[$0]?.state == .settling }
            for claim in all ? waiting : waiting.randomElement(using: &random).map({ [$0] }) ?? [] {
                steps.append("ready \(claim)")
                driver.act { $0.settled(claim, existed: [], now: driver.now) }
            }
        }

        private mutating func answer(all: Bool) {
            for presenter in presenters where all || random.oneIn(2) { driver.replyAll(presenter) }
        }

        private mutating func drop() {
            guard let claim = held.map(\.number).filter({ !dropped.contains($0) }).randomElement(using: &random) else {
                return
            }
            steps.append("snapshots of \(claim)")
            dropped.insert(claim)
            driver.act { $0.dropSnapshots(of: claim, now: driver.now) }
        }

        private mutating func move() {
            let from = pick(MovingClaimTests.paths)
            // It keeps its last name, so that what is a package stays one.
            let name = from.split(separator: "/").last.map(String.init) ?? from
            let to = random.oneIn(2) ? pick(["a", "d", "d/e", "p.pkg", "g"]) + "/" + name : name
            let (path, target) = (TableDriver.path(from), TableDriver.steps(to))
            switch Int.random(in: 0..<4, using: &random) {
            case 0:
                let isPackage = random.oneIn(2)
                steps.append("\(from) is \(isPackage ? "a" : "no") package")
                driver.act { $0.setPackage(isPackage, at: path, now: driver.now) }
            case 1:
                steps.append("left \(from) to \(to)")
                driver.act { _ = $0.left(path, to: target, now: driver.now) }
            case 2:
                steps.append("taken \(from)")
                driver.act { $0.taken(path, now: driver.now) }
            default:
                steps.append("moved \(from) to \(to)")
                driver.act { $0.moved(path, to: target, now: driver.now) }
            }
        }

        private var held: [Claim] {
            driver.table.claims.values.filter(\.isGranted).sorted { $0.number < $1.number }
        }

        /// The items that a claim keeps others from, and the names that its items have left.
        private func intents(_ claim: Claim) -> [ClaimIntent] {
            claim.shades.map(\.intent)
                + claim.intents.filter { intent in
                    guard case .read(let options) = intent.use, options.contains(.forUploading) else { return true }
                    return !dropped.contains(claim.number)
                }
        }

        private func isExcluded(_ one: Claim, _ two: Claim) -> Bool {
            if one.request.manner == .plain, two.request.manner == .plain { return false }
            if two.isExempt(from: one) || one.isExempt(from: two) { return false }
            return intents(one).contains { first in
                intents(two).contains { ClaimTable.conflict(earlier: first, later: $0) }
            }
        }

        /// Two granted that exclude each other; nil when there are none.
        private mutating func look(_ before: Set<Int>) -> String? {
            let held = held
            for (index, two) in held.enumerated() {
                for one in held[..<index] where isExcluded(one, two) {
                    let pair = Pair(one: one.number, two: two.number)
                    guard !together.contains(pair) else { continue }
                    guard before.contains(one.number), before.contains(two.number) else {
                        return "\(one.number) beside \(two.number)\n\(driver.summary)\n\(steps.joined(separator: "\n"))"
                    }
                    together.insert(pair)
                }
            }
            return nil
        }
    }

    @Test(arguments: 0..<4) func `moves let nobody in beside others`(part: Int) async {
        await blocking {
            let seed = UInt64.random(in: 0...UInt64(UInt32.max))
            print("moving claims \(part): seed \(seed)")
            var random = SeededGenerator(seed: seed)
            for schedule in 0..<200 {
                var run = Run(SeededGenerator(seed: random.next()))
                if let wrong = run.run() {
                    Issue.record("seed \(seed), schedule \(schedule): \(wrong)")
                    return
                }
            }
        }
    }
}
