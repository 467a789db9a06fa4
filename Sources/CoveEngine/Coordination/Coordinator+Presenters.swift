internal import CoveClaims
internal import CoveCore
internal import Glibc
internal import Synchronization

/// Presenters, as programs add them over the control socket, and what `cove claims` shows.
extension Coordinator {
    /// Says that a session presents an item; its token.
    ///
    /// Claims of its coordinators have its purpose.
    func addPresenter(
        session: Int,
        at path: RemotePath?,
        implements messages: [String],
        observes: [String],
        purpose: String? = nil,
        alias: Alias? = nil
    ) throws(ClaimFailure) -> String {
        if purpose?.isEmpty == true { throw ClaimFailure(.invalidArgument, "an empty purpose") }
        let count = coordination.beginArrival()
        defer { coordination.endArrival() }
        var asked: CatalogPlace?
        if let path { asked = try namespace.place(at: path, following: true) }
        let place = asked
        let limits = coordination.limits
        let (number, found): (Int?, CatalogPlace?) = coordination.act { state, now in
            guard let holder = state.table.sessions[session], holder.presenters.count < limits.presentersPerSession,
                state.table.presenters.count < limits.presenters
            else { return (nil, nil) }
            let found = placeNow(place, since: count, state)
            let number = state.table.addPresenter(
                session: session,
                at: found?.steps,
                implements: Set(messages.compactMap { CoordinationInterface.MessageKind(rawValue: $0) }),
                observes: Set(observes.prefix(100)),
                purpose: purpose,
                alias: alias,
                now: now
            )
            if let found, let node = number.flatMap({ state.table.presenters[$0]?.node }) {
                coordination.watch(node, found, &state)
            }
            if let number { coordination.keepPresenter(number, &state) }
            return (number, found)
        }
        guard let number else {
            throw ClaimFailure(Errno(EUSERS), "the session has ended, or there are too many presenters: remove some")
        }
        if alias?.reference != nil { coordination.hasAliases.store(true, ordering: .relaxed) }
        if !observes.isEmpty {
            coordination.hasObservers.store(true, ordering: .relaxed)
            if let found { beginObserving(Array(observes.prefix(100)), of: found) }
        }
        if let found, messages.contains(CoordinationInterface.MessageKind.didGainVersion.rawValue) {
            history.findConflicts(of: [found.path])
        }
        return Token.presenter(number)
    }

    /// A presenter presents another item, or none.
    func movePresenter(
        _ token: String,
        session: Int,
        to path: RemotePath?,
        alias: Alias? = nil
    ) throws(ClaimFailure) {
        if alias?.reference != nil { coordination.hasAliases.store(true, ordering: .relaxed) }
        let count = coordination.beginArrival()
        defer { coordination.endArrival() }
        var place: CatalogPlace?
        if let path { place = try namespace.place(at: path, following: true) }
        var found: CatalogPlace?
        var observes: [String] = []
        var hearsOfConflicts = false
        try changePresenter(token, session) { state, number, now in
            found = placeNow(place, since: count, state)
            state.table.movePresenter(number, to: found?.steps, alias: alias, now: now)
            coordination.keepPresenter(number, &state)
            guard let presenter = state.table.presenters[number] else { return }
            if let found, let node = presenter.node { coordination.watch(node, found, &state) }
            observes = Array(presenter.observes)
            hearsOfConflicts = presenter.implements.contains(.didGainVersion)
        }
        guard let found else { return }
        beginObserving(observes, of: found)
        if hearsOfConflicts { history.findConflicts(of: [found.path]) }
    }

    /// Where a reference is by which a program has its item.
    enum ReferencePlace {
        case at(RemotePath)
        /// On its way, or not found out just now.
        case unknown
        /// It was taken back.
        case gone
    }

    /// References may have other names now, or be gone: whose program has an item by one is told, or hears no more of the item.
    func followAliases(_ place: (Int64) -> ReferencePlace) {
        guard coordination.hasAliases.load(ordering: .relaxed) else { return }
        let known = coordination.act { state, _ in
            state.table.presenters.values.compactMap { presenter in
                presenter.alias.flatMap { alias in alias.reference.map { (number: presenter.number, reference: $0) } }
            }
        }
        for (number, reference) in known {
            let now = place(reference)
            if case .unknown = now { continue }
            coordination.act { state, time in
                // Its program may have moved it to another item meanwhile.
                guard state.table.presenters[number]?.alias?.reference == reference else { return }
                if case .at(let path) = now {
                    state.table.moveAlias(of: number, to: path)
                } else {
                    state.table.movePresenter(number, to: nil, now: time)
                }
                coordination.keepPresenter(number, &state)
            }
        }
    }

    /// There is a connection: what is presented may have conflicts in folders that could not be listed before.
    func findPresentedConflicts() {
        guard !isUncoordinated else { return }
        let paths = coordination.act { state, _ in
            Set(
                state.table.presenters.values.compactMap { presenter in
                    presenter.implements.contains(.didGainVersion) ? presenter.node?.path : nil
                }
            )
        }
        history.findConflicts(of: paths.sorted())
    }

    /// A presenter is gone.
    func removePresenter(_ token: String, session: Int) throws(ClaimFailure) {
        try changePresenter(token, session) { state, number, now in
            state.store?.dropPresenter(number)
            state.table.removePresenter(number, now: now)
        }
    }

    private func changePresenter(
        _ token: String,
        _ session: Int,
        _ body: (inout Coordination.State, Int, MonotonicTime) -> Void
    ) throws(ClaimFailure) {
        guard let number = Token.number(token, "p") else { throw ClaimFailure(.invalidArgument, "no such presenter") }
        let isThere = coordination.act { state, now in
            guard state.table.presenters[number]?.session == session else { return false }
            body(&state, number, now)
            return true
        }
        if !isThere { throw ClaimFailure(.stale, "the presenter is gone") }
    }

    /// The answer to a message.
    func reply(session: Int, message: Int, failure: ClaimFailure?) {
        coordination.act { state, now in
            state.table.reply(session: session, message: message, failure: failure, now: now)
        }
    }

    /// How many are looked at under one lock: nobody waits for long meanwhile.
    private static let told = 100

    /// All claims, in their order, some at a time.
    func claimStatuses<Failure: Error>(
        _ tell: ([CoordinationInterface.ClaimStatus]) async throws(Failure) -> Void
    ) async throws(Failure) {
        // Those that come meanwhile are left out, or it might never end.
        let end = coordination.act { state, _ in state.table.lastNumber }
        var last = 0
        var names = ProgramNames()
        while last < end {
            let number = last
            let part = coordination.act { state, now in
                state.table.claims.part(after: number, count: Self.told).map { claims, last in
                    (
                        statuses: claims.map { self.status(of: $0, state, now) },
                        open: Set(claims.filter(\.hasOpenFiles).map(\.number)),
                        last: last
                    )
                }
            }
            guard let part else { return }
            last = part.last
            var statuses = part.statuses
            for index in statuses.indices {
                statuses[index].program = names[statuses[index].process]
                guard let claim = Token.number(statuses[index].claim, "c") else { continue }
                let files: [CoordinationInterface.OpenFile] =
                    switch statuses[index].state {
                    case "contents": await openFiles(of: claim)
                    case "granted" where part.open.contains(claim): await othersOpenFiles(of: claim)
                    default: []
                    }
                statuses[index].openFiles = files.isEmpty ? nil : files
            }
            if !statuses.isEmpty { try await tell(statuses) }
        }
    }

    private func status(
        of claim: Claim,
        _ state: borrowing Coordination.State,
        _ now: MonotonicTime
    ) -> CoordinationInterface.ClaimStatus {
        let holder = state.holders[claim.session]
        let name =
            switch claim.state {
            case .waiting: "waiting"
            case .presenters: "presenters"
            case .settling, .ready: "contents"
            case .granted, .ended: claim.request.manner == .preparing ? "prepared" : "granted"
            }
        return CoordinationInterface.ClaimStatus(
            claim: Token.claim(claim.number),
            state: name,
            holder: claim.session == state.syncSession ? "sync" : holder?.kind ?? "program",
            process: holder?.process ?? claim.request.process,
            program: "",
            coordinator: claim.request.coordinator,
            purpose: claim.request.purpose,
            intents: claim.intents.map { CoordinationInterface.Intent($0) },
            waitsFor: claim.waitsFor.map { Token.claim($0.number) },
            seconds: (now - claim.since).seconds
        )
    }

    /// All presenters, in the order they came, some at a time.
    func presenterStatuses<Failure: Error>(
        _ tell: ([CoordinationInterface.PresenterStatus]) async throws(Failure) -> Void
    ) async throws(Failure) {
        let end = coordination.act { state, _ in state.table.lastNumber }
        var last = 0
        var names = ProgramNames()
        while last < end {
            let number = last
            let part = coordination.act { state, _ in
                state.table.presenters.part(after: number, count: Self.told).map { presenters, last in
                    let found = presenters.map { presenter in
                        (
                            number: presenter.number,
                            process: state.holders[presenter.session]?.process ?? 0,
                            path: presenter.node?.path,
                            kinds: presenter.implements,
                            unanswered: presenter.questions.count
                        )
                    }
                    return (presenters: found, last: last)
                }
            }
            guard let part else { return }
            last = part.last
            let statuses = part.presenters.map { presenter in
                CoordinationInterface.PresenterStatus(
                    presenter: Token.presenter(presenter.number),
                    process: presenter.process,
                    program: names[presenter.process],
                    path: presenter.path.map { PathParameter($0) },
                    messages: presenter.kinds.map(\.rawValue).sorted(),
                    unanswered: presenter.unanswered
                )
            }
            if !statuses.isEmpty { try await tell(statuses) }
        }
    }

    /// What somebody is about to present, looked up once more when events have come since `count` of them.
    func placeNow(
        _ place: CatalogPlace?,
        since count: Int,
        _ state: borrowing Coordination.State
    ) -> CatalogPlace? {
        guard let place, count != state.eventCount else { return place }
        return (try? namespace.place(at: place.path, following: true)) ?? place
    }
}

/// Names of programs, each asked for once.
private struct ProgramNames {
    private var names: [Int32: String] = [:]

    subscript(process: Int32) -> String {
        mutating get {
            if let name = names[process] { return name }
            let name = ProcessTree.name(of: process)
            names[process] = name
            return name
        }
    }
}
