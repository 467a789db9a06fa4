internal import CoveCore
internal import Synchronization

/// What commits do to the table of claims.
extension Coordination {
    /// Takes what commits have changed into the table.
    func takeEvents(_ state: inout State, _ now: Int64) {
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

    private static let vacancy: Int64 = 15_000_000_000

    private func take(_ event: CatalogEvent, before next: CatalogEvent?, _ state: inout State, _ now: Int64) {
        if let version = event.version {
            return state.table.versionChanged(event.path, version.change, version.status)
        }
        switch event.kind {
        case .created:
            let isSame = (state.vacated.removeValue(forKey: event.path) ?? 0) > now
            bind(event, &state)
            if !event.isScratch { state.table.changed(event.path, isSame ? .changed : .appeared) }
        case .content, .attributes:
            bind(event, &state)
            if !event.isScratch { state.table.changed(event.path, .changed) }
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
            state.table.moved(from, to: event.steps, now: now)
            keepMoved(to: event.path, &state)
            bind(event, &state)
        }
    }

    private func bind(_ event: CatalogEvent, _ state: inout State) {
        guard let node = state.table.existingNode(at: event.path) else { return }
        state.table.setEntry(event.entry, of: node)
        setItem(event.item, of: event.entry, &state)
    }
}
