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
        for (index, event) in taken.enumerated() {
            take(event, before: index + 1 < taken.count ? taken[index + 1] : nil, &state, now)
        }
        guard state.vacated.count > state.vacatedLimit else { return }
        state.vacated = state.vacated.filter { $0.value > now }
        // Where so many go at once, nobody saves a document.
        if state.vacated.count > 100_000 { state.vacated = [:] }
        state.vacatedLimit = max(1000, 2 * state.vacated.count)
    }

    private static let vacancy = TimeSpan.seconds(15)

    private func take(_ event: CatalogEvent, before next: CatalogEvent?, _ state: inout State, _ now: MonotonicTime) {
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
            setItem(nil, of: event.entry, &state)
            if let node = state.table.entries[event.entry] { state.table.setEntry(nil, of: node) }
            guard !event.isScratch else { return }
            state.vacated[event.path] = now + Self.vacancy
            state.table.changed(event.path, .removed)
        case .moved:
            guard let from = event.from else { return }
            if event.isScratch {
                // A program keeps the old content beside while it saves: the document stays where it was.
                setItem(nil, of: event.entry, &state)
                if let node = state.table.entries[event.entry] { state.table.setEntry(nil, of: node) }
                state.vacated[from] = now + Self.vacancy
                return
            }
            if let next, case .moved = next.kind, next.from == event.path, next.path == from {
                // Two items changed places: to whoever uses a name that is a change of its content.
                return state.table.changed(from, .changed)
            }
            let isSame = takeVacated(event, &state, now)
            if event.mayBeBackup {
                if state.table.left(from, to: event.steps, now: now) { state.vacated[from] = now + Self.vacancy }
            } else {
                state.table.moved(from, to: event.steps, now: now)
            }
            keepMoved(to: event.path, &state)
            bind(event, &state)
            if isSame { state.table.changed(event.path, .changed) }
            lead(event, &state, now)
        }
    }

    /// Whoever claims or presents what has the name of a link uses what the link leads to.
    private func lead(_ event: CatalogEvent, _ state: inout State, _ now: MonotonicTime) {
        guard !event.isScratch, let place = event.leadsTo,
            state.table.linked(event.path, to: place.steps, now: now)
        else { return }
        if let node = state.table.existingNode(at: place.path) { watch(node, place, &state) }
        keepMoved(to: place.path, &state)
        state.table.changed(place.path, .changed)
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

    private func bind(_ event: CatalogEvent, _ state: inout State) {
        guard let node = state.table.existingNode(at: event.path) else { return }
        state.table.setEntry(event.entry, of: node)
        setItem(event.item, of: event.entry, &state)
    }
}
