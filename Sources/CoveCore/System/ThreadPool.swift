internal import Dispatch
internal import Synchronization

/// A few threads for short blocking work, made when first needed.
///
/// Dispatch's own threads are shared with Swift's cooperative pool on Linux: work that blocks them starves every task.
public final class ThreadPool: Sendable {
    private struct State {
        var jobs: [@Sendable () -> Void] = []
        var next = 0
        var idle = 0
        var threads = 0
    }

    private let state = Mutex(State())
    private let waiting = DispatchSemaphore(value: 0)
    private let limit: Int

    /// Makes a pool that grows to so many threads.
    public init(threads limit: Int) { self.limit = max(1, limit) }

    /// Runs the body on one of the threads, in the order of the calls as far as threads are free.
    public func async(_ body: @escaping @Sendable () -> Void) {
        let needsThread = state.withLock { state in
            state.jobs.append(body)
            guard state.idle < state.jobs.count - state.next, state.threads < limit else { return false }
            state.threads += 1
            return true
        }
        if needsThread {
            do throws(Errno) {
                try BlockingThread.start { [self] in work() }
            } catch {
                // With no thread to be had at all the caller does the work itself.
                let isAlone = state.withLock { state in
                    state.threads -= 1
                    return state.threads == 0
                }
                if isAlone {
                    runOne()
                    return
                }
            }
        }
        waiting.signal()
    }

    private func work() {
        while true {
            state.withLock { $0.idle += 1 }
            let outcome = waiting.wait(timeout: .now() + 30)
            state.withLock { $0.idle -= 1 }
            if outcome == .timedOut {
                // The last thread goes only when nothing can have been left to it.
                let isDone = state.withLock { state in
                    guard state.jobs.count == state.next else { return false }
                    state.threads -= 1
                    return true
                }
                if isDone { return }
            }
            runOne()
        }
    }

    private func runOne() {
        let job = state.withLock { state -> (@Sendable () -> Void)? in
            guard state.next < state.jobs.count else { return nil }
            let job = state.jobs[state.next]
            state.next += 1
            if state.next == state.jobs.count {
                state.jobs.removeAll(keepingCapacity: state.next < 1024)
                state.next = 0
            }
            return job
        }
        job?()
    }
}
