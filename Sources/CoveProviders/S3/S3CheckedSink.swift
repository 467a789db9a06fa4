internal import CoveCore

/// Holds a whole small body back until its checksum is right; everything else passes through.
final class S3CheckedSink: ContentSink, @unchecked Sendable {
    /// What is held back at most.
    private static let limit: Int64 = 8 << 20

    private let range: Range<Int64>
    private let sink: any ContentSink
    private let tagIsDigest: Bool
    private var expected: (algorithm: Digest.Algorithm, value: String)?
    private var held: [UInt8] = []

    init(_ range: Range<Int64>, into sink: any ContentSink, tagIsDigest: Bool) {
        self.range = range
        self.sink = sink
        self.tagIsDigest = tagIsDigest
    }

    /// The answer has begun: decides whether its bytes can be checked.
    func expect(_ object: S3Object, _ head: HTTPHead) {
        guard expected == nil, range.lowerBound == 0, range.upperBound >= object.size, object.size <= Self.limit else {
            return
        }
        let encryption = head["x-amz-server-side-encryption"]
        let tag = object.version.description
        if let sum = head["x-amz-checksum-sha256"], !sum.contains("-") {
            expected = (.sha256, sum)
        } else if tagIsDigest, tag.utf8.count == 32, encryption == nil || encryption == "AES256",
            head["x-amz-server-side-encryption-customer-algorithm"] == nil
        {
            expected = (.md5, tag.lowercased())
        }
    }

    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(ProviderError) {
        guard expected != nil else { return try sink.write(bytes, at: offset) }
        held.append(contentsOf: bytes)
    }

    func copy(from descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int {
        throw .failed("bytes of a server come from no descriptor", nil)
    }

    /// False when what was held back is not what the server said.
    var isRight: Bool {
        guard let expected else { return true }
        let hash = Digest.hash(held, expected.algorithm)
        return expected.value == (expected.algorithm == .sha256 ? hash.base64 : hash.hexadecimal)
    }

    /// All bytes are here, and are right.
    func finish() throws(ProviderError) {
        guard expected != nil else { return }
        do {
            try held.withUnsafeBytes { try sink.write($0, at: 0) }
        } catch let error as ProviderError {
            throw error
        } catch {
            throw .failed("\(error)", nil)
        }
        held = []
    }
}
