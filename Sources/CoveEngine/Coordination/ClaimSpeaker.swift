internal import CoveClaims
internal import CoveCore
internal import Synchronization

/// Who says something of a claim: only its own side may.
public struct ClaimSpeaker: Sendable {
    let process: Int32
    let session: String?

    /// Names the process that speaks, and the session that it speaks for; nil for any of its own.
    public init(process: Int32, session: String?) {
        self.process = process
        self.session = session
    }
}

extension Coordination {
    /// Throws `EACCES` for a claim of others; one without a speaker is this process itself.
    func check(_ speaker: ClaimSpeaker?, _ claim: Int) throws(ClaimFailure) {
        guard let speaker else { return }
        let isOwn = act { state, _ in
            guard let claim = state.table.claims[claim], let holder = state.holders[claim.session] else { return true }
            return speaker.session.map { $0 == holder.token } ?? (holder.process == speaker.process)
        }
        if !isOwn { throw ClaimFailure(.accessDenied, "the claim is another session's") }
    }
}
