internal import CoveClaims
internal import CoveCore
internal import Dispatch
internal import Glibc
internal import Synchronization

/// Claims and presenters that go on under a daemon which took over.
extension Coordinator {
    /// What the daemon before this one had, as this one finds it.
    private struct Found: Sendable {
        var presenters: [(ClaimStore.KeptPresenter, CatalogPlace?)] = []
        var claims: [(ClaimStore.Kept, [KeptItem])] = []
        var left: [RemotePath: LeftName] = [:]
    }

    /// An item of a claim that was held.
    fileprivate struct KeptItem: Sendable {
        var wanted: WantedItem
        var place: CatalogPlace
        var existed: Bool
    }

    /// A name that claimed or presented items have left, which they may come back to.
    private struct LeftName {
        var steps: [PathStep]
        var until: MonotonicTime
        var intents: [(claim: Int, index: Int, steps: [PathStep])] = []
        var presenters: [(number: Int, steps: [PathStep])] = []
    }

    /// Holds claims again and has presenters again, those whose programs live; the claims that are held.
    func goOn(with former: ClaimStore) -> Set<Int> {
        if former.claims.isEmpty, former.presenters.isEmpty { return [] }
        coordination.isActive.store(true, ordering: .sequentiallyConsistent)
        var looked = Found()
        for presenter in former.presenters where ProcessTree.isAlive(presenter.process, began: presenter.began) {
            find(presenter, &looked)
        }
        for claim in former.claims where ProcessTree.isAlive(claim.process, began: claim.began) { find(claim, &looked) }
        let found = looked
        let last = former.lastNumber
        let sessions = coordination.act { state, now in
            // The presenters first: those that let a claim in are told of its end.
            var sessions = Set(found.presenters.map { coordination.restore($0.0, at: $0.1, &state, now) })
            for (claim, items) in found.claims {
                sessions.insert(coordination.restore(claim, items, &state, now))
            }
            for (path, name) in found.left {
                state.table.restoreDeparture(
                    from: name.steps,
                    until: name.until,
                    intents: name.intents,
                    presenters: name.presenters
                )
                state.vacated[path] = name.until
            }
            // What the former daemon had, and this one has not, keeps its number: programs tell them apart by those.
            state.table.use(Int.random(in: 1 << 33..<1 << 34) + last)
            return sessions
        }
        for case (let presenter, let place?) in found.presenters where !presenter.observes.isEmpty {
            coordination.hasObservers.store(true, ordering: .relaxed)
            beginObserving(presenter.observes, of: place)
        }
        let held = Set(found.claims.map(\.0.number))
        log.notice("\(held.count) claims of before are held again, for \(sessions.count) programs that may come back")
        coordination.endLater(sessions, after: Coordination.grace)
        return held
    }

    private func find(_ presenter: ClaimStore.KeptPresenter, _ found: inout Found) {
        guard let path = presenter.path else { return found.presenters.append((presenter, nil)) }
        // Its program adds again what can't be found.
        guard let path = try? path.remotePath(), var place = try? namespace.place(at: path, following: true) else {
            return
        }
        for home in presenter.homes ?? [] {
            guard let left = comeBack(to: home, &place, &found) else { continue }
            found.left[left.path]?.presenters.append((presenter.number, left.own))
        }
        found.presenters.append((presenter, place))
    }

    private func find(_ claim: ClaimStore.Kept, _ found: inout Found) {
        var items: [KeptItem] = []
        for (index, intent) in claim.intents.enumerated() {
            guard let path = try? intent.path.remotePath(), let use = try? ItemUse(intent),
                var place = try? namespace.place(at: path)
            else { continue }
            if let home = claim.homes?.first(where: { $0.index == index }),
                let left = comeBack(to: home, &place, &found)
            {
                found.left[left.path]?.intents.append((claim.number, items.count, left.own))
            }
            let existed = claim.existed.map { $0.indices.contains(index) ? $0[index] : true } ?? true
            let wanted = WantedItem(path: place.steps, use: use)
            items.append(KeptItem(wanted: wanted, place: place, existed: existed))
        }
        found.claims.append((claim, items))
    }

    /// An item that a program has renamed to a backup, before the daemon before this one died, is at its name again where that
    /// was taken since; else the name is kept for it: that, and the item's own.
    private func comeBack(
        to home: ClaimStore.KeptHome,
        _ place: inout CatalogPlace,
        _ found: inout Found
    ) -> (path: RemotePath, own: [PathStep])? {
        guard home.until > clock.monotonic(), let path = try? home.left.remotePath(),
            let ownPath = try? home.path.remotePath(), let name = try? namespace.place(at: path),
            let own = try? namespace.place(at: ownPath)
        else { return nil }
        guard name.entry == nil else {
            place = own
            return nil
        }
        if found.left[path] == nil { found.left[path] = LeftName(steps: name.steps, until: home.until) }
        return (path, own.steps)
    }
}

extension Coordination {
    /// How long programs have to come back to a new daemon.
    fileprivate static let grace = TimeSpan.seconds(10)
    /// How often a daemon that took over looks whether those who are to come back still live.
    private static let look = TimeSpan.milliseconds(200)

    /// A presenter is there again; its session.
    fileprivate func restore(
        _ presenter: ClaimStore.KeptPresenter,
        at place: CatalogPlace?,
        _ state: inout State,
        _ now: MonotonicTime
    ) -> Int {
        let process = (presenter.process, presenter.began)
        let session = restoreSession(presenter.session, process, after: presenter.number, now, &state)
        state.table.restorePresenter(
            presenter.number,
            session: session,
            at: place?.steps,
            known: (presenter.known ?? presenter.path).flatMap { (try? $0.remotePath()) ?? nil },
            implements: Set(presenter.messages.compactMap(CoordinationInterface.MessageKind.init)),
            observes: Set(presenter.observes),
            purpose: presenter.purpose,
            alias: presenter.alias.flatMap { (try? $0.remotePath()) ?? nil }.map {
                Alias(path: $0, reference: presenter.reference)
            },
            now: now
        )
        if presenter.reference != nil { hasAliases.store(true, ordering: .relaxed) }
        if let place, let node = state.table.presenters[presenter.number]?.node { watch(node, place, &state) }
        return session
    }

    /// A claim is held again; its session.
    fileprivate func restore(
        _ claim: ClaimStore.Kept,
        _ items: [Coordinator.KeptItem],
        _ state: inout State,
        _ now: MonotonicTime
    ) -> Int {
        let process = (claim.process, claim.began)
        let session = restoreSession(claim.session, process, after: claim.number, now, &state)
        let request = ClaimRequest(
            session: session,
            coordinator: claim.coordinator,
            purpose: claim.purpose,
            presenter: claim.presenter.flatMap { state.table.presenters[$0]?.number },
            items: items.map(\.wanted)
        )
        state.table.restore(
            request,
            number: claim.number,
            letIn: claim.letIn ?? [],
            existed: items.map(\.existed),
            now: now
        )
        for (intent, item) in zip(state.table.claims[claim.number]?.intents ?? [], items) {
            watch(intent.node, item.place, &state)
        }
        return session
    }

    /// The session of before with a token, which is there once.
    private func restoreSession(
        _ token: String,
        _ process: (number: Int32, began: UInt64),
        after number: Int,
        _ now: MonotonicTime,
        _ state: inout State
    ) -> Int {
        if let session = state.tokens[token] { return session }
        let session = state.table.restoreSession(after: number)
        state.tokens[token] = session
        state.holders[session] = Holder(
            process: process.number,
            began: process.began,
            ancestors: ProcessTree.ancestors(of: process.number),
            token: token,
            kind: "session",
            grace: now + Self.grace
        )
        return session
    }

    /// Ends the sessions that have not come back within a time, and those whose process is gone before.
    fileprivate func endLater(_ sessions: Set<Int>, after time: TimeSpan) {
        queue.asyncAfter(deadline: .now() + Self.look.dispatchInterval) { [weak self] in
            guard let self else { return }
            let left = time - Self.look
            var waiting: Set<Int> = []
            for session in sessions {
                let holder = state.withLock { $0.holders[session] }
                guard let holder, holder.grace != nil else { continue }
                if left > .zero, ProcessTree.isAlive(holder.process, began: holder.began) {
                    waiting.insert(session)
                } else {
                    endSession(session)
                }
            }
            if !waiting.isEmpty { endLater(waiting, after: left) }
        }
    }
}
