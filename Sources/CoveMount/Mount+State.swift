internal import CFuse
public import CoveCore
internal import Dispatch
internal import Glibc
internal import Synchronization

extension Mount {
    /// Whether a FUSE mount's daemon answers.
    public enum State: Sendable, Hashable {
        /// It does.
        case serving
        /// Its connection is gone: every access fails with ENOTCONN until it is unmounted.
        case dead
        /// It has not answered in time.
        case silent
    }

    /// Asks the daemon for statfs(2), the one request the kernel never answers from a cache.
    ///
    /// The question has a thread of its own, which stays behind where no answer comes. Not for a daemon's own mount.
    public func state(timeout: TimeSpan = .seconds(2)) -> State {
        let question = Question(path: path)
        var thread = pthread_t()
        let context = Unmanaged.passRetained(question).toOpaque()
        guard pthread_create(&thread, nil, Question.ask, context) == 0 else {
            Unmanaged<Question>.fromOpaque(context).release()
            return .silent
        }
        pthread_detach(thread)
        guard question.answered.wait(timeout: .now() + timeout.dispatchInterval) == .success else { return .silent }
        return question.result.withLock { $0 == ENOTCONN || $0 == ECONNABORTED ? .dead : .serving }
    }

    /// Takes the mount out of the tree at once (umount2(2) MNT_DETACH, `fusermount3 -u -z` for users).
    ///
    /// For a dead or silent one; what the kernel has not written back is lost when its daemon doesn't come again.
    public func detach() throws(MountError) {
        guard geteuid() != 0 else {
            guard umount2(path, Int32(MNT_DETACH)) != 0 else { return }
            throw MountError(.system, "\(path): not unmounted: \(Errno.current); try `umount -l \(path)`")
        }
        guard Unmounting.unmount(path, isLazy: true) else {
            throw MountError(.notPermitted, "\(path): not unmounted; its owner may: `fusermount3 -u -z \(path)`")
        }
    }

    /// Ends the connection of a daemon that hangs: all its requests fail, and the mount is dead.
    ///
    /// Writes to fusectl's `abort` file, which belongs to whoever mounted.
    public func abort() throws(MountError) {
        let file = "/sys/fs/fuse/connections/\(minorDevice)/abort"
        do throws(Errno) {
            let descriptor = try System.open(file, O_WRONLY)
            defer { System.close(descriptor) }
            try System.retry { write(descriptor, "1", 1) }
        } catch {
            throw MountError(.system, "\(file): \(error); mount fusectl on /sys/fs/fuse/connections")
        }
    }
}

private final class Question: Sendable {
    let path: String
    let answered = DispatchSemaphore(value: 0)
    let result = Mutex<Int32>(0)

    init(path: String) { self.path = path }

    static let ask: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { context in
        guard let context else { return nil }
        let question = Unmanaged<Question>.fromOpaque(context).takeRetainedValue()
        var status = statvfs()
        let error = statvfs(question.path, &status) == 0 ? 0 : errno
        question.result.withLock { $0 = error }
        question.answered.signal()
        return nil
    }
}
