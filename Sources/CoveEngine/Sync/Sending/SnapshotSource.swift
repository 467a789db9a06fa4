internal import CoveCore
internal import Glibc
internal import Synchronization

/// Streams an item's bytes while nothing changes them: the first write ends it before it touches a byte.
struct SnapshotSource: ContentSource {
    let item: LiveItem
    let token: SnapshotToken
    /// The content file, or a copy of it.
    let descriptor: Int32
    let isCopy: Bool
    let size: Int64
    /// The document, its item, which bytes of it, and their time, lest a restored account's be taken for these.
    let identity: [UInt8]?
    let progress: PushProgress

    func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ProviderError) -> Int {
        let count = try fill(buffer, offset)
        progress.note(read: count)
        return count
    }

    func copy(to target: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int {
        let room = min(count, Int(clamping: max(0, size - offset)))
        if room == 0 { return 0 }
        let copied: Int
        if isCopy || isOnOneDisk(with: target), let direct = try copyDirectly(to: target, offset, min(room, 8 << 20)) {
            copied = direct
        } else {
            copied = try copyThroughMemory(to: target, offset, min(room, 1 << 20))
        }
        progress.note(read: copied)
        return copied
    }

    func note(arrived bytes: Int64) { progress.note(arrived: bytes) }

    /// True where a call that copies between the two waits for no other disk, which may not answer, than that of the state.
    private func isOnOneDisk(with target: Int32) -> Bool {
        guard let one = try? System.fstat(descriptor), let other = try? System.fstat(target) else { return false }
        return one.st_dev == other.st_dev
    }

    /// Nil where the two can't copy between each other.
    private func copyDirectly(to target: Int32, _ offset: Int64, _ count: Int) throws(ProviderError) -> Int? {
        try transfer { () throws(Errno) -> Int? in
            do throws(Errno) {
                return try System.copyFileRange(from: descriptor, at: offset, to: target, at: offset, count: count)
            } catch {
                guard error == .crossDevice || error == .notSupported || error == .invalidArgument else { throw error }
                return nil
            }
        }
    }

    private func copyThroughMemory(to target: Int32, _ offset: Int64, _ count: Int) throws(ProviderError) -> Int {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 4096)
        defer { buffer.deallocate() }
        let read = try fill(buffer, offset)
        do throws(Errno) {
            try System.pwriteAll(target, UnsafeRawBufferPointer(rebasing: buffer[..<read]), offset)
        } catch {
            throw .failed("the source can't take the content: \(error)", error)
        }
        return read
    }

    private func fill(_ buffer: UnsafeMutableRawBufferPointer, _ offset: Int64) throws(ProviderError) -> Int {
        let address = UInt(bitPattern: buffer.baseAddress)
        let count = min(buffer.count, Int(clamping: max(0, size - offset)))
        return try transfer { () throws(Errno) -> Int in
            guard count > 0 else { return 0 }
            let part = UnsafeMutableRawBufferPointer(start: UnsafeMutableRawPointer(bitPattern: address), count: count)
            return try System.pread(descriptor, part, offset)
        }
    }

    /// Runs what takes bytes of the content file, while nothing changes them: it must wait for nothing but the state's disk.
    private func transfer<T: Sendable>(_ body: () throws(Errno) -> T) throws(ProviderError) -> T {
        let result: Result<T, Errno>
        if isCopy {
            result = Result { () throws(Errno) in try body() }
        } else {
            // Under the item's lock no write can begin.
            result = item.state.withLock { _ in
                guard !token.isAborted else { return .failure(.cancelled) }
                return Result { () throws(Errno) in try body() }
            }
        }
        switch result {
        case .success(let value): return value
        case .failure(.cancelled): throw .cancelled
        case .failure(let error): throw .failed("the local content can't be read: \(error)", error)
        }
    }
}

/// What `beginSnapshot` found.
enum SnapshotOutcome {
    /// The bytes, and the generation they are of.
    case ready(SnapshotSource, generation: Int64, size: Int64)
    /// A program is writing; look again after so long.
    case busy(TimeSpan)
    /// Its base bytes are not all here yet.
    case incomplete
}

extension SyncHost {
    /// How long an SQLite log beside a document has still to rest; the document alone would be torn.
    func databaseRest(beside entry: EntryRow) throws(Errno) -> TimeSpan {
        let logs = try catalog.read { database throws(Errno) -> [ItemRow] in
            var logs: [ItemRow] = []
            for suffix in ["-wal", "-journal"] {
                guard let log = try database.entry(entry.parent, entry.name + Array(suffix.utf8)) else { continue }
                logs.append(try database.existingItem(log.item))
            }
            return logs
        }
        let rest = configuration.openFileRest
        let rests = logs.filter { namespace.overlay($0).size > 0 }.map { log -> TimeSpan in
            let since = clock.now() - namespace.overlay(log).modificationTime
            // The kernel tells bytes first, and their date some time later.
            let written = contents.live.find(log.id)?.state.withLock { $0.lastWrite }
            return rest - min(since, written.map { clock.monotonic() - $0 } ?? since)
        }
        return max(.zero, min(rests.max() ?? .zero, rest))
    }

    /// Takes a consistent snapshot of an item for an upload of a journalled entry; the caller ends it with `endSnapshot`.
    func beginSnapshot(
        _ id: ItemID,
        for entry: Int64,
        of document: DocumentID,
        progress: PushProgress
    ) throws(Errno) -> SnapshotOutcome {
        if try coordinator.isClaimedForWriting(id) { return .busy(.milliseconds(200)) }
        let item = contents.live.retain(id)
        var keeps = false
        defer { if !keeps { contents.live.release(id) } }
        let rest = configuration.openFileRest
        // Content must be durable before a provider is told that this device has sent it.
        try syncAhead(of: id)
        if let outcome = try copyUnsettled(item, for: entry, progress: progress) {
            if case .ready = outcome { keeps = true }
            return outcome
        }
        let outcome = try item.state.withLock { state throws(Errno) -> SnapshotOutcome in
            let row = try contents.load(id, &state)
            guard row.residency == .whole else {
                if row.kind == .file { contents.completeBase(item, &state) }
                return .incomplete
            }
            // Bytes written or fetched meanwhile are not durable.
            guard row.isSynced, state.writesInFlight == 0, !state.hasUnsavedContent else {
                return .busy(.milliseconds(20))
            }
            // Copied under the lock, which others wait for: a large file is sent as it lies, and again if it is written to.
            var copiesFirst = false
            if contents.live.isWritable(id) {
                let rested = clock.monotonic() - state.lastWrite
                guard rested >= rest else { return .busy(rest - rested + .milliseconds(1)) }
                copiesFirst = row.size <= 64 << 20
            }
            let content = try contents.descriptor(id, &state)
            // What this disk has lost is not what anybody wrote.
            guard Int64(try System.fstat(content).st_size) >= row.size else { throw .inputOutput }
            try catalog.write { database throws(Errno) in try database.markSent(entry, true) }
            let token = SnapshotToken()
            if copiesFirst { try disk.requireRoom(forCopy: Int(row.size)) }
            let source = SnapshotSource(
                item: item,
                token: token,
                descriptor: copiesFirst ? try contents.store.copy(content, size: row.size) : content,
                isCopy: copiesFirst,
                size: row.size,
                identity: Array("\(document) \(id) \(row.generation) \(row.modificationTime)".utf8),
                progress: progress
            )
            state.isMarked = false
            if !copiesFirst { state.snapshot = token }
            progress.begin(row.size)
            return .ready(source, generation: row.generation, size: row.size)
        }
        if case .ready = outcome { keeps = true }
        return outcome
    }

    /// From now on another write is another generation: what is compared with the source is this one, or is found to differ.
    ///
    /// Returns how long to wait first, while a program writes; nil when it can be compared. Throws `EAGAIN` for another generation.
    func beginComparison(_ id: ItemID, generation: Int64) throws(Errno) -> TimeSpan? {
        try contents.live.use(id) { item throws(Errno) in
            try contents.save(item, closing: false)
            return try item.state.withLock { state throws(Errno) in
                let row = try contents.load(id, &state)
                guard row.generation == generation else { throw .wouldBlock }
                let rested = clock.monotonic() - state.lastWrite
                if contents.live.isWritable(id), rested < configuration.openFileRest {
                    return configuration.openFileRest - rested + .milliseconds(1)
                }
                guard state.writesInFlight == 0, !state.hasUnsavedContent else { return .milliseconds(20) }
                state.isMarked = false
                return nil
            }
        }
    }

    /// A copy of a file that may be written to unseen; nil for all others.
    ///
    /// It is sent if nothing was written from before the bytes were made durable until after they were copied; durable
    /// first, for a mapping's writes to a page show only once it was written back. Not under the lock, which keeps out
    /// nobody who writes.
    private func copyUnsettled(
        _ item: LiveItem,
        for entry: Int64,
        progress: PushProgress
    ) throws(Errno) -> SnapshotOutcome? {
        let rest = configuration.openFileRest
        var seen = ContentStamp.none
        var size: Int64 = 0
        var generation: Int64 = 0
        var content: Int32 = -1
        let early = try item.state.withLock { state throws(Errno) -> SnapshotOutcome? in
            let row = try contents.load(item.id, &state)
            guard let stamp = state.seen else { return nil }
            guard row.residency == .whole else { return .incomplete }
            guard !state.hasUnsavedContent, state.writesInFlight == 0 else { return .busy(.milliseconds(20)) }
            let rested = clock.monotonic() - state.lastWrite
            guard rested >= rest else {
                // The clock's round ends a mapping that is gone.
                let wait = rest - rested + .milliseconds(1)
                return .busy(contents.live.isLingering(item.id) ? min(wait, .seconds(1)) : wait)
            }
            (seen, size, generation) = (stamp, row.size, row.generation)
            let descriptor = try contents.descriptor(item.id, &state)
            content = try System.retry { dup(descriptor) }
            return .busy(.milliseconds(20))
        }
        guard content >= 0 else { return early }
        defer { System.close(content) }
        try disk.writing("bytes of a file can't be made durable") { () throws(Errno) in
            try contents.store.sync(item.id, content)
        }
        try disk.requireRoom(forCopy: Int(size))
        let copy = try contents.store.copy(content, size: size)
        var isKept = false
        defer { if !isKept { System.close(copy) } }
        return try item.state.withLock { state throws(Errno) in
            let row = try contents.load(item.id, &state)
            guard state.seen == seen, row.generation == generation, row.residency == .whole, !state.hasUnsavedContent
            else { return .busy(.milliseconds(20)) }
            try catalog.write { database throws(Errno) in
                try database.markSent(entry, true)
                try database.setUnsettled(item.id, seen)
                try database.run("UPDATE items SET synced = 0 WHERE id = ?", .item(item.id))
            }
            state.row?.isSynced = false
            state.isMarked = false
            progress.begin(size)
            isKept = true
            let source = SnapshotSource(
                item: item,
                token: SnapshotToken(),
                descriptor: copy,
                isCopy: true,
                size: size,
                // What is written unseen may be of the same generation.
                identity: nil,
                progress: progress
            )
            return .ready(source, generation: generation, size: size)
        }
    }

    func endSnapshot(_ source: SnapshotSource) {
        source.item.state.withLock { state in
            if state.snapshot === source.token { state.snapshot = nil }
        }
        if source.isCopy { System.close(source.descriptor) }
        contents.live.release(source.item.id)
    }
}
