/// A request of HTTP/1.1 (RFC 9112), as far as the picker's page needs it; what is unusual is refused.
struct HTTPRequest: Sendable, Equatable {
    /// The methods that are served.
    enum Method: String, Sendable { case get = "GET", post = "POST" }

    /// Why a request is refused, by its status code.
    struct Problem: Error, Sendable, Equatable {
        var status: Int
        var what: String

        static func malformed(_ what: String) -> Problem { Problem(status: 400, what: what) }
    }

    /// The most bytes of the request line, of all header fields, and of a body; and the most fields.
    static let longestLine = 20 << 10
    static let longestHead = 32 << 10
    static let longestBody = 32 << 10
    static let mostFields = 64

    var method: Method
    /// The path, as it was sent.
    var path: String
    /// The parameters behind the question mark, decoded.
    var query: [String: String] = [:]
    /// The header fields, by their names in small letters.
    var fields: [String: String] = [:]
    var body: [UInt8] = []

    /// Reads a request from the bytes that have come so far; nil where more are needed.
    ///
    /// Nothing may follow the body: each connection carries one request.
    static func parse(_ bytes: [UInt8]) throws(Problem) -> HTTPRequest? {
        guard let end = try headEnd(bytes) else { return nil }
        var lines = split(bytes[..<end])
        var request = try line(lines.removeFirst())
        for line in lines { try request.addField(line) }
        let length = try request.checkedLength()
        let room = bytes.count - (end + 4)
        guard room <= length else { throw .malformed("bytes follow the request") }
        guard room == length else { return nil }
        request.body = Array(bytes[(end + 4)...])
        return request
    }

    /// Where the empty line begins that ends the head.
    private static func headEnd(_ bytes: [UInt8]) throws(Problem) -> Int? {
        var lineStart = 0
        for index in bytes.indices {
            switch bytes[index] {
            case 0x0A:
                guard index > 0, bytes[index - 1] == 0x0D else {
                    throw .malformed("a line ends with a line feed alone")
                }
                if index == lineStart + 1 {
                    guard lineStart > 0 else { throw .malformed("the request line is empty") }
                    return lineStart - 2
                }
                lineStart = index + 1
            case 0x09, 0x0D, 0x20...0x7E, 0x80...0xFF:
                if index > 0, bytes[index - 1] == 0x0D { throw .malformed("a line ends with a carriage return alone") }
            default: throw .malformed("a control character")
            }
            if lineStart == 0, index >= longestLine { throw Problem(status: 414, what: "the address is too long") }
            if index >= longestHead { throw Problem(status: 431, what: "the header is too long") }
        }
        return nil
    }

    /// The lines of a head whose line ends were looked at.
    private static func split(_ head: ArraySlice<UInt8>) -> [ArraySlice<UInt8>] {
        head.split(separator: 0x0A, omittingEmptySubsequences: false).map { $0.last == 0x0D ? $0.dropLast() : $0 }
    }

    private static func line(_ line: ArraySlice<UInt8>) throws(Problem) -> HTTPRequest {
        let parts = line.split(separator: 0x20, omittingEmptySubsequences: false)
        guard parts.count == 3, !parts[0].isEmpty, parts[0].allSatisfy(isToken) else {
            throw .malformed("no request line")
        }
        let version = String(decoding: parts[2], as: UTF8.self)
        guard version == "HTTP/1.1" else {
            throw version.hasPrefix("HTTP/")
                ? Problem(status: 505, what: "not HTTP/1.1") : .malformed("no request line")
        }
        guard let method = Method(rawValue: String(decoding: parts[0], as: UTF8.self)) else {
            throw Problem(status: 405, what: "only GET and POST are served")
        }
        guard parts[1].first == 0x2F, parts[1].allSatisfy({ (0x21...0x7E).contains($0) && $0 != 0x23 }) else {
            throw .malformed("no path")
        }
        let target = parts[1].split(separator: 0x3F, maxSplits: 1, omittingEmptySubsequences: false)
        var request = HTTPRequest(method: method, path: String(decoding: target[0], as: UTF8.self))
        if target.count == 2 { request.query = try parameters(target[1]) }
        return request
    }

    private static func parameters(_ text: ArraySlice<UInt8>) throws(Problem) -> [String: String] {
        var result: [String: String] = [:]
        for part in text.split(separator: 0x26) {
            let sides = part.split(separator: 0x3D, maxSplits: 1, omittingEmptySubsequences: false)
            guard sides.count == 2, let name = decoded(sides[0]), let value = decoded(sides[1]) else {
                throw .malformed("a parameter that can't be read")
            }
            guard result.updateValue(value, forKey: name) == nil else { throw .malformed("a parameter twice") }
        }
        return result
    }

    /// Percent-encoding, RFC 3986; a plus sign is one.
    private static func decoded(_ text: ArraySlice<UInt8>) -> String? {
        var bytes: [UInt8] = []
        var rest = text
        while let byte = rest.popFirst() {
            guard byte == 0x25 else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.popFirst().flatMap(Hexadecimal.value),
                let low = rest.popFirst().flatMap(Hexadecimal.value)
            else { return nil }
            bytes.append(high << 4 | low)
        }
        return String(validating: bytes, as: UTF8.self)
    }

    private mutating func addField(_ line: ArraySlice<UInt8>) throws(Problem) {
        // A line that begins with a space went on with the field before, once.
        guard let colon = line.firstIndex(of: 0x3A), colon > line.startIndex, line[..<colon].allSatisfy(Self.isToken)
        else {
            throw .malformed("a header field that can't be read")
        }
        guard fields.count < Self.mostFields else { throw Problem(status: 431, what: "too many header fields") }
        let name = String(decoding: line[..<colon], as: UTF8.self).lowercased()
        var value = line[(colon + 1)...]
        while let first = value.first, first == 0x20 || first == 0x09 { value.removeFirst() }
        while let last = value.last, last == 0x20 || last == 0x09 { value.removeLast() }
        // None that counts here may come twice, and a list can be sent as one.
        guard fields.updateValue(String(decoding: value, as: UTF8.self), forKey: name) == nil else {
            throw .malformed("the header field \(name) twice")
        }
    }

    /// How long the body is; whatever could be understood in two ways is refused.
    private func checkedLength() throws(Problem) -> Int {
        guard fields["host"] != nil else { throw .malformed("no Host") }
        guard fields["transfer-encoding"] == nil else { throw Problem(status: 501, what: "Transfer-Encoding") }
        guard fields["expect"] == nil else { throw Problem(status: 417, what: "Expect") }
        guard fields["upgrade"] == nil || method == .get else { throw .malformed("Upgrade") }
        guard let text = fields["content-length"] else {
            guard method == .get else { throw Problem(status: 411, what: "no Content-Length") }
            return 0
        }
        guard !text.isEmpty, text.utf8.count <= 9, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let length = Int(text)
        else { throw .malformed("Content-Length") }
        guard method == .post || length == 0 else { throw .malformed("a body where none may be") }
        guard length <= Self.longestBody else { throw Problem(status: 413, what: "the body is too long") }
        return length
    }

    /// RFC 9110, 5.6.2.
    private static func isToken(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }

    /// The value of a cookie; nil where there is none, or several of the name.
    func cookie(_ name: String) -> String? {
        let all = (fields["cookie"] ?? "").split(separator: ";").compactMap { part -> String? in
            let sides = part.drop { $0 == " " }.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            return sides.count == 2 && sides[0] == name ? String(sides[1]) : nil
        }
        return all.count == 1 ? all[0] : nil
    }
}

/// Bytes as hexadecimal digits, which no browser, shell or URL does anything to.
enum Hexadecimal {
    private static let digits = Array("0123456789abcdef".utf8)

    static func text(_ bytes: [UInt8]) -> String {
        String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }

    /// The bytes of a text; nil for one that is none.
    static func bytes(_ text: String) -> [UInt8]? {
        let digits = text.utf8.map(value)
        guard digits.count.isMultiple(of: 2) else { return nil }
        var result: [UInt8] = []
        for index in stride(from: 0, to: digits.count, by: 2) {
            guard let high = digits[index], let low = digits[index + 1] else { return nil }
            result.append(high << 4 | low)
        }
        return result
    }

    static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case 0x30...0x39: digit - 0x30
        case 0x41...0x46: digit - 0x37
        case 0x61...0x66: digit - 0x57
        default: nil
        }
    }

    /// So many random bytes, as digits, which nobody can guess.
    static func random(bytes count: Int) -> String {
        // On Linux these come from getrandom(2).
        var generator = SystemRandomNumberGenerator()
        return text((0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) })
    }
}
