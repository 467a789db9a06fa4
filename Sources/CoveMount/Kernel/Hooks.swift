internal import CFuse
internal import CoveCore
internal import CoveEngine
internal import Glibc
internal import Synchronization

/// The hooks on /dev/fuse (fuse_session_custom_io): what libfuse 3.14 can't ask for in the INIT reply, a mount that an
/// earlier daemon had, and the number of each request.
///
/// The only file that may use the shim's shared variables.
enum Hooks {
    /// The number which the kernel gave the request which this thread has read last.
    @inline(never)
    static var requestNumber: UInt64 { cove_fuse_request_number() }

    /// True when the request which this thread has read last asks for the date of birth too.
    @inline(never)
    static var wantsBirth: Bool { cove_fuse_request_wants_birth() != 0 }

    /// The INIT request that is being answered.
    @inline(never)
    static var firstRequest: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: cove_fuse_first_request(), count: cove_fuse_first_request_length())
    }

    /// Takes over reading from and writing to a mount's descriptor; a mount of an earlier daemon is resumed.
    static func install(on connection: Connection, device: Int32) throws(MountError) {
        var hooks = fuse_custom_io()
        hooks.read = cove_fuse_read
        hooks.writev = { descriptor, vector, count, context in
            if let context {
                let connection = Unmanaged<Connection>.fromOpaque(context).takeUnretainedValue()
                // Whatever else is answered comes after INIT, but perhaps before this has returned.
                if !connection.isServing.load(ordering: .relaxed),
                    !connection.isServing.exchange(true, ordering: .acquiringAndReleasing)
                {
                    return Hooks.answerFirst(connection, descriptor, vector, count)
                }
            }
            return writev(descriptor, vector, count)
        }
        note(connection.engine.work)
        if let request = connection.negotiation.request {
            request.withUnsafeBytes { cove_fuse_replay($0.baseAddress, $0.count) }
        }
        let status = fuse_session_custom_io(connection.session, &hooks, device)
        guard status == 0 else { throw MountError(.system, "libfuse: \(Errno(-status))") }
    }

    /// For so long also a program's own next attempt at what may have ended two daemons is refused.
    private static let refusalSeconds: Int32 = 60

    /// Has each thread note what it has in hand, and refuses what may have ended two daemons.
    private static func note(_ work: WorkLedger) {
        let suspects = work.suspects
        for print in suspects.prints { cove_fuse_suspect_print(print) }
        for number in suspects.numbers { cove_fuse_suspect_number(number) }
        if suspects.areAllResent { cove_fuse_suspect_all_resent() }
        if suspects.includesNew { cove_fuse_suspect_new_for(refusalSeconds) }
        cove_fuse_note_work(work.requests, work.refusals)
    }

    /// Sends the INIT reply of a new mount, or swallows that of a resumed one.
    private static func answerFirst(
        _ connection: Connection,
        _ descriptor: Int32,
        _ vector: UnsafeMutablePointer<iovec>?,
        _ count: Int32
    ) -> Int {
        defer {
            cove_fuse_serve()
            connection.whenServing.withLock { $0 }?()
        }
        guard let vector, count == 2, vector[1].iov_len >= Negotiation.replySize, let reply = vector[1].iov_base else {
            // A refusal, of a kernel that is too old.
            return writev(descriptor, vector, count)
        }
        let bytes = UnsafeMutableRawBufferPointer(start: reply, count: vector[1].iov_len)
        if connection.passesThrough.load(ordering: .relaxed) {
            connection.engine.passThrough(by: KernelBacking(device: descriptor))
        }
        if connection.negotiation.request != nil {
            connection.resume(descriptor, UnsafeRawBufferPointer(bytes))
            return vector[0].iov_len + vector[1].iov_len
        }
        Negotiation.amend(bytes, passesThrough: connection.passesThrough.load(ordering: .relaxed))
        do throws(Errno) {
            try connection.negotiation.record(request: firstRequest, reply: UnsafeRawBufferPointer(bytes))
        } catch {
            // No other daemon could take such a mount over, and the keeper ends with one that never served.
            connection.log.error("what was agreed on with the kernel can't be kept: \(error)")
            _exit(1)
        }
        return connection.begin { writev(descriptor, vector, count) }
    }
}
