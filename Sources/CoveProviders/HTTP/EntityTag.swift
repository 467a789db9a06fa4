/// What a server calls one version of a resource (RFC 9110, 8.8.3), as it is compared: however it was written.
///
/// Servers write the same tag in listings and in headers with and without quotes, call it weak for a second, and that in
/// either case.
struct EntityTag: Sendable, Equatable {
    /// What stands between the quotes.
    let text: String

    /// Nil for what names nothing.
    init?(_ raw: String) {
        var text = Substring(raw).drop(while: \.isWhitespace)
        while text.last?.isWhitespace == true { text.removeLast() }
        if text.hasPrefix("W/") || text.hasPrefix("w/") { text = text.dropFirst(2) }
        for quote in ["\"", "&quot;"] where text.hasPrefix(quote) && text.hasSuffix(quote) {
            text = text.dropFirst(quote.count).dropLast(quote.count)
        }
        guard !text.isEmpty else { return nil }
        self.text = String(text)
    }

    /// As the standard has it.
    var quoted: String { "\"\(text)\"" }

    /// True for one that is called weak: no condition holds for it.
    static func isWeak(_ raw: String) -> Bool { raw.hasPrefix("W/") || raw.hasPrefix("w/") }
}
