internal import CLinux
public import Glibc

/// System calls as throwing Swift functions: EINTR is retried, every other failure is thrown as `Errno`.
public enum System {
    /// Repeats a call that returns -1 with EINTR; throws on any other failure.
    @inline(__always)
    @discardableResult
    public static func retry<R: SignedInteger>(_ body: () -> R) throws(Errno) -> R {
        while true {
            let result = body()
            if result != -1 { return result }
            let error = Errno.current
            if error != .interrupted { throw error }
        }
    }

    /// open(2), with O_CLOEXEC added.
    public static func open(_ path: String, _ flags: Int32, _ mode: mode_t = 0o600) throws(Errno) -> Int32 {
        try retry { Glibc.open(path, flags | O_CLOEXEC, mode) }
    }

    /// openat(2) of bytes, with O_CLOEXEC added; an empty path opens the directory again.
    public static func openat(
        _ directory: Int32,
        _ path: [UInt8],
        _ flags: Int32,
        _ mode: mode_t = 0o600
    ) throws(Errno) -> Int32 {
        try withCString(path.isEmpty ? [0x2E] : path) { name throws(Errno) in
            try retry { Glibc.openat(directory, name, flags | O_CLOEXEC, mode) }
        }
    }

    /// close(2); its errors say nothing that could still be mended.
    public static func close(_ descriptor: Int32) { _ = Glibc.close(descriptor) }

    /// fstat(2).
    public static func fstat(_ descriptor: Int32) throws(Errno) -> stat {
        var result = stat()
        try retry { Glibc.fstat(descriptor, &result) }
        return result
    }

    /// lstat(2).
    public static func lstat(_ path: String) throws(Errno) -> stat {
        var result = stat()
        try retry { Glibc.lstat(path, &result) }
        return result
    }

    /// stat(2): follows symbolic links.
    public static func statFollowing(_ path: String) throws(Errno) -> stat {
        var result = stat()
        try retry { fstatat(AT_FDCWD, path, &result, 0) }
        return result
    }

    /// pread(2): may return fewer bytes than asked for, 0 at the end.
    public static func pread(
        _ descriptor: Int32,
        _ buffer: UnsafeMutableRawBufferPointer,
        _ offset: Int64
    ) throws(Errno) -> Int {
        try retry { Glibc.pread(descriptor, buffer.baseAddress, buffer.count, off_t(offset)) }
    }

    /// pread(2) of at most so many bytes into the buffer's beginning.
    public static func pread(
        _ descriptor: Int32,
        into buffer: inout [UInt8],
        count: Int,
        _ offset: Int64
    ) throws(Errno) -> Int {
        let outcome: Result<Int, Errno> = buffer.withUnsafeMutableBytes { bytes in
            let part = UnsafeMutableRawBufferPointer(rebasing: bytes.prefix(count))
            return Result { () throws(Errno) in try pread(descriptor, part, offset) }
        }
        return try outcome.get()
    }

    /// What a file holds from its beginning, in one pread(2): for small files, and those of proc(5).
    public static func contents(_ descriptor: Int32, atMost limit: Int = 16 << 10) throws(Errno) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: limit)
        let count = try pread(descriptor, into: &bytes, count: limit, 0)
        bytes.removeSubrange(count...)
        return bytes
    }

    /// pwrite(2) of all of an array.
    public static func pwriteAll(_ descriptor: Int32, _ bytes: [UInt8], _ offset: Int64) throws(Errno) {
        let outcome: Result<Void, Errno> = bytes.withUnsafeBytes { buffer in
            Result { () throws(Errno) in try pwriteAll(descriptor, buffer, offset) }
        }
        try outcome.get()
    }

    /// pwrite(2), repeated until all is written.
    public static func pwriteAll(
        _ descriptor: Int32,
        _ bytes: UnsafeRawBufferPointer,
        _ offset: Int64
    ) throws(Errno) {
        var done = 0
        while done < bytes.count {
            done += try retry {
                Glibc.pwrite(
                    descriptor,
                    bytes.baseAddress.map { $0 + done },
                    bytes.count - done,
                    off_t(offset) + done
                )
            }
        }
    }

    /// write(2), repeated until all is written.
    public static func writeAll(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) throws(Errno) {
        var done = 0
        while done < bytes.count {
            done += try retry { Glibc.write(descriptor, bytes.baseAddress.map { $0 + done }, bytes.count - done) }
        }
    }

    /// ftruncate(2).
    public static func ftruncate(_ descriptor: Int32, _ size: Int64) throws(Errno) {
        try retry { Glibc.ftruncate(descriptor, off_t(size)) }
    }

    /// fdatasync(2).
    public static func fdatasync(_ descriptor: Int32) throws(Errno) { try retry { Glibc.fdatasync(descriptor) } }

    /// Starts to write bytes to the disk and does not wait for it; sync_file_range(2), and only a hint.
    public static func startWriting(_ descriptor: Int32, _ offset: Int64, _ count: Int) {
        let write: UInt32 = 2  // SYNC_FILE_RANGE_WRITE
        _ = cove_sync_file_range(descriptor, offset, Int64(count), write)
    }

    /// sync_file_range(2) of all of a file, to the end of the writing.
    public static func writeOut(_ descriptor: Int32) throws(Errno) {
        // SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE and _WAIT_AFTER.
        try retry { cove_sync_file_range(descriptor, 0, 0, 7) }
    }

    /// fsync(2).
    public static func fsync(_ descriptor: Int32) throws(Errno) { try retry { Glibc.fsync(descriptor) } }

    /// fsync(2) of a directory: its names are durable afterwards.
    public static func syncDirectory(_ path: String) throws(Errno) {
        let directory = try open(path, O_RDONLY | O_DIRECTORY)
        defer { close(directory) }
        try fsync(directory)
    }

    /// syncfs(2): all that was written to the disk of a path is durable afterwards.
    public static func syncFileSystem(_ path: String) throws(Errno) {
        let directory = try open(path, O_RDONLY | O_DIRECTORY)
        defer { close(directory) }
        try retry { cove_syncfs(directory) }
    }

    /// unlink(2).
    public static func unlink(_ path: String) throws(Errno) { try retry { Glibc.unlink(path) } }

    /// rename(2).
    public static func rename(_ from: String, _ to: String) throws(Errno) { try retry { Glibc.rename(from, to) } }

    /// mkdir(2).
    public static func mkdir(_ path: String, _ mode: mode_t = 0o700) throws(Errno) {
        try retry { Glibc.mkdir(path, mode) }
    }

    /// mkdir(2) of the path and of every missing directory above it.
    public static func makeDirectories(_ path: String, _ mode: mode_t = 0o700) throws(Errno) {
        do {
            try mkdir(path, mode)
        } catch .exists {
            return
        } catch .noSuchEntry {
            guard let slash = path.lastIndex(of: "/"), slash > path.startIndex else { throw .noSuchEntry }
            try makeDirectories(String(path[..<slash]), mode)
            // In some folders, as in /proc, nothing can be made, and they too say that it is not there.
            do { try mkdir(path, mode) } catch .exists {}
        }
    }

    /// fallocate(2).
    public static func fallocate(
        _ descriptor: Int32,
        mode: Int32,
        offset: Int64,
        length: Int64
    ) throws(Errno) {
        try retry { cove_fallocate(descriptor, mode, offset, length) }
    }

    /// copy_file_range(2): may copy fewer bytes than asked for, 0 at the source's end.
    public static func copyFileRange(
        from source: Int32,
        at sourceOffset: Int64,
        to target: Int32,
        at targetOffset: Int64,
        count: Int
    ) throws(Errno) -> Int {
        var input = sourceOffset
        var output = targetOffset
        return try retry { cove_copy_file_range(source, &input, target, &output, count) }
    }

    /// The wall clock.
    public static func now() -> Timestamp { Timestamp(time(of: CLOCK_REALTIME)) }

    /// The wall clock as of the kernel's last tick, which dates files.
    ///
    /// The exact one is some milliseconds ahead of it.
    public static func fileTime() -> Timestamp { Timestamp(time(of: CLOCK_REALTIME_COARSE)) }

    /// A clock that never steps, and goes on while the machine sleeps.
    public static func boottime() -> MonotonicTime {
        MonotonicTime(Timestamp(time(of: CLOCK_BOOTTIME)).nanosecondsSinceEpoch)
    }

    /// A clock that never steps.
    public static func monotonic() -> MonotonicTime {
        MonotonicTime(Timestamp(time(of: CLOCK_MONOTONIC)).nanosecondsSinceEpoch)
    }

    private static func time(of clock: clockid_t) -> timespec {
        var time = timespec()
        clock_gettime(clock, &time)
        return time
    }

    /// Calls the body with the bytes as a NUL-terminated C string.
    @inline(__always)
    @discardableResult
    public static func withCString<R>(
        _ bytes: [UInt8],
        _ body: (UnsafePointer<CChar>) throws(Errno) -> R
    ) throws(Errno) -> R {
        var terminated = bytes
        terminated.append(0)
        let outcome: Result<R, Errno> = terminated.withUnsafeBytes { raw in
            guard let base = raw.baseAddress?.assumingMemoryBound(to: CChar.self) else {
                return .failure(.invalidArgument)
            }
            do throws(Errno) { return .success(try body(base)) } catch { return .failure(error) }
        }
        return try outcome.get()
    }
}
