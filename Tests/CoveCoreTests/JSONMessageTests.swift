import CoveTestSupport
import FoundationEssentials
import Testing

@testable import CoveCore

/// Messages to values and back, beside the library's own reader and writer.
@Suite struct JSONMessageTests {
    private enum Kind: String, Codable { case reading, writing }

    private struct Part: Codable, Equatable {
        var name: String
        var number: Double?
        var list: [[Int8]] = []
    }

    private struct Message: Codable, Equatable {
        var text = "ä😀\u{1}"
        var kind = Kind.writing
        var missing: String?
        var truth = true
        var small = Int8.min
        var wide = Int64.max
        var unsigned = UInt32.max
        var half = 0.5
        var float = Float(1.25)
        var texts = ["", "b"]
        var parts = [Part(name: "p", number: 3), Part(name: "q", list: [[1, -1], []])]
        var named = ["k": Part(name: "n")]
        var optional: [Int?] = [1, nil, 3]
        var nothing = VarlinkNothing()
    }

    /// Writes its parts piece by piece, and beside each other.
    private struct Pieces: Codable, Equatable {
        enum Key: String, CodingKey { case a, b, list, inner, base, counts }
        var a = 1
        var b = "two"

        init() {}

        init(from decoder: any Decoder) throws {
            a = try decoder.container(keyedBy: Key.self).decode(Int.self, forKey: .a)
            let members = try decoder.container(keyedBy: Key.self)
            b = try members.decode(String.self, forKey: .b)
            var list = try members.nestedUnkeyedContainer(forKey: .list)
            #expect(list.count == 5)
            #expect(try list.decode(Int.self) == 7)
            #expect(try list.decodeNil())
            #expect(try list.nestedContainer(keyedBy: Key.self).decode(Int.self, forKey: .a) == 8)
            var counts = try list.nestedUnkeyedContainer()
            #expect(try counts.decode(Bool.self) && counts.isAtEnd)
            #expect(try String(from: list.superDecoder()) == "last")
            #expect(list.isAtEnd)
            #expect(throws: DecodingError.self) { try list.decode(Int.self) }
            let inner = try members.nestedContainer(keyedBy: Key.self, forKey: .inner)
            #expect(inner.allKeys == [.b] && inner.contains(.b) && !inner.contains(.a))
            #expect(try Int(from: members.superDecoder(forKey: .base)) == 9)
        }

        func encode(to encoder: any Encoder) throws {
            var members = encoder.container(keyedBy: Key.self)
            try members.encode(a, forKey: .a)
            var again = encoder.container(keyedBy: Key.self)
            try again.encode(b, forKey: .b)
            var list = members.nestedUnkeyedContainer(forKey: .list)
            try list.encode(7)
            try list.encodeNil()
            var inside = list.nestedContainer(keyedBy: Key.self)
            try inside.encode(8, forKey: .a)
            var counts = list.nestedUnkeyedContainer()
            try counts.encode(true)
            try "last".encode(to: list.superEncoder())
            var inner = members.nestedContainer(keyedBy: Key.self, forKey: .inner)
            try inner.encodeNil(forKey: .b)
            try 9.encode(to: members.superEncoder(forKey: .base))
        }
    }

    /// A value and its text agree with the library in both directions.
    private func check<Value: Codable & Equatable>(_ value: Value) throws {
        let json = try JSONValue(encoding: value)
        #expect(try json.decode(as: Value.self) == value)
        #expect(try JSONValue(parsing: Array(JSONEncoder().encode(value))) == json)
        #expect(try JSONDecoder().decode(Value.self, from: Data(json.bytes)) == value)
    }

    @Test func `messages are written and read as the library does it`() throws {
        try check(Message())
        try check(Pieces())
        try check([Message(), Message()])
        try check("text")
        try check([String: Int]())
        #expect(try JSONValue(encoding: VarlinkNothing()) == .empty)
        #expect(try JSONValue(encoding: UInt64.max) == .double(0x1p64))
        #expect(throws: JSONError.self) { try JSONValue(encoding: [Double.nan]) }
        #expect(throws: JSONError.self) { try JSONValue(encoding: Float.infinity) }
    }

    @Test(arguments: [
        (#"{"name":1}"#, "name: must be a text"),
        (#"{"name":null}"#, "name: must not be null"),
        (#"{"name":"a","number":"b"}"#, "number: must be a number"),
        (#"{"name":"a","list":1}"#, "list: must be a list"),
        (#"{"name":"a","list":[[1],[1,300]]}"#, "list.1.1: is too large or not whole"),
        (#"{"name":"a","list":[[0.5]]}"#, "list.0.0: is too large or not whole"),
        (#"{"name":"a","list":[[1.0, 2e0], [true]]}"#, "list.1.0: must be a number"),
        (#"{"list":[]}"#, "name: is missing"),
        ("[]", "must be an object"),
        ("null", "must not be null"),
    ])
    func `what is wrong is told with its place`(text: String, complaint: String) throws {
        let error = #expect(throws: JSONError.self) {
            try JSONValue(parsing: Array(text.utf8)).decode(as: Part.self)
        }
        #expect(error?.description == complaint)
    }
}
