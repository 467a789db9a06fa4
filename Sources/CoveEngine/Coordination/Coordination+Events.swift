internal import CoveClaims
internal import CoveCore
internal import Synchronization

/// What commits do to the table of claims.
extension Coordination {
    /// Takes what commits have changed into the table.
    func takeEvents(_ state: inout State, _ now: MonotonicTime) {
        guard hasEvents.load(ordering: .acquiring) else { return }
        let taken = events.withLock { events in
            defer { events = [] }
            hasEvents.store(false, ordering: .releasing)
            return events
        }
        state.eventCount += taken.count
        var rest = taken[...]
        while let event = rest.popFirst() {
            if let next = rest.first, event.isExchange(with: next) {
                rest.removeFirst()
                exchange(event, next, &state, now)
            } else {
                take(event, &state, now)
            }
        }
        guard state.vacated.count > state.vacatedLimit else { return }
        state.vacated = state.vacated.filter { $0.value > now }
        // Where so many go at once, nobody saves a document.
        if state.vacated.count > 100_000 { state.vacated = [:] }
        state.vacatedLimit = max(1000, 2 * state.vacated.count)
    }

    private func take(_ event: CatalogEvent, _ state: inout State, _ now: MonotonicTime) {
        if let version = event.version {
            return state.table.versionChanged(event.path, version.change, version.status)
        }
        switch event.kind {
        case .created:
            let isSame = takeVacated(event, &state, now)
            bind(event, &state)
            setPackage(event, &state, now)
            if !event.isScratch { state.table.changed(event.path, isSame ? .changed : .appeared) }
            lead(event, &state, now)
        case .content, .attributes:
            bind(event, &state)
            setPackage(event, &state, now)
            if !event.isScratch { state.table.changed(event.path, .changed) }
            lead(event, &state, now)
        case .removed:
            unbind(event, &state)
            guard !event.isScratch else { return }
            state.vacated[event.path] = now + ClaimTable.vacancy
            state.table.changed(event.path, .removed)
        case .moved:
            guard let from = event.from else { return }
            if event.isScratch {
                // A program keeps the old content beside while it saves: the document stays where it was.
                unbind(event, &state)
                state.vacated[from] = now + ClaimTable.vacancy
                return
            }
            let isSame = takeVacated(event, &state, now)
            if event.mayBeBackup {
                if state.table.left(from, to: event.steps, now: now) { state.vacated[from] = now + ClaimTable.vacancy }
            } else {
                state.table.moved(from, to: event.steps, now: now)
            }
            keepMoved(to: event.path, &state)
            bind(event, &state)
            if isSame { state.table.changed(event.path, .changed) }
            lead(event, &state, now)
        }
    }

    /// Two items have changed places: to whoever uses a name that is a change of its content.
    private func exchange(_ one: CatalogEvent, _ other: CatalogEvent, _ state: inout State, _ now: MonotonicTime) {
        for event in [one, other] { unbind(event, &state) }
        for event in [one, other] where !event.isScratch {
            bind(event, &state)
            setPackage(event, &state, now)
            state.table.changed(event.path, .changed)
            lead(event, &state, now)
            lookBelow(event.path, isOther: true, &state, now)
        }
    }

    /// Whoever claims or presents what has the name of a link uses what the link leads to.
    private func lead(_ event: CatalogEvent, _ state: inout State, _ now: MonotonicTime) {
        guard !event.isScratch else { return }
        if let place = event.leadsTo { lead(event.path, to: place, &state, now) }
        // What is at the names below is to be found elsewhere now, or has come with the directory.
        if event.kind != .attributes { lookBelow(event.path, isOther: event.isLink, &state, now) }
    }

    private func lead(
        _ path: RemotePath,
        to place: CatalogPlace,
        takingAll: Bool = false,
        _ state: inout State,
        _ now: MonotonicTime
    ) {
        guard state.table.linked(path, to: place.steps, takingAll: takingAll, now: now) else { return }
        if let node = state.table.existingNode(at: place.path) { watch(node, place, &state) }
        keepMoved(to: place.path, &state)
        state.table.changed(place.path, .changed)
    }

    /// Looks again for what is claimed or presented below a name that something has come to.
    ///
    /// `isOther` says that nothing of what was there before has come along.
    private func lookBelow(_ path: RemotePath, isOther: Bool, _ state: inout State, _ now: MonotonicTime) {
        let nodes = state.table.existingNode(at: path)?.usedBelow.filter { isOther || $0.entry == nil } ?? []
        guard !nodes.isEmpty, let settler = settler.withLock({ $0 }) else { return }
        for path in nodes.map(\.path).sorted() {
            guard let place = settler.place(path, false), let node = state.table.existingNode(at: path) else {
                continue
            }
            if place.path == path {
                state.table.setEntry(place.entry, of: node)
                watch(node, place, &state)
                if place.kind != .symbolicLink { continue }
            } else {
                lead(path, to: place, takingAll: true, &state, now)
            }
            if let end = settler.place(path, true) { lead(path, to: end, &state, now) }
        }
    }

    /// True for a name that its document left a moment ago: whatever comes there is that document.
    private func takeVacated(_ event: CatalogEvent, _ state: inout State, _ now: MonotonicTime) -> Bool {
        let path = event.path
        guard let until = state.vacated.removeValue(forKey: path), until > now else { return false }
        if event.isLink {
            // Who uses a link uses what it leads to: the document is where it went, and the name's holder has both.
            lead(event, &state, now)
            state.table.confirmMove(from: path, now: now)
            return false
        }
        state.table.taken(path, now: now)
        keepMoved(to: path, &state)
        return true
    }

    /// A directory is a package as long as its name or its attribute says so.
    private func setPackage(_ event: CatalogEvent, _ state: inout State, _ now: MonotonicTime) {
        state.table.setPackage(event.steps.last?.isPackage ?? false, at: event.path, now: now)
    }

    /// The entry is at no name that anybody claims or presents.
    private func unbind(_ event: CatalogEvent, _ state: inout State) {
        setItem(nil, of: event.entry, &state)
        if let node = state.table.entries[event.entry] { state.table.setEntry(nil, of: node) }
    }

    private func bind(_ event: CatalogEvent, _ state: inout State) {
        guard let node = state.table.existingNode(at: event.path) else { return }
        state.table.setEntry(event.entry, of: node)
        setItem(event.item, of: event.entry, &state)
    }
}
