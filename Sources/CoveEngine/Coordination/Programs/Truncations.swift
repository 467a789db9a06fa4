internal import CoveClaims
internal import CoveCore
internal import Glibc
internal import Synchronization

/// Programs whose open with `O_TRUNC`, or truncate(2), has to wait for a claim.
///
/// Such a call holds a lock of the kernel that would hang others. So it is answered `ESTALE`; the kernel then looks the
/// path up again, and that look-up, which holds none, waits instead. Then the call comes once more and finds the claim.
final class Truncations: Sendable {
    private struct Waiting {
        let item: ItemID
        let pending: Pending<PlainClaim>
        let expires: MonotonicTime
    }

    private struct Outcome {
        let item: ItemID
        let result: Result<PlainClaim, Errno>
        let expires: MonotonicTime
    }

    private struct Inherited {
        let use: PlainUse
        let expires: MonotonicTime
    }

    private struct State {
        var waiting: [Int32: Waiting] = [:]
        /// Those that the daemon before this one has told to come.
        var inherited: [Int32: Inherited] = [:]
        var outcomes: [Int32: Outcome] = [:]
    }

    /// How long the kernel may take to come back.
    private static let patience = TimeSpan.seconds(5)

    private let clock: EngineClock
    private let state = EngineMutex(.truncations, State())
    private let count = Atomic<Int>(0)

    init(clock: EngineClock) { self.clock = clock }

    var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }

    /// Takes over the threads that waited when the daemon before this one ended.
    func inherit(_ waits: [ClaimStore.KeptWait]) {
        let expires = clock.monotonic() + Self.patience
        for wait in waits {
            let item = ItemID(wait.item)
            let use = wait.flags.map { PlainUse.open(item, flags: $0) } ?? .cut(item)
            let former = state.withLock {
                $0.inherited.updateValue(Inherited(use: use, expires: expires), forKey: wait.thread)
            }
            if former == nil { count.add(1, ordering: .relaxed) }
        }
    }

    /// What the call is of which a thread's look-up of the item is, where the daemon before this one has told it to come.
    func takeInherited(_ thread: Int32, _ item: ItemID) -> PlainUse? {
        let inherited = state.withLock { state -> Inherited? in
            guard state.inherited[thread]?.use.truncatedItem == item else { return nil }
            return state.inherited.removeValue(forKey: thread)
        }
        if inherited != nil { count.subtract(1, ordering: .relaxed) }
        return inherited?.use
    }

    /// Notes that a thread's call is about to be answered `ESTALE`; what the thread has not come back for, if it has not.
    func expect(
        _ thread: Int32,
        _ item: ItemID,
        _ pending: Pending<PlainClaim>
    ) -> (item: ItemID, pending: Pending<PlainClaim>)? {
        let waiting = Waiting(item: item, pending: pending, expires: clock.monotonic() + Self.patience)
        let former = state.withLock { $0.waiting.updateValue(waiting, forKey: thread) }
        if former == nil { count.add(1, ordering: .relaxed) }
        return former.map { ($0.item, $0.pending) }
    }

    /// What a thread's look-up of the item is to wait for.
    func takeWaiting(_ thread: Int32, _ item: ItemID) -> Pending<PlainClaim>? {
        let waiting = state.withLock { state -> Waiting? in
            guard state.waiting[thread]?.item == item else { return nil }
            return state.waiting.removeValue(forKey: thread)
        }
        if waiting != nil { count.subtract(1, ordering: .relaxed) }
        return waiting?.pending
    }

    /// Notes how a look-up's wait ended, for the thread's call; a claim that the thread did not come for, if there is one.
    func note(_ thread: Int32, _ item: ItemID, _ result: Result<PlainClaim, Errno>) -> PlainClaim? {
        let outcome = Outcome(item: item, result: result, expires: clock.monotonic() + Self.patience)
        let former = state.withLock { $0.outcomes.updateValue(outcome, forKey: thread) }
        if former == nil { count.add(1, ordering: .relaxed) }
        return try? former?.result.get()
    }

    /// How the wait ended for a thread whose call comes again.
    func takeOutcome(_ thread: Int32, _ item: ItemID) -> Result<PlainClaim, Errno>? {
        if isEmpty { return nil }
        let outcome = state.withLock { state -> Outcome? in
            guard state.outcomes[thread]?.item == item else { return nil }
            return state.outcomes.removeValue(forKey: thread)
        }
        if outcome != nil { count.subtract(1, ordering: .relaxed) }
        return outcome?.result
    }

    /// What the kernel did not come back for, because its program was killed or does without.
    func expire(
        before now: MonotonicTime
    ) -> (threads: [Int32], waits: [Pending<PlainClaim>], claims: [PlainClaim]) {
        if isEmpty { return ([], [], []) }
        let (waits, outcomes, inherited) = state.withLock { state in
            let waits = state.waiting.filter { $0.value.expires < now }
            for thread in waits.keys { state.waiting[thread] = nil }
            let outcomes = state.outcomes.filter { $0.value.expires < now }
            for thread in outcomes.keys { state.outcomes[thread] = nil }
            let inherited = state.inherited.filter { $0.value.expires < now }
            for thread in inherited.keys { state.inherited[thread] = nil }
            return (waits, outcomes.values.map(\.result), inherited)
        }
        count.subtract(waits.count + outcomes.count + inherited.count, ordering: .relaxed)
        let threads = Array(waits.keys) + inherited.keys
        return (threads, waits.values.map(\.pending), outcomes.compactMap { try? $0.get() })
    }
}

extension Coordinator {
    /// True for a call that is to be answered `ESTALE`, after which the look-up waits for the claim.
    ///
    /// Throws `EBUSY` for one that comes again without a look-up, as through /proc: it would hold its lock.
    func defersTruncation(
        _ pending: Pending<PlainClaim>,
        _ use: PlainUse,
        _ caller: Caller
    ) throws(Errno) -> Bool {
        guard !pending.isDone, let item = use.truncatedItem else { return false }
        keepWait(use, caller.thread)
        guard let former = truncations.expect(caller.thread, item, pending) else { return true }
        abandon(former.pending)
        guard former.item == item else { return true }
        if let again = truncations.takeWaiting(caller.thread, item) { abandon(again) }
        dropWait(of: caller.thread)
        throw .busy
    }

    /// True for an open that is to be answered `ESTALE`: while it waited, a save has put another file in the old one's place.
    ///
    /// What it read there would be out of date, and what it wrote lost. The look-up that follows finds the new one, and the
    /// call that comes again finds the claim.
    func isOutOfDate(_ use: PlainUse, _ claim: PlainClaim, _ caller: Caller) -> Bool {
        guard case .open(let id, let flags) = use, flags & O_TRUNC == 0 else { return false }
        let paths = coordination.act { state, _ in state.table.paths(of: claim.number) }
        let items = try? catalog.glance { database throws(Errno) -> [ItemID] in
            var items: [ItemID] = []
            for path in paths { if let entry = try database.entry(atPath: path) { items.append(entry.item) } }
            return items
        }
        guard let items, let item = items.first, !items.contains(id) else { return false }
        endTruncationWait(item, caller, .success(claim))
        return true
    }

    /// What a look-up is to wait for first; nil nearly always.
    func deferredTruncation(_ item: ItemID, _ caller: Caller) -> Pending<PlainClaim>? {
        if truncations.isEmpty { return nil }
        if let pending = truncations.takeWaiting(caller.thread, item) { return pending }
        guard let use = truncations.takeInherited(caller.thread, item) else { return nil }
        let pending = try? plainClaim(use, caller)
        if pending == nil { dropWait(of: caller.thread) }
        return pending
    }

    /// A look-up ended before its wait did: its program was killed, or does without.
    func forgetTruncation(_ caller: Caller) { dropWait(of: caller.thread) }

    /// The next daemon is to know of a thread that comes by a look-up, if this one ends before that has.
    private func keepWait(_ use: PlainUse, _ thread: Int32) {
        guard let item = use.truncatedItem, thread != 0 else { return }
        var flags: Int32?
        if case .open(_, let found) = use { flags = found }
        let wait = ClaimStore.KeptWait(thread: thread, item: item.rawValue, flags: flags)
        coordination.state.withLock { $0.store?.keep(wait) }
    }

    private func dropWait(of thread: Int32) { coordination.state.withLock { $0.store?.dropWait(of: thread) } }

    /// The look-up has waited and is about to be answered: the thread's call comes next, and ends as the wait did.
    func endTruncationWait(_ item: ItemID, _ caller: Caller, _ result: Result<PlainClaim, Errno>) {
        dropWait(of: caller.thread)
        if let left = truncations.note(caller.thread, item, result) { end(left) }
    }

    /// Calls that don't come back leave the queue, or give up what they got.
    func expireTruncations(before now: MonotonicTime) {
        let (threads, waits, claims) = truncations.expire(before: now)
        for thread in threads { dropWait(of: thread) }
        for pending in waits { abandon(pending) }
        for claim in claims { end(claim) }
    }

    /// Nobody waits for it any more.
    private func abandon(_ pending: Pending<PlainClaim>) {
        pending.cancel()
        pending.whenDone { [weak self] result in
            if case .success(let claim) = result { self?.end(claim) }
        }
    }
}

extension PlainUse {
    /// The item of a call that cuts it and holds a lock meanwhile.
    var truncatedItem: ItemID? {
        switch self {
        case .open(let id, let flags): flags & O_TRUNC != 0 ? id : nil
        case .cut(let id): id
        case .change, .create, .link, .remove, .rename: nil
        }
    }
}
