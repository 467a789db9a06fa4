internal import CoveCore

/// A way of logging in that a server offers in `WWW-Authenticate` (RFC 9110, 11.3).
struct HTTPChallenge: Sendable, Equatable {
    /// In lower case.
    var scheme: String
    /// By lower-case name; the first of a name counts.
    var parameters: [String: String] = [:]

    /// Those of all headers of an answer; what makes no sense is left out.
    static func all(in head: HTTPHead) -> [HTTPChallenge] {
        head.all("www-authenticate").flatMap { read(Array($0.utf8.prefix(8 << 10))) }
    }

    /// Reads a list such as `Digest realm="a, b", nonce=abc, Basic realm=x`.
    private static func read(_ text: [UInt8]) -> [HTTPChallenge] {
        var challenges: [HTTPChallenge] = []
        var rest = text[...]
        while challenges.count < 20 {
            rest = rest.drop { isSpace($0) || $0 == 0x2C }
            let word = token(&rest).lowercased()
            guard !word.isEmpty else { return challenges }
            rest = rest.drop(while: isSpace)
            guard rest.first == 0x3D, !challenges.isEmpty else {
                challenges.append(HTTPChallenge(scheme: word))
                continue
            }
            rest = rest.dropFirst().drop(while: isSpace)
            let value = rest.first == 0x22 ? quoted(&rest) : token(&rest)
            let last = challenges.count - 1
            if challenges[last].parameters[word] == nil { challenges[last].parameters[word] = value }
        }
        return challenges
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

    /// Up to the next separator.
    private static func token(_ rest: inout ArraySlice<UInt8>) -> String {
        let bytes = rest.prefix { !isSpace($0) && $0 != 0x2C && $0 != 0x3D && $0 != 0x22 }
        rest = rest[bytes.endIndex...]
        return String(decoding: bytes, as: UTF8.self)
    }

    /// What stands between quotes, where a backslash makes the next byte count as it is.
    private static func quoted(_ rest: inout ArraySlice<UInt8>) -> String {
        var bytes: [UInt8] = []
        rest = rest.dropFirst()
        while let byte = rest.popFirst(), byte != 0x22 {
            bytes.append(byte == 0x5C ? rest.popFirst() ?? byte : byte)
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
