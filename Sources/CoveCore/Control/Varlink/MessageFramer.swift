/// Cuts a stream of bytes into messages that end with NUL; holds at most one message and what one read added.
public struct MessageFramer: Sendable {
    /// The longest message either side accepts, in bytes without its NUL.
    public static let maximumLength = 1 << 20

    /// A message longer than `maximumLength`; the stream can't be used any further.
    public struct TooLong: Error, Sendable {}

    private var buffer: [UInt8] = []
    private var start = 0
    private var searched = 0

    /// Starts at the beginning of a message.
    public init() {}

    /// True when bytes of an unfinished message, or whole messages, are held.
    public var isInsideMessage: Bool { start < buffer.count }

    /// Adds bytes as they came.
    public mutating func append(_ bytes: some Collection<UInt8>) {
        if start > 0 {
            buffer.removeFirst(start)
            searched -= start
            start = 0
        }
        buffer.append(contentsOf: bytes)
    }

    /// Takes the next whole message; nil until more bytes are there.
    public mutating func next() throws(TooLong) -> [UInt8]? {
        while searched < buffer.count, buffer[searched] != 0 { searched += 1 }
        guard searched - start <= Self.maximumLength else { throw TooLong() }
        guard searched < buffer.count else { return nil }
        let message = Array(buffer[start..<searched])
        searched += 1
        start = searched
        return message
    }
}
