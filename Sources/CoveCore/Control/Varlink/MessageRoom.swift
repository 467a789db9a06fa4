/// How much of a message is left for a list, of which others decide how long it is.
public struct MessageRoom: Sendable {
    /// In bytes.
    private var left: Int

    /// A part of a message, half of one by default.
    public init(_ bytes: Int = MessageFramer.maximumLength / 2) { left = bytes }

    /// Takes what a member of the list needs that has some texts, and other members of at most a kilobyte.
    ///
    /// False, and nothing is taken, where less is left.
    public mutating func take(_ texts: [String]) -> Bool {
        let length = texts.reduce(1000) { $0 + Self.length(of: $1) }
        guard length <= left else { return false }
        left -= length
        return true
    }

    /// How many bytes a text has in a message, at most.
    private static func length(of text: String) -> Int {
        text.utf8.reduce(0) { $0 + ($1 < 0x20 || $1 == 0x22 || $1 == 0x5C || $1 == 0x7F ? 6 : 1) }
    }
}
