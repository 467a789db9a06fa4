internal import CoveCore
internal import Dispatch
internal import Synchronization

/// When the provider holds something else than expected: both contents are kept, unless they are the same.
extension SyncEngine {
    /// Another item has the name at the provider.
    func collide(_ plan: PushPlan, with other: RemoteItem?) async throws(ProviderError) -> PushResult {
        let name = FileName(unchecked: plan.entry.name)
        let remote: RemoteItem
        if let other {
            remote = other
        } else {
            host.counters.providerRequests.add(1, ordering: .relaxed)
            remote = try await host.provider.lookup(name, in: plan.directory)
        }
        let place = RemoteReference(id: remote.id, path: plan.directory.path.appending(name))
        if !plan.entry.isUploaded, try await isSame(plan, remote, place) {
            let result = try await takeAsOwn(plan, remote)
            if plan.row.kind == .directory { enqueue([.directoryChanged(place.path)], seen: .distantPast) }
            return result
        }
        guard try await isUnchanged(plan) else { return .later(.zero) }
        try await endRefused(plan)
        let transition = Transition(kind: .insert(parent: plan.entry.parent, name: plan.entry.name), remote: remote)
        let showing = try await show(transition, retry: { [weak self] in self?.wake() })
        return .later(showing == .claimed ? SyncEngine.claimedRest : .zero)
    }

    /// The document has other bytes at the provider than the ones this change was made on.
    func conflict(
        _ plan: PushPlan,
        _ place: RemoteReference,
        with other: RemoteItem?
    ) async throws(ProviderError) -> PushResult {
        let remote: RemoteItem
        if let other {
            remote = other
        } else {
            guard let name = place.path.name else { throw .noSuchItem }
            host.counters.providerRequests.add(1, ordering: .relaxed)
            remote = try await host.provider.lookup(
                name,
                in: RemoteReference(id: nil, path: place.path.parent)
            )
        }
        // An earlier attempt may have arrived without its answer.
        if try await isSame(plan, remote, place) { return try await takeAsOwn(plan, remote) }
        guard try await isUnchanged(plan) else { return .later(.zero) }
        try await endRefused(plan)
        let transition = Transition(kind: .replace(entry: plan.entry.id), remote: remote, sent: plan.entry.document)
        return switch try await show(transition, retry: { [weak self] in self?.wake() }) {
        case .shown: .done
        case .overtaken: .later(.milliseconds(50))
        case .claimed: .later(SyncEngine.claimedRest)
        }
    }

    /// What the source's own program has written here the source may have already, and then has nothing sent; nil where it
    /// has something else, or nothing, and this goes the way of any change.
    func takeFromSource(_ plan: PushPlan) async throws(ProviderError) -> PushResult? {
        guard plan.entry.flags.contains(.fromSource), plan.row.kind == .file, !plan.entry.isMoved else { return nil }
        let name = FileName(unchecked: plan.entry.name)
        let host = host
        let wait = try await host.onContentQueue { () throws(Errno) -> TimeSpan? in
            do throws(Errno) {
                return try host.beginComparison(plan.row.id, generation: plan.row.generation)
            } catch .wouldBlock {
                return .zero
            }
        }
        if let wait { return .later(wait) }
        var same: RemoteItem?
        do throws(ProviderError) {
            host.counters.providerRequests.add(1, ordering: .relaxed)
            let remote = try await host.provider.lookup(name, in: plan.directory)
            let place = RemoteReference(id: remote.id, path: plan.directory.path.appending(name))
            if try await isSame(plan, remote, place) { same = remote }
        } catch {
            switch error {
            // It is not there, or can't be compared: then it is sent as any change.
            case .noSuchItem, .versionNoLongerAvailable, .notPermitted, .unsupported: break
            default: throw error
            }
        }
        let hasOtherMetadata = same.map { !isSame(plan.metadata, $0.metadata) } ?? false
        if let same, !plan.entry.flags.contains(.metadataChanged) || !hasOtherMetadata {
            return try await takeAsOwn(plan, same)
        }
        try await host.onContentQueue { () throws(Errno) in
            try host.catalog.write { database throws(Errno) in
                guard var entry = try database.entry(id: plan.entry.id), entry.document == plan.entry.document,
                    try database.journalRow(entry.id)?.changed == plan.changed
                else { return }
                entry.flags.remove(.fromSource)
                try database.update(entry)
            }
        }
        guard let same else { return nil }
        // Permissions and attributes may be somebody else's: its journal row stays, and they are sent by themselves.
        var others = plan
        others.changed = Timestamp(-1)
        return try await takeAsOwn(others, same)
    }

    /// True where the source has permissions and attributes as they are here, as far as it tells them.
    ///
    /// Its date is that of its own change: the one here tells when that was written here.
    private nonisolated func isSame(_ here: ItemMetadata, _ there: ItemMetadata) -> Bool {
        func agree<Value: Equatable>(_ value: (ItemMetadata) -> Value?) -> Bool {
            guard let one = value(here), let other = value(there) else { return true }
            return one == other
        }
        return agree(\.permissions) && agree(\.user) && agree(\.group) && agree(\.extendedAttributes)
    }

    /// True while the bytes here are those that were to be sent: others tell nothing of what an earlier attempt has sent.
    private func isUnchanged(_ plan: PushPlan) async throws(ProviderError) -> Bool {
        let host = host
        return try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in
                try database.item(plan.row.id)?.generation == plan.row.generation
            }
        }
    }

    /// An attempt was answered: what is at its place did not arrive from here, whatever its size, dates and bytes; nor did what
    /// comes there later.
    private func endRefused(_ plan: PushPlan) async throws(ProviderError) {
        let host = host
        try await host.onContentQueue { () throws(Errno) in
            try host.catalog.write { database throws(Errno) in try database.endUnderway(plan.entry.document) }
        }
    }

    /// A part of the base of a changed file was never here, and the provider has it no more: the wait for it ends.
    func endWithoutBase(_ plan: PushPlan) async throws(ProviderError) -> PushResult {
        let host = host
        if let current = plan.current, let name = current.path.name {
            let remote: RemoteItem
            do throws(ProviderError) {
                host.counters.providerRequests.add(1, ordering: .relaxed)
                remote = try await host.provider.lookup(name, in: RemoteReference(id: nil, path: current.path.parent))
            } catch .noSuchItem {
                return try await recreate(plan)
            }
            guard remote.contentVersion != plan.row.version else {
                throw .failed("its base version can't be fetched; its changes stay here", nil)
            }
            if remote.kind == .file { return try await conflict(plan, current, with: remote) }
            enqueue([.updated(remote, directory: current.path.parent)], seen: .distantPast)
            return .retry(after: .milliseconds(500))
        }
        let missing = try await host.onContentQueue { () throws(Errno) -> Int64? in
            guard let missing = try host.contents.bytesWithoutBase(plan.row.id) else { return nil }
            // It has that name before it can be sent, whenever the daemon dies.
            if missing > 0 { try host.namespace.nameIncomplete(plan.entry.id, missing: missing) }
            try host.contents.endWithoutBase(plan.row.id)
            return missing
        }
        if missing != nil { return .later(.zero) }
        host.log.notice("\(plan.entry.document): it was cut while its bytes were only at the source; they are gone")
        let transition = Transition(kind: .remove(entry: plan.entry.id), remote: nil, sent: plan.entry.document)
        let showing = try await show(transition, retry: { [weak self] in self?.wake() })
        return showing == .claimed ? .later(SyncEngine.claimedRest) : .done
    }

    /// What the provider has holds what was to be sent; attributes that it has not are sent after.
    private func takeAsOwn(_ plan: PushPlan, _ remote: RemoteItem) async throws(ProviderError) -> PushResult {
        let result = try await acknowledge(plan, remote, generation: plan.row.generation, bytes: nil)
        if case .failed = result { return .later(.zero) }
        return result
    }

    /// True when what the provider has is what was to be sent.
    private func isSame(
        _ plan: PushPlan,
        _ remote: RemoteItem,
        _ place: RemoteReference
    ) async throws(ProviderError) -> Bool {
        guard remote.kind == plan.row.kind else { return false }
        switch remote.kind {
        case .directory: return true
        case .symbolicLink: return remote.linkTarget == plan.row.target
        case .fifo, .socket, .characterDevice, .blockDevice: return false
        case .file: break
        }
        guard remote.size == plan.row.size, plan.row.residency == .whole else { return false }
        if remote.size == 0 { return true }
        let sink = ComparingSink(store: host.contents.store, id: plan.row.id)
        await noteGiven(plan.row.id, at: place)
        defer { noteIdle(plan.row.id) }
        do throws(ProviderError) {
            host.counters.providerRequests.add(1, ordering: .relaxed)
            try await host.provider.fetch(
                place,
                version: remote.contentVersion,
                range: 0..<remote.size,
                into: sink
            )
        } catch {
            if sink.hasDifference { return false }
            throw error
        }
        // What a fetch did not bring was not compared.
        guard sink.hasDifference || sink.comparedBytes == remote.size else {
            throw .failed("the source sent fewer bytes than asked for", .inputOutput)
        }
        return !sink.hasDifference
    }

    /// How long until a push tries again whose conflict programs claim: each attempt asks the provider first.
    static let claimedRest = TimeSpan.seconds(5)

    /// What became of a transition.
    enum Showing {
        case shown
        /// The tree or a push has overtaken it.
        case overtaken
        /// It waits for programs that claim the document it changes.
        case claimed
    }

    /// Makes a transition visible on the announcing queue; `retry` is called when one that was claimed has its turn.
    func show(
        _ transition: Transition,
        retry: @escaping @Sendable () -> Void
    ) async throws(ProviderError) -> Showing {
        let host = host
        let claim: Int?
        do throws(Errno) {
            claim = try await host.coordinator.remoteClaim(for: transition, retry: retry)
        } catch {
            return .claimed
        }
        defer { if let claim { host.coordinator.endRemoteClaim(claim) } }
        let queue = announceQueue
        let error = await withCheckedContinuation { (continuation: CheckedContinuation<Errno?, Never>) in
            queue.async {
                do throws(Errno) {
                    try host.remoteChanges.show(transition)
                    continuation.resume(returning: nil)
                } catch {
                    continuation.resume(returning: error)
                }
            }
        }
        guard let error else { return .shown }
        if error == .busy { return .overtaken }
        throw .failed("a remote change can't be shown: \(error)", error)
    }
}

/// Compares fetched bytes with a content file instead of keeping them.
private final class ComparingSink: ContentSink {
    private let store: ContentStore
    private let id: ItemID
    private let differs = Atomic<Bool>(false)
    private let compared = Atomic<Int64>(0)

    init(store: ContentStore, id: ItemID) {
        self.store = store
        self.id = id
    }

    var hasDifference: Bool { differs.load(ordering: .acquiring) }
    var comparedBytes: Int64 { compared.load(ordering: .acquiring) }

    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(ProviderError) {
        let isEqual: Bool
        do throws(Errno) {
            guard let descriptor = try store.open(id, holding: 0) else { throw Errno.inputOutput }
            defer { System.close(descriptor) }
            let local = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 16)
            defer { local.deallocate() }
            var filled = 0
            while filled < bytes.count {
                let count = try System.pread(
                    descriptor,
                    UnsafeMutableRawBufferPointer(rebasing: local[filled...]),
                    offset + Int64(filled)
                )
                if count == 0 { break }
                filled += count
            }
            isEqual = filled == bytes.count && local[..<filled].elementsEqual(bytes)
        } catch {
            throw .failed("the local content can't be read: \(error)", error)
        }
        if !isEqual {
            differs.store(true, ordering: .releasing)
            throw .cancelled
        }
        compared.add(Int64(bytes.count), ordering: .acquiringAndReleasing)
    }

    func copy(from descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int {
        try copyThroughMemory(from: descriptor, at: offset, count: count)
    }
}

extension ContentSink {
    /// Takes bytes of a descriptor where nothing faster is of use.
    func copyThroughMemory(from descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 16)
        defer { buffer.deallocate() }
        let read: Int
        do throws(Errno) {
            read = try System.pread(descriptor, buffer, offset)
        } catch {
            throw .failed("the source can't be read: \(error)", error)
        }
        try write(UnsafeRawBufferPointer(rebasing: buffer[..<read]), at: offset)
        return read
    }
}
