internal import CoveClaims
internal import CoveCore
internal import Dispatch
internal import Synchronization

/// Claims that what the cloud does here has to wait for, or takes itself.
extension Coordinator {
    /// How long a remote change holds up others that come behind it.
    private static let patience = TimeSpan.milliseconds(250)

    /// A claim to show a remote change under; nil where nobody has to do with the item.
    ///
    /// Throws `EBUSY` while others hold it: the claim keeps its place in the queue, and `retry` is called when it has its turn.
    func remoteClaim(
        for transition: Transition,
        retry: @escaping @Sendable () -> Void
    ) async throws(Errno) -> Int? {
        guard !isUncoordinated, let items = try? remoteItems(of: transition), !items.isEmpty,
            coordination.act({ state, _ in
                items.contains { state.table.isWide || state.table.concerns($0.0.path, $0.1) }
            })
        else { return nil }
        let key = items.map { RemoteClaims.Part(path: $0.0.path, use: $0.1) }
        guard remoteClaims.insert(key) else { return try remoteClaims.take(key, retry: retry) }
        let request = ClaimRequest(
            session: coordination.state.withLock { $0.syncSession },
            purpose: "io.cove.sync",
            items: items.map { WantedItem(path: $0.0.steps, use: $0.1) },
            isFromSource: true,
            needsSettling: false
        )
        let pending = Pending<Void>()
        let number = coordination.claim(request, entries: items.map(\.0)) { [remoteClaims] result in
            remoteClaims.end(key, result)
            pending.fulfill(.success(()))
        }
        guard number != nil else {
            remoteClaims.end(key, .failure(ClaimFailure(.busy)))
            throw .busy
        }
        coordination.queue.asyncAfter(deadline: .now() + Self.patience.dispatchInterval) {
            pending.fulfill(.success(()))
        }
        try await pending.value()
        return try remoteClaims.take(key, retry: retry)
    }

    /// A remote change has been shown, or will not be.
    func endRemoteClaim(_ number: Int) { coordination.release(number) }

    /// Ends claims of remote changes that are not to be shown any more.
    func expireRemoteClaims() {
        for number in remoteClaims.expire() { coordination.withdraw(number, ClaimFailure(.cancelled)) }
    }

    private func remoteItems(of transition: Transition) throws(Errno) -> [(CatalogPlace, ItemUse)]? {
        try catalog.read { database throws(Errno) in
            func place(_ parent: ItemID, _ name: [UInt8]) throws(Errno) -> CatalogPlace? {
                try self.namespace.place(parent, name, database)
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

    /// What is in the middle of a change by a claim's holder: what they have done so far is not to be sent.
    var heldNames: HeldNames { isUncoordinated ? HeldNames() : coordination.act { state, _ in state.table.heldNames } }

    /// True while somebody writes to an item under a claim.
    func isClaimedForWriting(_ id: ItemID) throws(Errno) -> Bool {
        let held = heldNames
        guard !held.isEmpty else { return false }
        return try catalog.glance { database throws(Errno) in
            for entry in try database.entries(of: id) where try isHeld(entry.place, by: held, database) { return true }
            return false
        }
    }

    /// True where all that waits to be sent waits for the end of claims that a process holds, or one that it runs below: who
    /// asks for it to be sent would wait for itself.
    func isAllHeld(by process: Int32) throws(Errno) -> Bool {
        guard !isUncoordinated else { return false }
        let above = ProcessTree.ancestors(of: process) + [process]
        let held = coordination.act { [coordination] state, _ in
            state.table.heldNames(of: coordination.sessions(of: above, state))
        }
        guard !held.isEmpty else { return false }
        return try catalog.read { database throws(Errno) in
            for entry in try database.waitingEntries() where try !isHeld(entry.place, by: held, database) {
                return false
            }
            return try database.trash(pending: true).allSatisfy { held.contains($0.path) }
        }
    }

    /// True for a name that is held, or is in what is held.
    func isHeld(_ place: Place, by held: HeldNames, _ database: Database) throws(Errno) -> Bool {
        guard !held.isEmpty else { return false }
        // Whether the name is a package's does not matter to its path.
        guard let steps = try namespace.steps(parent: place.parent, name: place.name, item: ItemID(0), database) else {
            return false
        }
        return held.contains(RemotePath(steps.map(\.name)))
    }

    /// Asks the programs that present an item whether its bytes may go; blocks.
    func askForEviction(_ id: ItemID) -> Bool {
        guard !isUncoordinated, isPresented(id) else { return true }
        guard
            let place = try? catalog.glance({ database throws(Errno) -> CatalogPlace? in
                guard let entry = try database.entries(of: id).first,
                    let steps = try self.namespace.steps(parent: entry.parent, name: entry.name, item: id, database)
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
                        try self.namespace.steps(parent: entry.parent, name: entry.name, item: id, database)
                    })
                else { return false }
                return state.table.isPresented(RemotePath(steps.map(\.name)))
            }
        }
    }
}

/// Claims of remote changes until they are shown, by what they are of.
final class RemoteClaims: Sendable {
    struct Part: Hashable {
        var path: RemotePath
        var use: ItemUse
    }

    private struct Waiting {
        /// The claim and when it was granted.
        var granted: (number: Int, time: MonotonicTime)?
        var retry: (@Sendable () -> Void)?
    }

    private let waiting = EngineMutex<[[Part]: Waiting]>(.remoteClaims, [:])
    private let queue = DispatchQueue(label: "cove.coordination.retries")
    private let clock: EngineClock

    init(clock: EngineClock) { self.clock = clock }

    /// Notes that a claim is to be asked for; false where that was done before.
    func insert(_ key: [Part]) -> Bool {
        waiting.withLock { waiting in
            if waiting[key] != nil { return false }
            waiting[key] = Waiting()
            return true
        }
    }

    /// Takes a claim that was granted; throws `EBUSY` where it waits, and calls `retry` when that is over.
    func take(_ key: [Part], retry: @escaping @Sendable () -> Void) throws(Errno) -> Int {
        let (number, isOver) = waiting.withLock { waiting -> (Int?, Bool) in
            guard let found = waiting[key] else { return (nil, true) }
            if let granted = found.granted {
                waiting[key] = nil
                return (granted.number, false)
            }
            waiting[key]?.retry = retry
            return (nil, false)
        }
        if let number { return number }
        if isOver { retryLater(retry) }
        throw .busy
    }

    /// A claim was granted, or will never be.
    func end(_ key: [Part], _ result: Result<Int, ClaimFailure>) {
        let retry = waiting.withLock { waiting in
            let retry = waiting[key]?.retry
            switch result {
            case .success(let number): waiting[key]?.granted = (number, clock.monotonic())
            case .failure: waiting[key] = nil
            }
            return retry
        }
        guard let retry else { return }
        if case .success = result { retry() } else { retryLater(retry) }
    }

    /// Whoever refused is asked again, but not at once.
    private func retryLater(_ retry: @escaping @Sendable () -> Void) {
        queue.asyncAfter(deadline: .now() + .seconds(1), execute: retry)
    }

    /// Takes those that were granted and nobody has come for in a while.
    func expire() -> [Int] {
        waiting.withLock { waiting in
            let limit = clock.monotonic() - .seconds(10)
            let old = waiting.filter { $0.value.granted.map { $0.time < limit } ?? false }
            for key in old.keys { waiting[key] = nil }
            return old.values.compactMap { $0.granted?.number }
        }
    }
}
