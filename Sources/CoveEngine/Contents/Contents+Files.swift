internal import CoveCore
internal import Glibc
internal import Synchronization

/// Bytes that can be read from a descriptor now.
public struct ReadResult: Sendable {
    /// The content file; -1 when there is nothing to read.
    public let descriptor: Int32
    /// How many bytes the request gets, 0 at the end of the file.
    public let count: Int
    /// Keeps the descriptor open.
    private let owner: LiveItem?

    init(descriptor: Int32, count: Int, owner: LiveItem?) {
        self.descriptor = descriptor
        self.count = count
        self.owner = owner
    }

    static let end = ReadResult(descriptor: -1, count: 0, owner: nil)
}

/// Opening, reading, writing and closing.
extension Contents {
    /// The largest file: what a content file can hold on ext4.
    static let maximumFileSize: Int64 = (16 << 40) - 4096

    /// Opens an item and counts a handle; cutting it with `O_TRUNC` fetches nothing.
    ///
    /// Throws `ESTALE` when a remote change has taken the item's name, so that the kernel walks the path again.
    func open(_ id: ItemID, flags: Int32, _ caller: Caller) throws(Errno) -> Outcome<Void> {
        let writes = flags & O_ACCMODE != O_RDONLY
        if writes || flags & O_TRUNC != 0 { try requireWritable() }
        if writes, disk.isFull { throw .noSpace }
        let item = try live.open(id, writes: writes, request: caller.request)
        let unseen: (size: Int64, range: Range<Int64>?)?
        do throws(Errno) {
            unseen = try item.state.withLock { state throws(Errno) -> (size: Int64, range: Range<Int64>?)? in
                let wasLoaded = state.row != nil
                if writes { state.lastWriteOpen = clock.monotonic() }
                let row = try load(id, &state)
                if row.kind == .directory { throw .isDirectory }
                if row.linkCount <= 0 && row.home != nil { throw .stale }
                if wasLoaded, try catalog.glance({ database throws(Errno) in try database.isReplaced(id) }) {
                    throw .stale
                }
                if row.residency != .whole, flags & O_TRUNC == 0, caller.isProgram(of: configuration.noMaterialize) {
                    // Such programs are to see placeholders, not their bytes.
                    throw .deadlock
                }
                if flags & O_TRUNC != 0 {
                    try resize(item, &state, to: 0, clearsPrivilegesBy: caller.user != 0 ? caller : nil)
                }
                try decideMode(item, &state, flags: flags)
                guard row.residency == .dataless, row.size > 0, flags & O_TRUNC == 0 else { return nil }
                let range = rangeForOpen(row, flags: flags)
                // A fetch that nobody waits for is a guess: it does not tell that there is still such a version.
                return range == nil && !state.fetching.waiters.isEmpty ? nil : (row.size, range)
            }
        } catch {
            countOut(item, writes: writes)
            if error == .stale { noteWalker(caller.thread) }
            throw error
        }
        let isWalking = isWalking(caller.thread)
        noteOpen(of: id)
        guard let (size, range) = unseen, caller.thread > 0 else { return .now(()) }
        let isPart = range.map { $0.upperBound < size } ?? false
        let pending = lookAfresh(item, range, isPart: isPart, writes: writes, isWalking: isWalking, caller)
        if pending != nil, range?.lowerBound == 0, flags & O_ACCMODE != O_WRONLY { noteMiss(of: id, size: size) }
        return pending.map { .later($0) } ?? .now(())
    }

    /// How long a remote change waits for a thread that was answered `ESTALE` and walks the path again, on a busy machine.
    static let walkLimit = TimeSpan.seconds(1)

    /// How long such a thread is known, from when it was answered last: longer than the walk takes on any machine, but short,
    /// lest what it comes to later counts as the same walk.
    static let walkMemory = TimeSpan.seconds(5)

    /// A thread that was answered `ESTALE`, and walks the path again.
    struct Walker: Sendable {
        /// When it was answered last.
        var told: MonotonicTime
        /// Until when what it comes to is of the same walk.
        var until: MonotonicTime

        init(told: MonotonicTime) {
            self.told = told
            until = told + Contents.walkMemory
        }
    }

    /// A thread is about to be answered `ESTALE`.
    func noteWalker(_ thread: Int32) {
        forgetWalkers()
        walkers.insert(Walker(told: clock.monotonic()), for: thread)
    }

    /// A thread was told attributes: where that is the end of stat(2), what it comes to next is another walk.
    ///
    /// On its way the kernel asks for those of directories too, to see whether it may pass: always for the root, which it does
    /// not look up again. Whether one was the end nobody can tell: then the walk is over soon.
    func noteAttributes(of id: ItemID, _ kind: ItemKind, _ thread: Int32) {
        guard id != .root, walkers[thread] != nil else { return }
        if kind != .directory { return _ = walkers.remove(thread) }
        walkers.update { walkers in
            guard let walker = walkers[thread] else { return }
            walkers[thread]?.until = min(walker.until, clock.monotonic() + Self.walkLimit)
        }
    }

    /// Those that have not come back are known no more.
    private func forgetWalkers() {
        let now = clock.monotonic()
        guard walkers.contains(where: { $1.until <= now }) else { return }
        walkers.update { walkers in walkers = walkers.filter { $0.value.until > now } }
    }

    /// True for a thread that was answered `ESTALE` a moment ago, and comes again.
    func isWalking(_ thread: Int32) -> Bool {
        walkers.remove(thread).map { clock.monotonic() < $0.until } ?? false
    }

    /// What a thread comes to next is another walk.
    func endWalk(of thread: Int32) { walkers.remove(thread) }

    /// A walk had to ask the source on its way: that time does not count.
    func prolongWalk(_ thread: Int32, since start: MonotonicTime) {
        guard !walkers.isEmpty else { return }
        walkers.update { walkers in
            guard let walker = walkers[thread], start < walker.until else { return }
            walkers[thread] = Walker(told: clock.monotonic())
        }
    }

    /// What a thread is told that comes to a directory which is gone: to walk the path again, and the second time that there
    /// is none.
    func whenGone(_ thread: Int32, isWalking: Bool) -> Errno {
        if isWalking || thread <= 0 { return .noSuchEntry }
        noteWalker(thread)
        return .stale
    }

    /// Before the next remote change replaces an item: the kernel walks a path only once more, and then gives up.
    ///
    /// Whoever keeps coming does not hold the change up for longer than one walk may take.
    func awaitWalkers() {
        forgetWalkers()
        let end = clock.monotonic() + Self.walkLimit
        while clock.monotonic() < end {
            let recent = clock.monotonic() - Self.walkLimit
            guard walkers.contains(where: { $1.told > recent }) else { return }
            _ = poll(nil, 0, 1)
        }
    }

    /// Finds bytes to read, or waits for exactly the missing ones.
    ///
    /// A wait ends by `EINTR` when `thread` does; 0 where the thread that asked isn't the one that needs the bytes.
    func read(
        _ id: ItemID,
        offset: Int64,
        count: Int,
        thread: Int32 = 0
    ) throws(Errno) -> Outcome<ReadResult> {
        if let item = live.find(id) { return try read(item, offset, count, thread) }
        return try live.use(id) { item throws(Errno) in try read(item, offset, count, thread) }
    }

    private func read(
        _ item: LiveItem,
        _ offset: Int64,
        _ count: Int,
        _ thread: Int32
    ) throws(Errno) -> Outcome<ReadResult> {
        try item.state.withLock { state throws(Errno) in
            let row = try loadBytes(item.id, &state)
            guard row.kind == .file else { throw .invalidArgument }
            let end = min(offset.addingReportingOverflow(Int64(count)).partialValue, row.size)
            guard offset >= 0, end > offset else { return .now(.end) }
            if row.residency == .whole || state.ranges.contains(offset..<end) {
                if row.residency != .whole { readAhead(item, &state, offset..<end) }
                counters.readHits.add(1, ordering: .relaxed)
                let descriptor = try descriptor(item.id, &state)
                return .now(ReadResult(descriptor: descriptor, count: Int(end - offset), owner: item))
            }
            counters.readMisses.add(1, ordering: .relaxed)
            if disk.isFull { throw .noSpace }
            if offset == 0 { noteMiss(of: item.id, size: row.size) }
            return .later(try waitForBytes(item, &state, offset..<end, thread: thread))
        }
    }

    /// Writes bytes through the body, which is called once with the content file's descriptor.
    func write(
        _ id: ItemID,
        offset: Int64,
        count: Int,
        clearsPrivileges: Bool,
        _ body: (Int32) throws(Errno) -> Int
    ) throws(Errno) -> Int {
        guard offset >= 0, offset <= Contents.maximumFileSize - Int64(count) else { throw .fileTooLarge }
        try disk.requireSound()
        try disk.makeRoom(for: count, keeps: true)
        let item = live.retain(id)
        defer { live.release(id) }
        let early: (descriptor: Int32, written: Int?) = try item.state.withLock { state throws(Errno) in
            let row = try loadBytes(id, &state)
            guard row.kind == .file else { throw .invalidArgument }
            try mark(id, &state)
            if clearsPrivileges { try clearPrivileges(id, &state, by: nil) }
            let descriptor = try descriptor(id, &state)
            guard row.residency != .whole else {
                // A catalog that takes the file for a partial one would, after a death, have it cut or its bytes fetched again.
                if state.hasUnsavedRanges { try commitContent(item, &state) }
                state.writesInFlight += 1
                return (descriptor, nil)
            }
            // Fetched bytes must not land on these: they are recorded before anyone else gets the lock.
            let written = try disk.writing("bytes of a file") { () throws(Errno) in try body(descriptor) }
            let added = noteLocalBytes(item, &state, offset..<(offset + Int64(written)))
            try commitContent(item, &state, added: added)
            completeBase(item, &state)
            return (descriptor, written)
        }
        if let written = early.written { return written }
        let result = Result { () throws(Errno) in
            try disk.writing("bytes of a file") { () throws(Errno) in try body(early.descriptor) }
        }
        // The kernel hands on so much at once only to be rid of it: the disk works while it prepares the next.
        if count >= 512 << 10 { System.startWriting(early.descriptor, offset, count) }
        item.state.withLock { state in
            state.writesInFlight -= 1
            let written = (try? result.get()) ?? 0
            noteContentChange(item, &state) { $0.size = max($0.size, offset + Int64(written)) }
        }
        return try result.get()
    }

    /// Clears setuid and setgid as a write by an ordinary user does.
    private func clearPrivileges(
        _ id: ItemID,
        _ state: inout LiveItem.State,
        by caller: Caller?
    ) throws(Errno) {
        guard var row = state.row, row.permissions & 0o6000 != 0 else { return }
        row.permissions = Contents.withoutPrivileges(row.permissions, group: row.group, caller)
        let saved = row
        try catalog.write { database throws(Errno) in
            try database.saveAttributes(saved)
            try self.enqueueEntries(of: id, .attributes, database)
        }
        state.row = saved
    }

    /// The permissions without setuid, and without setgid where the group may execute or the caller is not of it.
    static func withoutPrivileges(_ permissions: UInt16, group: UInt32, _ caller: Caller?) -> UInt16 {
        var kept = permissions & ~0o4000
        guard kept & 0o2000 != 0 else { return kept }
        if kept & 0o0010 != 0 || caller?.belongs(to: group) == false { kept &= ~0o2000 }
        return kept
    }

    /// Commits size, dates and a journal row: what close(2) promises.
    func flush(_ id: ItemID) throws(Errno) {
        guard let item = live.find(id) else { return }
        try save(item, closing: true)
        stopBackgroundFetches(of: item)
    }

    /// Makes bytes and row durable.
    func fsync(_ id: ItemID, dataOnly: Bool) throws(Errno) {
        try live.use(id) { item throws(Errno) in
            try syncContent(item)
            try save(item, closing: false, durable: true)
        }
    }

    /// Makes the bytes written so far durable, outside the item's lock: others go on to use it meanwhile.
    func syncContent(_ item: LiveItem) throws(Errno) {
        let copy = try item.state.withLock { state throws(Errno) -> Int32 in
            let row = try loadBytes(item.id, &state)
            guard row.kind == .file, row.residency != .dataless else { return -1 }
            let descriptor = try descriptor(item.id, &state)
            return try System.retry { dup(descriptor) }
        }
        guard copy >= 0 else { return }
        defer { System.close(copy) }
        try disk.writing("bytes of a file can't be made durable") { () throws(Errno) in try store.sync(item.id, copy) }
    }

    /// The same under the item's lock, for what came meanwhile.
    func syncContent(_ id: ItemID, _ state: inout LiveItem.State) throws(Errno) {
        let row = try load(id, &state)
        guard row.kind == .file, row.residency != .dataless else { return }
        let descriptor = try descriptor(id, &state)
        try disk.writing("bytes of a file can't be made durable") { () throws(Errno) in try store.sync(id, descriptor) }
    }

    /// Commits what a handle that is about to be released left.
    func finish(_ id: ItemID, flags: Int32) {
        guard let item = live.find(id) else { return }
        if flags & O_ACCMODE != O_RDONLY, finishPassing(item) { return }
        do throws(Errno) {
            try save(item, closing: true)
        } catch {
            log.error("item \(id): its last changes can't be saved: \(error)")
        }
    }

    /// Counts a handle out, after the kernel has its answer; an item without a name goes with its last handle.
    func release(_ id: ItemID, flags: Int32) {
        let writes = flags & O_ACCMODE != O_RDONLY
        guard let item = live.find(id) else { return }
        countOut(item, writes: writes)
        if writes { wakeSync() }
    }

    func countOut(_ item: LiveItem, writes: Bool) {
        let isPassing = live.mode(item.id)?.backing != nil
        settleClosed(item.id, isPassing ? closePassing(item, writes: writes) : live.close(item.id, writes: writes))
    }

    /// What follows when an item's last handle is gone.
    func settleClosed(_ id: ItemID, _ closed: LiveTable.Closed) {
        if let number = closed.backing { passthrough.withLock { $0.files }?.unregister(number) }
        guard closed.isLast else { return }
        departing.remove(id)
        sync?.noteIdle(id)
        if closed.isOrphan { dropOrphan(id) }
    }

    /// Changes an item's size: bytes that are cut are never fetched, bytes that are added are zeros.
    func resize(
        _ item: LiveItem,
        _ state: inout LiveItem.State,
        to size: Int64,
        clearsPrivilegesBy caller: Caller?
    ) throws(Errno) {
        let id = item.id
        guard size >= 0 else { throw .invalidArgument }
        guard size <= Contents.maximumFileSize else { throw .fileTooLarge }
        let row = try loadBytes(id, &state, discarding: size == 0)
        guard row.kind == .file else { throw row.kind == .directory ? .isDirectory : .invalidArgument }
        // Until it is cut, what lies there is not what is lost.
        defer { if state.isLost { closeContent(id, &state) } }
        try mark(id, &state)
        if let caller { try clearPrivileges(id, &state, by: caller) }
        let descriptor = try descriptor(id, &state)
        try disk.writing("the size of a file") { () throws(Errno) in try System.ftruncate(descriptor, size) }
        state.isLost = false
        if row.residency != .whole {
            if size < row.size {
                state.ranges.removeAll(from: size)
                // A partial file that shrinks and grows again has zeros there, not the provider's bytes.
            } else {
                state.ranges.insert(row.size..<size)
            }
            state.hasUnsavedRanges = true
        }
        let isWhole = row.residency == .whole || state.ranges.contains(0..<size)
        noteContentChange(item, &state) { row in
            row.size = size
            row.residency = isWhole ? .whole : .partial
        }
        if isWhole { state.ranges = RangeSet() }
        answerWaiters(&state)
        // The size must not be lost between here and a close that may never come.
        try commitContent(item, &state)
        // The base may be replaced at the provider at any time.
        if !isWhole, size > 0 { completeBase(item, &state) }
    }
}
