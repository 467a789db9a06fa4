internal import CoveCore

/// Holds a small file back until its checksums are right; everything else passes through.
final class CheckedSink: ContentSink, @unchecked Sendable {
    /// Says whether bytes are those of the whole file.
    typealias Check = @Sendable ([UInt8]) -> Bool

    /// What is held back at most.
    private static let limit: Int64 = 8 << 20

    private let range: Range<Int64>
    private let sink: any ContentSink
    private var size: Int64?
    private var checks: [Check] = []
    private var held: [UInt8] = []

    init(_ range: Range<Int64>, into sink: any ContentSink) {
        self.range = range
        self.sink = sink
    }

    /// Before the first byte: holds back what comes, if it is to be all of a small file.
    ///
    /// True when that begins: what later answers tell may be of the rest alone.
    func hold(size: Int64?) -> Bool {
        guard self.size == nil, held.isEmpty, let size, size <= Self.limit, range.lowerBound == 0,
            range.upperBound >= size
        else { return false }
        self.size = size
        return true
    }

    /// What is held back must pass these.
    func expect(_ checks: [Check]) { self.checks += checks }

    /// Bytes are held back, and nothing tells yet whether they are right.
    var lacksChecks: Bool { size != nil && checks.isEmpty }

    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(ProviderError) {
        guard let size else { return try sink.write(bytes, at: offset) }
        guard offset == held.count, Int64(held.count + bytes.count) <= size else {
            throw .failed("the server sent more than it has", .inputOutput)
        }
        held.append(contentsOf: bytes)
    }

    func copy(from descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int {
        throw .failed("bytes of a server come from no descriptor", nil)
    }

    /// False when fewer bytes came than a check needs to say something.
    var isComplete: Bool { size.map { Int64(held.count) == $0 } ?? true }

    /// False when what was held back is not what the server said.
    var isRight: Bool { checks.isEmpty || size == nil || checks.allSatisfy { $0(held) } }

    /// All bytes are here, and are right.
    func finish() throws(ProviderError) {
        guard !held.isEmpty else { return }
        let result = held.withUnsafeBytes { bytes in
            Result { () throws(ProviderError) in try sink.write(bytes, at: 0) }
        }
        try result.get()
        held = []
    }
}
