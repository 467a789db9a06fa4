internal import CoveCore
internal import Glibc
internal import Synchronization

/// The fetches of one item and those who wait for them, as its plan has them; guarded by the item's lock.
struct Fetching {
    var plan = FetchPlan()
    /// The plan's fetches, by their numbers.
    private(set) var fetches: [Int: Fetch] = [:]
    /// The plan's waiters, by their numbers.
    private(set) var waiters: [Int: Waiter] = [:]
    /// True once this use of the item was counted as a download.
    var isCounted = false

    var isIdle: Bool { fetches.isEmpty }

    /// The fetch that has gone on for the longest time.
    var first: Fetch? { plan.underway.first.flatMap { fetches[$0.number] } }

    mutating func add(_ waiter: Waiter) { waiters[plan.wait(for: waiter.range)] = waiter }

    mutating func add(_ fetch: Fetch) { fetches[fetch.number] = fetch }

    /// Takes those out whose wait is over.
    mutating func take(_ numbers: [Int]) -> [Waiter] { numbers.compactMap { waiters.removeValue(forKey: $0) } }

    /// Forgets those who gave up.
    mutating func dropAbandoned() {
        let gone = waiters.filter { $0.value.isAbandoned() }.map(\.key)
        guard !gone.isEmpty else { return }
        plan.giveUp(Set(gone))
        for number in gone { waiters[number] = nil }
    }

    /// A fetch is over, and no byte of it counts any more.
    mutating func end(_ number: Int) {
        plan.end(number)
        fetches.removeValue(forKey: number)?.end()
    }

    /// Ends what goes on for nobody.
    mutating func endUnneeded() {
        for number in plan.dropUnneeded() { fetches.removeValue(forKey: number)?.end() }
    }

    /// Ends all; those who waited.
    mutating func reset() -> [Waiter] {
        for fetch in fetches.values { fetch.end() }
        let left = plan.waiting.compactMap { waiters[$0.number] }
        plan.reset()
        (fetches, waiters, isCounted) = ([:], [:], false)
        return left
    }
}

/// A range on its way.
final class Fetch: Sendable {
    /// Its number in the plan.
    let number: Int
    let range: Range<Int64>
    let started: MonotonicTime
    let lastProgress: Atomic<MonotonicTime>
    let received = Atomic<Int64>(0)
    /// Who made the version that was fetched, where the provider says so along with its bytes.
    let editor = Mutex<(name: String, version: ContentVersion)?>(nil)
    private let ended = Atomic<Bool>(false)
    private let task = EngineMutex<Task<Void, Never>?>(.fetchTask, nil)

    init(_ part: FetchPlan.Part, now: MonotonicTime) {
        (number, range) = (part.number, part.range)
        started = now
        lastProgress = Atomic(now)
    }

    func run(_ work: Task<Void, Never>) {
        task.withLock { $0 = work }
        if isEnded { work.cancel() }
    }

    /// Ends the fetch: its sink takes no more bytes.
    func end() {
        ended.store(true, ordering: .releasing)
        task.withLock { $0 }?.cancel()
    }

    var isEnded: Bool { ended.load(ordering: .acquiring) }
}

/// One request that waits for a range.
struct Waiter {
    let range: Range<Int64>
    /// The reader's thread while its end ends the wait; 0 otherwise.
    var thread: Int32 = 0
    let complete: @Sendable (Result<Void, Errno>) -> Void
    let isAbandoned: @Sendable () -> Bool
    /// Called once when the provider has no such version where it was looked for, while it is looked for elsewhere.
    var isMissed: (@Sendable () -> Void)?
}

/// Writes fetched bytes into the content file: only where nothing local is, recorded after they are written.
struct FetchSink: ContentSink {
    let contents: Contents
    let item: LiveItem
    let fetch: Fetch

    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(ProviderError) {
        try take(offset..<(offset + Int64(bytes.count))) { descriptor, gap throws(Errno) in
            let start = Int(gap.lowerBound - offset)
            let part = UnsafeRawBufferPointer(rebasing: bytes[start..<(start + Int(gap.upperBound - gap.lowerBound))])
            try contents.disk.writing("downloaded bytes") { () throws(Errno) in
                try System.pwriteAll(descriptor, part, gap.lowerBound)
            }
        }
    }

    func copy(from source: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int {
        // Under the item's lock nothing waits for another disk than that of the state.
        let (one, other) = (try? System.fstat(source), try? System.lstat(contents.store.directory))
        guard let one, let other, one.st_dev == other.st_dev else {
            return try copyThroughMemory(from: source, at: offset, count: min(count, 1 << 20))
        }
        try take(offset..<(offset + Int64(count))) { descriptor, gap throws(Errno) in
            var position = gap.lowerBound
            while position < gap.upperBound {
                let done = try copyOnce(from: source, to: descriptor, position..<gap.upperBound)
                guard done > 0 else { throw .inputOutput }
                position += Int64(done)
            }
        }
        return count
    }

    func note(editor: String, of version: ContentVersion) { fetch.editor.withLock { $0 = (editor, version) } }

    private func copyOnce(from source: Int32, to target: Int32, _ range: Range<Int64>) throws(Errno) -> Int {
        try contents.disk.requireSound()
        do throws(Errno) {
            return try System.copyFileRange(
                from: source,
                at: range.lowerBound,
                to: target,
                at: range.lowerBound,
                count: Int(range.upperBound - range.lowerBound)
            )
        } catch {
            // An error of a disk may be the source's.
            if error != .inputOutput { contents.disk.note(error, "downloaded bytes") }
            throw error
        }
    }

    private func take(
        _ range: Range<Int64>,
        _ write: (Int32, Range<Int64>) throws(Errno) -> Void
    ) throws(ProviderError) {
        guard range.lowerBound >= fetch.range.lowerBound, range.upperBound <= fetch.range.upperBound else {
            throw .failed("the source sent bytes that were not asked for", .inputOutput)
        }
        let finished: [Waiter]
        do throws(Errno) {
            try contents.disk.requireRoom(forCopy: Int(range.upperBound - range.lowerBound))
            finished = try item.state.withLock { state throws(Errno) in
                guard !fetch.isEnded, let row = state.row, row.residency != .whole else { throw .cancelled }
                let inside = range.clamped(to: 0..<max(row.size, 0))
                let descriptor = try contents.descriptor(item.id, &state)
                for gap in state.ranges.missing(in: inside) {
                    try write(descriptor, gap)
                }
                state.ranges.insert(inside)
                state.hasUnsavedRanges = true
                fetch.lastProgress.store(contents.clock.monotonic(), ordering: .relaxed)
                // Before a reader knows: what it does next may replace these bytes.
                if state.ranges.contains(0..<row.size) { contents.completedItems.insert(row.size, for: item.id) }
                return contents.satisfiedWaiters(&state)
            }
        } catch {
            throw error == .cancelled ? .cancelled : .failed("the local disk can't take the bytes: \(error)", error)
        }
        let count = range.upperBound - range.lowerBound
        let isFirst = fetch.received.add(count, ordering: .relaxed).oldValue == 0 && count > 0
        if isFirst { contents.context.note(.contents, item.id) }
        contents.counters.bytesDownloaded.add(count, ordering: .relaxed)
        for waiter in finished { waiter.complete(.success(())) }
    }
}
