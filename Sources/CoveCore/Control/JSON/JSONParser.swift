extension JSONValue {
    /// Reads one JSON text (RFC 8259), strictly.
    ///
    /// Refused are invalid UTF-8, unpaired surrogates, repeated member names, numbers beyond a double, nesting deeper
    /// than 64, and anything after the text.
    public init(parsing bytes: [UInt8]) throws(JSONError) { try self.init(parsing: bytes, nestedTo: 64) }

    /// The same of a text whose values are nested no deeper than that.
    public init(parsing bytes: [UInt8], nestedTo depth: Int) throws(JSONError) {
        let outcome: Result<JSONValue, JSONError> = bytes.withUnsafeBufferPointer { buffer in
            var parser = JSONParser(bytes: buffer, maximumDepth: depth)
            do throws(JSONError) { return .success(try parser.document()) } catch { return .failure(error) }
        }
        self = try outcome.get()
    }
}

/// A recursive-descent reader; the depth limit bounds its recursion.
private struct JSONParser {
    private let maximumDepth: Int
    private let bytes: UnsafeBufferPointer<UInt8>
    private var position = 0

    init(bytes: UnsafeBufferPointer<UInt8>, maximumDepth: Int) {
        self.bytes = bytes
        self.maximumDepth = maximumDepth
    }

    mutating func document() throws(JSONError) -> JSONValue {
        let value = try value(depth: 0)
        skipSpace()
        guard position == bytes.count else { throw problem("bytes after the JSON text") }
        return value
    }

    private func problem(_ message: String) -> JSONError { JSONError("\(message) at byte \(position)") }

    private var next: UInt8? { position < bytes.count ? bytes[position] : nil }

    private mutating func skipSpace() {
        while let byte = next, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { position += 1 }
    }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard next == byte else { return false }
        position += 1
        return true
    }

    private mutating func value(depth: Int) throws(JSONError) -> JSONValue {
        guard depth < maximumDepth else { throw problem("nesting too deep") }
        skipSpace()
        switch next {
        case UInt8(ascii: "{"): return try object(depth: depth)
        case UInt8(ascii: "["): return try array(depth: depth)
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try literal("true", .bool(true))
        case UInt8(ascii: "f"): return try literal("false", .bool(false))
        case UInt8(ascii: "n"): return try literal("null", .null)
        case nil: throw problem("the text ends too soon")
        case let byte?:
            guard byte == UInt8(ascii: "-") || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else {
                throw problem("an unexpected character")
            }
            return try number()
        }
    }

    private mutating func literal(_ text: StaticString, _ value: JSONValue) throws(JSONError) -> JSONValue {
        let end = position + text.utf8CodeUnitCount
        guard end <= bytes.count else { throw problem("the text ends too soon") }
        for index in 0..<text.utf8CodeUnitCount where bytes[position + index] != text.utf8Start[index] {
            throw problem("an unknown word")
        }
        position = end
        return value
    }

    private mutating func object(depth: Int) throws(JSONError) -> JSONValue {
        position += 1
        var members: [String: JSONValue] = [:]
        skipSpace()
        if take(UInt8(ascii: "}")) { return .object(members) }
        while true {
            skipSpace()
            guard next == UInt8(ascii: "\"") else { throw problem("a member without a name") }
            let name = try string()
            skipSpace()
            guard take(UInt8(ascii: ":")) else { throw problem("a colon is missing") }
            let value = try value(depth: depth + 1)
            guard members.updateValue(value, forKey: name) == nil else { throw problem("a repeated member") }
            skipSpace()
            if take(UInt8(ascii: "}")) { return .object(members) }
            guard take(UInt8(ascii: ",")) else { throw problem("a comma is missing") }
        }
    }

    private mutating func array(depth: Int) throws(JSONError) -> JSONValue {
        position += 1
        var elements: [JSONValue] = []
        skipSpace()
        if take(UInt8(ascii: "]")) { return .array(elements) }
        while true {
            elements.append(try value(depth: depth + 1))
            skipSpace()
            if take(UInt8(ascii: "]")) { return .array(elements) }
            guard take(UInt8(ascii: ",")) else { throw problem("a comma is missing") }
        }
    }

    private mutating func digits() throws(JSONError) {
        let start = position
        while let byte = next, byte >= 0x30, byte <= 0x39 { position += 1 }
        guard position > start else { throw problem("a digit is missing") }
    }

    private mutating func number() throws(JSONError) -> JSONValue {
        let start = position
        _ = take(UInt8(ascii: "-"))
        if !take(UInt8(ascii: "0")) { try digits() }
        var isWhole = true
        if take(UInt8(ascii: ".")) {
            isWhole = false
            try digits()
        }
        if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
            isWhole = false
            if !take(UInt8(ascii: "+")) { _ = take(UInt8(ascii: "-")) }
            try digits()
        }
        let text = String(decoding: bytes[start..<position], as: UTF8.self)
        if isWhole, let integer = Int64(text) { return .integer(integer) }
        guard let double = Double(text), double.isFinite else { throw problem("a number out of range") }
        return .double(double)
    }

    private mutating func string() throws(JSONError) -> String {
        position += 1
        var collected: [UInt8] = []
        while true {
            let start = position
            var union: UInt8 = 0
            while let byte = next, byte >= 0x20, byte != UInt8(ascii: "\""), byte != UInt8(ascii: "\\") {
                union |= byte
                position += 1
            }
            // Most texts are ASCII without escapes: nothing to check, nothing to put together.
            if collected.isEmpty, union < 0x80, next == UInt8(ascii: "\"") {
                position += 1
                return String(decoding: bytes[start..<(position - 1)], as: UTF8.self)
            }
            collected.append(contentsOf: bytes[start..<position])
            switch next {
            case UInt8(ascii: "\""):
                position += 1
                guard let text = String(validating: collected, as: UTF8.self) else { throw problem("invalid UTF-8") }
                return text
            case UInt8(ascii: "\\"):
                position += 1
                try escape(into: &collected)
            case nil: throw problem("the text ends in a string")
            default: throw problem("a control character in a string")
            }
        }
    }

    private mutating func escape(into collected: inout [UInt8]) throws(JSONError) {
        guard let byte = next else { throw problem("the text ends in a string") }
        position += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): collected.append(byte)
        case UInt8(ascii: "b"): collected.append(0x08)
        case UInt8(ascii: "f"): collected.append(0x0C)
        case UInt8(ascii: "n"): collected.append(0x0A)
        case UInt8(ascii: "r"): collected.append(0x0D)
        case UInt8(ascii: "t"): collected.append(0x09)
        case UInt8(ascii: "u"): collected.append(contentsOf: String(Character(try scalar())).utf8)
        default: throw problem("an unknown escape")
        }
    }

    private mutating func scalar() throws(JSONError) -> Unicode.Scalar {
        let first = try fourHexadecimalDigits()
        if let scalar = Unicode.Scalar(first) { return scalar }
        guard first < 0xDC00, take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")) else {
            throw problem("an unpaired surrogate")
        }
        let second = try fourHexadecimalDigits()
        guard (0xDC00...0xDFFF).contains(second),
            let scalar = Unicode.Scalar(0x10000 + (first - 0xD800) << 10 + (second - 0xDC00))
        else { throw problem("an unpaired surrogate") }
        return scalar
    }

    private mutating func fourHexadecimalDigits() throws(JSONError) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<4 {
            guard let byte = next, let digit = Character(Unicode.Scalar(byte)).hexDigitValue else {
                throw problem("a hexadecimal digit is missing")
            }
            position += 1
            value = value << 4 | UInt32(digit)
        }
        return value
    }
}
