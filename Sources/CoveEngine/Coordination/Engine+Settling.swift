internal import CoveCore
internal import Glibc
internal import Synchronization

/// Making ready what a claim needs once it has its turn: contents, programs that write, snapshots.
extension Engine {
    /// A program that has a file open for writing and does not write for this long is done.
    static let writeRest: Int64 = 5_000_000_000

    private struct Need: Sendable {
        var use: ItemUse
        var path: RemotePath
        var place: CatalogPlace
    }

    /// Called when a claim's earlier ones have ended and its presenters have replied.
    func settle(_ number: Int) {
        let needs: [Need]
        do throws(ClaimFailure) {
            needs = try self.needs(of: number)
        } catch {
            return coordination.withdraw(number, error)
        }
        let isReady = needs.allSatisfy { need in
            !need.use.isForUploading && (!need.use.needsContents || isHere(need.place)) && !isWritten(need.place)
        }
        if isReady { return settled(number, needs) }
        Task { [self] in
            do throws(ClaimFailure) {
                for need in needs where need.use.needsContents {
                    do throws(Errno) { try await fetch(need.place) } catch {
                        throw ClaimFailure(error, path: need.path)
                    }
                }
                for need in needs { await waitForWriters(of: need.place, need.path, claim: number) }
                var snapshots: [String] = []
                for need in needs where need.use.isForUploading {
                    snapshots.append(try await snapshot(need.place, need.path, claim: number))
                }
                let made = snapshots
                let isWanted = coordination.act { state, _ in
                    guard state.table.claims[number] != nil else { return false }
                    if !made.isEmpty { state.snapshots[number] = made }
                    return true
                }
                if !isWanted { for path in made { Snapshots.remove(path) } }
                settled(number, needs)
            } catch {
                coordination.withdraw(number, error)
            }
        }
    }

    private func settled(_ number: Int, _ needs: [Need]) {
        coordination.act { state, now in
            state.table.settled(number, existed: needs.map { $0.place.item != nil }, now: now)
        }
    }

    /// In the order of the claim's intents, and all of them.
    private func needs(of number: Int) throws(ClaimFailure) -> [Need] {
        let asked: [(ItemUse, RemotePath)] = coordination.act { state, _ in
            state.table.claims[number]?.intents.map { ($0.use, $0.node.path) } ?? []
        }
        var needs: [Need] = []
        for (use, path) in asked { needs.append(Need(use: use, path: path, place: try place(at: path))) }
        return needs
    }

    private func isHere(_ place: CatalogPlace) -> Bool {
        guard place.item != nil else { return true }
        switch place.kind {
        case .file: return place.isWhole
        case .directory: return !(place.steps.last?.isPackage ?? false)
        default: return true
        }
    }

    private func isWritten(_ place: CatalogPlace) -> Bool {
        guard place.kind == .file, let item = place.item else { return false }
        return live.isWritable(item)
    }

    /// Fetches a file, or all of a package.
    private func fetch(_ place: CatalogPlace) async throws(Errno) {
        guard let item = place.item else { return }
        if place.kind == .file { return try await materialize(item) }
        guard place.kind == .directory else { return }
        try await waitForDownload(place.path) { _ in }
    }

    /// Waits for programs that write to a file as they like: what they wrote is fetched from the kernel, and then they
    /// close it or rest.
    private func waitForWriters(of place: CatalogPlace, _ path: RemotePath, claim: Int) async {
        guard place.kind == .file, let id = place.item else { return }
        while live.isWritable(id), let item = live.find(id), !holds(id, claim) {
            try? await onContentQueue { [self] () throws(Errno) in
                guard let announcer = announcer.withLock({ $0 }) else { return }
                try announcer.perform(.flush(path))
            }
            let last = item.state.withLock { max($0.lastWrite, $0.lastWriteOpen) }
            let rest = last + Engine.writeRest - System.monotonic()
            guard rest > 0, coordination.act({ state, _ in state.table.claims[claim] != nil }) else { return }
            // A close is seen as late as this.
            try? await Task.sleep(for: .nanoseconds(min(rest, 50_000_000)))
        }
    }

    /// True when the coordinator that asks has a claim on the file already: it is the one that writes.
    private func holds(_ id: ItemID, _ number: Int) -> Bool {
        coordination.act { state, _ in
            guard let claim = state.table.claims[number] else { return true }
            return claim.intents.contains { intent in
                intent.node.intents.contains { other in
                    other.claim.isGranted && other.use.isWrite && claim.isExempt(from: other.claim)
                }
            }
        }
    }

    private func snapshot(
        _ place: CatalogPlace,
        _ path: RemotePath,
        claim: Int
    ) async throws(ClaimFailure) -> String {
        guard let item = place.item, place.kind == .file || place.kind == .directory else {
            throw ClaimFailure(.noSuchEntry, path: path)
        }
        do throws(Errno) {
            if place.kind == .directory { try await waitForDownload(path) { _ in } }
            let kind = place.kind ?? .file
            let made = await withCheckedContinuation { (done: CheckedContinuation<Result<String, Errno>, Never>) in
                contentQueue.async { [self] in
                    let snapshots = Snapshots(engine: self)
                    done.resume(
                        returning: Result { () throws(Errno) in
                            try snapshots.make(item, kind: kind, path: path, claim: claim)
                        }
                    )
                }
            }
            return try made.get()
        } catch {
            throw ClaimFailure(error, path: path)
        }
    }
}
