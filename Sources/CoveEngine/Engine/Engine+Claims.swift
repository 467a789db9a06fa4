internal import CoveClaims
public import CoveCore

/// What programs ask of claims and presenters.
extension Engine {
    /// Begins a session, or goes on with one of before this daemon; its number, and the first reply.
    public func attend(
        process: Int32,
        resuming token: String?,
        keepsPresenters: Bool = false,
        deliver: @escaping @Sendable (CoordinationInterface.Message) -> Bool
    ) throws(ClaimFailure) -> (session: Int, reply: CoordinationInterface.AttendReply) {
        try coordinator.attend(process: process, resuming: token, keepsPresenters: keepsPresenters, deliver: deliver)
    }

    /// Begins a session for what one connection asks without having one.
    public func beginConnection(process: Int32) throws(ClaimFailure) -> Int {
        try coordinator.beginConnection(process: process)
    }

    /// The session of a token; throws `ESTALE` when there is none.
    public func session(_ token: String) throws(ClaimFailure) -> Int { try coordinator.session(token) }

    /// Ends a session: its claims end, its presenters vanish.
    public func endSession(_ number: Int) { coordinator.endSession(number) }

    /// Asks for a claim and waits until it is granted.
    public func claim(
        _ asked: CoordinationInterface.ClaimRequest,
        session: Int,
        within: [String] = []
    ) async throws(ClaimFailure) -> CoordinationInterface.ClaimReply {
        try await coordinator.claim(asked, session: session, within: within)
    }

    /// Asks the presenters of items once, and keeps nobody else from these; they have them again when its token is released.
    public func prepare(
        _ asked: CoordinationInterface.ClaimRequest,
        session: Int
    ) async throws(ClaimFailure) -> String { try await coordinator.prepare(asked, session: session) }

    /// Ends a claim; throws `ESTALE` when it is gone, and `EACCES` for another one's.
    public func releaseClaim(_ token: String, by speaker: ClaimSpeaker? = nil) throws(ClaimFailure) {
        try coordinator.releaseClaim(token, by: speaker)
    }

    /// The holder of a claim that writes there has moved an item; nothing happens where that is not so.
    public func moved(
        _ token: String,
        _ path: RemotePath,
        to newPath: RemotePath,
        by speaker: ClaimSpeaker? = nil
    ) throws(ClaimFailure) { try coordinator.moved(token, path, to: newPath, by: speaker) }

    /// The holder of a claim that writes there has moved an item to another file system; nothing happens while it is here.
    public func movedOut(
        _ token: String,
        _ path: RemotePath,
        to place: String,
        by speaker: ClaimSpeaker? = nil
    ) throws(ClaimFailure) { try coordinator.movedOut(token, path, to: place, by: speaker) }

    /// Waiting and later claims of a coordinator fail with `ECANCELED`.
    public func cancel(_ name: String, session: Int) throws(ClaimFailure) {
        try coordinator.cancel(name, session: session)
    }

    /// Says that a session presents an item; its token.
    public func addPresenter(
        session: Int,
        at path: RemotePath?,
        implements messages: [String],
        observes: [String],
        purpose: String? = nil
    ) throws(ClaimFailure) -> String {
        try coordinator.addPresenter(
            session: session,
            at: path,
            implements: messages,
            observes: observes,
            purpose: purpose
        )
    }

    /// A presenter presents another item, or none.
    public func movePresenter(_ token: String, session: Int, to path: RemotePath?) throws(ClaimFailure) {
        try coordinator.movePresenter(token, session: session, to: path)
    }

    /// A presenter is gone.
    public func removePresenter(_ token: String, session: Int) throws(ClaimFailure) {
        try coordinator.removePresenter(token, session: session)
    }

    /// The answer to a message.
    public func reply(session: Int, message: Int, failure: ClaimFailure?) {
        coordinator.reply(session: session, message: message, failure: failure)
    }

    /// All claims, in their order, some at a time.
    public func claimStatuses<Failure: Error>(
        _ tell: ([CoordinationInterface.ClaimStatus]) async throws(Failure) -> Void
    ) async throws(Failure) { try await coordinator.claimStatuses(tell) }

    /// All presenters, in the order they came, some at a time.
    public func presenterStatuses<Failure: Error>(
        _ tell: ([CoordinationInterface.PresenterStatus]) async throws(Failure) -> Void
    ) async throws(Failure) { try await coordinator.presenterStatuses(tell) }

    /// True when nobody claims or presents anything: what every call asks first.
    public var isUncoordinated: Bool { coordinator.isUncoordinated }

    /// A claim for a call that must not go on as it is; nil where nothing is in its way.
    public func plainClaim(_ use: PlainUse, _ caller: Caller) throws(Errno) -> Pending<PlainClaim>? {
        try coordinator.plainClaim(use, caller)
    }

    /// The call has been carried out.
    public func end(_ claim: PlainClaim) { coordinator.end(claim) }

    /// True for a call that is to be answered `ESTALE`, after which the look-up waits for the claim.
    public func defersTruncation(
        _ pending: Pending<PlainClaim>,
        _ use: PlainUse,
        _ caller: Caller
    ) throws(Errno) -> Bool { try coordinator.defersTruncation(pending, use, caller) }

    /// True for an open that is to be answered `ESTALE`: while it waited, a save has put another file in the old one's place.
    public func isOutOfDate(_ use: PlainUse, _ claim: PlainClaim, _ caller: Caller) -> Bool {
        coordinator.isOutOfDate(use, claim, caller)
    }

    /// What a look-up is to wait for first; nil nearly always.
    public func deferredTruncation(_ item: ItemID, _ caller: Caller) -> Pending<PlainClaim>? {
        coordinator.deferredTruncation(item, caller)
    }

    /// A look-up ended before its wait did: its program was killed, or does without.
    public func forgetTruncation(_ caller: Caller) { coordinator.forgetTruncation(caller) }

    /// The look-up has waited and is about to be answered: the thread's call comes next, and ends as the wait did.
    public func endTruncationWait(_ item: ItemID, _ caller: Caller, _ result: Result<PlainClaim, Errno>) {
        coordinator.endTruncationWait(item, caller, result)
    }
}
