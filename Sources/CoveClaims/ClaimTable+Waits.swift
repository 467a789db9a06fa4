package import CoveCore

/// Which claims wait for which.
extension ClaimTable {
    /// True when the later of two claims waits for the earlier one because of these items.
    static func conflict(earlier: ClaimIntent, later: ClaimIntent) -> Bool {
        let unit = earlier.node.unit
        let laterUnit = later.node.unit
        if unit === laterUnit { return earlier.use.isWrite || later.use.isWrite }
        if laterUnit.isBelow(unit) { return earlier.use.takesAll && earlier.node === unit }
        if unit.isBelow(laterUnit) { return later.use.takesAll && later.node === laterUnit }
        return false
    }

    /// Visits the intents that one may conflict with.
    private func eachNeighbour(of intent: ClaimIntent, _ body: (ClaimIntent) -> Void) {
        let unit = intent.node.unit
        for other in unit.intents { body(other) }
        if unit.isPackage || intent.use.takesAll && intent.node === unit { unit.eachIntentBelow(body) }
        var node = unit.parent
        while let current = node {
            for other in current.intents where other.use.takesAll { body(other) }
            node = current.parent
        }
    }

    /// Finds out what a new claim waits for.
    ///
    /// An earlier claim that itself waits for something the new one's own side holds, or for what a presenter on that side
    /// is to save, is overtaken: it waits for the new one instead, or neither would ever go on.
    ///
    /// Only the nearest are kept: what one of them waits for has ended when it ends. Later claims are not asked for that:
    /// what they wait for may be found again after this.
    mutating func findWaits(of claim: Claim, mayOvertake: Bool = true) {
        var free: Set<Int> = []
        var looked: Set<Reach> = []
        for intent in claim.intents {
            // Whatever it meets elsewhere would be wide.
            if wideIntents == 0, intent.node.intents.isEmpty, !intent.use.takesAll { continue }
            // One more of the same would meet the same.
            if claim.intents.count > 1, !looked.insert(Reach(intent)).inserted { continue }
            // By their numbers: a claim may be at an item many times.
            var near: [Int: Claim] = [:]
            // A later one is granted already where a move has brought the two together.
            eachNeighbour(of: intent) { other in
                let earlier = other.claim
                guard earlier.number < claim.number || earlier.isGranted && earlier !== claim,
                    near[earlier.number] == nil, Self.conflict(earlier: other, later: intent)
                else { return }
                near[earlier.number] = earlier
            }
            for earlier in near.values.sorted(by: { $0.number > $1.number }) {
                guard !Self.passes(claim, earlier), !claim.isExempt(from: earlier),
                    !claim.waitsFor.suffix(Self.looked).contains(where: {
                        $0 === earlier || $0.number < claim.number && Self.waits($0, for: earlier)
                    }),
                    !claim.waitsFor.contains(where: { $0 === earlier }),
                    !earlier.waitsFor.contains(where: { $0 === claim })
                else { continue }
                if mayOvertake, !earlier.isGranted, isHeldUp(earlier, by: claim, &free) {
                    addWait(of: earlier, for: claim)
                } else {
                    addWait(of: claim, for: earlier)
                }
            }
        }
    }

    /// True for a program's call that goes ahead of another one, or of what waits itself: for its file's close, or from
    /// the source.
    ///
    /// A call that can't wait for long holds locks of the kernel, which a change from the source needs to be shown: it does
    /// not wait for one that has its turn either.
    private static func passes(_ claim: Claim, _ earlier: Claim) -> Bool {
        guard claim.request.manner == .plain else { return false }
        if earlier.request.manner == .plain { return true }
        if earlier.request.isFromSource { return !earlier.isGranted || claim.request.isBrief }
        return !earlier.isGranted && claim.request.isOfWriter
    }

    /// How many of the nearest are asked whether they wait for one.
    private static let looked = 4

    /// True when a claim waits for an earlier one, itself or through others.
    private static func waits(_ claim: Claim, for earlier: Claim) -> Bool {
        claim.state == .waiting && !claim.waitsFor.isEmpty && earlier.number < claim.number
            // It may have passed one from the source when that waited itself.
            && !passes(claim, earlier) && !(claim.request.manner == .plain && earlier.request.isFromSource)
            && !claim.isExempt(from: earlier) && !earlier.waitsFor.contains { $0 === claim }
            && conflict(claim, earlier)
    }

    private func addWait(of claim: Claim, for other: Claim) {
        claim.waitsFor.append(other)
        other.blocks.append(claim)
        noteWaiting(claim)
    }

    /// True when a claim can't be granted before one of the new claim's own side has ended.
    ///
    /// `free` are those that were found not to be.
    private func isHeldUp(_ claim: Claim, by new: Claim, _ free: inout Set<Int>) -> Bool {
        var visited: Set<Int> = []
        var stack = [claim]
        while let current = stack.popLast() {
            guard !free.contains(current.number), visited.insert(current.number).inserted else { continue }
            if current.isGranted, new.isExempt(from: current) || new.request.within.contains(current.number) {
                return true
            }
            // It can't be shown before the new one's call gives back the kernel's locks.
            if current.isGranted, current.request.isFromSource, new.request.isBrief { return true }
            if let presenter = new.request.presenter,
                isAsking(current, presenter) || Self.isAnswer(new, to: current, by: presenter)
            {
                return true
            }
            if new.request.manner == .plain, isAsking(current, new.request.inside) { return true }
            stack.append(contentsOf: dependencies(of: current))
        }
        free.formUnion(visited)
        return false
    }

    /// True for a claim that says that it is for a presenter's answer, which another one waits for.
    private static func isAnswer(_ claim: Claim, to asking: Claim, by presenter: Int) -> Bool {
        asking.script[presenter] != nil
            && claim.request.answering.contains(asking.askedAs[presenter] ?? asking.number)
    }

    /// True while a claim waits for a presenter to save; within this process, for any answer.
    ///
    /// Another process may have asked for something before it heard the question, and would be taken for doing it for that.
    private func isAsking(_ claim: Claim, _ number: Int) -> Bool {
        guard let presenter = presenters[number], sessions[presenter.session]?.liveness == .isTrusted else {
            return claim.isSaved(by: number)
        }
        return claim.script[number] != nil
    }

    /// True while a claim waits for the answer of a presenter of these sessions: what their programs do meanwhile, they do
    /// for their answer.
    private func isAsking(_ claim: Claim, _ sessions: [Int]) -> Bool {
        claim.script.keys.contains { presenters[$0].map { sessions.contains($0.session) } ?? false }
    }

    /// True when a waiting claim waits for something that can't end before it does.
    func isDeadlocked(_ claim: Claim) -> Bool {
        var visited: Set<Int> = []
        var stack = claim.waitsFor
        while let current = stack.popLast() {
            guard visited.insert(current.number).inserted else { continue }
            if current === claim { return true }
            for next in dependencies(of: current) {
                if next === claim { return true }
                stack.append(next)
            }
        }
        return false
    }

    /// True where the side that asks for a claim has one to write to a file, and so is who has it open; also when the
    /// claim is gone.
    package func isWrittenByOwnSide(_ path: RemotePath, of number: Int) -> Bool {
        guard let claim = claims[number] else { return true }
        var isOwn = false
        func look(_ other: ClaimIntent) {
            let isHeld = other.claim.isGranted && other.use.isWrite && other.claim.request.manner == .explicit
            if isHeld, claim.isExempt(from: other.claim) { isOwn = true }
        }
        var node = root
        for name in path.names {
            for other in node.intents where other.use.takesAll { look(other) }
            guard let child = node.children[name] else { return isOwn }
            node = child
            guard node.isPackage else { continue }
            for other in node.intents { look(other) }
            node.eachIntentBelow(look)
            return isOwn
        }
        for other in node.intents { look(other) }
        return isOwn
    }

    /// The claims that must end, or be granted, before one goes on.
    private func dependencies(of claim: Claim) -> [Claim] {
        guard claim.isGranted else {
            return claim.script.keys.reduce(into: claim.waitsFor) { $0 += neededForReply(of: $1, to: claim) }
        }
        guard let session = sessions[claim.session] else { return [] }
        var found = session.waitingInside.union(claim.waitingWithin).compactMap { claims[$0] }
        if session.liveness == .isProbed || claim.request.coordinator != nil {
            found += session.waiting.compactMap { claims[$0] }
                .filter { $0.request.coordinator == claim.request.coordinator }
        }
        return found.filter { $0.number > claim.grantedAfter }
    }

    /// Claims that a presenter asked for to save what it was asked to save, or that it says are for its answer.
    ///
    /// What it wanted before it was asked last is not needed for a save: it asks anew for what is.
    private func neededForReply(of number: Int, to claim: Claim) -> [Claim] {
        guard let presenter = presenters[number], let session = sessions[presenter.session] else { return [] }
        let isSaved = claim.isSaved(by: number)
        return session.waiting.compactMap { claims[$0] }.filter { own in
            own.request.presenter == number
                && (isSaved && own.number > presenter.saveAskedAfter || Self.isAnswer(own, to: claim, by: number))
        }
    }

    /// Keeps count of who waits for other claims or for answers, for `dependencies`.
    func noteWaiting(_ claim: Claim) {
        let waits = claim.state != .ended && !(claim.waitsFor.isEmpty && claim.script.isEmpty)
        guard claim.isCounted != waits else { return }
        claim.isCounted = waits
        if waits {
            sessions[claim.session]?.waiting.insert(claim.number)
            for outer in claim.request.inside { sessions[outer]?.waitingInside.insert(claim.number) }
            for outer in claim.request.within { claims[outer]?.waitingWithin.insert(claim.number) }
        } else {
            sessions[claim.session]?.waiting.remove(claim.number)
            for outer in claim.request.inside { sessions[outer]?.waitingInside.remove(claim.number) }
            for outer in claim.request.within { claims[outer]?.waitingWithin.remove(claim.number) }
        }
    }

    /// A directory has become a package, or is one no more.
    package mutating func setPackage(_ isPackage: Bool, at path: RemotePath, now: MonotonicTime) {
        guard let node = existingNode(at: path), node.isPackage != isPackage else { return }
        mark(node, isPackage: isPackage)
        findWaitsAgain(of: pending, now: now)
    }

    /// Where somebody has told of a package before it was heard of, waits are found again.
    mutating func heedPackages(now: MonotonicTime) {
        guard hasNewPackages else { return }
        hasNewPackages = false
        findWaitsAgain(of: pending, now: now)
    }

    mutating func mark(_ node: PathNode, isPackage: Bool) {
        node.isPackage = isPackage
        node.eachNode { node in
            for intent in node.intents {
                if intent.isWide { wideIntents -= 1 }
                intent.isWide = false
                markWide(intent)
            }
            for presenter in node.presenters { setWide(presenter, node.isPackage) }
        }
    }

    /// A claim waits for no other one any more.
    func forgetWaits(of claim: Claim) {
        for other in claim.waitsFor { other.blocks.removeAll { $0 === claim } }
        claim.waitsFor = []
        noteWaiting(claim)
    }

    /// After items moved, or a claim gave some up: waits are found again.
    mutating func findWaitsAgain(of numbers: some Sequence<Int>, mayOvertake: Bool = true, now: MonotonicTime) {
        let affected = numbers.sorted().compactMap { claims[$0] }.filter { claim in
            // Those that only ask presenters exclude nobody.
            let excludes = claim.request.manner == .explicit || claim.request.manner == .plain
            return excludes && !claim.isGranted && claim.state != .ended
        }
        for claim in affected {
            let overtakers = claim.waitsFor.filter { $0.number > claim.number }
            forgetWaits(of: claim)
            for other in overtakers where Self.conflict(claim, other) { addWait(of: claim, for: other) }
            findWaits(of: claim, mayOvertake: mayOvertake)
        }
        for claim in affected where !claim.waitsFor.isEmpty {
            if isDeadlocked(claim) { fail(claim, ClaimFailure(.deadlock), now: now) }
        }
        for claim in affected where claim.waitsFor.isEmpty { advance(claim, now: now) }
        for claim in affected {
            for other in claim.waitsFor where other.isGranted { watch(other.session, now: now) }
        }
    }

    private static func conflict(_ one: Claim, _ two: Claim) -> Bool {
        guard one.intents.count * two.intents.count > 64 else {
            return one.intents.contains { first in
                first.isPlaced && two.intents.contains { $0.isPlaced && conflict(earlier: first, later: $0) }
            }
        }
        // Of claims on many items each item is looked at once, not once for each of the other claim's.
        let (ones, twos) = (Reach.all(of: one), Reach.all(of: two))
        return Reach.meet(ones, twos) || Reach.meet(twos, ones)
    }

    /// Claims that wait, and those that wait for them: one that overtakes another is no longer behind it, nor are those
    /// that waited for it alone.
    func claimsBehind(_ claims: [Claim]) -> Set<Int> {
        var found: Set<Int> = []
        var stack = claims
        while let claim = stack.popLast() {
            if found.insert(claim.number).inserted { stack += claim.blocks }
        }
        return found
    }
}

/// What an intent excludes others from, as far as conflicts go.
private struct Reach: Hashable {
    let unit: ObjectIdentifier
    let isWrite: Bool
    /// True for all that is below its unit.
    let takesAll: Bool

    init(_ intent: ClaimIntent) {
        let unit = intent.node.unit
        self.unit = ObjectIdentifier(unit)
        isWrite = intent.use.isWrite
        takesAll = intent.use.takesAll && intent.node === unit
    }

    /// The units of a claim's items, with the greatest reach that it has to each.
    static func all(of claim: Claim) -> [ObjectIdentifier: (unit: PathNode, isWrite: Bool, takesAll: Bool)] {
        var found: [ObjectIdentifier: (unit: PathNode, isWrite: Bool, takesAll: Bool)] = [:]
        for intent in claim.intents where intent.isPlaced {
            let reach = Reach(intent)
            let known = found[reach.unit]
            found[reach.unit] = (
                intent.node.unit, reach.isWrite || known?.isWrite == true, reach.takesAll || known?.takesAll == true
            )
        }
        return found
    }

    /// True where two claims use one item, or the first one takes all of a directory in which the other one uses something.
    static func meet(
        _ ones: [ObjectIdentifier: (unit: PathNode, isWrite: Bool, takesAll: Bool)],
        _ twos: [ObjectIdentifier: (unit: PathNode, isWrite: Bool, takesAll: Bool)]
    ) -> Bool {
        let takesAny = ones.values.contains { $0.takesAll }
        return twos.contains { key, two in
            if let one = ones[key], one.isWrite || two.isWrite { return true }
            return takesAny && two.unit.ancestors.contains { ones[ObjectIdentifier($0)]?.takesAll == true }
        }
    }
}

extension PathNode {
    /// True when the node is further down than another one.
    func isBelow(_ other: PathNode) -> Bool {
        var node = parent
        while let current = node {
            if current === other { return true }
            node = current.parent
        }
        return false
    }
}
