internal import CoveCore
internal import Synchronization

/// What bytes that were sent are told from others of their size by, where the provider's dates don't tell.
enum SentBytes {
    /// Larger files have no sum.
    static let limit: Int64 = 16 << 20

    /// A sum of bytes; nobody is to be kept from making others of the same.
    static func sum(_ bytes: UnsafeRawBufferPointer) -> Int64 {
        var sum = UInt64(bytes.count)
        var offset = 0
        func mix(_ word: UInt64) {
            sum = (sum ^ word) &* 0x9E37_79B9_7F4A_7C15
            sum ^= sum >> 32
        }
        while offset + 8 <= bytes.count {
            mix(UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)))
            offset += 8
        }
        while offset < bytes.count {
            mix(UInt64(bytes[offset]))
            offset += 1
        }
        return Int64(bitPattern: sum)
    }

    static func sum(_ bytes: [UInt8]) -> Int64 { bytes.withUnsafeBytes { sum($0) } }
}

extension SnapshotSource {
    /// The sum of its bytes; nil where they are many, or can't be read as they were.
    func sum() -> Int64? {
        guard size <= SentBytes.limit else { return nil }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(size), alignment: 16)
        defer { buffer.deallocate() }
        var filled = 0
        while filled < buffer.count {
            let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[filled...])
            guard let count = try? System.pread(descriptor, rest, Int64(filled)), count > 0 else { return nil }
            filled += count
        }
        return SentBytes.sum(UnsafeRawBufferPointer(buffer))
    }
}

/// Keeps fetched bytes for as long as it takes to sum them.
final class SummingSink: ContentSink {
    private struct State {
        var bytes: [UInt8]
        var filled = 0
        var isOdd = false
    }

    private let state: Mutex<State>

    init(size: Int) { state = Mutex(State(bytes: Array(repeating: 0, count: size))) }

    /// The sum; nil where it did not get all bytes once.
    var sum: Int64? {
        state.withLock { state in
            guard !state.isOdd, state.filled == state.bytes.count else { return nil }
            return state.bytes.withUnsafeBytes { SentBytes.sum($0) }
        }
    }

    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(ProviderError) {
        state.withLock { state in
            guard offset >= 0, offset <= state.bytes.count, bytes.count <= state.bytes.count - Int(offset) else {
                state.isOdd = true
                return
            }
            state.bytes.withUnsafeMutableBytes { all in
                let place = Int(offset)..<Int(offset) + bytes.count
                UnsafeMutableRawBufferPointer(rebasing: all[place]).copyMemory(from: bytes)
            }
            state.filled += bytes.count
        }
    }
    func copy(from descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int {
        try copyThroughMemory(from: descriptor, at: offset, count: count)
    }
}
