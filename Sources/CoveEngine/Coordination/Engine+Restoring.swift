internal import CoveClaims
internal import CoveCore
internal import Dispatch
internal import Glibc
internal import Synchronization

/// Claims and presenters that go on under a daemon which took over.
extension Engine {
    /// How long programs have to come back to a new daemon.
    private static let grace = TimeSpan.seconds(10)

    /// Holds claims again and has presenters again, those whose programs live; the claims that are held.
    func goOn(with former: ClaimStore) -> Set<Int> {
        let (claims, presenters) = (former.claims, former.presenters)
        if claims.isEmpty, presenters.isEmpty { return [] }
        coordination.isActive.store(true, ordering: .sequentiallyConsistent)
        var sessions: Set<Int> = []
        // The presenters first: those that let a claim in are told of its end.
        goOn(with: presenters, &sessions)
        let held = goOn(with: claims, &sessions)
        // What the daemon before this one had, and this one has not, keeps its number: programs tell them apart by those.
        coordination.act { state, _ in state.table.use(Int.random(in: 1 << 33..<1 << 34) + former.lastNumber) }
        log.notice("\(held.count) claims of before are held again, for \(sessions.count) programs that may come back")
        coordination.endLater(sessions, after: Self.grace)
        return held
    }

    /// Presenters of before are asked and told again, once their programs come back.
    private func goOn(with kept: [ClaimStore.KeptPresenter], _ sessions: inout Set<Int>) {
        var found: [(ClaimStore.KeptPresenter, CatalogPlace?)] = []
        for presenter in kept where ProcessTree.isAlive(presenter.process, began: presenter.began) {
            guard let path = presenter.path else {
                found.append((presenter, nil))
                continue
            }
            // Its program adds again what can't be found.
            guard let known = try? path.remotePath(), let place = try? place(at: known, following: true) else {
                continue
            }
            found.append((presenter, place))
        }
        let presenters = found
        sessions.formUnion(
            coordination.act { state, now in
                var sessions: Set<Int> = []
                for (presenter, place) in presenters {
                    let session = coordination.restoreSession(
                        presenter.session,
                        (presenter.process, presenter.began),
                        after: presenter.number,
                        until: now + Self.grace,
                        &state
                    )
                    sessions.insert(session)
                    state.table.restorePresenter(
                        presenter.number,
                        session: session,
                        at: place?.steps,
                        implements: Set(presenter.messages.compactMap(CoordinationInterface.MessageKind.init)),
                        observes: Set(presenter.observes),
                        purpose: presenter.purpose,
                        now: now
                    )
                    if let place, let node = state.table.presenters[presenter.number]?.node {
                        coordination.watch(node, place, &state)
                    }
                }
                return sessions
            }
        )
        for case (let presenter, let place?) in presenters where !presenter.observes.isEmpty {
            coordination.hasObservers.store(true, ordering: .relaxed)
            beginObserving(presenter.observes, of: place)
        }
    }

    private func goOn(with kept: [ClaimStore.Kept], _ sessions: inout Set<Int>) -> Set<Int> {
        var requests: [(ClaimStore.Kept, [WantedItem], [CatalogPlace])] = []
        var left: [RemotePath: LeftName] = [:]
        for claim in kept where ProcessTree.isAlive(claim.process, began: claim.began) {
            var items: [WantedItem] = []
            var places: [CatalogPlace] = []
            for (index, intent) in claim.intents.enumerated() {
                guard let path = try? intent.path.remotePath(), let use = try? ItemUse(intent),
                    var place = try? place(at: path)
                else { continue }
                if let home = claim.homes?.first(where: { $0.index == index }) {
                    comeBack(to: home, &place, &left, (claim.number, items.count))
                }
                items.append(WantedItem(path: place.steps, use: use))
                places.append(place)
            }
            requests.append((claim, items, places))
        }
        let (found, vacant) = (requests, left)
        let restored = coordination.act { state, now in
            var sessions: Set<Int> = []
            for (claim, items, places) in found {
                let session = coordination.restoreSession(
                    claim.session,
                    (claim.process, claim.began),
                    after: claim.number,
                    until: now + Self.grace,
                    &state
                )
                sessions.insert(session)
                let request = ClaimRequest(
                    session: session,
                    coordinator: claim.coordinator,
                    purpose: claim.purpose,
                    items: items
                )
                state.table.restore(request, number: claim.number, letIn: claim.letIn ?? [], now: now)
                for (intent, place) in zip(state.table.claims[claim.number]?.intents ?? [], places) {
                    coordination.watch(intent.node, place, &state)
                }
            }
            for (path, name) in vacant {
                state.table.restoreDeparture(from: name.steps, until: name.until, name.intents)
                state.vacated[path] = name.until
            }
            return sessions
        }
        sessions.formUnion(restored)
        return Set(found.map(\.0.number))
    }

    /// A name that items of claims have left, which they may come back to.
    private struct LeftName {
        var steps: [PathStep]
        var until: MonotonicTime
        var intents: [(claim: Int, index: Int, steps: [PathStep])] = []
    }

    /// A claim's item that a program has renamed to a backup, before the daemon before this one died, is at its name again
    /// where that was taken since; else the name is kept for it.
    private func comeBack(
        to home: ClaimStore.KeptHome,
        _ place: inout CatalogPlace,
        _ left: inout [RemotePath: LeftName],
        _ item: (claim: Int, index: Int)
    ) {
        let until = home.until
        guard until > System.monotonic(), let path = try? home.left.remotePath(),
            let ownPath = try? home.path.remotePath(), let name = try? self.place(at: path),
            let own = try? self.place(at: ownPath)
        else { return }
        if name.entry != nil { return place = own }
        left[path, default: LeftName(steps: name.steps, until: until)].intents.append(
            (item.claim, item.index, own.steps)
        )
    }
}

extension Coordination {
    /// How often a daemon that took over looks whether those who are to come back still live.
    private static let look = TimeSpan.milliseconds(200)

    /// The session of before with a token, which is there once.
    fileprivate func restoreSession(
        _ token: String,
        _ process: (number: Int32, began: UInt64),
        after number: Int,
        until grace: MonotonicTime,
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
            grace: grace
        )
        return session
    }

    /// Ends the sessions that have not come back within a time, and those whose process is gone before.
    fileprivate func endLater(_ sessions: Set<Int>, after time: TimeSpan) {
        clock.asyncAfter(deadline: .now() + Self.look.dispatchInterval) { [weak self] in
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
