import CoveTestSupport
import Testing

@testable import CoveEngine

/// The plan of an item's fetches against a reference that looks at each piece of the file.
@Suite struct FetchPlanTests {
    private typealias Part = FetchPlan.Part

    /// A file in pieces of 256 KiB, a program that uses it, and a source that answers at random.
    private struct World {
        static let piece: Int64 = 256 << 10
        var random: SeededGenerator
        var plan = FetchPlan()
        var here: [Bool]
        var isOpen = true
        var steps = 0
        /// Who waits for all, and gets it a few fetches at a time.
        var patient: Set<Int> = []

        init(seed: UInt64) {
            random = SeededGenerator(seed: seed)
            let pieces =
                random.oneIn(3) ? Int.random(in: 1...40, using: &random) : Int.random(in: 1...600, using: &random)
            here = Array(repeating: false, count: pieces)
        }

        var bytes: FetchPlan.Bytes {
            var ranges = RangeSet()
            for (index, isHere) in here.enumerated() where isHere {
                ranges.insert(Int64(index) * Self.piece..<Int64(index + 1) * Self.piece)
            }
            let isWhole = !here.contains(false)
            return FetchPlan.Bytes(
                size: Int64(here.count) * Self.piece,
                here: isWhole ? RangeSet() : ranges,
                isWhole: isWhole
            )
        }

        func pieces(_ range: Range<Int64>) -> Range<Int> {
            let lower = Int(range.lowerBound / Self.piece)
            let upper = Int((range.upperBound + Self.piece - 1) / Self.piece)
            return (lower..<upper).clamped(to: 0..<here.count)
        }

        func missing(_ range: Range<Int64>) -> [Int] { pieces(range).filter { !here[$0] } }

        mutating func anyRange(upTo pieces: Int) -> Range<Int64> {
            let lower = Int.random(in: 0...here.count, using: &random)
            return Int64(lower) * Self.piece..<Int64(lower + .random(in: 1...pieces, using: &random)) * Self.piece
        }

        /// Begins fetches: none for what is here or on its way, and not too many.
        mutating func begin(_ parts: [Part], before: [Part]) {
            var known = before
            for part in parts {
                let pieces = pieces(part.range)
                #expect(!part.range.isEmpty && !pieces.contains { here[$0] }, "step \(steps): \(part) is here")
                #expect(!known.contains { $0.range.overlaps(part.range) }, "step \(steps): \(part) twice")
                #expect(
                    part.range.upperBound <= Int64(here.count) * Self.piece,
                    "step \(steps): \(part) beyond the end"
                )
                #expect(part.range.count < 2 * FetchPlan.lastWindow, "step \(steps): \(part) at once")
                let isUrgent = plan.waiting.contains {
                    $0.range.count <= FetchPlan.lastWindow && $0.range.overlaps(part.range)
                }
                #expect(known.count < FetchPlan.parallel || isUrgent, "step \(steps): \(part) beside \(known)")
                known.append(part)
            }
            #expect(plan.underway == known)
        }

        /// Whose wait bytes have ended, as all pieces say.
        mutating func answer() {
            let expected = plan.waiting.filter { missing($0.range).isEmpty }.map(\.number)
            let over = plan.answered(by: bytes)
            #expect(over == expected, "step \(steps)")
        }

        /// What the engine does after each fetch.
        mutating func goOn(isDone: Bool) {
            if bytes.isWhole { plan.wantsAll = false }
            answer()
            var before = plan.underway
            if isDone { begin(plan.goOn(bytes, isOpen: isOpen), before: before) }
            before = plan.underway
            begin(plan.requestWaiting(of: bytes), before: before)
        }

        mutating func read() {
            let range = random.oneIn(3) ? plan.position..<plan.position + Self.piece * 2 : anyRange(upTo: 16)
            let clamped = range.clamped(to: 0..<Int64(here.count) * Self.piece)
            if clamped.isEmpty { return }
            if !missing(clamped).isEmpty { _ = plan.wait(for: clamped) }
            let before = plan.underway
            begin(plan.read(clamped, of: bytes, isOpen: isOpen), before: before)
        }

        mutating func wantAll() {
            if bytes.isWhole { return }
            plan.wantsAll = true
            patient.insert(plan.wait(for: 0..<Int64(here.count) * Self.piece))
            if plan.underway.isEmpty { begin(plan.goOn(bytes, isOpen: isOpen), before: []) }
        }

        mutating func deliver(all: Bool) {
            guard let fetch = plan.underway.randomElement(using: &random) else { return }
            for index in pieces(fetch.range) where all || Bool.random(using: &random) { here[index] = true }
            guard all else { return answer() }
            plan.end(fetch.number)
            goOn(isDone: true)
        }

        mutating func fail() {
            guard let fetch = plan.underway.randomElement(using: &random) else { return }
            plan.end(fetch.number)
            let failed = pieces(fetch.range)
            let expected = plan.waiting.filter { missing($0.range).contains { failed.contains($0) } }.map(\.number)
            let lost = plan.failed([fetch.range], of: bytes)
            #expect(lost == expected, "step \(steps)")
            #expect(!plan.wantsAll)
            goOn(isDone: false)
        }

        mutating func giveUp() {
            guard let waiter = plan.waiting.randomElement(using: &random) else { return }
            plan.giveUp([waiter.number])
            if plan.waiting.isEmpty { dropUnneeded() }
        }

        mutating func dropUnneeded() {
            let expected =
                plan.wantsAll
                ? []
                : plan.underway.filter { fetch in
                    !plan.waiting.contains { $0.range.overlaps(fetch.range) }
                }
            let kept = plan.underway.filter { !expected.contains($0) }
            let dropped = plan.dropUnneeded()
            #expect(dropped == expected.map(\.number), "step \(steps)")
            #expect(plan.underway == kept)
        }

        /// A program writes, or cuts the file.
        mutating func change() {
            if random.oneIn(3) {
                here.removeLast(Int.random(in: 0..<here.count, using: &random))
            } else {
                let range = pieces(anyRange(upTo: 8))
                for index in range { here[index] = true }
            }
            if bytes.isWhole { plan.wantsAll = false }
            answer()
        }

        mutating func step() {
            steps += 1
            switch Int.random(in: 0..<16, using: &random) {
            case 0...4: read()
            case 5: if random.oneIn(6) { wantAll() }
            case 6...8: deliver(all: false)
            case 9...11: deliver(all: true)
            case 12: fail()
            case 13: giveUp()
            case 14: change()
            default:
                isOpen.toggle()
                if !isOpen { dropUnneeded() }
            }
            // Nobody waits for nothing, and whoever wants little has all of it on its way.
            for waiter in plan.waiting {
                let missing = missing(waiter.range)
                #expect(!missing.isEmpty && !plan.underway.isEmpty, "step \(steps): \(waiter) waits for nothing")
                if patient.contains(waiter.number) { continue }
                let isComing = missing.allSatisfy { index in
                    plan.underway.contains { pieces($0.range).contains(index) }
                }
                #expect(isComing, "step \(steps): of \(waiter) not all is on its way")
            }
        }
    }

    @Test(arguments: (0..<30).map { _ in UInt64.random(in: 0...UInt64(UInt32.max)) })
    func `whoever waits gets what is missing, once, and nothing is fetched for nobody`(seed: UInt64) {
        var world = World(seed: seed)
        for _ in 0..<400 { world.step() }
        // The source answers everything from now on.
        let wantedAll = world.plan.wantsAll
        var rounds = 0
        while !world.plan.underway.isEmpty, rounds < 10_000 {
            world.deliver(all: true)
            rounds += 1
        }
        #expect(world.plan.underway.isEmpty && world.plan.waiting.isEmpty)
        #expect(!wantedAll || world.bytes.isWhole)
    }

    @Test func `after a reset no number comes again`() {
        var plan = FetchPlan()
        let bytes = FetchPlan.Bytes(size: 10 << 20, here: RangeSet(), isWhole: false)
        let first = plan.read(0..<4096, of: bytes, isOpen: true).map(\.number) + [plan.wait(for: 0..<4096)]
        plan.reset()
        #expect(plan.underway.isEmpty && plan.waiting.isEmpty && plan.position == 0)
        let second = plan.read(0..<4096, of: bytes, isOpen: true).map(\.number) + [plan.wait(for: 0..<4096)]
        #expect(Set(first).isDisjoint(with: second))
    }

    @Test func `a sequential reader is fetched ever more ahead of, one that jumps is not`() {
        var here = RangeSet()
        func bytes() -> FetchPlan.Bytes { FetchPlan.Bytes(size: 1 << 30, here: here, isWhole: false) }
        var plan = FetchPlan()
        var lengths: [Int64] = []
        for position in stride(from: Int64(0), to: 200 << 20, by: 128 << 10) {
            let range = position..<position + (128 << 10)
            lengths += plan.read(range, of: bytes(), isOpen: true).map { Int64($0.range.count) }
            // The source is slower than the reader, who waits for what is on its way then.
            guard !here.contains(range) else { continue }
            for part in plan.underway {
                here.insert(part.range)
                plan.end(part.number)
            }
        }
        #expect(lengths.first == FetchPlan.firstWindow)
        #expect((FetchPlan.lastWindow..<2 * FetchPlan.lastWindow).contains(lengths.max() ?? 0), "\(lengths)")
        here = RangeSet()
        var jumping = FetchPlan()
        for start in stride(from: Int64(900 << 20), to: 0, by: -(100 << 20)) {
            let parts = jumping.read(start..<start + 4096, of: bytes(), isOpen: true)
            #expect(parts.map(\.range.count) == [1 << 20])
            for part in parts { jumping.end(part.number) }
        }
    }
}
