/// A cyclic redundancy check: servers give it for what they hold, and archives have it of their members.
public enum CyclicCode: Sendable {
    case crc32
    case crc32c
    case crc64nvme

    /// The check of bytes that come piece by piece.
    public struct Running: Sendable {
        private let code: CyclicCode
        private let table: [UInt64]
        private var register: UInt64

        /// The check of no bytes.
        public init(_ code: CyclicCode) {
            self.code = code
            table = code.table
            register = code.ones
        }

        /// Goes on with more bytes.
        public mutating func add(_ bytes: UnsafeRawBufferPointer) {
            var register = register
            table.withUnsafeBufferPointer { table in
                for byte in bytes {
                    register = table[Int(UInt8(truncatingIfNeeded: register) ^ byte)] ^ (register >> 8)
                }
            }
            self.register = register
        }

        /// The check of the bytes so far, in as many of the lowest bits as the code has.
        public var value: UInt64 { register ^ code.ones }
    }

    /// The check of bytes, the highest byte first.
    public func check(_ bytes: [UInt8]) -> [UInt8] {
        var running = Running(self)
        bytes.withUnsafeBytes { running.add($0) }
        let value = running.value
        return (0..<width / 8).reversed().map { UInt8(truncatingIfNeeded: value >> UInt64($0 * 8)) }
    }

    private var width: Int { self == .crc64nvme ? 64 : 32 }

    private var ones: UInt64 { .max >> UInt64(64 - width) }

    private var table: [UInt64] {
        switch self {
        case .crc32: Self.tables.0
        case .crc32c: Self.tables.1
        case .crc64nvme: Self.tables.2
        }
    }

    /// Of the polynomials with their bits in reverse.
    private static let tables = (table(0xEDB8_8320), table(0x82F6_3B78), table(0x9A6C_9329_AC4B_C9B5))

    private static func table(_ polynomial: UInt64) -> [UInt64] {
        (0..<256).map { byte in
            (0..<8).reduce(UInt64(byte)) { value, _ in value & 1 == 0 ? value >> 1 : value >> 1 ^ polynomial }
        }
    }
}
