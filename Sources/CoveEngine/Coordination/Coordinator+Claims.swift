internal import CoveClaims
internal import CoveCore
internal import Glibc
internal import Synchronization

/// Claims, as programs ask for them over the control socket.
extension Coordinator {
    /// Begins a session, or goes on with one of before this daemon; its number, and the first reply with its token and what it
    /// still has.
    ///
    /// `deliver` puts a message into a queue, and is false when that is full.
    func attend(
        process: Int32,
        resuming token: String?,
        keepsPresenters: Bool = false,
        deliver: @escaping @Sendable (CoordinationInterface.Message) -> Bool
    ) throws(ClaimFailure) -> (session: Int, reply: CoordinationInterface.AttendReply) {
        if let token,
            let resumed = try? coordination.resumeSession(
                token,
                process: process,
                keepsPresenters: keepsPresenters,
                deliver: deliver
            )
        {
            let reply = CoordinationInterface.AttendReply(
                session: token,
                presenters: resumed.presenters.map { Token.presenter($0) },
                claims: resumed.claims.map { Token.claim($0) },
                letIn: resumed.letIn.map { Token.claim($0) }
            )
            return (resumed.session, reply)
        }
        let fresh = DocumentID.random().description
        let number = try coordination.beginSession(process: process, kind: "session", token: fresh, deliver: deliver)
        return (number, CoordinationInterface.AttendReply(session: fresh, presenters: []))
    }

    /// Begins a session for what one connection asks without having one.
    func beginConnection(process: Int32) throws(ClaimFailure) -> Int {
        try coordination.beginSession(process: process, kind: "connection", deliver: nil)
    }

    /// The session of a token; throws `ESTALE` when there is none.
    func session(_ token: String) throws(ClaimFailure) -> Int {
        guard let number = coordination.state.withLock({ $0.tokens[token] }) else {
            throw ClaimFailure(.stale, "the session is over; begin a new one")
        }
        return number
    }

    /// Ends a session: its claims end, its presenters vanish.
    func endSession(_ number: Int) {
        if provider.purpose != nil {
            let claims = coordination.state.withLock { $0.table.sessions[number]?.claims ?? [] }
            for claim in claims { noteSourceWrites(under: claim) }
        }
        coordination.endSession(number)
    }

    /// Asks for a claim and waits until it is granted.
    ///
    /// `within` are claims of the same side that end later.
    func claim(
        _ asked: CoordinationInterface.ClaimRequest,
        session: Int,
        within: [String] = []
    ) async throws(ClaimFailure) -> CoordinationInterface.ClaimReply {
        let count = coordination.beginArrival()
        defer { coordination.endArrival() }
        var (request, places, order) = try await claimRequest(asked, session: session, manner: .explicit)
        request.within = enclosing(within, of: session)
        if let policy = asked.openFiles {
            guard let known = OpenFilePolicy(rawValue: policy) else {
                throw ClaimFailure(.invalidArgument, "\(policy) is nothing to do about open files")
            }
            request.openFiles = known
        }
        if let answering = asked.answering {
            guard request.presenter != nil else {
                throw ClaimFailure(.invalidArgument, "only a presenter answers; name it")
            }
            request.answering = Set(answering.compactMap { Token.number($0, "c") })
        }
        let number: Int
        do throws(ClaimFailure) {
            number = try await wait(for: request, places, since: count, timeout: asked.timeout.map { .seconds($0) })
        } catch {
            throw error == ClaimTable.unready ? await whoHasOpen(request, places) ?? error : error
        }
        let distinct = (order.max() ?? 0) + 1
        let granted = grantedItems(of: number, uses: request.items.prefix(distinct).map(\.use))
        if request.items.contains(where: { $0.use.isForUploading }) {
            coordination.act { state, now in state.table.dropSnapshots(of: number, now: now) }
        }
        return CoordinationInterface.ClaimReply(
            claim: Token.claim(number),
            items: order.compactMap { granted.items.indices.contains($0) ? granted.items[$0] : nil },
            openFiles: granted.hasOpenFiles ? await othersOpenFiles(of: number) : nil
        )
    }

    /// Asks the presenters of items once, and keeps nobody else from these; they have them again when its token is released.
    func prepare(
        _ asked: CoordinationInterface.ClaimRequest,
        session: Int
    ) async throws(ClaimFailure) -> String {
        for intent in asked.intents
        where intent.options.contains(CoordinationInterface.ReadingOption.resolvesSymbolicLink.rawValue)
            || intent.options.contains(CoordinationInterface.WritingOption.forReplacing.rawValue)
        {
            throw ClaimFailure(.invalidArgument, "\(intent.options[0]) has no place in a preparation")
        }
        let count = coordination.beginArrival()
        defer { coordination.endArrival() }
        let (request, places, _) = try await claimRequest(asked, session: session, manner: .preparing)
        let number = try await wait(for: request, places, since: count, timeout: asked.timeout.map { .seconds($0) })
        return Token.claim(number)
    }

    /// Ends a claim; throws `ESTALE` when it is gone, and `EACCES` for another one's.
    func releaseClaim(_ token: String, by speaker: ClaimSpeaker? = nil) throws(ClaimFailure) {
        guard let number = Token.number(token, "c") else { throw ClaimFailure(.invalidArgument, "no such claim") }
        try coordination.check(speaker, number)
        noteSourceWrites(under: number)
        // Who presents something is told what became of the items.
        let paths = coordination.act { state, _ in
            state.table.presenters.isEmpty ? nil : state.table.paths(of: number)
        }
        let exists = paths?.map { path in
            ((try? catalog.glance { database throws(Errno) in try database.entry(atPath: path) != nil }) ?? false)
                || path.isRoot
        }
        guard coordination.release(number, exists: exists) else {
            throw ClaimFailure(.stale, "the claim is gone: its holder did not answer in time, or ended")
        }
    }

    /// The holder of a claim that writes there has moved an item; nothing happens where that is not so.
    func moved(
        _ token: String,
        _ path: RemotePath,
        to newPath: RemotePath,
        by speaker: ClaimSpeaker? = nil
    ) throws(ClaimFailure) {
        guard let number = Token.number(token, "c") else { throw ClaimFailure(.invalidArgument, "no such claim") }
        try coordination.check(speaker, number)
        let former = try namespace.place(at: path)
        let place = try namespace.place(at: newPath)
        let failure: ClaimFailure? = coordination.act { state, now in
            guard let claim = state.table.claims[number], claim.isGranted else {
                return ClaimFailure(.stale, "the claim is gone")
            }
            guard claim.writes(at: path) || claim.writes(at: newPath) else {
                return ClaimFailure(.invalidArgument, "the claim does not write there")
            }
            guard let entry = place.entry, entry != former.entry else { return nil }
            state.table.confirmMove(from: path, now: now)
            coordination.keepMoved(to: newPath, &state)
            // What moved through the mount is known already.
            guard let node = state.table.existingNode(at: path), node.isUsed, node.entry == entry else { return nil }
            state.table.moved(path, to: place.steps, by: number, now: now)
            coordination.keepMoved(to: newPath, &state)
            if let node = state.table.existingNode(at: newPath) { coordination.watch(node, place, &state) }
            return nil
        }
        if let failure { throw failure }
    }

    /// The holder of a claim that writes there has moved an item to another file system; nothing happens while it is here.
    func movedOut(
        _ token: String,
        _ path: RemotePath,
        to place: String?,
        by speaker: ClaimSpeaker? = nil
    ) throws(ClaimFailure) {
        guard let number = Token.number(token, "c") else { throw ClaimFailure(.invalidArgument, "no such claim") }
        if let place, !place.hasPrefix("/") || place.utf8.contains(0) {
            throw ClaimFailure(.invalidArgument, "no absolute path")
        }
        try coordination.check(speaker, number)
        let isHere = try namespace.place(at: path).entry != nil
        let failure: ClaimFailure? = coordination.act { state, _ in
            guard let claim = state.table.claims[number], claim.isGranted else {
                return ClaimFailure(.stale, "the claim is gone")
            }
            guard claim.writes(at: path) else {
                return ClaimFailure(.invalidArgument, "the claim does not write there")
            }
            if !isHere { state.table.movedOut(path, to: place, by: number) }
            return nil
        }
        if let failure { throw failure }
    }

    /// A claim ends: what was written under one of the source's own purpose is looked for at the source before it is sent.
    private func noteSourceWrites(under number: Int) {
        guard let purpose = provider.purpose else { return }
        let paths = coordination.act { state, _ -> [RemotePath] in
            guard let claim = state.table.claims[number], claim.isGranted, claim.request.purpose == purpose else {
                return []
            }
            return state.table.paths(of: number).filter { claim.writes(at: $0) }
        }
        guard !paths.isEmpty else { return }
        do throws(Errno) {
            try catalog.write { database throws(Errno) in
                for path in paths {
                    for var entry in try database.waitingEntries(at: path) {
                        entry.flags.insert(.fromSource)
                        try database.update(entry)
                    }
                }
            }
        } catch {
            log.notice("what the source has written here is sent to it: \(error)")
        }
    }

    /// Waiting and later claims of a coordinator fail with `ECANCELED`.
    func cancel(_ coordinator: String, session: Int) throws(ClaimFailure) {
        let isTold = coordination.act { state, now in
            guard state.table.sessions[session]?.cancelled.count ?? 0 < coordination.limits.claimsPerSession else {
                return false
            }
            state.table.cancel(coordinator, session: session, now: now)
            return true
        }
        if !isTold { throw ClaimFailure(Errno(EUSERS), "too many coordinators were cancelled; begin a new session") }
    }

    /// Waits in a task; one that is cancelled leaves the queue.
    func wait(
        for request: ClaimRequest,
        _ places: [CatalogPlace],
        since count: Int? = nil,
        timeout: TimeSpan? = nil
    ) async throws(ClaimFailure) -> Int {
        let asked = EngineMutex<(number: Int?, isCancelled: Bool)>(.askedClaim, (nil, false))
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { (continuation: CheckedContinuation<Result<Int, ClaimFailure>, Never>) in
                let number = coordination.claim(
                    request,
                    timeout: timeout,
                    entries: places,
                    since: count,
                    again: { items, places in self.namespace.lookAgain(&items, &places) },
                    { continuation.resume(returning: $0) }
                )
                guard let number else {
                    let failure = ClaimFailure(
                        Errno(EUSERS),
                        "the session has ended, or there are too many claims: release some"
                    )
                    return continuation.resume(returning: .failure(failure))
                }
                let isCancelled = asked.withLock { asked in
                    asked.number = number
                    return asked.isCancelled
                }
                if isCancelled { coordination.withdraw(number, ClaimFailure(.cancelled)) }
            }
        } onCancel: {
            let number = asked.withLock { asked in
                asked.isCancelled = true
                return asked.number
            }
            if let number { coordination.withdraw(number, ClaimFailure(.cancelled)) }
        }
        return try result.get()
    }

    /// The claims of a session, or of the processes that it runs below, that one of its claims ends before.
    private func enclosing(_ tokens: [String], of session: Int) -> [Int] {
        let numbers = tokens.suffix(100).compactMap { Token.number($0, "c") }
        if numbers.isEmpty { return [] }
        return coordination.act { state, _ in
            guard let holder = state.holders[session] else { return [] }
            return numbers.filter { number in
                guard let claim = state.table.claims[number], claim.isGranted else { return false }
                guard claim.session != session else { return true }
                guard let other = state.holders[claim.session] else { return false }
                return other.process == holder.process || holder.ancestors.contains(other.process)
            }
        }
    }

    /// The request, the places of its items, and which item each intent is for: an item that is wanted several times for one
    /// use is claimed once, but for each snapshot that is wanted.
    private func claimRequest(
        _ asked: CoordinationInterface.ClaimRequest,
        session: Int,
        manner: ClaimManner
    ) async throws(ClaimFailure) -> (ClaimRequest, [CatalogPlace], order: [Int]) {
        guard !asked.intents.isEmpty else { throw ClaimFailure(.invalidArgument, "no intent") }
        guard asked.intents.count <= coordination.limits.intentsPerClaim else {
            throw ClaimFailure(Errno(EUSERS), "more than \(coordination.limits.intentsPerClaim) intents")
        }
        if asked.purpose?.isEmpty == true { throw ClaimFailure(.invalidArgument, "an empty purpose") }
        let presenter = try asked.presenter.map { token throws(ClaimFailure) in
            guard let number = Token.number(token, "p") else {
                throw ClaimFailure(.invalidArgument, "no such presenter")
            }
            return number
        }
        var purpose = asked.purpose
        if let presenter {
            guard purpose == nil else { throw ClaimFailure(.invalidArgument, "a presenter has a purpose of its own") }
            let known = coordination.state.withLock { state in
                state.table.presenters[presenter].map { (session: $0.session, purpose: $0.purpose) }
            }
            guard known == nil || known?.session == session else {
                throw ClaimFailure(.invalidArgument, "the presenter is another session's")
            }
            purpose = known?.purpose
        }
        var items: [WantedItem] = []
        var places: [CatalogPlace] = []
        var known: [WantedItem: Int] = [:]
        var order: [Int] = []
        for intent in asked.intents {
            let use = try ItemUse(intent)
            guard let path = try? intent.path.remotePath() else { throw ClaimFailure(.invalidArgument, "no path") }
            let place = try await namespace.placeAskingSource(
                at: path,
                following: !use.takesAll,
                mustFollow: use.resolvesSymbolicLink
            )
            let item = WantedItem(path: place.steps, use: use)
            let earlier = use.isForUploading ? nil : known[item]
            order.append(earlier ?? items.count)
            guard earlier == nil else { continue }
            known[item] = items.count
            items.append(item)
            places.append(place)
        }
        try namespace.addOtherNames(&items, &places)
        let inside = coordination.state.withLock { state in
            coordination.sessions(of: state.holders[session]?.ancestors ?? [], state)
        }
        let request = ClaimRequest(
            session: session,
            coordinator: asked.coordinator,
            purpose: purpose,
            presenter: presenter,
            manner: manner,
            items: items,
            inside: inside,
            needsSettling: manner == .explicit
        )
        return (request, places, order)
    }

    private func grantedItems(
        of number: Int,
        uses: [ItemUse]
    ) -> (items: [CoordinationInterface.Granted], hasOpenFiles: Bool) {
        let (paths, snapshots, hasOpenFiles) = coordination.act { state, _ in
            let hasOpenFiles = state.table.claims[number]?.hasOpenFiles ?? false
            return (state.table.paths(of: number), state.snapshots[number] ?? [], hasOpenFiles)
        }
        var left = snapshots[...]
        let items = zip(paths, uses).map { path, use in
            let entry = try? catalog.glance { database throws(Errno) in try database.entry(atPath: path) }
            return CoordinationInterface.Granted(
                path: PathParameter(path),
                snapshot: use.isForUploading ? left.popFirst() : nil,
                documentID: entry.map { $0.document.description }
            )
        }
        return (items, hasOpenFiles)
    }
}
