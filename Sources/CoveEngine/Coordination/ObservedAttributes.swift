internal import CoveClaims
internal import CoveCore
internal import Dispatch
internal import Synchronization

/// What presenters were last told of the attributes that they observe, by their entries' rows in the catalog.
final class ObservedAttributes: Sendable {
    private struct State {
        var values: [Int64: [String: [UInt8]]] = [:]
        var isScheduled = false
        /// What the last look took: the next one comes so much later that looking is never most of the work.
        var cost = TimeSpan.zero
    }

    private static let leastPause = TimeSpan.milliseconds(50)
    private static let restPerCost = 20

    private let state = EngineMutex(.observedAttributes, State())

    /// How long to wait before the next look; nil where one is to come already.
    func schedule() -> TimeSpan? {
        state.withLock { state in
            if state.isScheduled { return nil }
            state.isScheduled = true
            return max(Self.leastPause, state.cost * Self.restPerCost)
        }
    }

    /// Takes what a look found; which values are others than before.
    func take(_ found: [Int64: [String: [UInt8]]], cost: TimeSpan) -> [Int64: [String]] {
        state.withLock { state in
            state.isScheduled = false
            state.cost = cost
            defer { state.values = found }
            var changed: [Int64: [String]] = [:]
            for (entry, values) in found {
                guard let former = state.values[entry] else { continue }
                // What was not looked at before is not known to have changed.
                let names = values.keys.filter { former[$0] != nil && former[$0] != values[$0] }
                if !names.isEmpty { changed[entry] = names.sorted() }
            }
            return changed
        }
    }

    /// Takes what an entry has from the moment on that somebody observes it.
    func begin(_ entry: Int64, _ values: [String: [UInt8]]) {
        state.withLock { $0.values[entry, default: [:]].merge(values) { former, _ in former } }
    }
}

extension Coordinator {
    /// A presenter observes attributes of an item from now on.
    func beginObserving(_ names: [String], of place: CatalogPlace) {
        guard !names.isEmpty, let entry = place.entry, let item = place.item else { return }
        observedAttributes.begin(entry, observe(names, of: item))
    }

    /// A commit may have changed what presenters observe; looked at soon, once for many commits.
    func lookAtObservedAttributes() {
        guard coordination.hasObservers.load(ordering: .relaxed), let pause = observedAttributes.schedule() else {
            return
        }
        coordination.queue.asyncAfter(deadline: .now() + pause.dispatchInterval) { [weak self] in
            guard let self else { return }
            contentQueue.async { self.compareObserved() }
        }
    }

    private func compareObserved() {
        let start = clock.monotonic()
        let wanted: [Int64: (item: ItemID, names: Set<String>)] = coordination.act { state, _ in
            var wanted: [Int64: (item: ItemID, names: Set<String>)] = [:]
            for presenter in state.table.presenters.values where !presenter.observes.isEmpty {
                guard let entry = presenter.node?.entry, let item = state.items[entry] else { continue }
                wanted[entry, default: (item, [])].names.formUnion(presenter.observes)
            }
            return wanted
        }
        let found = wanted.mapValues { observe(Array($0.names), of: $0.item) }
        let changed = observedAttributes.take(found, cost: clock.monotonic() - start)
        guard !changed.isEmpty else { return }
        coordination.act { state, _ in
            for (entry, names) in changed.sorted(by: { $0.key < $1.key }) {
                guard let node = state.table.entries[entry] else { continue }
                state.table.attributesChanged(node.path, names)
            }
        }
    }

    /// The values; empty for what the item does not have.
    private func observe(_ names: [String], of item: ItemID) -> [String: [UInt8]] {
        let reader = attributeReader.withLock { $0 }
        var values: [String: [UInt8]] = [:]
        for name in names { values[name] = reader.read(item, name) ?? [] }
        return values
    }
}
