/// How many columns of a terminal a text takes.
enum TextWidth {
    /// The columns of a text without control characters.
    static func of(_ text: some StringProtocol) -> Int {
        if text.utf8.allSatisfy({ (0x20..<0x7F).contains($0) }) { return text.utf8.count }
        return text.reduce(0) { $0 + of($1) }
    }

    /// The columns of one character: 0, 1 or 2.
    static func of(_ character: Character) -> Int {
        var width = 0
        for scalar in character.unicodeScalars {
            // Emoji presentation is asked for.
            if scalar.value == 0xFE0F { return 2 }
            width = max(width, of(scalar))
        }
        return width
    }

    private static func of(_ scalar: Unicode.Scalar) -> Int {
        if (0x20..<0x7F).contains(scalar.value) { return 1 }
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .enclosingMark, .format, .control: return 0
        default: break
        }
        // What continues a Korean syllable.
        if (0x1160...0x11FF).contains(scalar.value) { return 0 }
        if scalar.properties.isEmojiPresentation { return 2 }
        return wide.contains { $0.contains(scalar.value) } ? 2 : 1
    }

    /// East Asian Wide and Fullwidth, UAX 11, in blocks.
    private static let wide: [ClosedRange<UInt32>] = [
        0x1100...0x115F, 0x2E80...0x303E, 0x3041...0x33FF, 0x3400...0x4DBF, 0x4E00...0x9FFF, 0xA000...0xA4CF,
        0xA960...0xA97C, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE10...0xFE19, 0xFE30...0xFE6F, 0xFF01...0xFF60,
        0xFFE0...0xFFE6, 0x16FE0...0x18AFF, 0x1B000...0x1B2FB, 0x1F200...0x1F251, 0x20000...0x3FFFD,
    ]

    /// The text in at most so many columns, its end replaced by a sign where it is longer.
    static func cut(_ text: String, to columns: Int) -> String {
        guard columns > 0 else { return "" }
        if text.utf8.count <= columns || of(text) <= columns { return text }
        var (result, width) = ("", 0)
        for character in text {
            let next = of(character)
            if width + next > columns - 1 { break }
            result.append(character)
            width += next
        }
        return result + "…"
    }

    /// The end of a text in at most so many columns, for a line whose end is written.
    static func end(of text: String, in columns: Int) -> String {
        guard columns > 0 else { return "" }
        if of(text) <= columns { return text }
        var (result, width) = ([Character](), 0)
        for character in text.reversed() {
            let next = of(character)
            if width + next > columns - 1 { break }
            result.append(character)
            width += next
        }
        return "…" + String(result.reversed())
    }

    /// The text in exactly so many columns.
    static func fill(_ text: String, _ columns: Int, left: Bool = false) -> String {
        let text = cut(text, to: columns)
        let spaces = String(repeating: " ", count: max(0, columns - of(text)))
        return left ? spaces + text : text + spaces
    }
}
