public import CoveCore
internal import Glibc
internal import Synchronization

/// Claims, as programs ask for them over the control socket.
extension Engine {
    /// Begins a session, or goes on with one of before this daemon; its number and token.
    ///
    /// `deliver` puts a message into a queue, and is false when that is full.
    public func attend(
        process: Int32,
        resuming token: String?,
        deliver: @escaping @Sendable (CoordinationInterface.Message) -> Bool
    ) throws(ClaimFailure) -> (session: Int, token: String) {
        if let token,
            let number = try? coordination.resumeSession(token, process: process, deliver: deliver)
        {
            return (number, token)
        }
        let fresh = DocumentID.random().description
        return (
            try coordination.beginSession(process: process, kind: "session", token: fresh, deliver: deliver), fresh
        )
    }

    /// Begins a session for what one connection asks without having one.
    public func beginConnection(process: Int32) throws(ClaimFailure) -> Int {
        try coordination.beginSession(process: process, kind: "connection", deliver: nil)
    }

    /// The session of a token; throws `ESTALE` when there is none.
    public func session(_ token: String) throws(ClaimFailure) -> Int {
        guard let number = coordination.state.withLock({ $0.tokens[token] }) else {
            throw ClaimFailure(.stale, "the session is over; begin a new one")
        }
        return number
    }

    /// Ends a session: its claims end, its presenters vanish.
    public func endSession(_ number: Int) { coordination.endSession(number) }

    /// Asks for a claim and waits until it is granted.
    public func claim(
        _ asked: CoordinationInterface.ClaimRequest,
        session: Int
    ) async throws(ClaimFailure) -> CoordinationInterface.ClaimReply {
        let count = coordination.beginArrival()
        defer { coordination.endArrival() }
        let (request, places) = try await claimRequest(asked, session: session, manner: .explicit)
        let number = try await wait(for: request, places, since: count, timeout: asked.timeout)
        let granted = grantedItems(of: number, uses: request.items.map(\.use))
        if request.items.contains(where: { $0.use.isForUploading }) {
            coordination.act { state, now in state.table.dropSnapshots(of: number, now: now) }
        }
        return CoordinationInterface.ClaimReply(claim: Token.claim(number), items: granted)
    }

    /// Asks the presenters of items once, and takes no claim.
    public func prepare(_ asked: CoordinationInterface.ClaimRequest, session: Int) async throws(ClaimFailure) {
        for intent in asked.intents
        where intent.options.contains(CoordinationInterface.ReadingOption.resolvesSymbolicLink.rawValue)
            || intent.options.contains(CoordinationInterface.WritingOption.forReplacing.rawValue)
        {
            throw ClaimFailure(.invalidArgument, "\(intent.options[0]) has no place in a preparation")
        }
        let count = coordination.beginArrival()
        defer { coordination.endArrival() }
        let (request, places) = try await claimRequest(asked, session: session, manner: .preparing)
        _ = try await wait(for: request, places, since: count, timeout: asked.timeout)
    }

    /// Ends a claim; throws `ESTALE` when it is gone.
    public func releaseClaim(_ token: String) throws(ClaimFailure) {
        guard let number = Token.number(token, "c") else { throw ClaimFailure(.invalidArgument, "no such claim") }
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

    /// The holder of a claim has moved an item.
    public func moved(_ token: String, _ path: RemotePath, to newPath: RemotePath) throws(ClaimFailure) {
        guard let number = Token.number(token, "c") else { throw ClaimFailure(.invalidArgument, "no such claim") }
        let place = try place(at: newPath)
        let isHeld = coordination.act { state, now in
            guard let claim = state.table.claims[number], claim.isGranted else { return false }
            // What moved through the mount is known already.
            guard state.table.existingNode(at: path) != nil else { return true }
            state.table.moved(path, to: place.steps, by: number, now: now)
            coordination.keepMoved(to: newPath, &state)
            if let node = state.table.existingNode(at: newPath) { coordination.watch(node, place, &state) }
            return true
        }
        if !isHeld { throw ClaimFailure(.stale, "the claim is gone") }
    }

    /// Waiting and later claims of a coordinator fail with `ECANCELED`.
    public func cancel(_ coordinator: String, session: Int) throws(ClaimFailure) {
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
        timeout: Double? = nil
    ) async throws(ClaimFailure) -> Int {
        let asked = Mutex<(number: Int?, isCancelled: Bool)>((nil, false))
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { (continuation: CheckedContinuation<Result<Int, ClaimFailure>, Never>) in
                let number = coordination.claim(
                    request,
                    timeout: timeout,
                    entries: places,
                    since: count,
                    again: { places in places.map { (try? self.place(at: $0.path)) ?? $0 } },
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

    private func claimRequest(
        _ asked: CoordinationInterface.ClaimRequest,
        session: Int,
        manner: ClaimManner
    ) async throws(ClaimFailure) -> (ClaimRequest, [CatalogPlace]) {
        guard !asked.intents.isEmpty else { throw ClaimFailure(.invalidArgument, "no intent") }
        guard asked.intents.count <= coordination.limits.intentsPerClaim else {
            throw ClaimFailure(Errno(EUSERS), "more than \(coordination.limits.intentsPerClaim) intents")
        }
        if asked.purpose?.isEmpty == true { throw ClaimFailure(.invalidArgument, "an empty purpose") }
        var items: [WantedItem] = []
        var places: [CatalogPlace] = []
        for intent in asked.intents {
            let use = try ItemUse(intent)
            guard let path = try? intent.path.remotePath() else { throw ClaimFailure(.invalidArgument, "no path") }
            let place = try await placeAskingSource(at: path, following: use.resolvesSymbolicLink)
            items.append(WantedItem(path: place.steps, use: use))
            places.append(place)
        }
        let inside = coordination.state.withLock { state in
            coordination.sessions(of: state.holders[session]?.ancestors ?? [], state)
        }
        let request = ClaimRequest(
            session: session,
            coordinator: asked.coordinator,
            purpose: asked.purpose,
            presenter: asked.presenter.flatMap { Token.number($0, "p") },
            manner: manner,
            items: items,
            inside: inside,
            needsSettling: manner == .explicit
        )
        return (request, places)
    }

    private func grantedItems(of number: Int, uses: [ItemUse]) -> [CoordinationInterface.Granted] {
        let (paths, snapshots) = coordination.act { state, _ in
            (state.table.paths(of: number), state.snapshots[number] ?? [])
        }
        var left = snapshots[...]
        return zip(paths, uses).map { path, use in
            let entry = try? catalog.glance { database throws(Errno) in try database.entry(atPath: path) }
            return CoordinationInterface.Granted(
                path: PathParameter(path),
                snapshot: use.isForUploading ? left.popFirst() : nil,
                documentID: entry.map { $0.document.description }
            )
        }
    }
}

extension ItemUse {
    /// Reads an intent; throws `EINVAL` for options that don't go together.
    init(_ intent: CoordinationInterface.Intent) throws(ClaimFailure) {
        switch intent.kind {
        case .reading:
            var options: ReadingOptions = []
            for name in intent.options {
                switch CoordinationInterface.ReadingOption(rawValue: name) {
                case .withoutChanges: options.insert(.withoutChanges)
                case .resolvesSymbolicLink: options.insert(.resolvesSymbolicLink)
                case .immediatelyAvailableMetadataOnly: options.insert(.metadataOnly)
                case .forUploading: options.insert(.forUploading)
                case nil: throw ClaimFailure(.invalidArgument, "\(name) is no option of a reading")
                }
            }
            self = .read(options)
        case .writing:
            guard intent.options.count <= 1 else {
                throw ClaimFailure(.invalidArgument, "a writing takes one option at most")
            }
            let option = intent.options.first.map { CoordinationInterface.WritingOption(rawValue: $0) }
            if option == .some(nil) { throw ClaimFailure(.invalidArgument, "\(intent.options[0]) is no option") }
            self = .write(option ?? nil)
        }
    }

    var resolvesSymbolicLink: Bool {
        if case .read(let options) = self { return options.contains(.resolvesSymbolicLink) }
        return false
    }

    var isForUploading: Bool {
        if case .read(let options) = self { return options.contains(.forUploading) }
        return false
    }

    /// True where the bytes are to be here.
    var needsContents: Bool {
        if case .read(let options) = self { return !options.contains(.metadataOnly) }
        return false
    }
}
