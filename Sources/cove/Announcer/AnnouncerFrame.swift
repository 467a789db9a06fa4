internal import CoveCore

/// One packet from the daemon to the announcer: a kind, two numbers and two byte strings.
///
/// Layout, little-endian: kind (1 byte), number (8), second number (8), length of the first string (4), both strings.
struct AnnouncerFrame: Equatable {
    /// The system call to make; `greet` tells where the mount is.
    enum Kind: UInt8 {
        case greet = 1
        case rename, unlink, removeDirectory, setTimes, syncFileSystem, flush, notice, makeDirectory
    }

    /// The longest packet: two paths far beyond any that a cloud holds.
    static let maximumLength = 64 << 10

    var kind: Kind
    var number: Int64 = 0
    var first: [UInt8] = []
    var second: [UInt8] = []

    init(_ kind: Kind, number: Int64 = 0, first: [UInt8] = [], second: [UInt8] = []) {
        self.kind = kind
        self.number = number
        self.first = first
        self.second = second
    }

    /// The packet's bytes.
    var bytes: [UInt8] {
        var bytes = [kind.rawValue]
        withUnsafeBytes(of: number.littleEndian) { bytes.append(contentsOf: $0) }
        withUnsafeBytes(of: UInt32(first.count).littleEndian) { bytes.append(contentsOf: $0) }
        return bytes + first + second
    }

    /// Reads a packet; nil for one that is malformed.
    init?(parsing bytes: [UInt8]) {
        guard bytes.count >= 13, let kind = Kind(rawValue: bytes[0]) else { return nil }
        func integer(_ range: Range<Int>) -> UInt64 {
            bytes[range].reversed().reduce(0) { $0 << 8 | UInt64($1) }
        }
        let length = Int(integer(9..<13))
        guard length <= bytes.count - 13 else { return nil }
        self.kind = kind
        number = Int64(bitPattern: integer(1..<9))
        first = Array(bytes[13..<13 + length])
        second = Array(bytes[(13 + length)...])
    }
}
