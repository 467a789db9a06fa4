internal import CLinux
internal import CoveClaims
public import CoveCore
internal import Glibc
internal import Synchronization

/// What a program is about to do.
public enum PlainUse: Sendable {
    case open(ItemID, flags: Int32)
    case change(ItemID)
    /// truncate(2), without a handle.
    case cut(ItemID)
    case create(ItemID, [UInt8])
    case link(ItemID, ItemID, [UInt8])
    case remove(ItemID, [UInt8])
    case rename(ItemID, [UInt8], to: ItemID, [UInt8], flags: UInt32)
}

/// A claim that a program's call holds while it is carried out.
public struct PlainClaim: Sendable {
    let number: Int
}

/// Programs that know nothing of claims: where their calls meet claims that others asked for, they wait.
extension Coordinator {
    /// True when nobody claims or presents anything: what every call asks first.
    @inline(__always)
    var isUncoordinated: Bool { !coordination.isActive.load(ordering: .relaxed) }

    /// A claim for a call that must not go on as it is; nil where nothing is in its way.
    ///
    /// An open waits for as long as the claim's holder lives and `openTimeout`, other calls a second, then `EBUSY`.
    func plainClaim(_ use: PlainUse, _ caller: Caller) throws(Errno) -> Pending<PlainClaim>? {
        // Before all else: nobody else ends the claim of a call that comes again.
        if let id = use.awaitedItem, let outcome = truncations.takeOutcome(caller.thread, id) {
            let pending = Pending<PlainClaim>()
            pending.fulfill(.success(try outcome.get()))
            return pending
        }
        guard !isUncoordinated, !isAnnouncer(caller), mayConcern(use) else { return nil }
        guard let items = try items(of: use), !items.isEmpty, concerns(items) else { return nil }
        // One outside the daemon's process namespace has no number: it is none of those inside.
        let process = ProcessTree.process(of: caller.thread)
        let above = ProcessTree.ancestors(of: process) + [process]
        let pending = Pending<PlainClaim>()
        let (session, inside) = coordination.state.withLock { state in
            (state.programSession, coordination.sessions(of: above, state))
        }
        var request = ClaimRequest(
            session: session,
            manner: .plain,
            items: items.map { WantedItem(path: $0.0.steps, use: $0.1) },
            inside: inside,
            needsSettling: false
        )
        request.process = process
        request.isBrief = !use.mayWait
        request.isOfWriter = use.changedItem.map { contents.live.isWritable($0) } ?? false
        let error: Errno = use.mayWait ? .timedOut : .busy
        let patience = use.mayWait ? configuration.openTimeout : Namespace.namePatience
        let isAtOnce = EngineMutex(.plainClaim, true)
        let number = coordination.claim(request, timeout: patience, entries: items.map(\.0)) {
            [contentQueue, coordination] result in
            let outcome: Result<PlainClaim, Errno> = result.map { PlainClaim(number: $0) }
                .mapError { $0.errno == .timedOut ? error : $0.errno }
            @Sendable func deliver() {
                guard !pending.fulfill(outcome), case .success(let claim) = outcome else { return }
                coordination.release(claim.number)
            }
            // Whatever follows a wait may take long, and must not hold up who ended it.
            if isAtOnce.withLock({ $0 }) { deliver() } else { contentQueue.async(deliver) }
        }
        isAtOnce.withLock { $0 = false }
        guard let number else { return nil }
        // Programs like tar open whatever they read so: a question to a presenter is waited for as ever.
        if use.mayNotBlock, coordination.isBehindClaims(number) {
            coordination.withdraw(number, ClaimFailure(.wouldBlock))
            throw .wouldBlock
        }
        pending.onCancel { [coordination] in coordination.withdraw(number, ClaimFailure(.interrupted)) }
        return pending
    }

    /// The call has been carried out.
    func end(_ claim: PlainClaim) { coordination.release(claim.number) }

    /// A quick look: false where no claim and no presenter can have to do with a call.
    private func mayConcern(_ use: PlainUse) -> Bool {
        coordination.act { state, _ in
            switch use {
            case .open(let id, _), .change(let id), .cut(let id): state.table.isWide || state.watched[id] != nil
            case .create, .link, .remove, .rename: true
            }
        }
    }

    /// A closer look, at paths.
    private func concerns(_ items: [(CatalogPlace, ItemUse)]) -> Bool {
        coordination.act { state, _ in
            state.table.isWide || items.contains { state.table.concerns($0.0.path, $0.1) }
        }
    }

    private func items(of use: PlainUse) throws(Errno) -> [(CatalogPlace, ItemUse)]? {
        try catalog.glance { database throws(Errno) in
            func place(_ parent: ItemID, _ name: [UInt8]) throws(Errno) -> CatalogPlace? {
                try self.namespace.place(parent, name, database)
            }
            func places(of id: ItemID) throws(Errno) -> [CatalogPlace] {
                var found: [CatalogPlace] = []
                for entry in try database.entries(of: id) {
                    if let place = try place(entry.parent, entry.name) { found.append(place) }
                }
                return found
            }
            switch use {
            case .open(let id, let flags):
                let writes = flags & O_ACCMODE != O_RDONLY || flags & O_TRUNC != 0
                return try places(of: id).map { ($0, writes ? .write(nil) : .read([])) }
            case .change(let id), .cut(let id): return try places(of: id).map { ($0, .write(nil)) }
            case .create(let parent, let name): return try place(parent, name).map { [($0, .write(nil))] }
            case .link(let id, let parent, let name):
                // The new name stands for the bytes that are there now.
                guard let new = try place(parent, name) else { return nil }
                return try places(of: id).map { ($0, .read(.withoutChanges)) } + [(new, .write(nil))]
            case .remove(let parent, let name): return try place(parent, name).map { [($0, .write(.forDeleting))] }
            case .rename(let parent, let name, let newParent, let newName, let flags):
                guard let from = try place(parent, name), let to = try place(newParent, newName) else { return nil }
                // A save that puts a new file in the place of a document changes it; nobody is told that it goes.
                let isSave = try database.entry(parent, name).map { !$0.isUploaded } ?? false
                let isExchange = flags & UInt32(RENAME_EXCHANGE) != 0
                func isFolder(_ place: CatalogPlace) throws(Errno) -> Bool {
                    guard let item = place.item, place.steps.last?.isPackage == false else { return false }
                    return try database.item(item)?.kind == .directory
                }
                // Of two that change places each name has another content, and what was below a folder's name is elsewhere.
                let left: CoordinationInterface.WritingOption? =
                    if isExchange, try !isFolder(from) { nil } else { .forMoving }
                let taken: CoordinationInterface.WritingOption? =
                    if isSave || isExchange, try isFolder(to) {
                        .forMoving
                    } else {
                        to.item == nil || isSave || isExchange ? nil : .forReplacing
                    }
                return [(from, .write(left)), (to, .write(taken))]
            }
        }
    }
}

extension PlainUse {
    /// True for calls that hold no lock of the kernel that others need, or are asked again without one.
    fileprivate var mayWait: Bool {
        switch self {
        case .open, .cut: true
        case .change, .create, .link, .remove, .rename: false
        }
    }

    /// The item that a call changes, which may have it open.
    fileprivate var changedItem: ItemID? {
        if case .change(let id) = self { return id }
        return nil
    }

    /// The item of a call that may come again after a look-up.
    fileprivate var awaitedItem: ItemID? {
        switch self {
        case .open(let id, _), .cut(let id): id
        case .change, .create, .link, .remove, .rename: nil
        }
    }

    fileprivate var mayNotBlock: Bool {
        if case .open(_, let flags) = self { return flags & O_NONBLOCK != 0 }
        return false
    }
}
