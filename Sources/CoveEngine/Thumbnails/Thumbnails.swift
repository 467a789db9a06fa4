internal import CoveCore
internal import Synchronization

/// Pictures of documents, whether their bytes are here or not: where they come from, who gets them, and when they end.
final class Thumbnails: EnginePart {
    /// What is to become of a picture.
    struct Purpose: OptionSet, Sendable {
        let rawValue: Int
        /// Programs of the desktop, or whoever asked, are to see it.
        static let shown = Purpose(rawValue: 1)
        /// The provider is to have it for other devices.
        static let shared = Purpose(rawValue: 2)
    }

    private struct Job {
        var purpose: Purpose
        var waiters: [Pending<Picture?>] = []
    }

    private struct State {
        /// The last are done first: that is what somebody looks at now.
        var order: [DocumentID] = []
        var jobs: [DocumentID: Job] = [:]
        var running: Set<DocumentID> = []
        var workers = 0
        /// Documents that have none for now.
        var absences: [DocumentID: (content: Content, until: MonotonicTime)] = [:]
        /// Those to be looked for again, and when.
        var again: [DocumentID: MonotonicTime] = [:]
        /// When the provider is asked again to take or to drop pictures.
        var nextSharing = MonotonicTime.distantPast
        var programs: (found: Thumbnailers, until: MonotonicTime)?
        var isChecking = false
        /// Directories whose listings wait for pictures, and how many do.
        var waits: [ItemID: Int] = [:]
        var hasEnded = false
    }

    /// Which bytes a document has.
    struct Content: Equatable {
        var item: ItemID
        var generation: Int64
    }

    /// So many are looked for at a time; here they are made one at a time.
    private static let mostWorkers = 4
    /// More are not remembered: who wants one later asks again.
    private static let mostJobs = 4096
    private static let mostAbsences = 10_000
    private static let mostAgain = 1000
    /// How long it is believed that a document has none.
    private static let absence = TimeSpan.seconds(60)
    /// How long the provider is left alone after it did not take one.
    private static let sharingRest = TimeSpan.seconds(60)
    /// How long the programs that were found are taken to be all there are.
    private static let programsRest = TimeSpan.seconds(60)

    let context: EngineContext
    let contents: Contents
    let namespace: Namespace
    /// The folder of the pictures.
    let folder: String
    let maker: ThumbnailMaker
    /// Runs the desktop's programs, for documents and for pictures that are to be smaller.
    let making = ThreadPool(threads: 1)
    let reducing = ThreadPool(threads: 2)
    private let state = EngineMutex(.thumbnails, State())

    init(_ context: EngineContext, _ contents: Contents, _ namespace: Namespace) {
        self.context = context
        self.contents = contents
        self.namespace = namespace
        folder = context.configuration.stateDirectory + "/thumbnails"
        maker = ThumbnailMaker(folder: folder + "/making")
    }

    // MARK: Jobs

    /// The picture of a document; nil where there is none, or none can be had now.
    func picture(of document: DocumentID) async throws(Errno) -> Picture? {
        try await want(document, for: .shown).value()
    }

    /// Has a picture looked for, before those that were asked for earlier.
    @discardableResult
    func want(_ document: DocumentID, for purpose: Purpose) -> Pending<Picture?> {
        let pending = Pending<Picture?>()
        let dropped = add(document, Job(purpose: purpose, waiters: [pending]))
        for waiter in dropped { waiter.fulfill(.success(nil)) }
        return pending
    }

    /// Adds to what is to be done; who is told that nothing comes of it: the oldest jobs make room, all do at the end.
    private func add(_ document: DocumentID, _ job: Job) -> [Pending<Picture?>] {
        let (dropped, needsWorker) = state.withLock { state -> ([Pending<Picture?>], Bool) in
            guard !state.hasEnded else { return (job.waiters, false) }
            var dropped: [Pending<Picture?>] = []
            if var known = state.jobs[document] {
                known.purpose.formUnion(job.purpose)
                known.waiters += job.waiters
                state.jobs[document] = known
            } else {
                if state.order.count >= Self.mostJobs {
                    dropped = state.jobs.removeValue(forKey: state.order.removeFirst())?.waiters ?? []
                }
                state.jobs[document] = job
                state.order.append(document)
            }
            guard state.workers < Self.mostWorkers else { return (dropped, false) }
            state.workers += 1
            return (dropped, true)
        }
        if needsWorker { Task { await work() } }
        return dropped
    }

    private func work() async {
        while let (document, job) = next() {
            let picture = await look(for: document, job.purpose)
            state.withLock { _ = $0.running.remove(document) }
            for waiter in job.waiters { waiter.fulfill(.success(picture)) }
        }
    }

    /// The next document that nobody is busy with; nil ends a worker.
    private func next() -> (DocumentID, Job)? {
        state.withLock { state in
            if let index = state.order.lastIndex(where: { !state.running.contains($0) }) {
                let document = state.order.remove(at: index)
                if let job = state.jobs.removeValue(forKey: document) {
                    state.running.insert(document)
                    return (document, job)
                }
            }
            state.workers -= 1
            return nil
        }
    }

    /// Ends all work; who waits gets nothing.
    func end() {
        let waiters = state.withLock { state in
            defer { (state.jobs, state.order) = ([:], []) }
            state.hasEnded = true
            return state.jobs.values.flatMap(\.waiters)
        }
        for waiter in waiters { waiter.fulfill(.success(nil)) }
    }

    // MARK: What is known for a while

    func beginWait(in directory: ItemID) { state.withLock { $0.waits[directory, default: 0] += 1 } }

    func endWait(in directory: ItemID) {
        state.withLock { state in
            let left = (state.waits[directory] ?? 1) - 1
            state.waits[directory] = left > 0 ? left : nil
        }
    }

    /// True while whoever is to see a directory's pictures has not read its names yet.
    func isWaiting(in directory: ItemID) -> Bool { state.withLock { $0.waits[directory] != nil } }

    /// True where it was found lately that there is no picture of these bytes.
    func isAbsent(_ document: DocumentID, _ content: Content) -> Bool {
        state.withLock { state in
            guard let absence = state.absences[document] else { return false }
            if absence.content == content, absence.until > clock.monotonic() { return true }
            state.absences[document] = nil
            return false
        }
    }

    func noteAbsence(of document: DocumentID, _ content: Content) {
        let until = clock.monotonic() + Self.absence
        state.withLock { state in
            if state.absences.count >= Self.mostAbsences { state.absences.removeAll() }
            state.absences[document] = (content, until)
        }
    }

    /// There may be a picture now.
    func forgetAbsence(of document: DocumentID) { state.withLock { $0.absences[document] = nil } }

    /// Has a document's picture looked for later.
    func wantAgain(_ document: DocumentID, after pause: TimeSpan) {
        let time = clock.monotonic() + pause
        state.withLock { state in
            if state.again.count < Self.mostAgain { state.again[document] = time }
        }
    }

    /// The documents whose time has come.
    func takeAgain() -> [DocumentID] {
        let now = clock.monotonic()
        return state.withLock { state in
            if state.again.isEmpty { return [] }
            let due = state.again.filter { $0.value <= now }.map(\.key)
            for document in due { state.again[document] = nil }
            return due
        }
    }

    /// True while the provider may be asked to take or to drop pictures.
    var mayShare: Bool {
        guard sync?.mayFetch == true, !configuration.isReadOnly else { return false }
        let capabilities = provider.capabilities
        guard capabilities.keepsThumbnails, !capabilities.readOnly else { return false }
        return state.withLock { $0.nextSharing <= clock.monotonic() }
    }

    func noteSharingFailed() {
        let next = clock.monotonic() + Self.sharingRest
        state.withLock { $0.nextSharing = next }
    }

    /// The desktop's programs; none where they are not to be used, or can't be shut in.
    ///
    /// Reads files.
    var programs: Thumbnailers {
        let now = clock.monotonic()
        if let known = state.withLock({ $0.programs }), known.until > now { return known.found }
        let usable = configuration.makesThumbnails && ThumbnailMaker.canRun
        let found = usable ? Thumbnailers.ofMachine() : Thumbnailers(folders: [])
        state.withLock { $0.programs = (found, now + Self.programsRest) }
        return found
    }

    /// Has the body look at what has changed, unless another one does.
    func checking(_ body: @escaping @Sendable () -> Void) {
        let isFree = state.withLock { state in
            defer { state.isChecking = true }
            return !state.isChecking && !state.hasEnded
        }
        guard isFree else { return }
        contentQueue.async { [self] in
            body()
            state.withLock { $0.isChecking = false }
        }
    }
}
