internal import CLinux
public import CoveCore
internal import Glibc

/// What daemon and kernel agreed on when the account was mounted, in memory that outlives the daemon: the INIT request
/// and its reply.
///
/// Layout: a header of three words of 32 bits (version, lengths of request and reply), request, reply.
public final class Negotiation: Sendable {
    private static let version: UInt32 = 1
    private static let headerSize = 12

    /// The memory's descriptor, for whoever keeps it.
    public let descriptor: Int32
    /// The INIT request of an earlier daemon of the mount; nil for a new mount.
    let request: [UInt8]?
    private let earlierReply: [UInt8]

    /// Makes an empty record, or reads the one in a descriptor.
    ///
    /// Throws EPROTO for one that is not understood.
    public init(inherited: Int32? = nil) throws(Errno) {
        if let inherited {
            descriptor = inherited
        } else {
            descriptor = try System.retry { cove_memfd_create("cove-negotiation") }
        }
        guard inherited != nil, let (request, reply) = try Self.read(descriptor) else {
            request = nil
            earlierReply = []
            return
        }
        self.request = request
        earlierReply = reply
    }

    deinit { System.close(descriptor) }

    private static func read(_ descriptor: Int32) throws(Errno) -> (request: [UInt8], reply: [UInt8])? {
        var bytes = [UInt8](repeating: 0, count: 8192)
        let count = try bytes.withUnsafeMutableBytes { buffer in
            Result { () throws(Errno) in try System.pread(descriptor, buffer, 0) }
        }.get()
        // Mounted, and killed before the kernel said its first word.
        if count == 0 { return nil }
        let header = bytes.withUnsafeBytes { buffer in
            (0..<3).map { Int(buffer.loadUnaligned(fromByteOffset: $0 * 4, as: UInt32.self)) }
        }
        guard count >= headerSize, header[0] == version, headerSize + header[1] + header[2] == count else {
            throw Errno(EPROTO)
        }
        let start = headerSize + header[1]
        return (Array(bytes[headerSize..<start]), Array(bytes[start..<count]))
    }

    /// Keeps a new mount's request and reply; before the reply is sent.
    func record(request: UnsafeRawBufferPointer, reply: UnsafeRawBufferPointer) throws(Errno) {
        let header = [Self.version, UInt32(request.count), UInt32(reply.count)]
        let bytes = header.withUnsafeBytes { Array($0) } + Array(request) + Array(reply)
        try bytes.withUnsafeBytes { buffer in
            Result { () throws(Errno) in try System.pwriteAll(descriptor, buffer, 0) }
        }.get()
    }

    /// The flags that were agreed on; nil for a new mount.
    var agreedFlags: UInt32? {
        guard request != nil, earlierReply.count >= Self.replySize else { return nil }
        return earlierReply.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: Self.flagsOffset, as: UInt32.self) }
    }

    /// True for a mount that was made with passthrough.
    var hasPassthrough: Bool {
        guard let agreedFlags, agreedFlags & Self.extended != 0 else { return false }
        let more = earlierReply.withUnsafeBytes {
            $0.loadUnaligned(fromByteOffset: Self.moreFlagsOffset, as: UInt32.self)
        }
        return more & Self.passthrough != 0
    }

    /// True for flags with access control lists (FUSE_POSIX_ACL, which is not the bit of libfuse's FUSE_CAP_POSIX_ACL).
    static func hasAccessLists(_ flags: UInt32) -> Bool { flags & (1 << 20) != 0 }

    /// True when the kernel that sent an INIT request has passthrough.
    static func offersPassthrough(_ request: UnsafeRawBufferPointer) -> Bool {
        guard request.count >= requestMoreFlagsOffset + 4 else { return false }
        let flags = request.loadUnaligned(fromByteOffset: requestMoreFlagsOffset - 4, as: UInt32.self)
        let more = request.loadUnaligned(fromByteOffset: requestMoreFlagsOffset, as: UInt32.self)
        return flags & extended != 0 && more & passthrough != 0
    }

    /// Says so when another version of the program would have agreed on something else.
    func check(_ reply: UnsafeRawBufferPointer, _ log: Log) {
        let flags = reply.loadUnaligned(fromByteOffset: Self.flagsOffset, as: UInt32.self)
        guard let agreed = agreedFlags, agreed & ~Self.amended != flags & ~Self.amended else { return }
        log.error("the mount was made with flags \(String(agreed, radix: 16)), not \(String(flags, radix: 16))")
    }

    /// The kernel's version, as uname(2) tells it.
    public static var kernelRelease: String {
        var name = utsname()
        uname(&name)
        return withUnsafeBytes(of: name.release) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }

    /// True when the kernel sends again what an earlier daemon did not answer (FUSE_NOTIFY_RESEND, Linux 6.9).
    public static func canResend(release: String = kernelRelease) -> Bool {
        let parts = release.split { !$0.isNumber }.prefix(2).compactMap { Int($0) }
        return parts.count < 2 || (parts[0], parts[1]) >= (6, 9)
    }

    // Offsets in `struct fuse_init_out` of <linux/fuse.h>.
    static let replySize = 64
    private static let flagsOffset = 12
    /// FUSE_HANDLE_KILLPRIV_V2, without which each write(2) costs a GETXATTR; a kernel that doesn't know it ignores it.
    private static let handleKillPrivilegesV2: UInt32 = 1 << 28

    /// FUSE_INIT_EXT: there are more flags; FUSE_PASSTHROUGH is one of them.
    private static let extended: UInt32 = 1 << 30
    private static let passthrough: UInt32 = 1 << 5
    /// What libfuse does not know of in the first flags.
    private static let amended = handleKillPrivilegesV2 | extended
    private static let moreFlagsOffset = 32
    private static let stackDepthOffset = 36
    // `struct fuse_in_header` and the part of `struct fuse_init_in` before it.
    private static let requestMoreFlagsOffset = 40 + 16

    /// Puts into a reply what libfuse 3.14 can't ask for.
    static func amend(_ reply: UnsafeMutableRawBufferPointer, passesThrough: Bool) {
        func set(_ bits: UInt32, at offset: Int) {
            let flags = reply.loadUnaligned(fromByteOffset: offset, as: UInt32.self)
            reply.storeBytes(of: flags | bits, toByteOffset: offset, as: UInt32.self)
        }
        set(handleKillPrivilegesV2, at: flagsOffset)
        guard passesThrough else { return }
        set(extended, at: flagsOffset)
        set(passthrough, at: moreFlagsOffset)
        // The content files lie on a file system that lies on no other.
        reply.storeBytes(of: 1, toByteOffset: stackDepthOffset, as: UInt32.self)
    }
}
