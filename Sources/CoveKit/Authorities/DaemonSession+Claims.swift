internal import CoveCore
internal import Foundation

/// The claims of this process's session.
extension DaemonSession {
    /// Asks for a claim, and notes it.
    func claim(
        _ cancellation: Cancellation,
        _ request: (_ session: String) -> CoordinationInterface.ClaimRequest
    ) throws(CoveError) -> CoordinationInterface.ClaimReply {
        connections.keepReserve()
        let id = UUID()
        let isOver = { [self] in state.withLock { $0.asking[id] = nil } }
        defer { isOver() }
        let reply: CoordinationInterface.ClaimReply = try call("Claim", cancellation, whenAgain: isOver) {
            [self] session in
            state.withLock { $0.asking[id] = $0.generation }
            return request(session)
        }
        state.withLock { $0.claims[reply.claim] = false }
        return reply
    }

    /// Asks presenters; the token of that, as of a claim.
    func prepare(
        _ cancellation: Cancellation,
        _ request: (_ session: String) -> CoordinationInterface.ClaimRequest
    ) throws(CoveError) -> String {
        let reply: CoordinationInterface.PrepareReply = try call("Prepare", cancellation, request)
        state.withLock { $0.claims[reply.claim] = false }
        return reply.claim
    }

    /// Ends a claim, which is this process's until the daemon has ended it, also where the next daemon comes meanwhile.
    ///
    /// One whose end can't be told just now ends as soon as it can.
    func release(_ claim: String) throws(CoveError) {
        do throws(CoveError) {
            try tellRelease(of: claim)
            forget(claim)
        } catch {
            guard Self.hasNotArrived(error), !isLost(claim) else {
                forget(claim)
                throw error
            }
            FileThreads.start { [self] in releaseLater(claim) }
        }
    }

    private func tellRelease(of claim: String) throws(CoveError) {
        let _: VarlinkNothing = try call("Release", isAtOnce: true) { _ in
            CoordinationInterface.ReleaseRequest(claim: claim)
        }
    }

    /// Until then the daemon takes the claim for held, and so does the next one.
    private func releaseLater(_ claim: String) {
        while !isLost(claim) {
            _ = poll(nil, 0, 200)
            do throws(CoveError) {
                try tellRelease(of: claim)
                break
            } catch {
                if !Self.hasNotArrived(error) { break }
            }
        }
        forget(claim)
    }

    /// True where a call has failed before the daemon looked at it.
    static func hasNotArrived(_ error: CoveError) -> Bool {
        if let answer = error.cause as? VarlinkError { return answer.name == VarlinkError.tooManyConnections }
        return error.cause is VarlinkClient.Failure
    }

    /// True when others got a claim meanwhile.
    func isLost(_ claim: String) -> Bool { state.withLock { $0.claims[claim] } ?? true }

    func forget(_ claim: String) { state.withLock { _ = $0.claims.removeValue(forKey: claim) } }

    /// What the daemon has as granted to this process.
    func heldClaims() -> [String] {
        listedClaims().filter { $0.process == getpid() && $0.holder == "session" && $0.state == "granted" }.map(\.claim)
    }

    /// All claims that the daemon has; none where it can't be asked.
    func listedClaims() -> [CoordinationInterface.ClaimStatus] { allClaims() ?? [] }

    func allClaims() -> [CoordinationInterface.ClaimStatus]? {
        typealias Reply = CoordinationInterface.ListReply
        guard let client = try? VarlinkClient(connections.address) else { return nil }
        var claims: [CoordinationInterface.ClaimStatus] = []
        let last: Reply? = try? client.stream(
            "\(CoordinationInterface.name).List",
            VarlinkNothing(),
            timeout: .seconds(10)
        ) { (reply: Reply) in claims += reply.claims }
        return last.map { claims + $0.claims }
    }

    /// Ends claims whose grant was lost with the old daemon.
    func releaseUnknown(_ held: [String]) {
        // A reply that the old daemon sent may be read just now.
        _ = try? state.wait(until: Date() + 10) { state in
            state.asking.values.contains { $0 < state.generation } ? nil : true
        }
        let unknown = state.withLock { state in held.filter { state.claims[$0] == nil } }
        for claim in unknown {
            for _ in 0..<50 {
                do throws(CoveError) {
                    try tellRelease(of: claim)
                    break
                } catch {
                    guard Self.hasNotArrived(error) else { break }
                    _ = poll(nil, 0, 200)
                }
            }
        }
    }
}
