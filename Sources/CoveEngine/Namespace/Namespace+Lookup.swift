internal import CoveCore
internal import Dispatch
internal import Glibc
internal import Synchronization

/// Finding names.
extension Namespace {
    /// Finds a name in a directory; nil is an answer the kernel may keep.
    ///
    /// In a directory that was never listed the provider is asked for that one name. `mayBeDisplayName`: where nobody
    /// knows yet what containers are called, that is found out first.
    func lookup(
        _ parent: ItemID,
        _ name: [UInt8],
        _ caller: Caller,
        mayBeDisplayName: Bool = true
    ) throws(Errno) -> Outcome<ItemAttributes?> {
        guard name.count <= FileName.maximumLength else { throw .nameTooLong }
        touched.insert(parent)
        let found = try catalog.glance { database throws(Errno) -> (ItemRow?, Bool)? in
            if let entry = try database.entry(parent, name) { return (try database.existingItem(entry.item), true) }
            return try database.item(parent).map { (nil, $0.residency == .whole) }
        }
        let thread = caller.thread
        guard let found else { throw contents.whenGone(thread, isWalking: contents.isWalking(thread)) }
        if let row = found.0 { return .now(overlay(row)) }
        // A name that would stay here may stand there all the same.
        guard !found.1, FileName.problem(with: name) == nil, !FileName(unchecked: name).isReserved else {
            // Nothing is walked to beyond that.
            contents.endWalk(of: thread)
            return .now(nil)
        }
        return .later(lookUpRemotely(parent, name, thread, mayBeDisplayName))
    }

    /// What stat(2) says of an item now.
    func attributes(of id: ItemID) throws(Errno) -> ItemAttributes {
        // Before its row: one that is closed in between has saved what the row does not tell yet.
        let live = contents.live.find(id)
        if let row = try catalog.glance({ database throws(Errno) in try database.item(id) }) {
            return overlay(row, contents.live.find(id) ?? live)
        }
        guard let removed = removedDirectories.attributes(of: id) else { throw .stale }
        return removed
    }

    /// What stat(2) says to a program, whose kernel may walk the path again.
    func attributes(of id: ItemID, _ caller: Caller) throws(Errno) -> ItemAttributes {
        do throws(Errno) {
            let found = try attributes(of: id)
            contents.noteAttributes(of: id, found.kind, caller.thread)
            return found
        } catch .stale {
            throw contents.whenGone(caller.thread, isWalking: contents.isWalking(caller.thread))
        }
    }

    /// A row's attributes, with the size and dates of unsaved writes.
    func overlay(_ row: ItemRow) -> ItemAttributes { overlay(row, contents.live.find(row.id)) }

    /// The same with the item as it is open, or was a moment ago.
    func overlay(_ row: ItemRow, _ live: LiveItem?) -> ItemAttributes {
        guard row.kind == .file, let item = live else { return row.attributes }
        return item.state.withLock { state in
            contents.look(row.id, &state)
            guard let current = state.row else { return row.attributes }
            var merged = row
            merged.size = current.size
            merged.resident = current.residency == .whole ? current.size : state.ranges.count
            if state.hasUnsavedContent {
                merged.modificationTime = current.modificationTime
                merged.changeTime = max(row.changeTime, current.changeTime)
            }
            var attributes = merged.attributes
            // What a writer has in the kernel's cache is not known here.
            if merged.size == 0, state.seen == nil, contents.live.isWritable(row.id) { attributes.blocks = 1 }
            attributes.mayChangeUnseen = state.seen != nil
            return attributes
        }
    }

    /// True for an open file that had no bytes when last heard of.
    func isEmpty(_ id: ItemID) -> Bool {
        contents.live.find(id)?.state.withLock { $0.row?.size == 0 } ?? false
    }

    /// The kernel knows an item no more.
    func forget(_ id: ItemID) {
        removedDirectories.remove(id)
        let closed = contents.live.forget(id)
        if closed.isOrphan || closed.backing != nil { contents.settleClosed(id, closed) }
    }

    /// Where a symbolic link points.
    func readLink(_ id: ItemID) throws(Errno) -> [UInt8] {
        let row = try catalog.read { database throws(Errno) in try database.existingItem(id) }
        guard row.kind == .symbolicLink, let target = row.target else { throw .invalidArgument }
        return target
    }

    /// The provider's answer for one name, or `EHOSTUNREACH`, `ETIMEDOUT` within the stall limit.
    private func lookUpRemotely(
        _ parent: ItemID,
        _ name: [UInt8],
        _ thread: Int32,
        _ mayBeDisplayName: Bool
    ) -> Pending<ItemAttributes?> {
        let pending = Pending<ItemAttributes?>()
        let start = clock.monotonic()
        let work = Task { [self] in
            await connected.pass()
            var result: Result<ItemAttributes?, Errno>
            repeat { result = await askForName(parent, name) } while result == .failure(.wouldBlock)
            // It may be what a container is called, which the listing finds out.
            if mayBeDisplayName, isNew, result == .failure(.noSuchEntry), parent == .root,
                !FileName(unchecked: name).isHidden
            {
                switch await askForName(.root, DriveFolder.name.bytes) {
                case .success(_?):
                    if (try? await listing(of: .root).value()) != nil { result = lookupListed(name) }
                case .failure(.noSuchEntry): context.accountReader.withLock { $0 }?.noteNone()
                default: break
                }
            }
            if result == .failure(.stale) {
                result = .failure(contents.whenGone(thread, isWalking: contents.isWalking(thread)))
            }
            if case .success(nil) = result {
                contents.endWalk(of: thread)
            } else {
                contents.prolongWalk(thread, since: start)
            }
            pending.fulfill(result)
            lookups.remove(pending)
        }
        lookups.insert(pending, work, until: clock.monotonic() + configuration.stallLimit)
        pending.onCancel { work.cancel() }
        return pending
    }

    /// True while nobody knows what containers of the account are called.
    private var isNew: Bool { context.accountReader.withLock { $0?.isNew } == true }

    /// A name of the root, once that is listed.
    private func lookupListed(_ name: [UInt8]) -> Result<ItemAttributes?, Errno> {
        Result { () throws(Errno) in
            try catalog.glance { database throws(Errno) in
                guard let entry = try database.entry(.root, name) else { throw .noSuchEntry }
                return try database.existingItem(entry.item).attributes
            }
        }
    }

    /// Asks the provider once; `EAGAIN` when a push overtook the answer.
    private func askForName(_ parent: ItemID, _ name: [UInt8]) async -> Result<ItemAttributes?, Errno> {
        guard let sync else { return .failure(.interrupted) }
        let seen = clock.monotonic()
        do throws(ProviderError) {
            try context.generation.requireExchange()
            counters.providerRequests.add(1, ordering: .relaxed)
            let found = try await sync.inPlace(parent) { [self] directory throws(ProviderError) in
                try await provider.lookup(FileName(unchecked: name), in: directory)
            }
            // A directory that the provider does not have yet.
            guard let remote = found else { return .success(nil) }
            guard remote.name == name else { return .failure(.inputOutput) }
            return await withCheckedContinuation { continuation in
                contentQueue.async { [self] in
                    continuation.resume(returning: Result { () throws(Errno) in try admit(remote, parent, seen) })
                }
            }
        } catch .noSuchItem {
            // Not kept by the kernel: the name may appear before the directory is ever listed.
            return .failure(.noSuchEntry)
        } catch {
            return .failure(error.errno)
        }
    }

    private func admit(_ remote: RemoteItem, _ parent: ItemID, _ seen: MonotonicTime) throws(Errno) -> ItemAttributes? {
        try catalog.write { database throws(Errno) in
            let name = remote.name
            if let entry = try database.entry(parent, name) {
                return try database.existingItem(entry.item).attributes
            }
            // Deleted or moved away here, and the provider does not know it yet.
            if try self.isRemotelyClaimed(parent, name, remote, database) { throw .noSuchEntry }
            if self.sync?.doubt(seen, of: nil, at: Place(parent, name)) != nil { throw .wouldBlock }
            let entry = try self.insertRemote(remote, into: parent, isNews: false, database)
            return try database.existingItem(entry.item).attributes
        }
    }

    /// True when the document at a place of the provider is one that was moved or deleted here, or may be what was sent there.
    func isRemotelyClaimed(
        _ parent: ItemID,
        _ name: [UInt8],
        _ remote: RemoteItem,
        _ database: Database
    ) throws(Errno) -> Bool {
        if try database.entry(remoteParent: parent, remoteName: name) != nil { return true }
        if try database.underway(at: Place(parent, name)) != nil { return true }
        return try database.pendingTrash(remoteParent: parent, remoteName: name) != nil
    }
}
