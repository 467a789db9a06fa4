internal import CoveCore
internal import CoveEngine
internal import Dispatch
internal import Glibc
internal import Synchronization

/// Writes notifications to the mount's device from a process that may wait for requests.
///
/// An invalidation may wait for a page or a directory that a request has locked, and nothing ends that wait but the
/// request's answer. A daemon killed meanwhile could not end before its successor answers, nor its successor begin.
public protocol NoticeCarrier: Sendable {
    /// Hands a notification on; may block for a while, and drops it when the carrier can't be had.
    func carry(_ notice: [UInt8])
}

/// Tells the kernel what its caches may no longer hold, from a thread that serves no requests.
///
/// The backlog is bounded: equal invalidations that have not begun count once, and a caller who finds it full waits for
/// room. Invalidations carry no values, so their order doesn't matter.
final class KernelNotifications: KernelNotifier {
    private struct Backlog {
        var waiting: [KernelNotice] = []
        /// The first of `waiting` that no thread has taken.
        var next = 0
        var known: Set<KernelNotice> = []
        var isStopped = false
    }

    private static let capacity = 65536
    /// The longest wait for room: a daemon that goes on with a stale cache beats one that hangs.
    private static let patience = DispatchTimeInterval.seconds(10)

    private let log: Log
    private let backlog = Mutex(Backlog())
    private let work = DispatchSemaphore(value: 0)
    private let room = DispatchSemaphore(value: 0)

    init(log: Log) {
        self.log = log
        // Not by the initial value: a semaphore below it may not be deallocated.
        for _ in 0..<Self.capacity { room.signal() }
    }

    /// Starts the thread, which keeps the object alive until `stop`.
    func start(_ carrier: any NoticeCarrier) throws(Errno) {
        try BlockingThread.start { [self] in
            // Signals are for the daemon's own thread.
            var signals = sigset_t()
            sigfillset(&signals)
            pthread_sigmask(SIG_BLOCK, &signals, nil)
            while let notice = next() { carrier.carry(notice.bytes) }
        }
    }

    /// Ends the thread; what waits still is dropped, for the kernel's caches end with the mount.
    func stop() {
        backlog.withLock { $0 = Backlog(isStopped: true) }
        work.signal()
    }

    func invalidateAttributes(of id: ItemID) { enqueue(.attributes(id)) }

    func invalidateContent(of id: ItemID) { enqueue(.content(id)) }

    func invalidateEntry(_ parent: ItemID, _ name: [UInt8]) {
        enqueue(.entry(parent, name))
        // The kernel keeps a listing that holds the name even where it keeps no entry.
        enqueue(.content(parent))
    }

    private func enqueue(_ notice: KernelNotice) {
        guard backlog.withLock({ !$0.isStopped && !$0.known.contains(notice) }) else { return }
        guard room.wait(timeout: .now() + Self.patience) == .success else {
            return log.error("the kernel takes no notifications; its caches may be stale")
        }
        let isNew = backlog.withLock { backlog in
            guard !backlog.isStopped, backlog.known.insert(notice).inserted else { return false }
            backlog.waiting.append(notice)
            return true
        }
        (isNew ? work : room).signal()
    }

    /// Waits for something to do; nil when stopped.
    private func next() -> KernelNotice? {
        work.wait()
        let notice = backlog.withLock { backlog -> KernelNotice? in
            guard !backlog.isStopped, backlog.next < backlog.waiting.count else { return nil }
            let notice = backlog.waiting[backlog.next]
            backlog.next += 1
            backlog.known.remove(notice)
            if backlog.next == backlog.waiting.count || backlog.next >= 4096 {
                backlog.waiting.removeFirst(backlog.next)
                backlog.next = 0
            }
            return notice
        }
        if notice != nil { room.signal() }
        return notice
    }
}
