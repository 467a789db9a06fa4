internal import CoveClaims
internal import CoveCore
internal import Dispatch
internal import Glibc
internal import Synchronization

/// How the engine and its claims hang together.
extension Engine {
    /// Before the first request: claims that were held when the daemon before this one died are held again.
    func beginCoordination() {
        coordination.settler.withLock { settler in
            settler = Coordination.Settler(
                settle: { [weak self] claim in self?.settle(claim) },
                place: { [weak self] path, following in try? self?.place(at: path, following: following) }
            )
        }
        catalog.follower.withLock { follower in
            follower = CatalogFollower { [weak self] changes, database in self?.follow(changes, database) }
        }
        let path = configuration.stateDirectory + "/claims"
        let goesOn = ledger.isInherited
        var held: Set<Int> = []
        do throws(Errno) {
            // The table takes them first, so that none is counted twice.
            let former = try ClaimStore(path: path, goesOn: goesOn)
            held = goOn(with: former.claims)
            truncations.inherit(former.lookups)
            let opened: Result<Void, Errno> = coordination.state.withLock { state in
                do throws(Errno) {
                    state.store = try ClaimStore(path: path, goesOn: goesOn)
                    return .success(())
                } catch {
                    return .failure(error)
                }
            }
            try opened.get()
        } catch {
            log.error("\(path): claims don't survive this daemon: \(error)")
        }
        let snapshots = Snapshots(engine: self).clear(keeping: held)
        coordination.state.withLock { $0.snapshots = snapshots }
    }

    /// How long programs have to come back to a new daemon.
    private static let grace = TimeSpan.seconds(10)

    /// Holds claims again; those whose holders live.
    private func goOn(with kept: [ClaimStore.Kept]) -> Set<Int> {
        guard !kept.isEmpty else { return [] }
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
        coordination.isActive.store(true, ordering: .sequentiallyConsistent)
        let sessions = coordination.act { state, now in
            var sessions: Set<Int> = []
            for (claim, items, places) in found {
                let session = state.tokens[claim.session] ?? state.table.restoreSession(after: claim.number)
                if state.tokens[claim.session] == nil {
                    state.tokens[claim.session] = session
                    state.holders[session] = Coordination.Holder(
                        process: claim.process,
                        began: claim.began,
                        ancestors: ProcessTree.ancestors(of: claim.process),
                        token: claim.session,
                        kind: "session",
                        grace: now + Self.grace
                    )
                    sessions.insert(session)
                }
                let request = ClaimRequest(
                    session: session,
                    coordinator: claim.coordinator,
                    purpose: claim.purpose,
                    items: items
                )
                state.table.restore(request, number: claim.number, now: now)
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
        log.notice("\(found.count) claims of before are held again")
        coordination.endLater(sessions, after: Self.grace)
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

    /// What a commit changed, on the writer's connection: kept for the table, with the paths as they are now.
    private func follow(_ changes: [CatalogChange], _ database: Database) {
        guard !isUncoordinated else { return }
        lookAtObservedAttributes()
        var parents: [ItemID: [PathStep]] = [:]
        var events = changes.compactMap { try? event(of: $0, &parents, database) }
        for note in database.versionNotes {
            guard let entry = try? database.entry(document: note.document),
                var event = try? event(
                    of: CatalogChange(kind: .content, entry: entry.id, item: entry.item),
                    &parents,
                    database
                )
            else { continue }
            event.version = (note.change, (try? status(of: note, database)) ?? nil)
            events.append(event)
        }
        guard !events.isEmpty else { return }
        coordination.events.withLock { waiting in
            waiting += events
            coordination.hasEvents.store(true, ordering: .releasing)
        }
        coordination.takeEventsSoon()
    }

    private func event(
        of change: CatalogChange,
        _ parents: inout [ItemID: [PathStep]],
        _ database: Database
    ) throws(Errno) -> CatalogEvent? {
        func steps(_ parent: ItemID, _ name: [UInt8], _ item: ItemID) throws(Errno) -> [PathStep]? {
            if let above = parents[parent] { return above + [try step(name: name, item: item, database)] }
            let found = try self.steps(parent: parent, name: name, item: item, database)
            parents[parent] = found?.dropLast()
            return found
        }
        var from: [PathStep]?
        if let place = change.from { from = try steps(place.parent, place.name, change.item) }
        let entry = try database.entry(id: change.entry)
        var now: [PathStep]?
        if let entry { now = try steps(entry.parent, entry.name, entry.item) }
        guard let steps = change.kind == .removed ? from : now, let name = steps.last?.name else { return nil }
        let kind = try database.item(entry?.item ?? change.item)?.kind ?? .file
        let isLink = kind == .symbolicLink
        let leadsTo = isLink ? try? place(behind: RemotePath(steps.map(\.name)), database) : nil
        return CatalogEvent(
            kind: change.kind,
            entry: change.entry,
            item: entry?.item ?? change.item,
            steps: steps,
            from: from.map { RemotePath($0.map(\.name)) },
            mayBeBackup: (kind != .directory || from?.last?.isPackage == true)
                && (change.isRename || entry.map { !$0.isUploaded || $0.remoteName != nil } ?? false),
            isLink: isLink,
            leadsTo: leadsTo,
            isScratch: localNames.matches(name.bytes, kind) || name.isReserved
        )
    }
}

extension Coordination {
    /// How often a daemon that took over looks whether those who are to come back still live.
    private static let look = TimeSpan.milliseconds(200)

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

    /// Presenters hear of commits even when nobody asks for anything.
    fileprivate func takeEventsSoon() { clock.async { [weak self] in self?.act { _, _ in } } }
}
