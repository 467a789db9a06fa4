import CoveTestSupport
import Glibc
import Testing

@testable import CoveCore
@testable import CoveProviders

/// Frames of the provider protocol, whole, in pieces and broken.
@Suite struct ProviderFrameTests {
    private static func frame(_ random: inout SeededGenerator, isLong: Bool) -> ProviderFrame {
        let number = Int64.random(in: 0..<1000, using: &random)
        let text = String(
            (0..<Int.random(in: 0..<20, using: &random)).map { _ in "aä\"\\\n".randomElement(using: &random) ?? "a" }
        )
        return ProviderFrame(
            header: .object([
                "id": .integer(number), "result": .string(isLong ? String(repeating: text, count: 20_000) : text),
            ]),
            body: random.bytes(Int.random(in: 0...(isLong ? ProviderFrame.longestBody : 3000), using: &random))[...]
        )
    }

    private static func decode(_ bytes: [UInt8], by count: () -> Int) throws -> [ProviderFrame] {
        var decoder = FrameDecoder()
        var frames: [ProviderFrame] = []
        var start = 0
        while start < bytes.count {
            let end = min(bytes.count, start + max(1, count()))
            start += try bytes[start..<end].withUnsafeBytes { try decoder.take($0) }
            while let frame = try decoder.next() { frames.append(frame) }
        }
        return frames
    }

    @Test func `frames come out as they went in, in whatever pieces they arrive`() throws {
        let seed = UInt64.random(in: 0...UInt64(UInt32.max))
        print("provider frames: seed \(seed)")
        var random = SeededGenerator(seed: seed)
        for round in 0..<40 {
            // Longer than what is read at a time, and than the memory that is kept.
            let isLong = round % 10 == 0
            let frames = (0..<10).map { _ in Self.frame(&random, isLong: isLong && Bool.random(using: &random)) }
            let bytes = frames.flatMap { $0.head + $0.body }
            let most = Int.random(in: isLong ? 50_000...(8 << 20) : 1...5000, using: &random)
            var lengths = random
            let found = try Self.decode(bytes) { Int.random(in: 1...most, using: &lengths) }
            #expect(found == frames)
        }
    }

    @Test func `who reads slowly gets every frame whole`() async throws {
        try await blocking {
            let seed = UInt64.random(in: 0...UInt64(UInt32.max))
            print("slow frames: seed \(seed)")
            var random = SeededGenerator(seed: seed)
            var (idle, pipe): ([Int32], [Int32]) = ([-1, -1], [-1, -1])
            try System.retry { Glibc.pipe(&idle) }
            try System.retry { Glibc.pipe(&pipe) }
            defer { for descriptor in [idle[1], pipe[0]] { System.close(descriptor) } }
            let setPipeSize: Int32 = 1031  // F_SETPIPE_SZ
            // A page: nearly no frame fits, and a write ends anywhere.
            try System.retry { fcntl(pipe[1], setPipeSize, 4096) }
            let channel = try FrameChannel(input: idle[0], output: pipe[1])
            try channel.start(onFrame: { _ in }, onEnd: { _ in })
            let frames = (0..<60).map { Self.frame(&random, isLong: $0 % 20 == 0) }
            for frame in frames { channel.send(frame) }
            var decoder = FrameDecoder()
            var found: [ProviderFrame] = []
            while found.count < frames.count {
                let most = Int.random(in: 1...6000, using: &random)
                let count = try decoder.fill { room throws(Errno) in
                    let count = try System.retry { Glibc.read(pipe[0], room.baseAddress, min(most, room.count)) }
                    return (count, count)
                }
                guard count > 0 else { break }
                while let frame = try decoder.next() { found.append(frame) }
            }
            channel.end("all is read")
            #expect(found == frames)
        }
    }

    @Test func `lengths beyond the limits are refused before anything is kept for them`() {
        for (header, body) in [(UInt32.max, 0), (0, UInt32.max), (UInt32(16 << 20) + 1, 0), (2, UInt32(1 << 20) + 1)] {
            let bytes = [header, UInt32(body)].flatMap { length in
                [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: length >> $0) }
            }
            #expect(throws: FrameError.self) { try Self.decode(bytes) { 8 } }
        }
    }

    @Test func `bytes that are no text go as base64, and come back`() throws {
        for bytes in [Array("Brief ä.txt".utf8), [], [0xFF, 0, 0x2F], Array(0...255)] {
            let value = try JSONValue(encoding: WireBytes(bytes))
            #expect(try JSONValue(parsing: value.bytes).decode(as: WireBytes.self).bytes == bytes)
        }
        #expect(throws: JSONError.self) {
            try JSONValue(parsing: Array(#"{"base64":"*"}"#.utf8)).decode(as: WireBytes.self)
        }
    }

    @Test func `every call, error and capability is in the specification`() throws {
        let page = try contents("Documentation.docc/ProviderProtocol.md")
        let capabilities = try JSONValue(encoding: WireCapabilities(ProviderCapabilities()))
        guard case .object(let members) = capabilities else { throw JSONError("no object") }
        let words = WireCall.allCases.map(\.rawValue) + WireError.Kind.allCases.map(\.rawValue) + members.keys
        #expect(members.count == 21)
        for word in words { #expect(page.contains("`\(word)`") || page.contains("\"\(word)\""), "\(word)") }
    }

    @Test func `a character of a thousand marks is cut as a text of as many`() throws {
        let text = "e" + String(repeating: "\u{301}", count: 100_000)
        let shown = WireDecoration(id: text, badge: nil, label: text, category: "\u{1B}").shown
        #expect(shown.id.unicodeScalars.count == 100 && shown.label?.unicodeScalars.count == 100)
        #expect(shown.badge == nil && shown.category == "\\u{1b}")
    }

    @Test func `paths that lead out of the root are no paths`() {
        for path in ["..", "a/../b", "/a", "a/", "a//b", ".", "a\0b"] {
            #expect(throws: JSONError.self) { try WirePath.path(WireBytes(Array(path.utf8))) }
        }
    }
}

extension FrameDecoder {
    /// Takes as much of a piece as there is room for; returns how much that was.
    mutating func take(_ piece: UnsafeRawBufferPointer) throws -> Int {
        try fill { room throws(Errno) in
            let count = min(room.count, piece.count)
            room.copyMemory(from: UnsafeRawBufferPointer(rebasing: piece[..<count]))
            return (count, count)
        }
    }
}
