internal import CoveCore

/// One message between Cove and a provider's process: a JSON object, and bytes that belong to it.
///
/// On the wire the lengths of both come first, four bytes each, the highest first.
struct ProviderFrame: Sendable, Equatable {
    /// The longest header, in bytes.
    static let longestHeader = 16 << 20
    /// The longest body, in bytes.
    static let longestBody = 1 << 20

    var header: JSONValue
    var body: [UInt8] = []

    /// The frame as it is sent.
    var bytes: [UInt8] {
        let text = header.bytes
        var whole: [UInt8] = []
        whole.reserveCapacity(8 + text.count + body.count)
        for length in [text.count, body.count] {
            for shift in [24, 16, 8, 0] { whole.append(UInt8(truncatingIfNeeded: length >> shift)) }
        }
        whole += text
        whole += body
        return whole
    }
}

/// What makes the bytes of a process no frames.
struct FrameError: Error, Equatable, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// Finds frames in bytes as they come in.
struct FrameDecoder {
    private var bytes: [UInt8] = []
    private var start = 0

    /// True when a frame has begun and not ended.
    var isInsideFrame: Bool { start < bytes.count }

    /// Takes what has come in.
    mutating func append(_ more: UnsafeRawBufferPointer) {
        if start == bytes.count {
            bytes.removeAll(keepingCapacity: bytes.capacity <= 4 * ProviderFrame.longestBody)
            start = 0
        } else if start > ProviderFrame.longestBody {
            bytes.removeFirst(start)
            start = 0
        }
        bytes.append(contentsOf: more)
    }

    /// The next whole frame; nil when there is none yet.
    ///
    /// Throws when none can follow any more.
    mutating func next() throws(FrameError) -> ProviderFrame? {
        guard bytes.count - start >= 8 else { return nil }
        let (header, body) = (length(at: start), length(at: start + 4))
        guard header <= ProviderFrame.longestHeader else {
            throw FrameError(
                "it announces a header of \(header) bytes; at most \(ProviderFrame.longestHeader) are taken"
            )
        }
        guard body <= ProviderFrame.longestBody else {
            throw FrameError("it announces a body of \(body) bytes; at most \(ProviderFrame.longestBody) are taken")
        }
        guard bytes.count - start >= 8 + header + body else { return nil }
        let text = Array(bytes[(start + 8)..<(start + 8 + header)])
        let content = Array(bytes[(start + 8 + header)..<(start + 8 + header + body)])
        start += 8 + header + body
        do throws(JSONError) {
            return ProviderFrame(header: try JSONValue(parsing: text), body: content)
        } catch {
            throw FrameError("a header is no JSON: \(error)")
        }
    }

    private func length(at place: Int) -> Int {
        bytes[place..<(place + 4)].reduce(0) { $0 << 8 | Int($1) }
    }
}
