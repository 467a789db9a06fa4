internal import CLinux
internal import Glibc

/// One packet between an account's keeper and its daemon, with the descriptors that travel with it.
///
/// Layout: kind (1 byte), number (4 bytes, little-endian), text. A kind is never given another meaning: keeper and daemon
/// may be of different versions of the program.
public struct KeeperPacket: Sendable, Equatable {
    /// What a packet says.
    public enum Kind: UInt8, Sendable {
        /// Keeper: the first packet, with how many daemons it has started before and all that it keeps; the text is the
        /// protocol's version, then the names of the descriptors, in lines, and `careful` where there is to be care.
        case greeting = 1
        /// Keeper: unmount and end; the second time, end without saving.
        case end = 2
        /// Daemon: keep this descriptor under the name in the text, instead of one kept before.
        case keep = 3
        /// Daemon: the mount is served; the second time, a person has had it go on with everything.
        case ready = 4
        /// Daemon: the next one is this program.
        case replace = 5
        /// Daemon: the program before this one can't take over any more.
        case settled = 6
    }

    /// The protocol's version: what a daemon must understand to work with a keeper that greets with it.
    public static let version = 1
    /// The last line of a greeting that follows two deaths within a minute; who does not know it has no descriptor for it.
    public static let careful = "careful"
    /// The number of the descriptor by which a daemon finds its keeper.
    public static let descriptor: Int32 = 3
    private static let maximumLength = 4096

    /// What it says.
    public var kind: Kind
    /// A number, where the kind has one.
    public var number: UInt32
    /// A text, where the kind has one.
    public var text: String
    /// What travels with it; the receiver owns it.
    public var descriptors: [Int32]

    /// Makes a packet.
    public init(_ kind: Kind, number: UInt32 = 0, text: String = "", descriptors: [Int32] = []) {
        self.kind = kind
        self.number = number
        self.text = text
        self.descriptors = descriptors
    }

    /// Sends it on a SOCK_SEQPACKET socket; it arrives even when the sender dies right after.
    public func send(on socket: Int32) throws(Errno) {
        var bytes = [kind.rawValue]
        withUnsafeBytes(of: number.littleEndian) { bytes.append(contentsOf: $0) }
        bytes += Array(text.utf8)
        guard bytes.count <= Self.maximumLength, descriptors.count <= Int(COVE_MAXIMUM_DESCRIPTORS) else {
            throw Errno(EMSGSIZE)
        }
        try System.retry { cove_send_packet(socket, bytes, bytes.count, descriptors, Int32(descriptors.count)) }
    }

    /// Waits for the next packet; nil when the other side is gone.
    ///
    /// One of an unknown kind, of a newer program, is skipped.
    public static func receive(on socket: Int32) throws(Errno) -> KeeperPacket? {
        while true {
            var bytes = [UInt8](repeating: 0, count: maximumLength)
            var descriptors = [Int32](repeating: -1, count: Int(COVE_MAXIMUM_DESCRIPTORS))
            var count: Int32 = 0
            let length = try System.retry { cove_receive_packet(socket, &bytes, maximumLength, &descriptors, &count) }
            guard length > 0 else { return nil }
            let received = Array(descriptors[..<Int(count)])
            guard length >= 5, let kind = Kind(rawValue: bytes[0]) else {
                for descriptor in received { System.close(descriptor) }
                continue
            }
            return KeeperPacket(
                kind,
                number: bytes[1..<5].reversed().reduce(0) { $0 << 8 | UInt32($1) },
                text: String(decoding: bytes[5..<length], as: UTF8.self),
                descriptors: received
            )
        }
    }
}

/// How a daemon ends, as it tells its keeper by its exit status.
public enum DaemonExit {
    /// The mount is gone: the keeper ends too, with success.
    public static let over: Int32 = 0
    /// It could not start.
    public static let failed: Int32 = 1
    /// It could not start: the command line is wrong.
    public static let misused: Int32 = 2
    /// It was told to end at once: the keeper ends too, with failure.
    public static let left: Int32 = 3
    /// Another one is to take over.
    public static let replaced: Int32 = 4
}
