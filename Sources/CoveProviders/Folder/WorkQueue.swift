internal import CoveCore
internal import Dispatch
internal import Synchronization

/// Runs blocking work on a fixed number of threads of its own, so that Swift's cooperative pool never waits.
///
/// A lane is a serial queue, which Dispatch gives a thread whatever the others do; a job takes any idle lane.
final class WorkQueue: Sendable {
    private typealias Job = @Sendable () -> Void

    private struct State {
        var idle: [DispatchQueue]
        var waiting: [Job] = []
        var first = 0

        mutating func next() -> Job? {
            guard first < waiting.count else { return nil }
            let job = waiting[first]
            first += 1
            if first == waiting.count || first > 1024 {
                waiting.removeFirst(first)
                first = 0
            }
            return job
        }
    }

    private let state: Mutex<State>

    init(label: String, width: Int) {
        state = Mutex(State(idle: (0..<width).map { DispatchQueue(label: "\(label).\($0)") }))
    }

    /// Runs the body on a lane; the calling task's cancellation sets the flag and ends nothing by itself.
    func run<R: Sendable>(
        _ body: @escaping @Sendable (CancellationFlag) throws(ProviderError) -> R
    ) async throws(ProviderError) -> R {
        let flag = CancellationFlag()
        let outcome: Result<R, ProviderError> = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                submit {
                    let outcome: Result<R, ProviderError>
                    do throws(ProviderError) {
                        try flag.check()
                        outcome = .success(try body(flag))
                    } catch {
                        outcome = .failure(error)
                    }
                    continuation.resume(returning: outcome)
                }
            }
        } onCancel: {
            flag.set()
        }
        return try outcome.get()
    }

    /// Runs a job on a lane; nobody waits for it.
    func submit(_ job: @escaping @Sendable () -> Void) {
        let lane = state.withLock { state in
            guard let lane = state.idle.popLast() else {
                state.waiting.append(job)
                return nil as DispatchQueue?
            }
            return lane
        }
        guard let lane else { return }
        lane.async { self.work(job, on: lane) }
    }

    private func work(_ job: Job, on lane: DispatchQueue) {
        job()
        while true {
            let next = state.withLock { state in
                let next = state.next()
                if next == nil { state.idle.append(lane) }
                return next
            }
            guard let next else { return }
            next()
        }
    }
}

/// Tells blocking work that the task it works for was cancelled.
final class CancellationFlag: Sendable {
    private let cancelled = Atomic(false)

    func set() { cancelled.store(true, ordering: .releasing) }

    func check() throws(ProviderError) {
        if cancelled.load(ordering: .acquiring) { throw .cancelled }
    }
}
