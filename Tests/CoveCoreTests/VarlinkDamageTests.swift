import CoveCore
import Testing

/// Calls with one thing wrong in them.
@Suite struct VarlinkDamageTests {
    private static let calls = [
        #"{"method":"io.cove.Coordination.Claim","parameters":{"session":"a","intents":[{"kind":"writing","options":["forDeleting"],"path":"d/f"}],"timeout":1.5}}"#,
        #"{"method":"io.cove.Coordination.Attend","more":true,"parameters":{"resume":null}}"#,
        #"{"method":"io.cove.Coordination.Moved","parameters":{"claim":"c1","path_base64":"ZA==","newPath":{"path":"e"}}}"#,
    ]

    @Test func `a call cut at every byte is read once it is whole, and never before`() throws {
        for call in Self.calls {
            let bytes = Array(call.utf8)
            for cut in 0..<bytes.count { #expect((try? VarlinkCall(parsing: Array(bytes[..<cut]))) == nil) }
            let expected = try VarlinkCall(parsing: bytes)
            for cut in 0...bytes.count {
                var framer = MessageFramer()
                framer.append(bytes[..<cut])
                #expect(try framer.next() == nil)
                framer.append(bytes[cut...] + [0])
                #expect(try framer.next().map { try VarlinkCall(parsing: $0) } == expected)
            }
        }
    }

    /// What claims to be a call, with something wrong in the place of its session.
    @Test(arguments: [
        #""\ud800""#, #""\udc00\ud800""#, #""\ud83dx""#, #""\u12g4""#, #""\u+123""#, "\"\u{1}\"", "1e400", "-1e400",
        "1e",
        "0x10", "01", "--1", "+1", "1.", "tru", "nul", "NaN", "{]", "[}", "{\"a\":1,\"a\":2}",
        "{\"a\":1,\"\\u0061\":2}", ",", "",
    ])
    func `damage inside refuses the whole call`(damage: String) {
        let call = #"{"method":"a.B","parameters":{"session":\#(damage)}}"#
        #expect(throws: JSONError.self) { try VarlinkCall(parsing: Array(call.utf8)) }
    }

    @Test func `invalid UTF-8 is refused wherever it stands`() {
        let invalid: [[UInt8]] = [
            [0x80], [0xC0, 0x80], [0xC3], [0xE0, 0x80, 0x80], [0xED, 0xA0, 0x80], [0xF4, 0x90, 0x80, 0x80], [0xF8],
            [0xFF],
        ]
        for bytes in invalid {
            for parts in [
                ("{\"method\":\"a", "\"}"), ("{\"method\":\"a.B\",\"b", "\":1}"), ("", "{\"method\":\"a.B\"}"),
            ] {
                #expect(throws: JSONError.self) {
                    try VarlinkCall(parsing: Array(parts.0.utf8) + bytes + Array(parts.1.utf8))
                }
            }
        }
    }

    @Test func `numbers and nesting are bounded`() throws {
        func call(_ value: String) -> [UInt8] { Array(#"{"method":"a.B","parameters":{"v":\#(value)}}"#.utf8) }
        let zeros = String(repeating: "0", count: 100_000)
        #expect(throws: JSONError.self) { try VarlinkCall(parsing: call("1" + zeros)) }
        #expect(try VarlinkCall(parsing: call("0." + zeros + "1")).parameters["v"] == .double(0))
        #expect(try VarlinkCall(parsing: call("1e-999")).parameters["v"] == .double(0))
        for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
            let deep = String(repeating: open, count: 100_000)
            #expect(throws: JSONError.self) { try VarlinkCall(parsing: call(deep)) }
            #expect(throws: JSONError.self) {
                try VarlinkCall(parsing: call(deep + "1" + String(repeating: close, count: 100_000)))
            }
        }
    }
}
