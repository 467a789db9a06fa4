internal import CoveCore

/// Documents whose pictures are looked for, a few at a time: those that were asked for last come first.
final class ThumbnailQueue: Sendable {
    /// What is to become of a picture, and who waits for it.
    struct Job: Sendable {
        /// Programs of the desktop are to see it.
        var isShown = false
        /// The provider is to have one.
        var isShared = false
        var waiters: [Pending<Picture?>] = []

        mutating func join(_ other: Job) {
            isShown = isShown || other.isShown
            isShared = isShared || other.isShared
            waiters += other.waiters
        }

        func end(_ picture: Picture?) { for waiter in waiters { waiter.fulfill(.success(picture)) } }
    }

    private struct State {
        var order: [DocumentID] = []
        var jobs: [DocumentID: Job] = [:]
        var running: Set<DocumentID> = []
        var workers = 0
        var hasEnded = false
    }

    /// More are not remembered: who wants one later asks again.
    private static let most = 4096

    private let workers: Int
    private let state = EngineMutex(.thumbnailQueue, State())

    /// A queue of which so many documents are worked on at a time.
    init(workers: Int) { self.workers = workers }

    /// How many wait or are worked on.
    var count: Int { state.withLock { $0.jobs.count + $0.running.count } }

    /// Adds to what is to be done, and has the body do it; it ends the job.
    func add(_ document: DocumentID, _ job: Job, _ body: @escaping @Sendable (DocumentID, Job) async -> Void) {
        let (dropped, needsWorker) = state.withLock { state -> (Job?, Bool) in
            guard !state.hasEnded else { return (job, false) }
            var dropped: Job?
            if state.jobs[document] != nil {
                state.jobs[document]?.join(job)
            } else {
                if state.order.count >= Self.most {
                    dropped = state.jobs.removeValue(forKey: state.order.removeFirst())
                }
                state.jobs[document] = job
                state.order.append(document)
            }
            guard state.workers < workers else { return (dropped, false) }
            state.workers += 1
            return (dropped, true)
        }
        dropped?.end(nil)
        if needsWorker { Task { await work(body) } }
    }

    private func work(_ body: @Sendable (DocumentID, Job) async -> Void) async {
        while let (document, job) = next() {
            await body(document, job)
            state.withLock { _ = $0.running.remove(document) }
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
        let jobs = state.withLock { state in
            defer { (state.jobs, state.order) = ([:], []) }
            state.hasEnded = true
            return Array(state.jobs.values)
        }
        for job in jobs { job.end(nil) }
    }
}
