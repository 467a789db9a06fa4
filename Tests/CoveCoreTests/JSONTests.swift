import CoveTestSupport
import Testing

@testable import CoveCore

@Suite struct JSONTests {
    private static func parse(_ text: String) -> JSONValue? { try? JSONValue(parsing: Array(text.utf8)) }

    @Test func `values are read`() {
        #expect(Self.parse(" null ") == .null)
        #expect(Self.parse("-0") == .integer(0))
        #expect(Self.parse("9223372036854775807") == .integer(.max))
        #expect(Self.parse("-9223372036854775808") == .integer(.min))
        #expect(Self.parse("9223372036854775808") == .double(9.223372036854775808e18))
        #expect(Self.parse("1.5e3") == .double(1500))
        #expect(Self.parse("[1,[],{}]") == .array([.integer(1), .array([]), .object([:])]))
        #expect(Self.parse("{\"a\": {\"b\": true}}")?["a"]?["b"]?.truth == true)
        #expect(Self.parse(#""\"\\\/\b\f\n\r\t\u00e4\ud83d\ude00""#)?.text == "\"\\/\u{8}\u{C}\n\r\tä😀")
    }

    @Test(arguments: [
        "", " ", "nul", "tru", "01", "1.", ".5", "+1", "-", "1e", "1e999", "[1,]", "[1 2]", "{\"a\"}", "{\"a\":1,}",
        "{a:1}", "{\"a\":1,\"a\":2}", "'a'", "\"a", "\"\n\"", "\"\\x\"", "\"\\u12\"", "\"\\ud800\"", "\"\\udc00\"",
        "\"\\ud800\\u0041\"", "1 2", "[", "]", "\u{FEFF}1", "// a\n1", "NaN", "Infinity",
    ])
    func `anything else is refused`(text: String) { #expect(Self.parse(text) == nil) }

    @Test func `invalid UTF-8 is refused`() {
        #expect(throws: JSONError.self) { try JSONValue(parsing: [0x22, 0xFF, 0x22]) }
        #expect(throws: JSONError.self) { try JSONValue(parsing: [0x22, 0xC0, 0x80, 0x22]) }
    }

    @Test func `nesting is bounded`() {
        func nested(_ depth: Int) -> String {
            String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
        }
        #expect(Self.parse(nested(60)) != nil)
        #expect(Self.parse(nested(65)) == nil)
        #expect(Self.parse(String(repeating: "[", count: 1 << 20)) == nil)
    }

    @Test func `random values survive`() throws {
        let seed = UInt64.random(in: 0...UInt64(UInt32.max))
        print("JSON test: seed \(seed)")
        var random = SeededGenerator(seed: seed)
        for _ in 0..<500 {
            let value = Self.value(depth: 0, &random)
            #expect(try JSONValue(parsing: value.bytes) == value)
        }
    }

    @Test func `a decoder names the member that is wrong`() {
        struct Inner: Codable { var count: Int }
        struct Outer: Codable { var inner: Inner }
        func member(_ text: String) -> String? {
            let outcome = Result<Outer, JSONError> { () throws(JSONError) in
                try JSONValue(parsing: Array(text.utf8)).decode()
            }
            guard case .failure(let error) = outcome else { return nil }
            return error.member
        }
        #expect(member(#"{"inner":{"count":1}}"#) == nil)
        #expect(member(#"{"inner":{"count":"1"}}"#) == "inner.count")
        #expect(member(#"{"inner":{}}"#) == "inner.count")
        #expect(member("{}") == "inner")
    }

    private static func value(depth: Int, _ random: inout SeededGenerator) -> JSONValue {
        switch Int.random(in: 0..<(depth < 4 ? 7 : 5), using: &random) {
        case 0: return .null
        case 1: return .bool(Bool.random(using: &random))
        case 2: return .integer(Int64.random(in: .min ... .max, using: &random))
        case 3: return .double(Double(Int64.random(in: -1_000_000...1_000_000, using: &random)) + 0.5)
        case 4: return .string(text(&random))
        case 5:
            return .array((0..<Int.random(in: 0..<4, using: &random)).map { _ in value(depth: depth + 1, &random) })
        default:
            var members: [String: JSONValue] = [:]
            for _ in 0..<Int.random(in: 0..<4, using: &random) {
                members[text(&random)] = value(depth: depth + 1, &random)
            }
            return .object(members)
        }
    }

    private static func text(_ random: inout SeededGenerator) -> String {
        var text = ""
        for _ in 0..<Int.random(in: 0..<8, using: &random) {
            if let scalar = Unicode.Scalar(UInt32.random(in: 0..<0x11_0000, using: &random)) {
                text.unicodeScalars.append(scalar)
            }
        }
        return text
    }
}
