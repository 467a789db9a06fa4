@_spi(_Unicode) internal import Swift

/// A pattern of `LIKE`, ready to be compared with many strings.
///
/// Matching takes at most the product of both lengths, whatever the pattern is.
struct TextPattern: Sendable {
    private enum Part: Equatable {
        case one(Character)
        case anyOne
        case anyText
    }

    private let parts: [Part]
    private let options: TextOptions

    init(_ pattern: String, _ options: TextOptions) {
        var parts: [Part] = []
        var isEscaped = false
        for character in Self.folded(pattern, options) {
            switch character {
            case _ where isEscaped:
                parts.append(.one(character))
                isEscaped = false
            case "\\": isEscaped = true
            case "?": parts.append(.anyOne)
            case "*": if parts.last != .anyText { parts.append(.anyText) }
            default: parts.append(.one(character))
            }
        }
        if isEscaped { parts.append(.one("\\")) }
        self.parts = parts
        self.options = options
    }

    /// How many characters or stars it has.
    var length: Int { parts.count }

    /// Whether a text is like it; `folded` is the text as `folded(_:_:)` gives it.
    func matches(_ text: String, folded: [Character]) -> Bool {
        guard parts.count(where: { $0 != .anyText }) <= folded.count else { return false }
        if matches(folded) { return true }
        // In upper case a letter may be two, of which `?` is to be one.
        guard options.contains(.caseInsensitive), parts.contains(.anyOne) else { return false }
        var plain = options
        plain.remove(.caseInsensitive)
        let letters = Self.folded(text, plain)
        guard letters.count < folded.count else { return false }
        return matches(
            letters.map { letter in
                let upper = letter.uppercased()
                return upper.count == 1 ? Character(upper) : letter
            }
        )
    }

    private func matches(_ text: [Character]) -> Bool {
        var (at, part) = (0, 0)
        // The last star, and how far it reached.
        var star: (part: Int, at: Int)?
        while at < text.count {
            if part < parts.count, parts[part] == .anyText {
                star = (part, at)
                part += 1
            } else if part < parts.count, parts[part] == .anyOne || parts[part] == .one(text[at]) {
                part += 1
                at += 1
            } else if let last = star {
                star = (last.part, last.at + 1)
                (part, at) = (last.part + 1, last.at + 1)
            } else {
                return false
            }
        }
        return parts[part...].allSatisfy { $0 == .anyText }
    }

    /// The characters to compare: canonically equal ones are equal, others as the options say.
    static func folded(_ text: String, _ options: TextOptions) -> [Character] {
        var text = text
        if options.contains(.diacriticInsensitive) { text = text.withoutMarks }
        if options.contains(.caseInsensitive) { text = text.uppercased() }
        return Array(text)
    }

    /// True when one list of characters is in another one.
    static func find(_ part: [Character], in text: [Character]) -> Bool {
        guard let first = part.first else { return true }
        guard part.count <= text.count else { return false }
        return (0...text.count - part.count).contains { text[$0] == first && text[$0...].starts(with: part) }
    }
}

extension String {
    /// The text without the marks that stand over, in or under its letters.
    public var withoutMarks: String {
        var scalars = String.UnicodeScalarView()
        for scalar in _nfd where scalar.properties.generalCategory != .nonspacingMark { scalars.append(scalar) }
        return String(scalars)
    }
}
