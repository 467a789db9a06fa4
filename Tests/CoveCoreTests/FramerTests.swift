import CoveCore
import CoveTestSupport
import Testing

@Suite struct FramerTests {
    @Test func `messages survive any cutting of the stream`() throws {
        let seed = UInt64.random(in: 0...UInt64(UInt32.max))
        print("framer test: seed \(seed)")
        var random = SeededGenerator(seed: seed)
        for _ in 0..<100 {
            let messages: [[UInt8]] = (0..<Int.random(in: 0..<20, using: &random)).map { _ in
                random.bytes(Int.random(in: 0..<300, using: &random)).map { $0 == 0 ? 1 : $0 }
            }
            var stream = Array(messages.map { $0 + [0] }.joined())[...]
            var framer = MessageFramer()
            var received: [[UInt8]] = []
            while !stream.isEmpty {
                let count = Int.random(in: 1...200, using: &random)
                framer.append(stream.prefix(count))
                stream = stream.dropFirst(count)
                if random.oneIn(3) { continue }
                while let message = try framer.next() { received.append(message) }
            }
            while let message = try framer.next() { received.append(message) }
            #expect(received == messages)
            #expect(!framer.isInsideMessage)
        }
    }

    @Test func `a message may have the greatest length, and not a byte more`() throws {
        var framer = MessageFramer()
        framer.append([UInt8](repeating: 0x20, count: MessageFramer.maximumLength))
        #expect(try framer.next() == nil)
        framer.append([0])
        #expect(try framer.next()?.count == MessageFramer.maximumLength)
        framer.append([UInt8](repeating: 0x20, count: MessageFramer.maximumLength + 1))
        #expect(throws: MessageFramer.TooLong.self) { try framer.next() }
    }

    @Test func `an unfinished message is told`() throws {
        var framer = MessageFramer()
        #expect(!framer.isInsideMessage)
        framer.append([0x7B])
        #expect(try framer.next() == nil)
        #expect(framer.isInsideMessage)
    }
}
