internal import CoveCore

/// A hash of a whole file, as a server tells it.
struct Checksum: Sendable, Equatable {
    let algorithm: Digest.Algorithm
    let value: [UInt8]

    /// What ownCloud and Nextcloud keep with a file: `SHA1:0123…`.
    var text: String {
        let name =
            switch algorithm {
            case .md5: "MD5"
            case .sha1: "SHA1"
            case .sha256: "SHA256"
            }
        return "\(name):\(value.hexadecimal)"
    }

    private init?(_ name: some StringProtocol, _ value: [UInt8]?) {
        guard let value else { return nil }
        switch (name.lowercased(), value.count) {
        case ("md5", 16): algorithm = .md5
        case ("sha1", 20), ("sha", 20), ("sha-1", 20): algorithm = .sha1
        case ("sha256", 32), ("sha-256", 32): algorithm = .sha256
        default: return nil
        }
        self.value = value
    }

    init(_ algorithm: Digest.Algorithm, _ value: [UInt8]) {
        self.algorithm = algorithm
        self.value = value
    }

    /// Those in a text such as `SHA1:0123… MD5:4567…`.
    static func all(in text: String) -> [Checksum] {
        text.split(whereSeparator: \.isWhitespace).compactMap { word in
            let sides = word.split(separator: ":", maxSplits: 1)
            return sides.count == 2 ? Checksum(sides[0], [UInt8](hexadecimal: sides[1])) : nil
        }
    }

    /// The strongest that the headers of an answer tell of the whole file: OC-Checksum, Repr-Digest (RFC 9530), Digest
    /// (RFC 3230) and, of an answer with all of it, Content-MD5.
    static func strongest(in head: HTTPHead) -> Checksum? {
        var all = head.all("oc-checksum").flatMap { Checksum.all(in: $0) }
        for list in head.all("repr-digest") + head.all("digest") {
            for part in list.split(separator: ",") {
                let sides = part.split(separator: "=", maxSplits: 1)
                guard sides.count == 2 else { continue }
                let name = sides[0].drop { $0.isWhitespace }
                let value = sides[1].filter { $0 != ":" && !$0.isWhitespace }
                if let sum = Checksum(name, [UInt8](base64: value)) { all.append(sum) }
            }
        }
        if let sum = head["content-md5"].flatMap({ Checksum("md5", [UInt8](base64: $0)) }) { all.append(sum) }
        return all.max { $0.value.count < $1.value.count }
    }
}

/// Holds a small file back until its checksum is right; everything else passes through.
final class CheckedSink: ContentSink, @unchecked Sendable {
    /// What is held back at most.
    static let limit: Int64 = 8 << 20

    private let sink: any ContentSink
    private var expected: (sum: Checksum, size: Int64)?
    private var held: [UInt8] = []

    init(_ sink: any ContentSink) { self.sink = sink }

    /// Before the first byte of a range: what the whole file is to have, if the range is all of it.
    func expect(_ sum: Checksum?, size: Int64?, of range: Range<Int64>) {
        guard expected == nil, held.isEmpty, let sum, let size, size <= Self.limit, range.lowerBound == 0,
            range.upperBound >= size
        else { return }
        expected = (sum, size)
    }

    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(ProviderError) {
        guard let expected else { return try sink.write(bytes, at: offset) }
        guard offset == held.count, Int64(held.count + bytes.count) <= expected.size else {
            throw .failed("the server sent more than it has", .inputOutput)
        }
        held.append(contentsOf: bytes)
    }

    func copy(from descriptor: Int32, at offset: Int64, count: Int) throws(ProviderError) -> Int {
        throw .failed("bytes of a server come from no descriptor", nil)
    }

    /// False when what was held back is not what the server said.
    var isRight: Bool {
        expected.map { Digest.hash(held, $0.sum.algorithm) == $0.sum.value } ?? true
    }

    /// How many bytes there must be for the checksum to say something.
    var expectedSize: Int64? { expected?.size }

    /// All bytes are here, and are right.
    func finish() throws(ProviderError) {
        guard expected != nil, !held.isEmpty else { return }
        let result = held.withUnsafeBytes { bytes in
            Result { () throws(ProviderError) in try sink.write(bytes, at: 0) }
        }
        try result.get()
        held = []
    }
}
