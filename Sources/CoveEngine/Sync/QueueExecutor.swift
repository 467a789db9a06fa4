internal import CoveCore
internal import Dispatch

/// Runs an actor on a dispatch queue of its own, so that its blocking calls never hold Swift's cooperative pool.
final class QueueExecutor: SerialExecutor {
    private let queue: DispatchQueue

    init(label: String) { queue = DispatchQueue(label: label) }

    func enqueue(_ job: consuming ExecutorJob) {
        let unowned = UnownedJob(job)
        let executor = asUnownedSerialExecutor()
        queue.async { unowned.runSynchronously(on: executor) }
    }

    func asUnownedSerialExecutor() -> UnownedSerialExecutor { UnownedSerialExecutor(ordinary: self) }

    func after(_ time: TimeSpan, _ body: @escaping @Sendable () -> Void) {
        queue.asyncAfter(deadline: .now() + time.dispatchInterval, execute: body)
    }
}
