internal import CFuse
internal import CoveCore
internal import CoveEngine
internal import Dispatch
internal import Glibc
internal import Synchronization

/// The link to the kernel that every request finds through `fuse_req_userdata`; it owns libfuse's session.
///
/// The mount session, the notifier and each parked request hold it, so libfuse's session outlives the last answer.
/// Unchecked: `session` is written before the first request and never again.
final class Connection: @unchecked Sendable {
    let engine: Engine
    let log: Log
    /// Where cancellations of interrupted requests run, because libfuse calls the interrupt function under a lock.
    let interrupts = DispatchQueue(label: "cove.interrupts")
    private(set) var session: OpaquePointer?
    private let isInitialized = Atomic(false)
    private let whenInitialized: @Sendable () -> Void

    /// Makes libfuse's session; throws when an option is unknown to it.
    init(
        engine: Engine,
        options: MountOptions,
        log: Log,
        whenInitialized: @escaping @Sendable () -> Void
    ) throws(MountError) {
        self.engine = engine
        self.log = log
        self.whenInitialized = whenInitialized
        var arguments = fuse_args()
        defer { fuse_opt_free_args(&arguments) }
        fuse_opt_add_arg(&arguments, "cove")
        for option in options.arguments {
            fuse_opt_add_arg(&arguments, "-o")
            fuse_opt_add_arg(&arguments, option)
        }
        var operations = fuse_lowlevel_ops.cove
        session = fuse_session_new(
            &arguments,
            &operations,
            MemoryLayout<fuse_lowlevel_ops>.size,
            Unmanaged.passUnretained(self).toOpaque()
        )
        guard session != nil else {
            let extra = options.extra.joined(separator: ",")
            throw MountError(.badOption, "-o \(extra): an unknown option; `man mount.fuse3` lists them")
        }
    }

    deinit {
        if let session { fuse_session_destroy(session) }
    }

    /// The connection a request belongs to.
    @inline(__always)
    static func of(_ request: fuse_req_t?) -> Connection {
        Unmanaged<Connection>.fromOpaque(fuse_req_userdata(request)).takeUnretainedValue()
    }
}

/// The hooks on /dev/fuse (fuse_session_custom_io).
extension Connection {
    /// Takes over reading from and writing to the session's descriptor.
    func installHooks() throws(MountError) {
        var hooks = fuse_custom_io()
        hooks.writev = { descriptor, vector, count, context in
            if let context {
                let connection = Unmanaged<Connection>.fromOpaque(context).takeUnretainedValue()
                if !connection.isInitialized.load(ordering: .relaxed) {
                    return connection.sendFirst(descriptor, vector, count)
                }
            }
            return writev(descriptor, vector, count)
        }
        hooks.read = cove_fuse_read
        let status = fuse_session_custom_io(session, &hooks, fuse_session_fd(session))
        guard status == 0 else { throw MountError(.system, "libfuse: \(Errno(-status))") }
    }

    /// Sends the INIT reply with what libfuse 3.14 can't ask for.
    private func sendFirst(_ descriptor: Int32, _ vector: UnsafeMutablePointer<iovec>?, _ count: Int32) -> Int {
        if let vector, count == 2, vector[1].iov_len >= InitReply.size, let reply = vector[1].iov_base {
            let flags = reply.load(fromByteOffset: InitReply.flags, as: UInt32.self)
            reply.storeBytes(
                of: flags | InitReply.handleKillPrivilegesV2,
                toByteOffset: InitReply.flags,
                as: UInt32.self
            )
        }
        let result = writev(descriptor, vector, count)
        if !isInitialized.exchange(true, ordering: .relaxed) { whenInitialized() }
        return result
    }

    /// Offsets in `struct fuse_init_out` of <linux/fuse.h>.
    private enum InitReply {
        static let size = 64
        static let flags = 12
        /// FUSE_HANDLE_KILLPRIV_V2, without which each write(2) costs a GETXATTR; a kernel that doesn't know it ignores it.
        static let handleKillPrivilegesV2: UInt32 = 1 << 28
    }

    /// Chooses among what the kernel offers (FUSE_CAP_*).
    static func negotiate(_ information: inout fuse_conn_info) {
        let wanted =
            FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_READDIRPLUS | FUSE_CAP_PARALLEL_DIROPS
            | FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO | FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_ATOMIC_O_TRUNC
        // Locks stay the kernel's own; the second version of HANDLE_KILLPRIV takes the first one's place; and splice is
        // no faster for writes and half as fast for reads (`reply(read:at:)`).
        let unwanted =
            FUSE_CAP_POSIX_LOCKS | FUSE_CAP_FLOCK_LOCKS | FUSE_CAP_POSIX_ACL | FUSE_CAP_EXPORT_SUPPORT
            | FUSE_CAP_HANDLE_KILLPRIV | FUSE_CAP_IOCTL_DIR | FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE
            | FUSE_CAP_SPLICE_MOVE | FUSE_CAP_READDIRPLUS_AUTO
        information.want |= UInt32(wanted) & information.capable
        information.want &= ~UInt32(unwanted)
        information.max_write = min(information.max_write, 1 << 20)
        information.max_readahead = 1 << 20
        // Parked reads of one file fill the kernel's queue of 12 else, and every other file waits behind it.
        information.max_background = 1024
        information.congestion_threshold = 1024
    }
}
