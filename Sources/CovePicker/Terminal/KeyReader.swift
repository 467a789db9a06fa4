/// One key of a terminal.
enum Key: Sendable, Equatable {
    case text(String)
    case up, down, left, right, home, end, pageUp, pageDown
    case enter, backspace, delete, escape, tab
    /// Control and a letter.
    case control(Character)
}

/// Makes keys of the bytes that a terminal sends.
///
/// An escape that nothing follows is the key itself: whoever reads says so with `flush`, once no more bytes have come.
struct KeyReader {
    private var bytes: [UInt8] = []
    /// True between the signs that a terminal sends around a text that is pasted, whose line ends are no keys.
    private var isPasting = false
    /// No key is longer; what goes on and on is dropped.
    private static let longestSequence = 32

    /// True where bytes wait for more.
    var isPending: Bool { !bytes.isEmpty }

    /// Takes bytes, and gives the keys that are complete.
    mutating func take(_ new: some Collection<UInt8>) -> [Key] {
        bytes += new
        var keys: [Key] = []
        while let (key, length) = next() {
            bytes.removeFirst(length)
            guard let key else { continue }
            if isPasting { guard case .text = key else { continue } }
            keys.append(key)
        }
        return keys
    }

    /// Nothing follows what is there.
    mutating func flush() -> [Key] {
        let isEscape = bytes.first == 0x1B
        bytes = []
        return isEscape ? [.escape] : []
    }

    /// The first key, or none for bytes that mean nothing, and its length; nil where more bytes are needed.
    private mutating func next() -> (Key?, Int)? {
        guard let first = bytes.first else { return nil }
        switch first {
        case 0x1B: return sequence()
        case 0x0D, 0x0A: return (.enter, 1)
        case 0x09: return (.tab, 1)
        case 0x7F, 0x08: return (.backspace, 1)
        case 0x01...0x1A: return (.control(Character(Unicode.Scalar(first + 0x60))), 1)
        case 0x00...0x1F: return (nil, 1)
        case 0x20...0x7E: return (.text(String(Unicode.Scalar(first))), 1)
        default: return character(first)
        }
    }

    private func character(_ first: UInt8) -> (Key?, Int)? {
        let length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 1
        guard length > 1, first < 0xF5 else { return (nil, 1) }
        for index in 1..<length {
            guard index < bytes.count else { return nil }
            if bytes[index] & 0xC0 != 0x80 { return (nil, index) }
        }
        guard let text = String(validating: bytes.prefix(length), as: UTF8.self) else { return (nil, length) }
        // A control character beyond ASCII means nothing, either.
        return (text.unicodeScalars.contains { $0.properties.generalCategory == .control } ? nil : .text(text), length)
    }

    /// ECMA-48: ESC [ parameters letter, and what xterm sends as ESC O letter.
    private mutating func sequence() -> (Key?, Int)? {
        guard bytes.count > 1 else { return nil }
        // Two escapes, as of somebody impatient.
        if bytes[1] == 0x1B { return (.escape, 1) }
        guard bytes[1] == UInt8(ascii: "[") || bytes[1] == UInt8(ascii: "O") else { return (nil, 2) }
        var index = 2
        while index < bytes.count, (0x20...0x3F).contains(bytes[index]) {
            index += 1
            if index > Self.longestSequence { return (nil, index) }
        }
        guard index < bytes.count else { return nil }
        let parameter = bytes[2..<index].split(separator: UInt8(ascii: ";")).first.map(Array.init) ?? []
        if bytes[index] == UInt8(ascii: "~"), parameter == Array("200".utf8) || parameter == Array("201".utf8) {
            isPasting = parameter == Array("200".utf8)
        }
        return (Self.key(bytes[index], parameter), index + 1)
    }

    private static func key(_ last: UInt8, _ parameter: [UInt8]) -> Key? {
        switch last {
        case UInt8(ascii: "A"): return .up
        case UInt8(ascii: "B"): return .down
        case UInt8(ascii: "C"): return .right
        case UInt8(ascii: "D"): return .left
        case UInt8(ascii: "H"): return .home
        case UInt8(ascii: "F"): return .end
        case UInt8(ascii: "M") where parameter.isEmpty: return .enter
        case UInt8(ascii: "~"):
            switch String(decoding: parameter, as: UTF8.self) {
            case "1", "7": return .home
            case "4", "8": return .end
            case "3": return .delete
            case "5": return .pageUp
            case "6": return .pageDown
            default: return nil
            }
        default: return nil
        }
    }
}
