/// What a member of a message may be, as the interface language and the JSON coder tell it.
indirect enum Shape: Equatable, CustomStringConvertible {
    case text, integer, number, truth
    case list(Shape)
    case map(Shape)
    case object([String: Member])

    struct Member: Equatable {
        var shape: Shape
        var isOptional: Bool
    }

    var description: String {
        switch self {
        case .text: "string"
        case .integer: "int"
        case .number: "float"
        case .truth: "bool"
        case .list(let element): "[]\(element)"
        case .map(let element): "[string]\(element)"
        case .object(let members):
            "("
                + members.sorted { $0.key < $1.key }
                .map { "\($0.key): \($0.value.isOptional ? "?" : "")\($0.value.shape)" }.joined(separator: ", ") + ")"
        }
    }

    /// True where who reads this can read all that a definition allows: what that lets be missing may be missing.
    func canRead(_ defined: Shape) -> Bool {
        switch (self, defined) {
        case (.list(let element), .list(let other)), (.map(let element), .map(let other)): element.canRead(other)
        case (.object(let members), .object(let others)):
            members.keys == others.keys
                && others.allSatisfy { name, other in
                    guard let member = members[name] else { return false }
                    return (member.isOptional || !other.isOptional) && member.shape.canRead(other.shape)
                }
        default: self == defined
        }
    }

    /// The shape of what a type reads, found by having it read from a decoder that notes what it is asked for.
    ///
    /// `words` are the texts that an enumeration may be.
    init<Message: Decodable>(read type: Message.Type, words: [String]) throws {
        self = try ShapeDecoder.shape(of: type, words).0
    }
}

/// Gives every type something to read, and notes as what it was asked for.
private final class ShapeDecoder: Decoder {
    /// Texts are this one where a type takes no other.
    let word: String
    let words: [String]
    var shape: Shape?
    var members: [String: Shape.Member] = [:]
    let codingPath: [any CodingKey] = []
    let userInfo: [CodingUserInfoKey: Any] = [:]

    private init(_ word: String, _ words: [String]) {
        self.word = word
        self.words = words
    }

    /// The shape of a type, and one of its values.
    static func shape<T: Decodable>(of type: T.Type, _ words: [String]) throws -> (Shape, T) {
        if let map = T.self as? any StringMap.Type, let found = try map.shape(words) as? (Shape, T) { return found }
        var failure: (any Error)?
        for word in [""] + words {
            let decoder = ShapeDecoder(word, words)
            do {
                let value = try T(from: decoder)
                return (decoder.shape ?? .object(decoder.members), value)
            } catch {
                failure = failure ?? error
            }
        }
        throw failure ?? JSONShapeError()
    }

    struct JSONShapeError: Error {}

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(Members(decoder: self))
    }

    func unkeyedContainer() -> any UnkeyedDecodingContainer { Elements(decoder: self) }
    func singleValueContainer() -> any SingleValueDecodingContainer { Single(decoder: self) }

    private final class Members<Key: CodingKey>: KeyedDecodingContainerProtocol {
        let decoder: ShapeDecoder
        let codingPath: [any CodingKey] = []
        private var asked: Set<String> = []

        init(decoder: ShapeDecoder) { self.decoder = decoder }

        /// Whoever asks for these reads a map.
        var allKeys: [Key] { Key(stringValue: "key").map { [$0] } ?? [] }

        func contains(_ key: Key) -> Bool {
            asked.insert(key.stringValue)
            return true
        }

        func decodeNil(forKey key: Key) -> Bool { false }

        private func note(_ shape: Shape, _ key: Key) {
            let member = Shape.Member(shape: shape, isOptional: asked.contains(key.stringValue))
            decoder.members[key.stringValue] = member
        }

        func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T {
            let (shape, value) = try ShapeDecoder.shape(of: type, decoder.words)
            note(shape, key)
            return value
        }

        func nestedContainer<Nested: CodingKey>(
            keyedBy type: Nested.Type,
            forKey key: Key
        ) throws -> KeyedDecodingContainer<Nested> { throw JSONShapeError() }

        func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer { throw JSONShapeError() }
        func superDecoder() throws -> any Decoder { throw JSONShapeError() }
        func superDecoder(forKey key: Key) throws -> any Decoder { throw JSONShapeError() }
    }

    /// A list of one element.
    private struct Elements: UnkeyedDecodingContainer {
        let decoder: ShapeDecoder
        let codingPath: [any CodingKey] = []
        var count: Int? { 1 }
        var isAtEnd: Bool { currentIndex > 0 }
        var currentIndex = 0

        mutating func decodeNil() -> Bool { false }

        mutating func decode<T: Decodable>(_ type: T.Type) throws -> T {
            let (shape, value) = try ShapeDecoder.shape(of: type, decoder.words)
            decoder.shape = .list(shape)
            currentIndex += 1
            return value
        }

        mutating func nestedContainer<Nested: CodingKey>(
            keyedBy type: Nested.Type
        ) throws -> KeyedDecodingContainer<Nested> { throw JSONShapeError() }

        mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer { throw JSONShapeError() }
        mutating func superDecoder() throws -> any Decoder { throw JSONShapeError() }
    }

    private struct Single: SingleValueDecodingContainer {
        let decoder: ShapeDecoder
        let codingPath: [any CodingKey] = []

        func decodeNil() -> Bool { false }

        func decode(_ type: String.Type) -> String {
            decoder.shape = .text
            return decoder.word
        }

        func decode(_ type: Bool.Type) -> Bool {
            decoder.shape = .truth
            return false
        }

        func decode<T: Decodable>(_ type: T.Type) throws -> T {
            if let integer = T.self as? any BinaryInteger.Type {
                decoder.shape = .integer
                if let value = integer.init(exactly: 0) as? T { return value }
            }
            if let number = T.self as? any BinaryFloatingPoint.Type {
                decoder.shape = .number
                if let value = number.init(0) as? T { return value }
            }
            return try T(from: decoder)
        }
    }
}

/// A dictionary by texts, which reads any members.
private protocol StringMap {
    static func shape(_ words: [String]) throws -> (Shape, Self)
}

extension [String: String]: StringMap {
    fileprivate static func shape(_ words: [String]) throws -> (Shape, Self) { (.map(.text), [:]) }
}

/// An interface as its definition tells it.
struct InterfaceShape {
    var methods: [String: (parameters: Shape, reply: Shape)] = [:]
    /// All words of all enumerations.
    private(set) var words: [String] = []
    private var types: [String: [String]] = [:]
    private var tokens: ArraySlice<String>

    struct Malformed: Error, CustomStringConvertible { let description: String }

    /// Reads a definition in Varlink's interface language.
    init(_ definition: String) throws {
        let lines = definition.split(separator: "\n").map { $0.prefix { $0 != "#" } }
        var tokens: [String] = []
        for character in lines.joined(separator: " ") {
            switch character {
            case " ": tokens.append(" ")
            case "(", ")", ",", ":", "?", "[", "]", ">": tokens.append(String(character))
            default:
                if let last = tokens.last, last.count >= 1, !" (),:?[]>".contains(last) {
                    tokens[tokens.count - 1] += String(character)
                } else {
                    tokens.append(String(character))
                }
            }
        }
        let all = tokens.filter { $0 != " " }
        // Types may be used before they are defined: they are remembered, and read where they are used.
        for (index, token) in all.enumerated() where token == "type" && index + 2 < all.count && all[index + 2] == "(" {
            types[all[index + 1]] = Array(all[(index + 2)...])
        }
        self.tokens = all[...]
        while let token = self.tokens.popFirst() {
            guard token == "method", let name = self.tokens.popFirst() else { continue }
            let parameters = try object()
            guard self.tokens.popFirst() == "-", self.tokens.popFirst() == ">" else {
                throw Malformed(description: "\(name): no reply")
            }
            methods[name] = (parameters, try object())
        }
        for list in types.values {
            self.tokens = list[...]
            _ = try object()
        }
    }

    private mutating func object() throws -> Shape {
        guard tokens.popFirst() == "(" else { throw Malformed(description: "no ( before \(tokens.prefix(5))") }
        var members: [String: Shape.Member] = [:]
        var isEnumeration = false
        while let name = tokens.popFirst(), name != ")" {
            if name == "," { continue }
            guard tokens.first == ":" else {
                words.append(name)
                isEnumeration = true
                continue
            }
            tokens.removeFirst()
            let isOptional = tokens.first == "?"
            if isOptional { tokens.removeFirst() }
            members[name] = Shape.Member(shape: try value(), isOptional: isOptional)
        }
        return isEnumeration ? .text : .object(members)
    }

    private mutating func value() throws -> Shape {
        guard let token = tokens.first else { throw Malformed(description: "it ends too early") }
        if token == "(" { return try object() }
        tokens.removeFirst()
        switch token {
        case "string": return .text
        case "int": return .integer
        case "float": return .number
        case "bool": return .truth
        case "[":
            if tokens.first == "]" {
                tokens.removeFirst()
                return .list(try value())
            }
            guard tokens.popFirst() == "string", tokens.popFirst() == "]" else {
                throw Malformed(description: "neither a list nor a map")
            }
            return .map(try value())
        default:
            guard let type = types[token] else { throw Malformed(description: "no type is called \(token)") }
            let rest = tokens
            tokens = type[...]
            defer { tokens = rest }
            return try object()
        }
    }
}
