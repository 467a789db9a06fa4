public import CoveCore
internal import Glibc
internal import Synchronization

/// What people and programs ask about documents and the account.
extension Engine {
    /// Everything known of the document at a path.
    public func item(at path: RemotePath) throws(Errno) -> ItemStatus {
        let entry = try catalog.read { database throws(Errno) in try database.entry(atPath: path) }
        return try status(entry, item: entry?.item ?? .root, path: path)
    }

    /// Everything known of an item, by one of its documents.
    func status(of id: ItemID) throws(Errno) -> ItemStatus {
        let (entry, path) = try catalog.read { database throws(Errno) -> (EntryRow?, RemotePath) in
            guard id != .root, let entry = try database.entries(of: id).first else { return (nil, .root) }
            return (entry, try database.path(of: entry))
        }
        return try status(entry, item: id, path: path)
    }

    /// The documents of a directory, listed from the provider when it never was.
    public func items(in directory: RemotePath) async throws(Errno) -> [ItemStatus] {
        let id = try catalog.read { database throws(Errno) in try database.entry(atPath: directory)?.item ?? .root }
        if case .later(let pending) = try namespace.openDirectory(id, Caller(thread: 0, user: 0, group: 0)) {
            try await pending.value()
        }
        var result: [ItemStatus] = []
        try walk(directory, depth: 1) { status in
            result.append(status)
            return true
        }
        return Array(result.dropFirst())
    }

    /// Visits a document and, for a directory, all that is listed below it, until the body returns false.
    public func walk(_ path: RemotePath, _ body: (ItemStatus) -> Bool) throws(Errno) {
        try walk(path, depth: .max, body)
    }

    private func walk(_ path: RemotePath, depth: Int, _ body: (ItemStatus) -> Bool) throws(Errno) {
        let root = try catalog.read { database throws(Errno) in try database.entry(atPath: path) }
        var stack: [(entry: EntryRow?, path: RemotePath, depth: Int)] = [(root, path, depth)]
        // A damaged catalog may have folders in each other.
        var seen: Set<ItemID> = []
        while let (entry, path, depth) = stack.popLast() {
            let id = entry?.item ?? .root
            let status = try status(entry, item: id, path: path)
            guard body(status) else { return }
            guard status.kind == "directory", depth > 0, seen.insert(id).inserted else { continue }
            var children: [(EntryRow?, RemotePath, Int)] = []
            try catalog.read { database throws(Errno) in
                try database.eachEntry(of: id, after: 0) { child in
                    children.append((child, path.appending(FileName(unchecked: child.name)), depth - 1))
                    return true
                }
            }
            children.sort { $0.1 > $1.1 }
            stack += children
        }
    }

    func status(_ entry: EntryRow?, item id: ItemID, path: RemotePath) throws(Errno) -> ItemStatus {
        // Before its row: one that is closed in between has saved what the row does not tell yet.
        let former = contents.live.find(id)
        let (row, journal, hasConflict, policy) = try catalog.read {
            database throws(Errno) -> (ItemRow, JournalRow?, Bool, ContentPolicy) in
            let row = try database.existingItem(id)
            guard let entry else { return (row, nil, false, try database.rootPolicy()) }
            let conflict = try !history.conflicts(of: entry.document, database).isEmpty
            return (row, try database.journalRow(entry.id), conflict, try database.policy(of: entry))
        }
        let live = contents.live.find(id) ?? former
        let attributes = namespace.overlay(row, live)
        var residency = row.residency
        var local = row.residency == .whole ? attributes.size : row.resident
        var isDownloading = false
        if let item = live {
            item.state.withLock { state in
                residency = state.row?.residency ?? residency
                // Its last bytes may have come just now.
                if row.kind == .file, attributes.size > 0, state.ranges.contains(0..<attributes.size) {
                    residency = .whole
                }
                local = residency == .whole ? attributes.size : state.ranges.count
                isDownloading = !state.fetching.isIdle
            }
        }
        let staysHere = journal?.staysHere == true && entry?.isUploaded == false
        let isExcluded = try isExcluded(entry)
        let isLocalOnly = entry?.flags.contains(.localOnly) == true || staysHere
        let progress = entry.flatMap { entry in
            syncEngine?.shared.withLock { $0.reservations.progress(of: entry.document) }
        }
        let failure = residency == .whole ? nil : syncEngine?.shared.withLock { $0.failures[id]?.reason }
        var percent = attributes.size == 0 || row.kind != .file ? 100 : 100 * Double(local) / Double(attributes.size)
        if residency == .dataless { percent = 0 }
        if let progress, row.kind == .file {
            // Nothing of it as long as the source is looked at first.
            percent = 100 * Double(progress.sent) / Double(max(1, progress.total))
        }
        let state = Engine.stateName(residency, isLocalOnly: isLocalOnly)
        let text = PathParameter(path)
        percent = min(max(percent, 0), 100)
        return ItemStatus(
            path: text.path ?? String(decoding: path.bytes, as: UTF8.self),
            name: path.name?.description ?? "",
            kind: Engine.kindName(row.kind),
            state: state,
            isDirty: journal != nil && !staysHere,
            isUploading: progress != nil && row.kind == .file,
            isDownloading: isDownloading,
            isPinned: policy == .eagerly,
            isExcluded: isExcluded,
            policy: policy.rawValue,
            hasConflict: hasConflict,
            size: attributes.size,
            localBytes: row.kind == .file ? local : 0,
            percent: percent,
            modificationTime: attributes.modificationTime.secondsSinceEpoch,
            permissions: Int(attributes.permissions),
            user: Int(attributes.user),
            group: Int(attributes.group),
            itemID: id.rawValue,
            documentID: (entry?.document).map { "\($0)" } ?? "",
            contentVersion: entry?.remoteVersion.map { "\($0)" },
            remoteID: entry?.remoteID.map { String(decoding: $0.bytes, as: UTF8.self) },
            error: journal?.error ?? failure,
            pathBase64: text.pathBase64
        )
    }

    private static func stateName(_ residency: Residency, isLocalOnly: Bool) -> String {
        if isLocalOnly { return "local" }
        switch residency {
        case .whole: return "materialized"
        case .partial: return "partial"
        case .dataless: return "dataless"
        }
    }

    static func kindName(_ kind: ItemKind) -> String {
        switch kind {
        case .file: "file"
        case .directory: "directory"
        case .symbolicLink: "symlink"
        case .fifo: "fifo"
        case .socket: "socket"
        case .characterDevice, .blockDevice: "device"
        }
    }

    /// The account as a whole.
    public func accountStatus() -> AccountStatus {
        let shared = syncEngine?.shared.withLock { $0 } ?? SyncEngine.Shared(reservations: Reservations())
        let queue = (try? catalog.read { database throws(Errno) in try database.queueLength() }) ?? 0
        var reason = shared.reason
        var state = queue > 0 || shared.isPolling ? "syncing" : "idle"
        if shared.heldRemovals > 0 {
            state = "waiting-for-approval"
            reason =
                "the source no longer has \(shared.heldRemovals) documents; if that is meant, run "
                + "`cove sync --accept-deletions`"
        } else if shared.heldDeletions > 0 {
            state = "waiting-for-approval"
            reason =
                "\(shared.heldDeletions) deletions made here are held back; if they are meant, run "
                + "`cove sync --accept-local-deletions`"
        }
        if !shared.isConnected { state = "offline" }
        if shared.isPaused { state = "paused" }
        if context.generation.isHeld {
            state = "paused-not-migrated"
            reason = "another device has made it an account with apps; run `cove account migrate` to go on here"
        }
        if work.isHeld { reason = "\(context.deathNotice); `cove resume` goes on" }
        let transfers = activeTransfers(shared)
        let errors = errors()
        let setAside = context.setAsideErrors()
        var room = MessageRoom(Self.shownHeldUp)
        let heldUp = shared.heldUp.filter { room.take([$0.path, $0.reason]) }
        let requests = requestHistory.lastHour(requestCounts, at: clock.monotonic())
        return AccountStatus(
            account: configuration.account,
            source: configuration.source,
            mountpoint: configuration.mountpoint,
            stateDirectory: configuration.stateDirectory,
            state: state,
            reason: reason,
            queuedOperations: queue,
            transfers: transfers,
            conflicts: conflicts().count,
            errors: errors.shown + setAside,
            errorCount: errors.count + setAside.count,
            residentBytes: contents.usage.resident,
            cacheLimit: contents.usage.limit,
            weaknesses: weaknesses(),
            standstill: shared.standstill,
            heldUp: heldUp.isEmpty ? nil : heldUp,
            generation: (context.generation.isLegacy ? AccountGeneration.legacy : .drive).rawValue,
            requestsLastHour: requests.total,
            requestCostLastHour: requests.millionths.map { max(0, $0) / 1_000_000 },
            excluded: try? catalog.read { database throws(Errno) in try database.excludedCount() }
        )
    }

    /// What the source was asked for since the start; where it does not count, what was wanted of it.
    var requestCounts: RequestCounts {
        provider.requests ?? RequestCounts(total: counters.providerRequests.load(ordering: .relaxed))
    }

    private func weaknesses() -> [String] {
        let capabilities = provider.capabilities
        var list = configuration.sourceNotes
        if !capabilities.conditionalWrites {
            list.append("the source can't refuse an outdated write: two writers in the same instant may not be noticed")
        }
        if capabilities.coarseVersions {
            list.append("the source tells versions apart by date and size: two within a second may look the same")
        }
        if !capabilities.ranges { list.append("the source can't send a part of a file: every read fetches it whole") }
        if capabilities.readOnly { list.append("the source can't be written to: changes made here wait") }
        return list
    }

    /// As many transfers as are shown, in count and in bytes.
    private static let shownTransfers = (count: 100, bytes: 256 << 10)
    /// As many rows that others go before as are shown, in bytes.
    private static let shownHeldUp = 64 << 10

    private func activeTransfers(_ shared: SyncEngine.Shared) -> [TransferStatus] {
        let now = clock.monotonic()
        func rate(_ bytes: Int64, since started: MonotonicTime) -> Double {
            Double(bytes) / max(0.001, (now - started).seconds)
        }
        var transfers: [TransferStatus] = []
        var room = MessageRoom(Self.shownTransfers.bytes)
        for (document, progress) in shared.reservations.transfers where transfers.count < Self.shownTransfers.count {
            let total = progress.total
            guard total > 0 else { continue }
            let path = try? catalog.read { database throws(Errno) in
                try database.first("SELECT id FROM entries WHERE document = ?", .document(document)) { $0.int(0) }
                    .flatMap { id throws(Errno) in try database.entry(id: id) }
                    .map { entry throws(Errno) in try database.path(of: entry) }
            }
            let sent = progress.sent
            let name = path?.description ?? ""
            guard room.take([name]) else { continue }
            transfers.append(
                TransferStatus(
                    path: name,
                    direction: "upload",
                    doneBytes: sent,
                    totalBytes: total,
                    bytesPerSecond: rate(sent, since: progress.started)
                )
            )
        }
        for item in contents.live.all() where transfers.count < Self.shownTransfers.count {
            let found = item.state.withLock { state -> (Int64, Int64, MonotonicTime, Int64)? in
                guard let first = state.fetching.first, let row = state.row else { return nil }
                let received = state.fetching.fetches.values.reduce(0) { $0 + $1.received.load(ordering: .relaxed) }
                return (state.ranges.count, row.size, first.started, received)
            }
            guard let (done, total, started, received) = found, let status = try? status(of: item.id),
                room.take([status.path])
            else { continue }
            transfers.append(
                TransferStatus(
                    path: status.path,
                    direction: "download",
                    doneBytes: done,
                    totalBytes: total,
                    bytesPerSecond: rate(received, since: started)
                )
            )
        }
        return transfers
    }

    /// What a person who has just mounted the account is to know: that the source refuses or can't be reached, for one.
    ///
    /// Waits for what the source says, but not beyond the limit.
    public func startNotice(limit: TimeSpan) async -> String? {
        if let notice = rebuildNotice() { return notice }
        await connected.pass(limit: limit)
        guard let shared = syncEngine?.shared.withLock({ $0 }), !shared.isConnected, let reason = shared.reason else {
            return nil
        }
        return "\(reason); what is here can be used meanwhile"
    }

    /// What a person is to know when the catalog was corrupt, until what was kept of it is gone.
    private func rebuildNotice() -> String? {
        (try? catalog.read { database throws(Errno) in try self.rebuildNotice(database) }) ?? nil
    }

    private func rebuildNotice(_ database: Database) throws(Errno) -> String? {
        guard let folder = try database.meta("salvage").map({ String(decoding: $0, as: UTF8.self) }),
            (try? System.lstat(folder)) != nil
        else { return nil }
        return "the catalog was corrupt and the tree was rebuilt; unsent changes may be in \(folder): look there, "
            + "then delete it"
    }

    /// As many errors as are shown, in count and in bytes: a source may have any number of them.
    private static let shownErrors = (count: 100, bytes: 512 << 10, message: 500)

    /// What failed, and how many things in all.
    private func errors() -> (shown: [ItemError], count: Int) {
        let now = journalTime()
        let found = try? catalog.read { database throws(Errno) -> ([ItemError], Int) in
            var errors: [ItemError] = []
            if let notice = self.disk.notice {
                errors.append(
                    ItemError(path: "/", message: "\(notice.problem); \(notice.remedy)", retryInSeconds: nil)
                )
            }
            if let notice = try self.rebuildNotice(database) {
                errors.append(ItemError(path: "/", message: notice, retryInSeconds: nil))
            }
            let count = try database.failureCount() + errors.count
            var room = MessageRoom(Self.shownErrors.bytes)
            for row in try database.failures(limit: Self.shownErrors.count - errors.count) {
                let error = ItemError(
                    path: row.path.description,
                    message: row.message.shown(Self.shownErrors.message),
                    retryInSeconds: row.retry.map { max(0, ($0 - now).seconds) }
                )
                if room.take([error.path, error.message]) { errors.append(error) }
            }
            return (errors, count)
        }
        return found ?? ([], 0)
    }

    /// Counters since the start, and sizes now.
    public func statistics() -> Statistics {
        var statistics = Statistics()
        statistics.downloadsStarted = counters.downloadsStarted.load(ordering: .relaxed)
        statistics.bytesDownloaded = counters.bytesDownloaded.load(ordering: .relaxed)
        statistics.contentUpdates = counters.contentUpdates.load(ordering: .relaxed)
        statistics.bytesUploaded = counters.bytesUploaded.load(ordering: .relaxed)
        statistics.deletions = counters.deletions.load(ordering: .relaxed)
        statistics.moves = counters.moves.load(ordering: .relaxed)
        statistics.providerRequests = counters.providerRequests.load(ordering: .relaxed)
        statistics.fuseRequests = counters.fuseRequests.load(ordering: .relaxed)
        statistics.readHits = counters.readHits.load(ordering: .relaxed)
        statistics.readMisses = counters.readMisses.load(ordering: .relaxed)
        statistics.parkedRequests = counters.parkedRequests.load(ordering: .relaxed)
        statistics.thumbnailsFetched = counters.thumbnailsFetched.load(ordering: .relaxed)
        statistics.thumbnailsMade = counters.thumbnailsMade.load(ordering: .relaxed)
        statistics.thumbnailsSent = counters.thumbnailsSent.load(ordering: .relaxed)
        statistics.announcements = counters.announcements.load(ordering: .relaxed)
        statistics.residentBytes = contents.usage.resident
        statistics.openHandles = contents.live.handleCount
        statistics.conflicts = conflicts().count
        _ = try? catalog.read { database throws(Errno) in
            statistics.dirtyItems = Int(try database.first("SELECT count(*) FROM journal") { $0.int(0) } ?? 0)
            statistics.queuedOperations = try database.queueLength()
            statistics.items = Int(try database.first("SELECT count(*) FROM items") { $0.int(0) } ?? 0)
        }
        statistics.memoryBytes = Engine.residentMemory()
        statistics.daemonPID = Int(getpid())
        return statistics
    }

    private static func residentMemory() -> Int64 {
        guard let descriptor = try? System.open("/proc/self/statm", O_RDONLY) else { return 0 }
        defer { System.close(descriptor) }
        var buffer = [UInt8](repeating: 0, count: 128)
        let count = buffer.withUnsafeMutableBytes { (try? System.pread(descriptor, $0, 0)) ?? 0 }
        let fields = String(decoding: buffer.prefix(count), as: UTF8.self).split(separator: " ")
        return (fields.count > 1 ? Int64(fields[1]) ?? 0 : 0) * Int64(sysconf(Int32(_SC_PAGESIZE)))
    }

    /// The documents whose two contents are both kept.
    public func conflicts() -> [ConflictStatus] {
        let found = try? catalog.read { database throws(Errno) -> [ConflictStatus] in
            var result: [ConflictStatus] = []
            for conflict in try self.history.conflicts(of: nil, database) {
                result.append(
                    ConflictStatus(
                        path: try database.path(of: conflict.document).description,
                        copyPath: try database.path(of: conflict.copy).description,
                        host: conflict.row.host,
                        time: conflict.row.found.secondsSinceEpoch
                    )
                )
            }
            return result
        }
        return found ?? []
    }
}
