internal import CoveClaims
internal import CoveCore
internal import Dispatch
internal import Glibc
internal import Synchronization

/// How the engine and its claims hang together.
extension Coordinator {
    /// Before the first request: claims that were held when the daemon before this one died are held again.
    ///
    /// `readAttribute` reads what presenters observe.
    func begin(readAttribute: @escaping @Sendable (ItemID, String) -> [UInt8]?) {
        attributeReader.withLock { $0 = AttributeReader(read: readAttribute) }
        coordination.settler.withLock { settler in
            settler = Coordination.Settler(
                settle: { [weak self] claim in self?.settle(claim) },
                place: { [weak self] path, following in try? self?.namespace.place(at: path, following: following) }
            )
        }
        catalog.follower.withLock { follower in
            follower = CatalogFollower { [weak self] changes, database in self?.follow(changes, database) }
        }
        let path = configuration.stateDirectory + "/claims"
        let goesOn = contents.ledger.isInherited
        var held: Set<Int> = []
        do throws(Errno) {
            // The table takes them first, so that none is counted twice.
            let former = try ClaimStore(path: path, goesOn: goesOn)
            held = goOn(with: former)
            truncations.inherit(former.lookups)
            let opened: Result<Void, Errno> = coordination.state.withLock { state in
                do throws(Errno) {
                    state.store = try ClaimStore(path: path, goesOn: goesOn)
                    state.store?.keepOnly(claims: held, presenters: Set(state.table.presenters.keys))
                    return .success(())
                } catch {
                    return .failure(error)
                }
            }
            try opened.get()
        } catch {
            log.error("\(path): claims don't survive this daemon: \(error)")
        }
        let snapshots = Snapshots(coordinator: self).clear(keeping: held)
        coordination.state.withLock { $0.snapshots = snapshots }
    }

    /// Another daemon goes on.
    func handOver() { coordination.handOver() }

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
            event.version = (note.change, (try? history.status(of: note, database)) ?? nil)
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
            if let above = parents[parent] { return above + [try namespace.step(name: name, item: item, database)] }
            let found = try self.namespace.steps(parent: parent, name: name, item: item, database)
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
        let leadsTo = isLink ? try? namespace.place(behind: RemotePath(steps.map(\.name)), database) : nil
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
            isScratch: namespace.localNames.matches(name.bytes, kind) || name.isReserved
        )
    }
}

extension Coordination {
    /// Presenters hear of commits even when nobody asks for anything.
    fileprivate func takeEventsSoon() { queue.async { [weak self] in self?.act { _, _ in } } }
}
