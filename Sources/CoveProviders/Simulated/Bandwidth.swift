internal import CoveCore
internal import Glibc
internal import Synchronization

/// A line's capacity, shared by all who use it in the order they ask.
final class Bandwidth: Sendable {
    private let bytesPerSecond: Int64
    private let free = Mutex(System.monotonic())

    init(bytesPerSecond: Int64) { self.bytesPerSecond = bytesPerSecond }

    /// How much is worth sending at once: about a fiftieth of a second.
    var chunk: Int64 { min(max(bytesPerSecond / 50, 4096), 1 << 20) }

    /// Takes the next free time for so many bytes; returns when they will have passed.
    func reserve(_ count: Int64) -> MonotonicTime {
        let time = TimeSpan.seconds(Double(count) / Double(bytesPerSecond))
        return free.withLock { free in
            free = max(free, System.monotonic()) + time
            return free
        }
    }
}

/// Content that comes no faster than the line allows.
///
/// It waits on the thread that asks, which is one of the provider's own.
struct SlowSource: ContentSource {
    private let base: any ContentSource
    private let bandwidth: Bandwidth?
    private let check: @Sendable () throws(ProviderError) -> Void

    init(
        _ base: any ContentSource,
        _ bandwidth: Bandwidth?,
        _ check: @escaping @Sendable () throws(ProviderError) -> Void
    ) {
        self.base = base
        self.bandwidth = bandwidth
        self.check = check
    }

    var size: Int64 { base.size }
    var identity: [UInt8]? { base.identity }

    func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ProviderError) -> Int {
        let room = try pass(buffer.count)
        return try base.read(at: offset, into: UnsafeMutableRawBufferPointer(rebasing: buffer.prefix(room)))
    }

    func copy(to descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int {
        let room = try pass(count)
        return try base.copy(to: descriptor, at: offset, count: room)
    }

    func note(arrived bytes: Int64) { base.note(arrived: bytes) }

    /// Waits until a part of the bytes may pass; returns how many.
    private func pass(_ count: Int) throws(ProviderError) -> Int {
        try check()
        guard let bandwidth, count > 0 else { return count }
        let room = min(count, Int(bandwidth.chunk))
        (bandwidth.reserve(Int64(room)) - System.monotonic()).block()
        try check()
        return room
    }
}
