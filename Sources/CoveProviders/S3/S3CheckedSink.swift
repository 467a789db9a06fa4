internal import CoveCore

/// Holds a whole small body back until its checksums are right; everything else passes through.
final class S3CheckedSink: ContentSink, @unchecked Sendable {
    /// What is held back at most.
    private static let limit: Int64 = 8 << 20

    /// The checksums that servers name in headers, of the whole object unless they have a dash.
    private static let checksums: [(header: String, text: Text)] = [
        ("x-amz-checksum-sha256", { Digest.hash($0, .sha256).base64 }),
        ("x-amz-checksum-sha1", { Digest.hash($0, .sha1).base64 }),
        ("x-amz-checksum-crc64nvme", { CyclicCode.crc64nvme.check($0).base64 }),
        ("x-amz-checksum-crc32c", { CyclicCode.crc32c.check($0).base64 }),
        ("x-amz-checksum-crc32", { CyclicCode.crc32.check($0).base64 }),
        ("content-md5", { Digest.hash($0, .md5).base64 }),
    ]

    /// A checksum of bytes as a server writes it.
    private typealias Text = @Sendable ([UInt8]) -> String

    private let range: Range<Int64>
    private let sink: any ContentSink
    private let features: S3Features
    private var isHeld = false
    private var expected: [(text: Text, value: String)] = []
    private var held: [UInt8] = []

    init(_ range: Range<Int64>, into sink: any ContentSink, _ features: S3Features) {
        self.range = range
        self.sink = sink
        self.features = features
    }

    /// The answer has begun: decides whether its bytes are held back.
    func expect(_ object: S3Object, _ head: HTTPHead) {
        guard !isHeld, range.lowerBound == 0, range.upperBound >= object.size, object.size <= Self.limit else {
            return
        }
        isHeld = true
        note(object, head)
    }

    /// Notes what a head tells of the whole object.
    func note(_ object: S3Object, _ head: HTTPHead) {
        let encryption = head["x-amz-server-side-encryption"]
        let tag = object.version.description
        for checksum in Self.checksums where features.keepsChecksums || !checksum.header.hasPrefix("x-amz-") {
            guard let value = head[checksum.header], !value.contains("-") else { continue }
            expected.append((checksum.text, value))
        }
        if features.tagIsDigest, tag.utf8.count == 32, encryption == nil || encryption == "AES256",
            head["x-amz-server-side-encryption-customer-algorithm"] == nil
        {
            expected.append(({ Digest.hash($0, .md5).hexadecimal }, tag.lowercased()))
        }
    }

    /// Bytes are held back, and nothing tells yet whether they are right.
    var lacksChecksum: Bool { isHeld && expected.isEmpty }

    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(ProviderError) {
        guard isHeld else { return try sink.write(bytes, at: offset) }
        held.append(contentsOf: bytes)
    }

    func copy(from descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int {
        throw .failed("bytes of a server come from no descriptor", nil)
    }

    /// False when what was held back is not what the server said.
    var isRight: Bool { expected.allSatisfy { $0.text(held) == $0.value } }

    /// All bytes are here, and are right.
    func finish() throws(ProviderError) {
        guard isHeld, !held.isEmpty else { return }
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
