internal import Glibc

/// Who is at the other end of a Unix socket (SO_PEERCRED, unix(7)).
public struct PeerCredentials: Sendable, Hashable {
    /// The process that connected.
    public var process: Int32
    /// Its effective user when it connected.
    public var user: UInt32
    /// Its effective group when it connected.
    public var group: UInt32
    /// Whose it was when it connected, as the server could tell.
    public var standing = PeerStanding.user
}

/// On whose behalf a process calls.
public enum PeerStanding: Sendable, Hashable {
    /// The user's own program.
    case user
    /// A program that sees no more than an app may.
    case app(AppIdentifier)
    /// Nobody could tell, or what tells it contradicts itself: what happened; what to do.
    case unknown(String)
}

/// Stream sockets in the file system, also below paths longer than `sun_path` takes.
enum UnixSocket {
    /// socket(2), fchmod(2) to 0600, which bind(2) gives the name, and listen(2).
    ///
    /// An existing file of that name is an error.
    static func listen(at path: String) throws(Errno) -> Int32 {
        let descriptor = try make()
        do throws(Errno) {
            try System.fchmod(descriptor, 0o600)
            try withAddress(path) { address, length throws(Errno) in
                try System.retry { bind(descriptor, address, length) }
            }
            try System.retry { Glibc.listen(descriptor, 64) }
        } catch {
            System.close(descriptor)
            throw error
        }
        return descriptor
    }

    /// socket(2) and connect(2).
    static func connect(to path: String) throws(Errno) -> Int32 {
        let descriptor = try make()
        do throws(Errno) {
            try withAddress(path) { address, length throws(Errno) in
                try System.retry { Glibc.connect(descriptor, address, length) }
            }
        } catch {
            System.close(descriptor)
            throw error
        }
        return descriptor
    }

    /// accept(2), with FD_CLOEXEC added.
    static func accept(_ listener: Int32) throws(Errno) -> Int32 {
        let descriptor = try System.retry { Glibc.accept(listener, nil, nil) }
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        return descriptor
    }

    /// getsockopt(2) SO_PEERCRED.
    static func peer(of descriptor: Int32) throws(Errno) -> PeerCredentials {
        var credentials: (pid: Int32, uid: UInt32, gid: UInt32) = (0, 0, 0)
        var length = socklen_t(MemoryLayout.size(ofValue: credentials))
        try System.retry { getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &length) }
        return PeerCredentials(process: credentials.pid, user: credentials.uid, group: credentials.gid)
    }

    /// getsockopt(2) SO_PEERPIDFD (Linux 6.5): the process that connected, itself and not by its number, for `hasEnded`.
    ///
    /// Nil where the kernel has no such thing; throws where the process is gone.
    static func process(of descriptor: Int32) throws(Errno) -> Int32? {
        let option: Int32 = 77
        var handle: Int32 = -1
        var length = socklen_t(MemoryLayout.size(ofValue: handle))
        do throws(Errno) {
            try System.retry { getsockopt(descriptor, SOL_SOCKET, option, &handle, &length) }
        } catch {
            if [Errno(ENOPROTOOPT), .notSupported].contains(error) { return nil }
            throw error
        }
        return handle
    }

    /// True once the process that a descriptor of `process(of:)` stands for has ended.
    static func hasEnded(_ handle: Int32) -> Bool {
        ((try? wait(handle, for: Int32(POLLIN), limit: .zero)) ?? 1) != 0
    }

    /// poll(2) for one descriptor; returns what happened, 0 when the time is over.
    ///
    /// Without a limit it waits for as long as it takes.
    static func wait(_ descriptor: Int32, for events: Int32, limit: TimeSpan?) throws(Errno) -> Int32 {
        var entry = pollfd(fd: descriptor, events: Int16(events), revents: 0)
        try System.retry { poll(&entry, 1, limit?.pollMilliseconds ?? -1) }
        return Int32(entry.revents)
    }

    /// recv(2) of what is there, at most 64 KiB; empty when the peer has closed, nil when nothing is there yet.
    static func receive(_ descriptor: Int32) throws(Errno) -> [UInt8]? {
        var failure: Errno?
        let bytes = [UInt8](unsafeUninitializedCapacity: 64 << 10) { buffer, count in
            do throws(Errno) {
                count = try System.retry { recv(descriptor, buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT)) }
            } catch {
                failure = error
            }
        }
        if failure == .wouldBlock { return nil }
        if let failure { throw failure }
        return bytes
    }

    /// send(2), repeated until all is sent.
    ///
    /// Throws ETIMEDOUT when the peer takes nothing for so long.
    static func send(_ descriptor: Int32, _ bytes: [UInt8], stall: TimeSpan) throws(Errno) {
        var done = 0
        while done < bytes.count {
            do throws(Errno) {
                let left = bytes[done...]
                done += try System.retry {
                    left.withUnsafeBytes {
                        Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL))
                    }
                }
            } catch .wouldBlock {
                if try wait(descriptor, for: Int32(POLLOUT), limit: stall) == 0 {
                    throw .timedOut
                }
            }
        }
    }

    private static func make() throws(Errno) -> Int32 {
        try System.retry {
            socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        }
    }

    /// Calls the body with the path's address; a path over 107 bytes goes through its directory's descriptor.
    private static func withAddress(
        _ path: String,
        _ body: (UnsafePointer<sockaddr>, socklen_t) throws(Errno) -> Void
    ) throws(Errno) {
        if path.utf8.count <= 107 { return try withShortAddress(path, body) }
        guard let slash = path.lastIndex(of: "/") else { throw .nameTooLong }
        let directory = try System.open(String(path[..<slash]), O_DIRECTORY)
        defer { System.close(directory) }
        let short = "/proc/self/fd/\(directory)\(path[slash...])"
        guard short.utf8.count <= 107 else { throw .nameTooLong }
        try withShortAddress(short, body)
    }

    private static func withShortAddress(
        _ path: String,
        _ body: (UnsafePointer<sockaddr>, socklen_t) throws(Errno) -> Void
    ) throws(Errno) {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let outcome: Result<Void, Errno> = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
                Result { () throws(Errno) in
                    try body(generic, socklen_t(MemoryLayout<sockaddr_un>.size))
                }
            }
        }
        try outcome.get()
    }
}
