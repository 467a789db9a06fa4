internal import CoveCore
internal import Dispatch
internal import Glibc
internal import Synchronization

extension FolderWatcher {
    /// Events that belong together, until they are recorded.
    private struct Batch {
        var changes: [ChangeLog.Change] = []
        /// Names under which a directory appeared, where a moved one may be found.
        var places: [WatchedEntry] = []
        var created: [WatchedEntry] = []
        var isOpen = false
        var opened = MonotonicTime.distantPast
        var last = MonotonicTime.distantPast
        var hasOverflowed = false
        /// The rename whose other half may still be on its way.
        var openCookie: UInt32 = 0
    }

    /// When a file being written was first and last written.
    private struct Writing {
        let first: MonotonicTime
        var last: MonotonicTime
    }

    /// What only the thread itself uses.
    private struct Run {
        var batch = Batch()
        var writing: [WatchedEntry: Writing] = [:]
        /// Names under which a directory appeared in one that is nowhere.
        var unplaced: [WatchedEntry] = []
        var nextPoll: MonotonicTime
        var nextRescan: MonotonicTime
        var nextSearch = MonotonicTime.distantPast
        /// Those who wait for the open batch to be recorded.
        var drains: [DispatchSemaphore] = []

        mutating func release() {
            for drain in drains { drain.signal() }
            drains = []
        }
    }

    /// The thread.
    func run() {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 65_536, alignment: 8)
        defer { buffer.deallocate() }
        let start = System.monotonic()
        var run = Run(nextPoll: start + timing.poll, nextRescan: start + timing.rescan)
        while true {
            let (inotify, wake) = state.withLock { ($0.inotify, $0.wake) }
            var descriptors = [
                pollfd(fd: inotify, events: Int16(POLLIN), revents: 0),
                pollfd(fd: wake, events: Int16(POLLIN), revents: 0),
            ]
            let wait = deadline(run) - System.monotonic()
            _ = poll(&descriptors, 2, wait.pollMilliseconds)
            var counter: UInt64 = 0
            if descriptors[1].revents != 0 { _ = read(wake, &counter, 8) }
            if state.withLock({ $0.hasEnded }) { break }
            // Whoever came before this read will see what it reads.
            let drains = state.withLock { state in
                defer { state.drains = [] }
                return state.drains
            }
            run.drains += drains
            var events = descriptors[0].revents == 0 && drains.isEmpty ? [] : Inotify.read(inotify, into: buffer)
            let now = System.monotonic()
            while !events.isEmpty {
                state.withLock { state in take(events, now, &run, &state) }
                events = drains.isEmpty ? [] : Inotify.read(inotify, into: buffer)
            }
            if !drains.isEmpty { run.nextPoll = now }
            work(&run, now)
            if !run.batch.isOpen { run.release() }
        }
        run.release()
        state.withLock { state in
            for drain in state.drains { drain.signal() }
            state.drains = []
            if state.inotify >= 0 { System.close(state.inotify) }
            System.close(state.wake)
            state.inotify = -1
            state.wake = -1
            state.tree = WatchTree()
        }
    }

    private func deadline(_ run: Run) -> MonotonicTime {
        var deadline = run.nextRescan
        if run.batch.isOpen { deadline = min(deadline, batchEnd(run.batch)) }
        for writing in run.writing.values { deadline = min(deadline, end(writing)) }
        let (polled, isLost) = state.withLock { ($0.tree.polled > 0, $0.isLost) }
        if polled { deadline = min(deadline, run.nextPoll) }
        if isLost { deadline = min(deadline, run.nextSearch) }
        return deadline
    }

    private func batchEnd(_ batch: Batch) -> MonotonicTime {
        if batch.hasOverflowed { return batch.opened }
        let end = min(batch.last + timing.quiet, batch.opened + timing.limit)
        return batch.openCookie == 0 ? end : max(end, batch.last + .milliseconds(10))
    }

    private func end(_ writing: Writing) -> MonotonicTime {
        min(writing.last + timing.unfinished, writing.first + timing.unfinishedLimit)
    }

    /// Does what is due.
    private func work(_ run: inout Run, _ now: MonotonicTime) {
        for (entry, writing) in run.writing where end(writing) <= now {
            run.writing[entry] = nil
            run.batch.changes.append(.entry(entry))
            open(&run.batch, now - timing.limit)
        }
        if run.batch.isOpen, batchEnd(run.batch) <= now {
            finish(&run)
            run.batch = Batch()
        }
        let isLost = state.withLock { $0.isLost }
        if isLost, run.nextSearch <= now {
            if !search() { run.nextSearch = now + timing.lost }
        }
        if run.nextRescan <= now {
            run.nextRescan = now + timing.rescan
            if !isLost { rescan(all: true) }
        } else if run.nextPoll <= now {
            run.nextPoll = now + timing.poll
            if !isLost, state.withLock({ $0.tree.polled > 0 }) { rescan(all: false) }
        }
    }

    private func open(_ batch: inout Batch, _ now: MonotonicTime) {
        if batch.isOpen { return }
        batch.isOpen = true
        batch.opened = now
        batch.last = now
    }

    private func take(_ events: [InotifyEvent], _ now: MonotonicTime, _ run: inout Run, _ state: inout State) {
        for event in events {
            open(&run.batch, now)
            run.batch.last = now
            if event.has(Int(IN_Q_OVERFLOW)) {
                run.batch.hasOverflowed = true
            } else if let number = state.tree.node(watch: event.watch) {
                event.name.isEmpty
                    ? takeOwn(event, number, &run, &state) : takeNamed(event, number, now, &run, &state)
            }
        }
    }

    /// An event of a watched directory itself.
    ///
    /// Its parent tells of its moves, unless the parent is only polled.
    private func takeOwn(_ event: InotifyEvent, _ number: Int, _ run: inout Run, _ state: inout State) {
        if event.has(Int(IN_UNMOUNT)) {
            state.tree.setWatch(number, -1)
            state.isLost = true
        } else if number == WatchTree.root {
            if event.has(Int(IN_MOVE_SELF)) || event.has(Int(IN_DELETE_SELF)) { state.isLost = true }
            if event.has(Int(IN_IGNORED)) { state.tree.setWatch(number, -1) }
        } else if event.has(Int(IN_IGNORED)) {
            forget(number, &state)
        } else if event.has(Int(IN_MOVE_SELF)), let parent = state.tree.nodes[number]?.parent,
            state.tree.nodes[parent]?.watch == -1
        {
            state.tree.detach(number)
            state.strays.insert(number)
            run.batch.changes.append(.directory(parent))
        }
    }

    private func takeNamed(
        _ event: InotifyEvent,
        _ number: Int,
        _ now: MonotonicTime,
        _ run: inout Run,
        _ state: inout State
    ) {
        let entry = WatchedEntry(directory: number, name: event.name)
        let isDirectory = event.has(Int(IN_ISDIR))
        if FileName(unchecked: event.name).isReserved {
            // One that was listed under a hidden name has left it.
            if event.has(Int(IN_MOVED_FROM)), let known = state.tree.node(at: entry) { state.tree.detach(known) }
            return
        }
        let appears = event.has(Int(IN_CREATE)) || event.has(Int(IN_MOVED_TO))
        if isDirectory, appears || event.has(Int(IN_MOVED_FROM)) || event.has(Int(IN_DELETE)) {
            if let known = state.tree.node(at: entry) { state.tree.detach(known) }
            if appears { run.batch.places.append(entry) }
        }
        if event.has(Int(IN_MOVED_FROM)) { run.batch.openCookie = event.cookie }
        if event.has(Int(IN_MOVED_TO)), run.batch.openCookie == event.cookie { run.batch.openCookie = 0 }
        let isBeingWritten = event.has(Int(IN_MODIFY)) || (event.has(Int(IN_CREATE)) && !isDirectory)
        if isBeingWritten {
            if event.has(Int(IN_CREATE)) { run.batch.created.append(entry) }
            run.writing[entry] = Writing(first: run.writing[entry]?.first ?? now, last: now)
        } else if event.has(Int(IN_ATTRIB)) {
            if run.writing[entry] == nil { run.batch.changes.append(.entry(entry)) }
        } else {
            run.writing[entry] = nil
            run.batch.changes.append(.entry(entry))
        }
    }

    func forget(_ number: Int, _ state: inout State) {
        state.strays.remove(number)
        for watch in state.tree.forget(number) where state.inotify >= 0 { Inotify.remove(state.inotify, watch) }
        state.strays.formIntersection(state.tree.detached)
    }

    /// Ends a batch: finds moved directories again, and records the changes.
    private func finish(_ run: inout Run) {
        guard let tree = try? FolderTree.open(root, expecting: identity) else {
            // Nothing can be told now; when the source is back everything is looked at again.
            state.withLock { $0.strays.formUnion($0.tree.detached) }
            return noteLost()
        }
        if run.batch.hasOverflowed {
            state.withLock { $0.strays.formUnion($0.tree.detached) }
            return verify(tree)
        }
        settle(&run, tree)
        for entry in run.batch.created where run.writing[entry] != nil {
            // A link is complete as soon as it is there: nobody will close it.
            guard let status = status(entry, tree), status.kind != .file || status.linkCount > 1 else { continue }
            run.writing[entry] = nil
            run.batch.changes.append(.entry(entry))
        }
        if run.batch.changes.isEmpty { return }
        noteTimes(run.batch.changes, tree)
        record(run.batch.changes)
    }

    /// Tells changes; a directory that is nowhere just now waits until it comes up.
    func record(_ changes: [ChangeLog.Change]) {
        if changes.isEmpty { return }
        let isNews = state.withLock { state -> Bool in
            let told = changes.filter { state.tree.path($0.directory) != nil }
            let directories = Set(changes.map(\.directory))
            let moving = directories.filter { state.tree.nodes[$0] != nil && state.tree.path($0) == nil }
            state.changes.append(told + moving.map { .directory($0) })
            return !told.isEmpty
        }
        if isNews { signal.fire() }
    }

    private func status(_ entry: WatchedEntry, _ tree: borrowing FolderTree) -> FileStatus? {
        guard let path = state.withLock({ $0.tree.path(entry.directory) }) else { return nil }
        return try? System.status(tree.root.raw, path.appending(FileName(unchecked: entry.name)).bytes)
    }

    /// This many directories may be nowhere before they are forgotten.
    private static let mostDetached = 1000

    /// Puts every directory that moved where it is now.
    ///
    /// One that is nowhere may come up later, in the place it had as well, and would be taken for known: its watch goes on
    /// until it is deleted.
    ///
    /// A listing may have put one where it was before: where it has been seen now is what counts.
    private func settle(_ run: inout Run, _ tree: borrowing FolderTree) {
        var places = run.unplaced + run.batch.places
        var isMoving = !places.isEmpty
        while isMoving, !places.isEmpty {
            isMoving = false
            for (index, place) in places.enumerated().reversed() {
                guard let status = status(place, tree) else { continue }
                places.remove(at: index)
                guard status.kind == .directory else { continue }
                state.withLock { state in
                    guard let number = state.tree.node(key: DirectoryKey(status)) else { return }
                    state.tree.attach(number, at: place)
                    state.strays.remove(number)
                }
                isMoving = true
            }
        }
        // What moved into a directory that is on the move itself comes up with it.
        run.unplaced = state.withLock { state in
            places.filter { state.tree.nodes[$0.directory] != nil && state.tree.path($0.directory) == nil }
        }
        if run.unplaced.count > Self.mostDetached { run.unplaced = [] }
        state.withLock { state in
            let lost = state.tree.detached.subtracting(state.strays)
            for number in lost where lost.count > Self.mostDetached || state.tree.nodes[number]?.watch == -1 {
                forget(number, &state)
            }
        }
    }

    /// Takes down the directories' own times, so that the rescan finds nothing new in what is already known.
    private func noteTimes(_ changes: [ChangeLog.Change], _ tree: borrowing FolderTree) {
        var seen: Set<Int> = []
        for case .entry(let entry) in changes where seen.insert(entry.directory).inserted {
            guard let path = state.withLock({ $0.tree.path(entry.directory) }),
                let status = try? System.status(tree.root.raw, path.isRoot ? [0x2E] : path.bytes)
            else { continue }
            state.withLock { $0.tree.setModified(entry.directory, status.modificationTime) }
        }
    }
}
