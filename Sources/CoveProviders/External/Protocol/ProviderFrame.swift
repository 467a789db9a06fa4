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
    /// A part of the memory that it was read to: whoever keeps it makes a copy.
    var body: ArraySlice<UInt8> = []

    /// What is sent before the body: both lengths and the header.
    var head: [UInt8] { Self.head(header.bytes, body.count) }

    /// The same of a body that is elsewhere.
    static func head(_ text: [UInt8], _ body: Int) -> [UInt8] {
        var head: [UInt8] = []
        head.reserveCapacity(8 + text.count)
        for length in [text.count, body] {
            for shift in [24, 16, 8, 0] { head.append(UInt8(truncatingIfNeeded: length >> shift)) }
        }
        return head + text
    }
}

/// What makes the bytes of a process no frames.
struct FrameError: Error, Equatable, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// Finds frames in bytes as they come in.
///
/// They stay where they were read to: the body of a frame is a part of that memory, to be given back before more is read.
struct FrameDecoder {
    /// How many bytes are read at a time, at least, and of a long frame at most.
    private static let (least, most) = (256 << 10, 2 << 20)

    private var bytes: [UInt8] = []
    /// What has come in and was not taken out.
    private var filled = 0..<0

    /// True when a frame has begun and not ended.
    var isInsideFrame: Bool { !filled.isEmpty }

    /// Has more bytes read into free memory; the body returns how many those were.
    mutating func fill<R>(_ body: (UnsafeMutableRawBufferPointer) throws(Errno) -> (count: Int, R)) throws(Errno) -> R {
        makeRoom()
        let end = filled.upperBound
        let outcome: Result<(count: Int, R), Errno> = bytes.withUnsafeMutableBytes { memory in
            do throws(Errno) {
                return .success(try body(UnsafeMutableRawBufferPointer(rebasing: memory[end...])))
            } catch {
                return .failure(error)
            }
        }
        let (count, result) = try outcome.get()
        filled = filled.lowerBound..<min(end + max(0, count), bytes.count)
        return result
    }

    /// The next whole frame; nil when there is none yet.
    ///
    /// Throws when none can follow any more.
    mutating func next() throws(FrameError) -> ProviderFrame? {
        guard let lengths = try lengths(), filled.count >= lengths.whole else { return nil }
        let start = filled.lowerBound + 8
        let text = Array(bytes[start..<(start + lengths.header)])
        let end = filled.lowerBound + lengths.whole
        // Without a body nothing of the memory is held on to.
        let content = start + lengths.header == end ? [] : bytes[(start + lengths.header)..<end]
        filled = end..<filled.upperBound
        do throws(JSONError) {
            return ProviderFrame(header: try JSONValue(parsing: text), body: content)
        } catch {
            throw FrameError("a header is no JSON: \(error)")
        }
    }

    /// What the next frame says of itself; nil as long as it has not.
    private func lengths() throws(FrameError) -> (header: Int, whole: Int)? {
        guard filled.count >= 8 else { return nil }
        let (header, body) = (length(at: filled.lowerBound), length(at: filled.lowerBound + 4))
        guard header <= ProviderFrame.longestHeader else {
            throw FrameError(
                "it announces a header of \(header) bytes; at most \(ProviderFrame.longestHeader) are taken"
            )
        }
        guard body <= ProviderFrame.longestBody else {
            throw FrameError("it announces a body of \(body) bytes; at most \(ProviderFrame.longestBody) are taken")
        }
        return (header, 8 + header + body)
    }

    /// Sees to it that a read is of use: what is to come of a frame fits, up to what is read at a time.
    private mutating func makeRoom() {
        if filled.isEmpty {
            filled = 0..<0
            if bytes.count > 2 * Self.most { bytes = [] }
        }
        var wanted = Self.least
        // What can't be a frame is found out by who takes it out.
        if let lengths = try? lengths() { wanted = max(wanted, min(lengths.whole - filled.count, Self.most)) }
        guard bytes.count - filled.upperBound < wanted else { return }
        let count = filled.count
        if bytes.count - count >= wanted {
            bytes.withUnsafeMutableBytes { memory in
                memory.copyMemory(from: UnsafeRawBufferPointer(rebasing: memory[filled]))
            }
        } else {
            let size = max(count + wanted, 2 * bytes.count)
            bytes = [UInt8](unsafeUninitializedCapacity: size) { memory, initialized in
                let (kept, free) = (memory[..<count], memory[count...])
                _ = UnsafeMutableBufferPointer(rebasing: kept).update(fromContentsOf: bytes[filled])
                UnsafeMutableBufferPointer(rebasing: free).update(repeating: 0)
                initialized = size
            }
        }
        filled = 0..<count
    }

    private func length(at place: Int) -> Int {
        bytes[place..<(place + 4)].reduce(0) { $0 << 8 | Int($1) }
    }
}
