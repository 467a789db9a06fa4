internal import CFuse
internal import CoveCore
internal import CoveEngine
internal import Dispatch
internal import Glibc
internal import Synchronization

/// Tells the kernel what its caches may no longer hold, from threads that serve no requests.
///
/// An invalidation may wait for a page that a parked read has locked, hence several threads. The backlog is bounded:
/// equal invalidations that have not begun count once, and a caller who finds it full waits for room. Invalidations
/// carry no values, so their order doesn't matter.
final class KernelNotifications: KernelNotifier {
    private enum Notification: Hashable {
        case attributes(ItemID)
        case content(ItemID)
        case entry(ItemID, [UInt8])
    }

    private struct Backlog {
        var waiting: [Notification] = []
        /// The first of `waiting` that no thread has taken.
        var next = 0
        var known: Set<Notification> = []
        var isStopped = false
    }

    private static let threadCount = 4
    private static let capacity = 65536
    /// The longest wait for room: a daemon that goes on with a stale cache beats one that hangs.
    private static let patience = DispatchTimeInterval.seconds(10)

    private let connection: Connection
    private let backlog = Mutex(Backlog())
    private let work = DispatchSemaphore(value: 0)
    private let room = DispatchSemaphore(value: 0)

    init(_ connection: Connection) {
        self.connection = connection
        // Not by the initial value: a semaphore below it may not be deallocated.
        for _ in 0..<Self.capacity { room.signal() }
    }

    /// Starts the threads, which keep the object alive until `stop`.
    func start() {
        for _ in 0..<Self.threadCount {
            var thread = pthread_t()
            let context = Unmanaged.passRetained(self).toOpaque()
            let status = pthread_create(&thread, nil, Self.threadBody, context)
            if status == 0 {
                pthread_detach(thread)
            } else {
                Unmanaged<KernelNotifications>.fromOpaque(context).release()
                connection.log.error("no thread for kernel notifications: \(Errno(status))")
            }
        }
    }

    /// Ends the threads; what waits still is dropped, for the kernel's caches end with the mount.
    func stop() {
        backlog.withLock { $0 = Backlog(isStopped: true) }
        for _ in 0..<Self.threadCount { work.signal() }
    }

    func invalidateAttributes(of id: ItemID) { enqueue(.attributes(id)) }

    func invalidateContent(of id: ItemID) { enqueue(.content(id)) }

    func invalidateEntry(_ parent: ItemID, _ name: [UInt8]) { enqueue(.entry(parent, name)) }

    private func enqueue(_ notification: Notification) {
        guard backlog.withLock({ !$0.isStopped && !$0.known.contains(notification) }) else { return }
        guard room.wait(timeout: .now() + Self.patience) == .success else {
            return connection.log.error("the kernel takes no notifications; its caches may be stale")
        }
        let isNew = backlog.withLock { backlog in
            guard !backlog.isStopped, backlog.known.insert(notification).inserted else { return false }
            backlog.waiting.append(notification)
            return true
        }
        (isNew ? work : room).signal()
    }

    /// Waits for something to do; nil when stopped.
    private func next() -> Notification? {
        work.wait()
        let notification = backlog.withLock { backlog -> Notification? in
            guard !backlog.isStopped, backlog.next < backlog.waiting.count else { return nil }
            let notification = backlog.waiting[backlog.next]
            backlog.next += 1
            backlog.known.remove(notification)
            if backlog.next == backlog.waiting.count || backlog.next >= 4096 {
                backlog.waiting.removeFirst(backlog.next)
                backlog.next = 0
            }
            return notification
        }
        if notification != nil { room.signal() }
        return notification
    }

    private func send(_ notification: Notification) {
        switch notification {
        case .attributes(let id):
            report(fuse_lowlevel_notify_inval_inode(connection.session, id.rawValue, -1, 0))
        case .content(let id):
            report(fuse_lowlevel_notify_inval_inode(connection.session, id.rawValue, 0, 0))
        case .entry(let parent, let name):
            // libfuse also sends the byte after the name, which must be NUL.
            (name + [0]).withUnsafeBytes { bytes in
                let text = bytes.baseAddress?.assumingMemoryBound(to: CChar.self)
                report(fuse_lowlevel_notify_inval_entry(connection.session, parent.rawValue, text, name.count))
            }
            // The kernel keeps a listing that holds the name even where it keeps no entry.
            report(fuse_lowlevel_notify_inval_inode(connection.session, parent.rawValue, 0, 0))
        }
    }

    /// ENOENT says that the kernel held nothing, ENOTCONN, ENODEV and EBADF that the mount is gone.
    private func report(_ status: Int32) {
        guard status < 0, ![ENOENT, ENOTCONN, ENODEV, EBADF].contains(-status) else { return }
        connection.log.debug("kernel notification: \(Errno(-status))")
    }

    private static let threadBody: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { context in
        guard let context else { return nil }
        // Signals are for the daemon's own thread.
        var signals = sigset_t()
        sigfillset(&signals)
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        let notifications = Unmanaged<KernelNotifications>.fromOpaque(context).takeRetainedValue()
        while let notification = notifications.next() { notifications.send(notification) }
        return nil
    }
}
