public import CoveCore
internal import Glibc

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

    /// Asks the daemon, by a process of its own; not for a daemon's own mount.
    public func state(timeout: TimeSpan = .seconds(2)) -> State {
        (try? MountInquiry(self))?.state(within: timeout) ?? .silent
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

    /// Takes a mount out of the tree whose daemon will never answer, and fails what programs still ask of it.
    public func end() throws(MountError) {
        // MNT_FORCE ends the connection where fusectl, which not every machine has mounted, may not be there.
        if geteuid() == 0 { umount2(path, Int32(MNT_FORCE)) } else { try? abort() }
        guard (try? MountTable.read())?.contains(where: { $0.id == id && $0.path == path }) ?? true else { return }
        try detach()
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
