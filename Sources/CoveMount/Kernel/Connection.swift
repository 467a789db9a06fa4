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
    /// How the mount was negotiated with the kernel.
    let negotiation: Negotiation
    /// True once INIT is being answered.
    let isServing = Atomic(false)
    /// Runs once, when the first request can be served.
    let whenServing = Mutex<(@Sendable () -> Void)?>(nil)
    private let whenInitialized: @Sendable () -> Void
    /// True when the kernel is to read and write local files by itself.
    let passesThrough = Atomic(false)
    private let wantsPassthrough: Bool
    /// What becomes of access control lists.
    let accessLists = Atomic(AccessLists.refused)
    /// Which programs want no more than names.
    let walkers = Walkers()
    private let allowsOtherUsers: Bool

    /// What a mount makes of access control lists.
    enum AccessLists: UInt8, AtomicRepresentable {
        /// The kernel asks for each item's list, and lets other users do what that says.
        case enforced
        /// They are kept, for nobody but the user who mounts can use anything here. The kernel never asks by itself.
        case kept
        /// Other users are let in, and nobody would enforce a list.
        case refused
    }

    /// Makes libfuse's session; throws when an option is unknown to it.
    init(
        engine: Engine,
        options: MountOptions,
        negotiation: Negotiation,
        log: Log,
        whenInitialized: @escaping @Sendable () -> Void
    ) throws(MountError) {
        self.engine = engine
        self.negotiation = negotiation
        self.log = log
        self.whenInitialized = whenInitialized
        wantsPassthrough = options.passesThrough
        allowsOtherUsers = options.allowsOtherUsers
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

    /// Answers INIT on a new mount.
    func begin(_ answer: () -> Int) -> Int {
        let result = answer()
        whenInitialized()
        return result
    }

    /// Takes a mount over: the kernel sends again what the earlier daemon has not answered.
    func resume(_ device: Int32, _ reply: UnsafeRawBufferPointer) {
        negotiation.check(reply, log)
        do throws(Errno) {
            try KernelNotice.resend.write(to: device)
        } catch {
            // Before Linux 6.9 whoever waits for such an answer waits on; `cove doctor` tells.
            log.error("requests that an earlier daemon had can't be sent again: \(error)")
        }
    }

    /// The connection a request belongs to.
    @inline(__always)
    static func of(_ request: fuse_req_t?) -> Connection {
        Unmanaged<Connection>.fromOpaque(fuse_req_userdata(request)).takeUnretainedValue()
    }
}

extension Connection {
    /// Whether there is to be passthrough, with a word in the log where it is wanted and can't be had.
    private func decidePassthrough() -> Bool {
        if negotiation.request != nil { return negotiation.hasPassthrough }
        guard wantsPassthrough else { return false }
        var obstacle = engine.passthroughObstacle
        if geteuid() != 0 { obstacle = "only root may have it" }
        if !Negotiation.offersPassthrough(Hooks.firstRequest) { obstacle = "this kernel has none; it needs Linux 6.9" }
        guard let obstacle else { return true }
        engine.doWithoutPassthrough(obstacle)
        return false
    }

    /// Chooses among what the kernel offers (FUSE_CAP_*).
    func negotiate(_ information: inout fuse_conn_info) {
        let hasPassthrough = decidePassthrough()
        passesThrough.store(hasPassthrough, ordering: .relaxed)
        // Without writes it would only keep dates of its own.
        let hasWriteback = !hasPassthrough && !engine.isReadOnly
        let wanted =
            (hasWriteback ? FUSE_CAP_WRITEBACK_CACHE : 0) | FUSE_CAP_READDIRPLUS | FUSE_CAP_PARALLEL_DIROPS
            | FUSE_CAP_ASYNC_READ | FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_IOCTL_DIR
            // Item numbers are given once, and outlive every mount: so do file handles.
            | FUSE_CAP_EXPORT_SUPPORT
        // Locks stay the kernel's own; the second version of HANDLE_KILLPRIV takes the first one's place; and splice is
        // no faster for writes and half as fast for reads (`reply(read:at:)`).
        let unwanted =
            FUSE_CAP_POSIX_LOCKS | FUSE_CAP_FLOCK_LOCKS | FUSE_CAP_HANDLE_KILLPRIV
            | FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE | FUSE_CAP_READDIRPLUS_AUTO
        // What was agreed on when the account was mounted stays, whichever version of the program agreed on it. The bits of
        // what is wanted here are those of the reply.
        let allowed = negotiation.agreedFlags ?? UInt32.max
        information.want |= UInt32(wanted) & information.capable & allowed
        information.want &= ~UInt32(unwanted)
        // With it, who reads with O_DIRECT what is not here yet can't be killed: the kernel waits for the answer alone.
        let asynchronous = UInt32(FUSE_CAP_ASYNC_DIO)
        if (negotiation.agreedFlags ?? 0) & asynchronous == 0 { information.want &= ~asynchronous }
        if information.want & UInt32(FUSE_CAP_WRITEBACK_CACHE) != 0 { engine.leaveDatesToKernel() }
        negotiateAccessLists(&information, allowed)
        information.max_write = min(information.max_write, 1 << 20)
        information.max_readahead = 1 << 20
        // Parked reads of one file fill the kernel's queue of 12 else, and every other file waits behind it.
        information.max_background = 1024
        information.congestion_threshold = 1024
    }

    /// The kernel that enforces lists asks for that of each name in `ls -l`, which then takes five times as long: only where
    /// other users are let in do lists mean anything.
    private func negotiateAccessLists(_ information: inout fuse_conn_info, _ allowed: UInt32) {
        // Who makes something in a directory with a list for it has no umask, and only the engine knows which has one.
        let mask = UInt32(FUSE_CAP_DONT_MASK)
        let lists = UInt32(FUSE_CAP_POSIX_ACL)
        let mayEnforce = information.capable & mask != 0 && information.capable & lists != 0
        information.want &= ~(mask | lists)
        information.want |= information.capable & mask & allowed
        let isEnforced =
            mayEnforce && Negotiation.hasAccessLists(allowed) && (negotiation.request != nil || allowsOtherUsers)
        if isEnforced { information.want |= lists }
        // Since Linux 6.2 the kernel refuses to have one's list set by another.
        let isKept = !allowsOtherUsers && information.proto_minor >= 38
        accessLists.store(isEnforced ? .enforced : isKept ? .kept : .refused, ordering: .relaxed)
    }
}
