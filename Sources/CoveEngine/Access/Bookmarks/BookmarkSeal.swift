internal import CSodium
internal import CoveCore
internal import Glibc

/// Seals what leads back to a document, so that only the app it was made for can use it, and nobody can make one.
///
/// Layout: `CVBK`, version (1 byte), length of the open part (4, little-endian), the open part, nonce (24), and the private part with
/// its seal (XChaCha20-Poly1305, the key of this device's account, everything before the nonce authenticated with it).
struct BookmarkSeal: Sendable {
    private static let magic = Array("CVBK".utf8)
    private static let version: UInt8 = 1
    private static let nonceSize = Int(crypto_aead_xchacha20poly1305_ietf_NPUBBYTES)
    private static let sealSize = Int(crypto_aead_xchacha20poly1305_ietf_ABYTES)
    private static let keySize = Int(crypto_aead_xchacha20poly1305_ietf_KEYBYTES)
    /// The most bytes that a bookmark may have.
    static let greatestSize = 64 << 10

    private let key: [UInt8]

    /// Reads the account's key, or makes it, durably.
    init(keyFile path: String) throws(Errno) {
        guard sodium_init() >= 0 else { throw .notSupported }
        do throws(Errno) {
            key = try Self.read(path)
        } catch .noSuchEntry {
            var made = [UInt8](repeating: 0, count: Self.keySize)
            randombytes_buf(&made, made.count)
            let beside = path + ".new"
            try? System.unlink(beside)
            let file = try System.open(beside, O_WRONLY | O_CREAT | O_EXCL, 0o600)
            defer { System.close(file) }
            try System.pwriteAll(file, made, 0)
            try System.retry { Glibc.fsync(file) }
            // Another daemon may have been quicker: then its key counts.
            do throws(Errno) { try System.retry { Glibc.link(beside, path) } } catch .exists {}
            try? System.unlink(beside)
            key = try Self.read(path)
        }
    }

    private static func read(_ path: String) throws(Errno) -> [UInt8] {
        let file = try System.open(path, O_RDONLY | O_NOFOLLOW)
        defer { System.close(file) }
        let bytes = try System.contents(file, atMost: keySize + 1)
        guard bytes.count == keySize else { throw .inputOutput }
        return bytes
    }

    /// Seals two parts; anybody can read the first.
    func seal(open: [UInt8], hidden: [UInt8]) throws(Errno) -> [UInt8] {
        guard open.count + hidden.count + 128 <= Self.greatestSize else { throw .argumentListTooLong }
        var head = Self.magic + [Self.version]
        withUnsafeBytes(of: UInt32(open.count).littleEndian) { head.append(contentsOf: $0) }
        head += open
        var nonce = [UInt8](repeating: 0, count: Self.nonceSize)
        randombytes_buf(&nonce, nonce.count)
        var sealed = [UInt8](repeating: 0, count: hidden.count + Self.sealSize)
        var count: UInt64 = 0
        let status = crypto_aead_xchacha20poly1305_ietf_encrypt(
            &sealed,
            &count,
            hidden,
            UInt64(hidden.count),
            head,
            UInt64(head.count),
            nil,
            nonce,
            key
        )
        guard status == 0, count == sealed.count else { throw .inputOutput }
        return head + nonce + sealed
    }

    /// The part that anybody can read, which proves nothing; nil for what is no bookmark.
    static func openPart(of bytes: [UInt8]) -> [UInt8]? { parts(bytes).map { Array(bytes[$0.open]) } }

    /// Both parts; nil for what was not sealed with this key, or has changed.
    func parts(of bytes: [UInt8]) -> (open: [UInt8], hidden: [UInt8])? {
        guard let parts = Self.parts(bytes) else { return nil }
        let head = Array(bytes[..<parts.open.upperBound])
        let nonce = Array(bytes[parts.open.upperBound..<parts.sealed.lowerBound])
        let sealed = Array(bytes[parts.sealed])
        var hidden = [UInt8](repeating: 0, count: sealed.count - Self.sealSize)
        var count: UInt64 = 0
        let status = hidden.withUnsafeMutableBufferPointer { buffer in
            crypto_aead_xchacha20poly1305_ietf_decrypt(
                buffer.baseAddress,
                &count,
                nil,
                sealed,
                UInt64(sealed.count),
                head,
                UInt64(head.count),
                nonce,
                key
            )
        }
        guard status == 0, count == hidden.count else { return nil }
        return (Array(bytes[parts.open]), hidden)
    }

    private static func parts(_ bytes: [UInt8]) -> (open: Range<Int>, sealed: Range<Int>)? {
        let start = magic.count + 5
        guard bytes.count <= greatestSize, bytes.count >= start + nonceSize + sealSize, bytes.starts(with: magic),
            bytes[magic.count] == version
        else { return nil }
        let length = bytes[(magic.count + 1)..<start].reversed().reduce(0) { $0 << 8 | Int($1) }
        guard length <= bytes.count - start - nonceSize - sealSize else { return nil }
        let end = start + length
        return (start..<end, (end + nonceSize)..<bytes.count)
    }
}
