import CoveCore
import CoveTestSupport
import Testing

@Suite struct VarlinkFuzzTests {
    private static let calls = [
        #"{"method":"io.cove.Coordination.Claim","parameters":{"session":"a","intents":[{"kind":"writing","options":["forDeleting"],"path":"d/f"}],"timeout":1.5}}"#,
        #"{"method":"io.cove.Coordination.Attend","more":true,"parameters":{"resume":null}}"#,
        #"{"method":"io.cove.Coordination.Moved","parameters":{"claim":"c1","path_base64":"ZA==","newPath":{"path":"e"}}}"#,
    ]

    /// What was read, so that it was not left out.
    private func read(_ message: [UInt8]) -> Bool {
        guard let call = try? VarlinkCall(parsing: message) else { return false }
        let claim = try? call.parameters.decode(as: CoordinationInterface.ClaimRequest.self)
        for intent in claim?.intents ?? [] { _ = try? intent.path.remotePath() }
        let moved = try? call.parameters.decode(as: CoordinationInterface.MovedRequest.self)
        _ = try? moved?.newPath.remotePath()
        _ = try? call.parameters.decode(as: CoordinationInterface.PresenterRequest.self)
        // What was understood can be written and is understood again.
        guard let again = try? VarlinkCall(parsing: Array(call.message.dropLast())) else { return false }
        return again == call
    }

    @Test func `damaged calls are refused or understood, and written as they were understood`() async {
        let seed = UInt64.random(in: 0...UInt64(UInt32.max))
        print("varlink fuzz test: seed \(seed)")
        await blocking {
            var random = SeededGenerator(seed: seed)
            for call in Self.calls { #expect(read(Array(call.utf8))) }
            var understood = 0
            for _ in 0..<5000 {
                var bytes = Array(Self.calls[Int.random(in: 0..<Self.calls.count, using: &random)].utf8)
                for _ in 0..<Int.random(in: 1...4, using: &random) {
                    let place = Int.random(in: 0..<bytes.count, using: &random)
                    switch Int.random(in: 0..<4, using: &random) {
                    case 0: bytes[place] = UInt8.random(in: 0...255, using: &random)
                    case 1: bytes.remove(at: place)
                    case 2: bytes.insert(contentsOf: bytes[place...].prefix(9), at: place)
                    default: bytes = Array(bytes[...place])
                    }
                    if bytes.isEmpty { bytes = [0x7B] }
                }
                var framer = MessageFramer()
                framer.append(bytes + [0])
                while let message = try? framer.next() {
                    guard (try? VarlinkCall(parsing: message)) != nil else { continue }
                    understood += 1
                    if !read(message) { Issue.record("seed \(seed): \(String(decoding: message, as: UTF8.self))") }
                }
            }
            #expect(understood > 10)
        }
    }
}
