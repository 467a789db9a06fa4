internal import CoveCore
internal import Synchronization

/// Sees whether what comes in is what a content has; ends the fetch where it is not.
final class ContentComparison: ContentSink {
    private let content: any ContentSource
    private let difference = Atomic<Bool>(false)
    private let compared = Atomic<Int64>(0)

    init(_ content: any ContentSource) { self.content = content }

    /// True once a byte was another one.
    var differs: Bool { difference.load(ordering: .relaxed) }
    /// True when all bytes of the content were compared.
    var isComplete: Bool { compared.load(ordering: .relaxed) == content.size }

    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(ProviderError) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, bytes.count), alignment: 16)
        defer { buffer.deallocate() }
        var done = 0
        while done < bytes.count {
            let room = UnsafeMutableRawBufferPointer(rebasing: buffer[done..<bytes.count])
            let count = try content.read(at: offset.saturatingAdd(Int64(done)), into: room)
            guard count > 0 else { break }
            done += min(count, room.count)
        }
        guard done == bytes.count, bytes.elementsEqual(buffer[..<done]) else {
            difference.store(true, ordering: .relaxed)
            throw .cancelled
        }
        compared.add(Int64(done), ordering: .relaxed)
    }

    func copy(from descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int { 0 }
}
