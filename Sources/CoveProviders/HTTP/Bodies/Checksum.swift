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

    /// True for the bytes that it is of.
    func isRight(_ bytes: [UInt8]) -> Bool { Digest.hash(bytes, algorithm) == value }

    /// The hash of all of a content; blocks, and throws `cancelled` once the flag says so.
    static func of(
        _ content: any ContentSource,
        _ algorithm: Digest.Algorithm,
        _ flag: CancellationFlag
    ) throws(ProviderError) -> Checksum {
        var digest = Digest(algorithm)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)
        defer { buffer.deallocate() }
        var position: Int64 = 0
        while position < content.size {
            try flag.check()
            let read = try content.read(at: position, into: buffer)
            guard read > 0 else { throw .failed("the content ended early", .inputOutput) }
            digest.update(UnsafeRawBufferPointer(rebasing: buffer[..<read]))
            position += Int64(read)
        }
        return Checksum(algorithm, digest.finish())
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
