internal import CCrypto
internal import CoveCore

/// A hash that takes its bytes in parts.
struct Digest: ~Copyable {
    enum Algorithm: Sendable {
        case md5
        case sha1
        case sha256
    }

    private let context: OpaquePointer?

    init(_ algorithm: Algorithm) {
        context = EVP_MD_CTX_new()
        EVP_DigestInit_ex(context, Self.function(algorithm), nil)
    }

    deinit { EVP_MD_CTX_free(context) }

    private static func function(_ algorithm: Algorithm) -> OpaquePointer? {
        switch algorithm {
        case .md5: EVP_md5()
        case .sha1: EVP_sha1()
        case .sha256: EVP_sha256()
        }
    }

    mutating func update(_ bytes: UnsafeRawBufferPointer) {
        EVP_DigestUpdate(context, bytes.baseAddress, bytes.count)
    }

    /// The hash of all bytes so far; the digest is used up.
    consuming func finish() -> [UInt8] {
        var result = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var count: UInt32 = 0
        EVP_DigestFinal_ex(context, &result, &count)
        return Array(result.prefix(Int(count)))
    }

    static func hash(_ bytes: [UInt8], _ algorithm: Algorithm) -> [UInt8] {
        var digest = Digest(algorithm)
        bytes.withUnsafeBytes { digest.update($0) }
        return digest.finish()
    }

    /// The keyed hash of RFC 2104.
    static func hmac(_ bytes: [UInt8], key: [UInt8]) -> [UInt8] {
        var result = [UInt8](repeating: 0, count: 32)
        var count: UInt32 = 0
        HMAC(EVP_sha256(), key, Int32(key.count), bytes, bytes.count, &result, &count)
        return result
    }
}

extension [UInt8] {
    /// Lower-case hexadecimal digits.
    var hexadecimal: String {
        let digits = Array<UInt8>("0123456789abcdef".utf8)
        var text: [UInt8] = []
        text.reserveCapacity(count * 2)
        for byte in self {
            text.append(digits[Int(byte >> 4)])
            text.append(digits[Int(byte & 15)])
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Reads hexadecimal digits; nil for anything else.
    init?(hexadecimal text: some StringProtocol) {
        let digits = text.utf8.map { Character(UnicodeScalar($0)).hexDigitValue }
        guard digits.count.isMultiple(of: 2), !digits.contains(nil) else { return nil }
        self = stride(from: 0, to: digits.count, by: 2).map {
            UInt8((digits[$0] ?? 0) << 4 | (digits[$0 + 1] ?? 0))
        }
    }

    /// Reads base 64 with or without padding; nil for anything else.
    init?(base64 text: some StringProtocol) {
        let digits = Array<UInt8>("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
        var (bytes, bits, count): ([UInt8], UInt32, UInt32) = ([], 0, 0)
        for byte in text.utf8.reversed().drop(while: { $0 == 0x3D }).reversed() {
            guard let value = digits.firstIndex(of: byte) else { return nil }
            bits = bits << 6 | UInt32(value)
            count += 6
            if count >= 8 {
                count -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> count))
            }
        }
        self = bytes
    }

    /// Base 64 of RFC 4648 with padding.
    var base64: String {
        let digits = Array<UInt8>("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
        var text: [UInt8] = []
        for start in stride(from: 0, to: count, by: 3) {
            let group = self[start..<Swift.min(start + 3, count)]
            let bits = group.reduce(UInt32(0)) { $0 << 8 | UInt32($1) } << UInt32(8 * (3 - group.count))
            for place in 0..<4 {
                let digit = digits[Int(bits >> UInt32(18 - 6 * place) & 63)]
                text.append(place <= group.count ? digit : 0x3D)
            }
        }
        return String(decoding: text, as: UTF8.self)
    }
}
