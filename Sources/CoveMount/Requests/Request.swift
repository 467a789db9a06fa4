internal import CFuse
internal import CoveCore
internal import CoveEngine
internal import Glibc

/// One request of the kernel, answered exactly once: every answer consumes it, and a dropped one answers EIO by itself.
///
/// The operations are methods of it (`Request+Names.swift` and its siblings), named after the FUSE verbs they serve.
struct Request: ~Copyable, @unchecked Sendable {
    /// libfuse frees it with the answer; until then any thread may use it.
    let raw: fuse_req_t?
    /// Who asks.
    ///
    /// Read by the thread that got the request, before it gets another one.
    let caller: Caller

    /// Takes the request a libfuse callback was given.
    @inline(__always)
    init(_ raw: fuse_req_t?) {
        self.raw = raw
        caller = Self.caller(of: raw)
    }

    deinit {
        let dropped = "request \(caller.request) of thread \(caller.thread) was given up without an answer; it gets EIO"
        connection.log.error(dropped)
        fuse_reply_err(raw, EIO)
    }

    /// The mount the request came in by.
    var connection: Connection {
        @inline(__always) get { Connection.of(raw) }
    }

    /// FUSE_UNIQUE_RESEND: the kernel marks a request that it sends again.
    private static let resentBit: UInt64 = 1 << 63

    private static func caller(of raw: fuse_req_t?) -> Caller {
        guard let context = fuse_req_ctx(raw) else { return Caller(thread: 0, user: 0, group: 0) }
        let number = Hooks.requestNumber
        return Caller(
            thread: context.pointee.pid,
            user: context.pointee.uid,
            group: context.pointee.gid,
            umask: UInt16(context.pointee.umask & 0o777),
            request: number & ~resentBit,
            isResent: number & resentBit != 0
        )
    }

    /// Counts the request and gives the engine that serves it.
    @inline(__always)
    func begin() -> Engine {
        let engine = connection.engine
        engine.countRequest()
        return engine
    }
}

extension Request {
    /// Answers a failure.
    consuming func fail(_ error: Errno) {
        // libfuse takes 1 to 999 only and would answer ERANGE for the rest.
        fuse_reply_err(raw, (1...999).contains(error.rawValue) ? error.rawValue : EIO)
        discard self
    }

    /// Answers success without a value.
    consuming func succeed() {
        fuse_reply_err(raw, 0)
        discard self
    }

    /// Ends a request the kernel wants no answer to.
    consuming func end() {
        fuse_reply_none(raw)
        discard self
    }

    /// Answers an entry, nil being the negative one, which the kernel remembers too.
    consuming func reply(entry attributes: ItemAttributes?, isCached: Bool) {
        var entry = attributes.map { fuse_entry_param($0, isCached: isCached) } ?? fuse_entry_param(negative: isCached)
        fuse_reply_entry(raw, &entry)
        discard self
    }

    /// Answers an entry that the request made.
    consuming func reply(new attributes: ItemAttributes, named name: [UInt8]) {
        let isCached = !connection.engine.isUncachedName(name)
        reply(entry: attributes, isCached: isCached)
    }

    /// Answers what stat(2) shows.
    consuming func reply(attributes: ItemAttributes) {
        var status = stat(attributes)
        fuse_reply_attr(raw, &status, attributes.timeout)
        discard self
    }

    /// Answers what statx(2) shows.
    consuming func reply(allOf attributes: ItemAttributes) {
        var status = stat(attributes)
        _ = cove_fuse_reply_statx(raw, &status, attributes.birthTime.timespec, attributes.timeout)
        discard self
    }

    /// Answers an opened file, which the kernel reads and writes by itself where it has a number; false when the kernel no
    /// longer waits and will send no RELEASE.
    consuming func replyOpen(backing: UInt32?) -> Bool {
        let status: Int32
        if let backing {
            status = cove_fuse_reply_open_backed(raw, backing)
        } else {
            var file = fuse_file_info()
            file.keep_cache = 1
            status = fuse_reply_open(raw, &file)
        }
        discard self
        return status != -ENOENT
    }

    /// Answers an opened directory, whose listing the kernel may keep unless something changes; false as `replyOpen`.
    consuming func replyOpenDirectory(isCached: Bool, keepsListing: Bool) -> Bool {
        var file = fuse_file_info()
        file.keep_cache = isCached && keepsListing ? 1 : 0
        file.cache_readdir = isCached ? 1 : 0
        let status = fuse_reply_open(raw, &file)
        discard self
        return status != -ENOENT
    }

    /// Answers a created and opened file; false as `replyOpen`.
    consuming func reply(created attributes: ItemAttributes, named name: [UInt8], backing: UInt32?) -> Bool {
        var entry = fuse_entry_param(attributes, isCached: !connection.engine.isUncachedName(name))
        let status: Int32
        if let backing {
            status = cove_fuse_reply_create_backed(raw, &entry, backing)
        } else {
            var file = fuse_file_info()
            file.keep_cache = 1
            status = fuse_reply_create(raw, &entry, &file)
        }
        discard self
        return status != -ENOENT
    }

    /// Answers how many bytes were written or copied.
    consuming func reply(written count: Int) {
        fuse_reply_write(raw, count)
        discard self
    }

    /// Answers bytes.
    consuming func reply(bytes: UnsafeRawBufferPointer) {
        fuse_reply_buf(raw, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count)
        discard self
    }

    /// Answers a symbolic link's target.
    consuming func reply(target: [UInt8]) {
        // fuse_reply_readlink would only measure a C string again.
        target.withUnsafeBytes { bytes in
            _ = fuse_reply_buf(raw, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count)
        }
        discard self
    }

    /// Answers an extended attribute or a list of them: its length when the caller only probes, ERANGE when it won't fit.
    consuming func reply(value: [UInt8], limit: Int) {
        if limit == 0 {
            fuse_reply_xattr(raw, value.count)
        } else if value.count > limit {
            fuse_reply_err(raw, ERANGE)
        } else {
            value.withUnsafeBytes { bytes in
                _ = fuse_reply_buf(raw, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count)
            }
        }
        discard self
    }

    /// Answers ioctl(2) with what it fills in.
    consuming func reply<Value: BitwiseCopyable>(control value: Value) {
        withUnsafeBytes(of: value) { bytes in _ = fuse_reply_ioctl(raw, 0, bytes.baseAddress, bytes.count) }
        discard self
    }

    /// Answers ioctl(2) that fills in nothing.
    consuming func succeedControl() {
        fuse_reply_ioctl(raw, 0, nil, 0)
        discard self
    }

    /// Answers statfs(2).
    consuming func reply(status: FileSystemStatus) {
        var result = statvfs(status)
        fuse_reply_statfs(raw, &result)
        discard self
    }
}
