internal import CoveCore
internal import Synchronization

/// What bytes that were sent are told from others of their size by, where the provider's dates don't tell.
enum SentBytes {
    /// Of larger files the begin and the end are summed.
    static let limit: Int64 = 16 << 20

    /// The parts of a file that are summed, in order.
    static func ranges(of size: Int64) -> [Range<Int64>] {
        size > limit ? [0..<limit / 2, size - limit / 2..<size] : [0..<size]
    }

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
    /// The sum of its bytes; nil where they can't be read as they were.
    func sum() -> Int64? {
        let buffer = UnsafeMutableRawBufferPointer.allocate(
            byteCount: Int(min(size, SentBytes.limit)),
            alignment: 16
        )
        defer { buffer.deallocate() }
        var filled = 0
        for range in SentBytes.ranges(of: size) {
            var offset = range.lowerBound
            while offset < range.upperBound {
                let count = Int(range.upperBound - offset)
                let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[filled..<filled + count])
                guard let read = try? System.pread(descriptor, rest, offset), read > 0 else { return nil }
                filled += read
                offset += Int64(read)
            }
        }
        return SentBytes.sum(UnsafeRawBufferPointer(buffer))
    }
}

/// Keeps fetched bytes of a file's summed parts for as long as it takes to sum them.
final class SummingSink: ContentSink {
    private struct State {
        var bytes: [UInt8]
        var filled = 0
        var isOdd = false
    }

    private let size: Int64
    private let state: Mutex<State>

    /// A sink for a file of a size.
    init(size: Int64) {
        self.size = size
        state = Mutex(State(bytes: Array(repeating: 0, count: Int(min(size, SentBytes.limit)))))
    }

    /// The sum; nil where it did not get all bytes once.
    var sum: Int64? {
        state.withLock { state in
            guard !state.isOdd, state.filled == state.bytes.count else { return nil }
            return state.bytes.withUnsafeBytes { SentBytes.sum($0) }
        }
    }

    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(ProviderError) {
        state.withLock { state in
            var start: Int64 = 0
            for range in SentBytes.ranges(of: size) {
                if range.contains(offset), bytes.count <= range.upperBound - offset {
                    let place = Int(start + offset - range.lowerBound)
                    state.bytes.withUnsafeMutableBytes { all in
                        UnsafeMutableRawBufferPointer(rebasing: all[place..<place + bytes.count]).copyMemory(
                            from: bytes
                        )
                    }
                    state.filled += bytes.count
                    return
                }
                start += Int64(range.count)
            }
            if !bytes.isEmpty { state.isOdd = true }
        }
    }

    func copy(from descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int {
        try copyThroughMemory(from: descriptor, at: offset, count: count)
    }
}
