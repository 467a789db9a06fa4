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

    /// How often what a name stands for is claimed again, where that has become something else meanwhile.
    private static let claimAttempts = 5

    /// Asks for a claim and waits until it is granted.
    ///
    /// What is claimed by a reference's name is its document; the reply has the name that was asked for.
    public func claim(
        _ asked: CoordinationInterface.ClaimRequest,
        session: Int,
        within: [String] = []
    ) async throws(ClaimFailure) -> CoordinationInterface.ClaimReply {
        for _ in 0..<Self.claimAttempts {
            let (request, documents) = try named(asked)
            if documents.isEmpty { return try await coordinator.claim(asked, session: session, within: within) }
            let reply: CoordinationInterface.ClaimReply
            do throws(ClaimFailure) {
                reply = try await coordinator.claim(request, session: session, within: within)
            } catch {
                throw told(error, documents)
            }
            guard isUpToDate(reply, documents) else {
                try? coordinator.releaseClaim(reply.claim)
                continue
            }
            return told(reply, documents)
        }
        throw ClaimFailure(.busy, "what the name stands for is another document each time; try again")
    }

    /// A document that an intent names by a name that is not its own.
    private struct NamedDocument {
        var name: RemotePath
        var path: RemotePath
        /// The reference's row; nil for a name of a scope.
        var reference: Int64?

        var alias: Alias { Alias(path: name, reference: reference) }
    }

    /// The request with the documents' own places, and which intents these are of.
    ///
    /// Who is to delete or move a reference leaves its document alone.
    private func named(
        _ asked: CoordinationInterface.ClaimRequest
    ) throws(ClaimFailure) -> (CoordinationInterface.ClaimRequest, [Int: NamedDocument]) {
        var request = asked
        var documents: [Int: NamedDocument] = [:]
        if access.hasNoOtherNames { return (request, documents) }
        let own = [CoordinationInterface.WritingOption.forDeleting, .forMoving].map(\.rawValue)
        for (index, intent) in asked.intents.enumerated() where !intent.options.contains(where: own.contains) {
            guard let name = (try? intent.path.remotePath()) ?? nil, let document = try document(named: name)
            else {
                continue
            }
            request.intents[index].path = PathParameter(document.path)
            documents[index] = document
        }
        return (request, documents)
    }

    private func document(named name: RemotePath?) throws(ClaimFailure) -> NamedDocument? {
        guard let name, !access.hasNoOtherNames else { return nil }
        do throws(Errno) {
            guard let found = try access.original(named: name) else { return nil }
            return NamedDocument(name: name, path: found.path, reference: found.reference)
        } catch {
            throw ClaimFailure(error, path: name)
        }
    }

    /// False where a name has come to stand for another document than the one that was claimed.
    private func isUpToDate(
        _ reply: CoordinationInterface.ClaimReply,
        _ documents: [Int: NamedDocument]
    ) -> Bool {
        for (index, document) in documents where reply.items.indices.contains(index) {
            guard let now = try? self.document(named: document.name) else { continue }
            if reply.items[index].path != PathParameter(now.path) { return false }
        }
        return true
    }

    /// The reply with the names that were asked for: its program may have no others.
    private func told(
        _ reply: CoordinationInterface.ClaimReply,
        _ documents: [Int: NamedDocument]
    ) -> CoordinationInterface.ClaimReply {
        var reply = reply
        for (index, document) in documents where reply.items.indices.contains(index) {
            let path = reply.items[index].path
            reply.items[index].path = PathParameter(document.name)
            reply.openFiles = reply.openFiles?.map { file in
                var file = file
                if file.path == path.path { file.path = String(decoding: document.name.bytes, as: UTF8.self) }
                return file
            }
        }
        return reply
    }

    private func told(_ failure: ClaimFailure, _ documents: [Int: NamedDocument]) -> ClaimFailure {
        var failure = failure
        if let name = documents.values.first(where: { $0.path == failure.path })?.name { failure.path = name }
        return failure
    }

    /// Asks the presenters of items once, and keeps nobody else from these; they have them again when its token is released.
    public func prepare(
        _ asked: CoordinationInterface.ClaimRequest,
        session: Int
    ) async throws(ClaimFailure) -> String {
        let (request, documents) = try named(asked)
        do throws(ClaimFailure) { return try await coordinator.prepare(request, session: session) } catch {
            throw told(error, documents)
        }
    }

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
    ) throws(ClaimFailure) {
        let (own, new) = (try document(named: path)?.path ?? path, try document(named: newPath)?.path ?? newPath)
        try coordinator.moved(token, own, to: new, by: speaker)
    }

    /// The holder of a claim that writes there has moved an item to another file system; nothing happens while it is here.
    ///
    /// Without a place presenters are told that it is gone, not where it is.
    public func movedOut(
        _ token: String,
        _ path: RemotePath,
        to place: String?,
        by speaker: ClaimSpeaker? = nil
    ) throws(ClaimFailure) {
        let own = try document(named: path)?.path ?? path
        try coordinator.movedOut(token, own, to: place, by: speaker)
    }

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
        let named = try self.document(named: path)
        let token = try coordinator.addPresenter(
            session: session,
            at: named?.path ?? path,
            implements: messages,
            observes: observes,
            purpose: purpose,
            alias: named?.alias
        )
        // The name may have come to stand for another item just before the presenter was there to go with that.
        if let now = try? self.document(named: path), now.path != named?.path {
            try? movePresenter(token, session: session, to: path)
        }
        return token
    }

    /// A presenter presents another item, or none.
    public func movePresenter(_ token: String, session: Int, to path: RemotePath?) throws(ClaimFailure) {
        let named = try self.document(named: path)
        try coordinator.movePresenter(
            token,
            session: session,
            to: named?.path ?? path,
            alias: named?.alias
        )
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
