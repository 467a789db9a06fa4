internal import Foundation
internal import Synchronization

/// Claims that this process asks for inside others: which of them wait for each other over several accounts.
///
/// Each daemon sees the circles among its own claims. One that goes through two of them, or through files that no mount shows,
/// only a process can see that is all of it.
enum NestedWaits {
    typealias Holding = FileCoordinator.Holding

    private struct Wait {
        let number: Int
        let authority: any Authority
        let coordinator: CoordinatorIdentity
        /// The claims that end after it.
        let holdings: [Holding]
        let cancellation: Cancellation

        /// True where no daemon knows all of it.
        var crosses: Bool { holdings.contains { $0.authority !== authority } }

        func holds(any claims: Set<String>, of other: any Authority) -> Bool {
            holdings.contains { $0.authority === other && claims.contains($0.claim) }
        }
    }

    private struct State {
        var last = 0
        var waits: [Int: Wait] = [:]
    }

    private static let state = Mutex(State())

    /// Runs a body that asks an authority and waits; it fails with EDEADLK where it would wait for ever.
    static func during<Value>(
        _ request: ClaimRequest,
        at authority: any Authority,
        holding holdings: [Holding],
        _ body: () throws(CoveError) -> Value
    ) throws(CoveError) -> Value {
        guard !holdings.isEmpty else { return try body() }
        let wait = state.withLock { state in
            state.last += 1
            let wait = Wait(
                number: state.last,
                authority: authority,
                coordinator: request.coordinator,
                holdings: holdings,
                cancellation: request.cancellation
            )
            state.waits[wait.number] = wait
            return wait
        }
        defer { state.withLock { _ = $0.waits.removeValue(forKey: wait.number) } }
        if wait.crosses { FileThreads.start { watch(wait) } }
        return try body()
    }

    /// Looks again and again, for others come later, until the wait ends.
    private static func watch(_ wait: Wait) {
        var pause: Int32 = 50
        while true {
            _ = poll(nil, 0, pause)
            let waits = state.withLock { $0.waits }
            guard waits[wait.number] != nil else { return }
            if isCircle(wait, waits) {
                let message = "claims on several accounts wait for each other; ask for all items in one"
                return wait.cancellation.cancel(because: CoveError(.deadlock, message))
            }
            pause = min(2 * pause, 1000)
        }
    }

    /// True where a wait is the last one that came to a circle.
    private static func isCircle(_ last: Wait, _ waits: [Int: Wait]) -> Bool {
        guard waits.count > 1 else { return false }
        var seen: Set<Int> = []
        var next = [last]
        while let wait = next.popLast() {
            guard seen.insert(wait.number).inserted else { continue }
            let blockers = wait.authority.blockers(of: wait.coordinator)
            if last.holds(any: blockers, of: wait.authority) { return true }
            next += waits.values.filter { other in
                (other.number < last.number || !other.crosses) && other.holds(any: blockers, of: wait.authority)
            }
        }
        return false
    }
}
