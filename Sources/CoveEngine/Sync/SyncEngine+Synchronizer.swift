internal import CoveCore
internal import Synchronization

/// What parts of the engine tell of fetches, and ask of the provider.
extension SyncEngine: Synchronizer {
    nonisolated var isConnected: Bool { shared.withLock { $0.isConnected } }
    nonisolated var mayFetch: Bool { shared.withLock { $0.isConnected && !$0.isPaused } }

    func inPlace<T: Sendable>(
        _ directory: ItemID,
        _ body: @Sendable (RemoteReference) async throws(ProviderError) -> T
    ) async throws(ProviderError) -> T? {
        try await whileInPlace(directory, body)
    }

    func isShown(_ transition: Transition) async throws(ProviderError) -> Bool {
        try await show(transition, retry: {}) == .shown
    }

    /// Remembers for `cove status` why some of an item's bytes could not be fetched, and asks for what changed.
    ///
    /// What a recovery left without a version, a stand-in, is found by listing its folder again only.
    nonisolated func noteFetchFailure(
        _ id: ItemID,
        _ ranges: [Range<Int64>],
        _ error: ProviderError,
        isStandIn: Bool
    ) {
        let touched = shared.withLock { state in
            var touched: Set<ItemID> = [id]
            if state.failures.count > 1000 {
                touched.formUnion(state.failures.keys)
                state.failures.removeAll()
            }
            state.failures[id] = ("\(error)", ranges)
            return touched
        }
        host.catalog.touches.add(Touched(items: touched))
        Task {
            if error.parksAccount {
                await disconnect(error)
            } else {
                await requestPoll(listing: isStandIn)
                if error == .noSuchItem || error == .versionNoLongerAvailable { await lookAround(id) }
            }
        }
    }

    /// Has the folder of an item listed again whose bytes are not where it should be: a change may have been told of in vain.
    private func lookAround(_ id: ItemID) async {
        let host = host
        let folder = try? await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in
                try database.entries(of: id).first.flatMap { entry throws(Errno) in
                    try database.remoteReference(of: entry)?.path.parent
                }
            }
        }
        if let folder = folder ?? nil { enqueue([.directoryChanged(folder)], seen: .distantPast) }
    }

    /// Forgets why bytes of an item could not be fetched once they are here, or there are none any more.
    nonisolated func noteFetched(_ id: ItemID, _ state: LiveItem.State) {
        shared.withLock { shared in
            guard let failure = shared.failures[id], let row = state.row else { return }
            let bytes = 0..<max(0, row.size)
            let isHere = failure.ranges.allSatisfy { state.ranges.contains($0.clamped(to: bytes)) }
            if row.residency == .whole || isHere { shared.failures[id] = nil }
        }
        host.catalog.touches.add(id)
    }
}
