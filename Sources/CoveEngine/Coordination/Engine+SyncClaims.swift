internal import CoveCore
internal import Synchronization

/// Claims that what the cloud does here has to wait for, or takes itself.
extension Engine {
    /// How long a remote change waits at a time, before others get their turn.
    private static let patience: Duration = .milliseconds(250)

    /// A claim to show a remote change under; nil where nobody has to do with the item.
    ///
    /// Throws `EBUSY` while others hold it: the claim keeps its place in the queue until it is asked for again.
    func remoteClaim(for transition: Transition) async throws(Errno) -> Int? {
        guard !isUncoordinated, let items = try? remoteItems(of: transition), let first = items.first?.0.path,
            coordination.act({ state, _ in
                items.contains { state.table.isWide || state.table.concerns($0.0.path, $0.1) }
            })
        else { return nil }
        let number: Int
        if let waiting = remoteClaims.number(of: first) {
            number = waiting
        } else {
            let request = ClaimRequest(
                session: coordination.state.withLock { $0.syncSession },
                purpose: "io.cove.sync",
                items: items.map { WantedItem(path: $0.0.steps, use: $0.1) },
                needsSettling: false
            )
            guard let asked = coordination.claim(request, entries: items.map(\.0), { _ in }) else { throw .busy }
            number = asked
            remoteClaims.insert(first, number)
        }
        let deadline = ContinuousClock.now + Engine.patience
        while true {
            switch coordination.act({ state, _ in state.table.claims[number]?.isGranted }) {
            case true?:
                remoteClaims.remove(first)
                return number
            case nil:
                remoteClaims.remove(first)
                throw .busy
            case false?:
                guard ContinuousClock.now < deadline else { throw .busy }
                try? await Task.sleep(for: .milliseconds(5))
            }
        }
    }

    /// Ends claims of remote changes that are not to be shown any more.
    func expireRemoteClaims() {
        for number in remoteClaims.expire() { coordination.withdraw(number, ClaimFailure(.cancelled)) }
    }

    private func remoteItems(of transition: Transition) throws(Errno) -> [(CatalogPlace, ItemUse)]? {
        try catalog.read { database throws(Errno) in
            func place(_ parent: ItemID, _ name: [UInt8]) throws(Errno) -> CatalogPlace? {
                let entry = try database.entry(parent, name)
                guard let steps = try self.steps(parent: parent, name: name, item: entry?.item ?? ItemID(0), database)
                else { return nil }
                return CatalogPlace(steps: steps, entry: entry?.id, item: entry?.item)
            }
            func place(_ id: Int64) throws(Errno) -> CatalogPlace? {
                guard let entry = try database.entry(id: id) else { return nil }
                return try place(entry.parent, entry.name)
            }
            switch transition.kind {
            // Another content of a document is no other document: nobody is told that it goes.
            case .insert(let parent, let name): return try place(parent, name).map { [($0, .write(nil))] }
            case .replace(let id): return try place(id).map { [($0, .write(nil))] }
            case .metadata(let id): return try place(id).map { [($0, .write(.contentIndependentMetadataOnly))] }
            case .remove(let id): return try place(id).map { [($0, .write(.forDeleting))] }
            case .move(let id, let parent, let name):
                guard let from = try place(id), let to = try place(parent, name) else { return nil }
                return [(from, .write(.forMoving)), (to, .write(nil))]
            // Whoever asked for it has claimed what they wanted.
            case .restore: return nil
            }
        }
    }

    /// True while somebody writes to an item under a claim: what they have done so far is not to be sent.
    func isClaimedForWriting(_ id: ItemID) -> Bool {
        guard !isUncoordinated else { return false }
        return coordination.act { state, _ in
            guard state.table.isWide || state.watched[id] != nil else { return false }
            let entries = (try? self.catalog.glance { database throws(Errno) in try database.entries(of: id) }) ?? []
            let nodes = entries.compactMap { state.table.entries[$0.id] }
            return nodes.contains { node in
                let unit = node.unit
                return (unit === node ? [node] : [node, unit]).contains { node in
                    node.intents.contains {
                        $0.claim.isGranted && $0.use.isWrite && $0.claim.request.manner == .explicit
                    }
                }
            }
        }
    }

    /// Asks the programs that present an item whether its bytes may go; blocks.
    func askForEviction(_ id: ItemID) -> Bool {
        guard !isUncoordinated, isPresented(id) else { return true }
        guard
            let place = try? catalog.glance({ database throws(Errno) -> CatalogPlace? in
                guard let entry = try database.entries(of: id).first,
                    let steps = try self.steps(parent: entry.parent, name: entry.name, item: id, database)
                else { return nil }
                return CatalogPlace(steps: steps, entry: entry.id, item: id)
            })
        else { return true }
        let request = ClaimRequest(
            session: coordination.state.withLock { $0.syncSession },
            manner: .evicting,
            items: [WantedItem(path: place.steps, use: .read([]))],
            needsSettling: false
        )
        let isAllowed = BlockingThread.wait { [self] in
            do throws(ClaimFailure) {
                _ = try await wait(for: request, [place])
                return true
            } catch {
                return false
            }
        }
        return isAllowed
    }

    /// True where a program presents an item, or a package that it is in.
    func isPresented(_ id: ItemID) -> Bool {
        guard !isUncoordinated else { return false }
        return coordination.act { state, _ in
            guard !state.table.presenters.isEmpty, state.table.isWide || state.watched[id] != nil else { return false }
            let entries = (try? self.catalog.glance { database throws(Errno) in try database.entries(of: id) }) ?? []
            return entries.contains { entry in
                guard
                    let steps = try? self.catalog.glance({ database throws(Errno) in
                        try self.steps(parent: entry.parent, name: entry.name, item: id, database)
                    })
                else { return false }
                return state.table.isPresented(RemotePath(steps.map(\.name)))
            }
        }
    }
}

/// Claims of remote changes that wait for their turn, by where the changes happen.
final class RemoteClaims: Sendable {
    private struct Waiting {
        let number: Int
        var asked: ContinuousClock.Instant
    }

    private let waiting = Mutex<[RemotePath: Waiting]>([:])

    func number(of path: RemotePath) -> Int? {
        waiting.withLock { waiting in
            waiting[path]?.asked = .now
            return waiting[path]?.number
        }
    }

    func insert(_ path: RemotePath, _ number: Int) {
        waiting.withLock { $0[path] = Waiting(number: number, asked: .now) }
    }

    func remove(_ path: RemotePath) { waiting.withLock { $0[path] = nil } }

    /// Takes those nobody has asked for again in a while.
    func expire() -> [Int] {
        waiting.withLock { waiting in
            let old = waiting.filter { $0.value.asked + .seconds(10) < .now }
            for path in old.keys { waiting[path] = nil }
            return old.values.map(\.number)
        }
    }
}
