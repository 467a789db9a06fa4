internal import CLinux
internal import CoveCore
internal import CoveEngine
internal import Glibc

/// The announcer process: one thread that makes the daemon's system calls on the mount, one at a time.
///
/// It holds no descriptor but its socket between two calls, so it never keeps the mount busy, and it ends with the
/// daemon, whose end closes the socket.
enum AnnouncerMain {
    /// The descriptor the daemon gives the process.
    static let socket: Int32 = 3

    /// Serves until the socket closes.
    static func run() -> Int32 {
        ProcessSettings.setName("cove-announcer")
        ProcessSettings.closeInherited(above: socket)
        var mount: AnnouncedMount?
        var buffer = [UInt8](repeating: 0, count: AnnouncerFrame.maximumLength)
        while true {
            let size = buffer.count
            let count = (try? System.retry { recv(socket, &buffer, size, 0) }) ?? 0
            guard count > 0, let frame = AnnouncerFrame(parsing: Array(buffer[..<count])) else { return 0 }
            var answer: Int32 = 0
            if frame.kind == .greet {
                mount = AnnouncedMount(path: frame.first, device: UInt64(bitPattern: frame.number))
            } else {
                do throws(Errno) {
                    guard let mount else { throw .notConnected }
                    try mount.perform(frame)
                } catch {
                    answer = error.rawValue
                }
            }
            let sent = withUnsafeBytes(of: answer.littleEndian) { bytes in
                send(socket, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
            }
            guard sent == MemoryLayout<Int32>.size else { return 0 }
        }
    }
}

/// Where the announcer works: the mount point, and the device a directory there must have.
struct AnnouncedMount {
    let path: [UInt8]
    let device: UInt64

    /// Makes the frame's system call.
    func perform(_ frame: AnnouncerFrame) throws(Errno) {
        switch frame.kind {
        case .greet: break
        case .rename:
            try inParent(of: frame.first) { directory, name throws(Errno) in
                try inParent(of: frame.second) { newDirectory, newName throws(Errno) in
                    try System.renameat(directory, name, newDirectory, newName, .replace)
                }
            }
        case .makeDirectory:
            try inParent(of: frame.first) { directory, name throws(Errno) in
                try System.mkdirat(directory, name, 0o755)
            }
        case .unlink:
            try inParent(of: frame.first) { directory, name throws(Errno) in
                try System.unlinkat(directory, name)
            }
        case .removeDirectory:
            try inParent(of: frame.first) { directory, name throws(Errno) in
                try System.unlinkat(directory, name, directory: true)
            }
        case .setTimes:
            try inParent(of: frame.first) { directory, name throws(Errno) in
                try System.setModificationTime(directory, name, Timestamp(frame.number))
            }
        case .flush:
            try inParent(of: frame.first) { directory, name throws(Errno) in
                let file = try System.openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
                defer { System.close(file) }
                try System.writeOut(file)
            }
        case .notice:
            try inParent(of: frame.first) { directory, name throws(Errno) in
                // Nothing is opened, so that nothing is fetched.
                let path = Array("/proc/self/fd/\(directory)/".utf8) + name
                try System.setAttribute(path, Engine.noticeAttribute, [])
            }
        case .syncFileSystem:
            let root = try openRoot(O_RDONLY)
            defer { System.close(root) }
            try System.retry { cove_syncfs(root) }
        }
    }

    private func inParent(
        of path: [UInt8],
        _ body: (Int32, [UInt8]) throws(Errno) -> Void
    ) throws(Errno) {
        let names = path.split(separator: 0x2F).map(Array.init)
        guard let name = names.last else { throw .invalidArgument }
        var directory = try openRoot(System.pathOnly)
        defer { System.close(directory) }
        for name in names.dropLast() {
            let next = try System.openat(directory, name, System.pathOnly | O_DIRECTORY | O_NOFOLLOW)
            System.close(directory)
            directory = next
        }
        try check(directory)
        try body(directory, name)
    }

    private func openRoot(_ flags: Int32) throws(Errno) -> Int32 {
        let root = try System.openat(AT_FDCWD, path, flags | O_DIRECTORY | O_NOFOLLOW)
        do throws(Errno) {
            try check(root)
        } catch {
            System.close(root)
            throw error
        }
        return root
    }

    /// Nothing outside of the mount is ever touched: after an unmount the path is a plain directory.
    private func check(_ descriptor: Int32) throws(Errno) {
        guard UInt64(try System.fstat(descriptor).st_dev) == device else { throw .crossDevice }
    }
}
