public import CoveCore
internal import Glibc
internal import Synchronization

/// Programs whose open with `O_TRUNC`, or truncate(2), has to wait for a claim.
///
/// Such a call holds a lock of the kernel that would hang others. So it is answered `ESTALE`; the kernel then looks the
/// path up again, and that look-up, which holds none, waits instead. Then the call comes once more and finds the claim.
final class Truncations: Sendable {
    private struct Waiting {
        let item: ItemID
        let pending: Pending<Engine.PlainClaim>
    }

    private struct Granted {
        let item: ItemID
        let claim: Engine.PlainClaim
        let expires: Int64
    }

    private struct State {
        var waiting: [Int32: Waiting] = [:]
        var granted: [Int32: Granted] = [:]
    }

    /// How long the kernel may take to come back.
    private static let patience: Int64 = 5_000_000_000

    private let state = Mutex(State())
    private let count = Atomic<Int>(0)

    var isEmpty: Bool { count.load(ordering: .relaxed) == 0 }

    /// A thread's call is about to be answered `ESTALE`.
    func expect(_ thread: Int32, _ item: ItemID, _ pending: Pending<Engine.PlainClaim>) {
        let former = state.withLock { state in
            defer { state.waiting[thread] = Waiting(item: item, pending: pending) }
            return state.waiting[thread]
        }
        count.add(1, ordering: .relaxed)
        if let former {
            count.subtract(1, ordering: .relaxed)
            former.pending.cancel()
        }
    }

    /// What a thread's look-up of the item is to wait for.
    func takeWaiting(_ thread: Int32, _ item: ItemID) -> Pending<Engine.PlainClaim>? {
        let waiting = state.withLock { state -> Waiting? in
            guard state.waiting[thread]?.item == item else { return nil }
            return state.waiting.removeValue(forKey: thread)
        }
        if waiting != nil { count.subtract(1, ordering: .relaxed) }
        return waiting?.pending
    }

    /// The look-up is about to be answered: the claim waits for the thread's call.
    func grant(_ thread: Int32, _ item: ItemID, _ claim: Engine.PlainClaim) {
        state.withLock { state in
            state.granted[thread] = Granted(item: item, claim: claim, expires: System.monotonic() + Self.patience)
        }
        count.add(1, ordering: .relaxed)
    }

    /// The claim that a thread's call finds.
    func takeGranted(_ thread: Int32, _ item: ItemID) -> Engine.PlainClaim? {
        if isEmpty { return nil }
        let granted = state.withLock { state -> Granted? in
            guard state.granted[thread]?.item == item else { return nil }
            return state.granted.removeValue(forKey: thread)
        }
        if granted != nil { count.subtract(1, ordering: .relaxed) }
        return granted?.claim
    }

    /// Claims whose threads did not come back; those that still wait leave the queue by themselves.
    func expire(before now: Int64) -> [Engine.PlainClaim] {
        if isEmpty { return [] }
        let expired = state.withLock { state in
            let expired = state.granted.filter { $0.value.expires < now }
            for thread in expired.keys { state.granted[thread] = nil }
            return expired.values.map(\.claim)
        }
        count.subtract(expired.count, ordering: .relaxed)
        return expired
    }
}

extension Engine {
    /// True for a call that is to be answered `ESTALE`, after which the look-up waits for the claim.
    public func defersTruncation(_ pending: Pending<PlainClaim>, _ use: PlainUse, _ caller: Caller) -> Bool {
        guard !pending.isDone else { return false }
        switch use {
        case .open(let id, let flags) where flags & O_TRUNC != 0: truncations.expect(caller.thread, id, pending)
        case .cut(let id): truncations.expect(caller.thread, id, pending)
        case .open, .change, .create, .remove, .rename: return false
        }
        return true
    }

    /// What a look-up is to wait for first; nil nearly always.
    public func deferredTruncation(_ item: ItemID, _ caller: Caller) -> Pending<PlainClaim>? {
        truncations.isEmpty ? nil : truncations.takeWaiting(caller.thread, item)
    }

    /// The look-up is about to be answered.
    public func allowTruncation(_ item: ItemID, _ caller: Caller, _ claim: PlainClaim) {
        truncations.grant(caller.thread, item, claim)
    }
}
