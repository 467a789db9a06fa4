internal import CLinux
public import CoveCore
internal import Glibc
internal import Synchronization

/// Lets the kernel read and write content files by itself; implemented by the mount.
public protocol BackingFiles: Sendable {
    /// Makes a content file known to the kernel; returns the number by which the answer to an open names it.
    func register(_ descriptor: Int32) throws(Errno) -> UInt32
    /// The kernel needs it for no further open.
    func unregister(_ number: UInt32)
}

/// What is known of passthrough.
struct Passthrough {
    var files: (any BackingFiles)?
    /// Why it was asked for and is not to be had.
    var obstacle: String?
}

/// Files whose bytes the kernel reads and writes by itself, while no daemon sees it.
///
/// An item that is whole at its first open is opened so until its last handle is closed, all others in the normal way: the
/// kernel can't mix the two. Before such a handle may write, the catalog has the item in `unsettled`. Whether it did is
/// seen from size and times of the content file: at each request on the item, each second, and after each death.
extension Contents {
    /// From now on the kernel may read and write content files by itself.
    func passThrough(by files: any BackingFiles) { passthrough.withLock { $0.files = files } }

    /// Remembers, for `cove doctor`, why the kernel may not, though a person has asked for it.
    func doWithoutPassthrough(_ reason: String) {
        let isNew = passthrough.withLock { state in
            defer { state.obstacle = reason }
            return state.obstacle == nil
        }
        if isNew { log.notice("passthrough is off: \(reason)") }
    }

    /// Who registers files with the kernel, and why it does not; neither before the mount has asked.
    var passthroughState: Passthrough { passthrough.withLock { $0 } }

    /// Why the disk of the state can't have it; nil when it can.
    var passthroughObstacle: String? {
        let directory = configuration.stateDirectory
        let stacked = [0x794C_7630, 0xF15F]  // overlay, ecryptfs
        if stacked.contains(cove_file_system_type(directory)) {
            return "\(directory) is on a file system that lies upon another one"
        }
        guard store.canTellWriters() else { return "the file system of \(directory) has no leases" }
        return nil
    }

    /// The number by which the kernel is to read and write an open item by itself; nil for the normal way.
    func backingNumber(of id: ItemID) -> UInt32? { live.mode(id)?.backing }

    /// Decides how a handle that was counted reads and writes, under the item's lock as all that takes a state.
    ///
    /// `isRecorded` says that the catalog has the item in `unsettled` already.
    func decideMode(
        _ item: LiveItem,
        _ state: inout LiveItem.State,
        flags: Int32,
        isRecorded: Bool = false
    ) throws(Errno) {
        guard let files = passthrough.withLock({ $0.files }) else { return }
        let id = item.id
        switch live.mode(id) {
        case .normal: return
        case .passthrough: break
        case nil:
            // The fetch that brought the last bytes may not have ended yet.
            completeMaterialization(item, &state)
            // The kernel would not tell of writes that are to be durable at once.
            let number = flags & O_DSYNC != 0 ? nil : try register(id, &state, files)
            live.decide(id, number.map { .passthrough($0) } ?? .normal)
            if number == nil { return }
        }
        if flags & O_ACCMODE != O_RDONLY, state.seen == nil { try beginUnsettled(item, &state, isRecorded: isRecorded) }
    }

    private func register(
        _ id: ItemID,
        _ state: inout LiveItem.State,
        _ files: any BackingFiles
    ) throws(Errno) -> UInt32? {
        // Of bytes that are lost the kernel would read none.
        let row = try loadBytes(id, &state)
        // The kernel would leave set-user-id to a file that it writes to by itself.
        guard row.kind == .file, row.residency == .whole, row.permissions & 0o6000 == 0, state.writesInFlight == 0,
            passthrough.withLock({ $0.obstacle }) == nil,
            try ContentStamp(try descriptor(id, &state)).size == row.size
        else { return nil }
        do throws(Errno) {
            // Not to be taken for a writer of the file.
            let descriptor = try System.open(store.path(id), O_RDONLY)
            defer { System.close(descriptor) }
            return try files.register(descriptor)
        } catch {
            // For others it may work.
            if error == Errno(EMFILE) || error == Errno(ENFILE) || error == Errno(ENOMEM) { return nil }
            doWithoutPassthrough("the kernel refuses the content files: \(error)")
            return nil
        }
    }

    /// Before bytes may change unseen: the catalog knows it, calls them durable no more, and no upload streams them.
    private func beginUnsettled(
        _ item: LiveItem,
        _ state: inout LiveItem.State,
        isRecorded: Bool
    ) throws(Errno) {
        let id = item.id
        state.snapshot?.abort()
        state.snapshot = nil
        // Else, after a death, what is written would be taken for a part of what was fetched.
        _ = try save(item, &state, closing: false)
        var row = try load(id, &state)
        let kept = try keepBytes(id, &state)
        let wasSynced = row.isSynced
        row.isSynced = false
        let stamp = try ContentStamp(try descriptor(id, &state))
        if !isRecorded {
            try catalog.write(durable: wasSynced) { database throws(Errno) in
                try database.setUnsettled(id, stamp)
                if let kept { try database.moveVersions(of: id, to: kept.copy) }
                if wasSynced { try database.run("UPDATE items SET synced = 0 WHERE id = ?", .item(id)) }
            }
        }
        state.row = row
        state.seen = stamp
        state.kept = kept
        item.noteUnsaved(state)
    }

    /// Takes over what programs wrote unseen; nothing is committed yet.
    func look(_ id: ItemID, _ state: inout LiveItem.State) {
        guard let seen = state.seen, var row = state.row else { return }
        if state.descriptor < 0 { state.descriptor = (try? store.open(id, holding: 0)).flatMap(\.self) ?? -1 }
        guard state.descriptor >= 0, let stamp = try? ContentStamp(state.descriptor), stamp != seen else { return }
        stamp.apply(to: &row)
        state.row = row
        state.seen = stamp
        state.hasUnsavedContent = true
        let age = clock.now() - stamp.changeTime
        state.lastWrite = clock.monotonic() - max(.zero, age)
        live.find(id)?.noteUnsaved(state)
        catalog.touches.add(id)
    }

    /// Before the last handle is counted out that could write unseen: commits what was written; false for others.
    func finishPassing(_ item: LiveItem) -> Bool {
        // The kernel tells of the end of a handle a moment before it closes the content file.
        for attempt in 0..<4 {
            if attempt > 0 { _ = poll(nil, 0, 1) }
            let isFinished = item.state.withLock { state -> Bool? in
                guard state.seen != nil, live.isLastWriter(item.id) else { return false }
                if hasWriters(item.id, &state) { return nil }
                endUnsettled(item, &state)
                return true
            }
            if let isFinished { return isFinished }
        }
        return false
    }

    /// Counts a handle out that may have written unseen.
    ///
    /// A mapping outlives its handle, which then stays counted for it.
    func closePassing(_ item: LiveItem, writes: Bool) -> LiveTable.Closed {
        item.state.withLock { state in
            let id = item.id
            guard writes, live.isLastWriter(id) else { return live.close(id, writes: writes) }
            if state.seen != nil {
                live.linger(id)
                return LiveTable.Closed()
            }
            _ = live.endLinger(id)
            return live.close(id, writes: true)
        }
    }

    /// The clock's round: what was written unseen is journalled, and a mapping that is gone is counted out.
    func settlePassing(_ item: LiveItem) {
        guard item.state.withLock({ $0.seen != nil }) else { return }
        do throws(Errno) {
            try save(item, closing: false)
        } catch {
            log.debug("item \(item.id): what was written can't be saved yet: \(error)")
        }
        if live.isLingering(item.id) { endLinger(item) }
    }

    private func endLinger(_ item: LiveItem) {
        let closed = item.state.withLock { state -> LiveTable.Closed? in
            guard live.isLingering(item.id), !hasWriters(item.id, &state) else { return nil }
            endUnsettled(item, &state)
            return live.endLinger(item.id)
        }
        guard let closed else { return }
        settleClosed(item.id, closed)
        wakeSync()
    }

    /// True while anything has the content file open for writing, or mapped so.
    private func hasWriters(_ id: ItemID, _ state: inout LiveItem.State) -> Bool {
        // The descriptor may be in use outside the lock.
        if state.writesInFlight > 0 || live.mode(id) == .normal { return true }
        if state.descriptor >= 0 {
            System.close(state.descriptor)
            state.descriptor = -1
        }
        return store.isOpenForWriting(id)
    }

    /// Nothing can write unseen any more.
    private func endUnsettled(_ item: LiveItem, _ state: inout LiveItem.State) {
        do throws(Errno) {
            _ = try save(item, &state, closing: true)
            try catalog.write { database throws(Errno) in try database.endUnsettled(item.id) }
        } catch {
            // The next start looks at it again.
            log.error("item \(item.id): its last changes can't be saved: \(error)")
        }
        state.seen = nil
        // Nothing was written.
        if let copy = state.kept?.copy { dropOrphan(copy) }
        state.kept = nil
        item.noteUnsaved(state)
    }

    /// Follows what was mapped before the account was mounted, by programs of an earlier mount.
    func followUnsettled() throws(Errno) {
        let rows = try catalog.read { database throws(Errno) in try database.unsettled() }
        for (id, stamp) in rows {
            guard let item = live.addLinger(id) else { continue }
            item.state.withLock { state in
                state.seen = stamp
                item.noteUnsaved(state)
            }
        }
    }
}
