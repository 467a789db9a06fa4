internal import Glibc

/// Ends the wait for a reply of `VarlinkClient.call` from another thread.
///
/// Once interrupted it stays so: whoever waits with it afterwards does not wait.
public final class Interruption: Sendable {
    let descriptor: Int32

    /// Makes one; throws EMFILE when the process has no descriptor left.
    public init() throws(Errno) { descriptor = try System.eventDescriptor() }

    deinit { System.close(descriptor) }

    /// Ends the wait under way, and later ones.
    public func interrupt() {
        var one: UInt64 = 1
        _ = write(descriptor, &one, 8)
    }

    /// True once it was interrupted.
    public var isInterrupted: Bool { wait(limit: .zero) }

    /// Waits until it is interrupted; false when it was not in time.
    public func wait(limit: TimeSpan) -> Bool {
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return ((try? System.retry { poll(&entry, 1, limit.pollMilliseconds) }) ?? 0) > 0
    }
}
