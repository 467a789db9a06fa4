/// Reads a message straight from a value.
struct JSONValueDecoder: Decoder {
    private let value: JSONValue
    private let parents: [any CodingKey]
    private let key: (any CodingKey)?

    var userInfo: [CodingUserInfoKey: Any] { [:] }
    var codingPath: [any CodingKey] { key.map { parents + [$0] } ?? parents }

    init(_ value: JSONValue, below parents: [any CodingKey] = [], key: (any CodingKey)? = nil) {
        self.value = value
        self.parents = parents
        self.key = key
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        guard case .object(let members) = value else { throw mismatch([String: JSONValue].self) }
        return KeyedDecodingContainer(JSONMembers(members: members, codingPath: codingPath))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        guard case .array(let elements) = value else { throw mismatch([JSONValue].self) }
        return JSONElements(elements: elements, codingPath: codingPath)
    }

    func singleValueContainer() -> any SingleValueDecodingContainer { self }

    private func mismatch(_ type: any Any.Type) -> DecodingError {
        let context = DecodingError.Context(codingPath: codingPath, debugDescription: "of another type")
        return value == .null ? .valueNotFound(type, context) : .typeMismatch(type, context)
    }
}

extension JSONValueDecoder: SingleValueDecodingContainer {
    func decodeNil() -> Bool { value == .null }

    func decode(_ type: Bool.Type) throws -> Bool {
        guard case .bool(let truth) = value else { throw mismatch(type) }
        return truth
    }

    func decode(_ type: String.Type) throws -> String {
        guard case .string(let text) = value else { throw mismatch(type) }
        return text
    }

    func decode(_ type: Double.Type) throws -> Double {
        switch value {
        case .integer(let number): return Double(number)
        case .double(let number): return number
        default: throw mismatch(type)
        }
    }

    func decode(_ type: Float.Type) throws -> Float {
        let number = Float(try decode(Double.self))
        if number.isFinite { return number }
        let context = DecodingError.Context(codingPath: codingPath, debugDescription: "is too large")
        throw DecodingError.dataCorrupted(context)
    }

    func decode<Number: FixedWidthInteger & Decodable>(_ type: Number.Type) throws -> Number {
        let number: Number?
        switch value {
        case .integer(let integer): number = Number(exactly: integer)
        case .double(let double): number = Number(exactly: double)
        default: throw mismatch(type)
        }
        if let number { return number }
        throw DecodingError.dataCorrupted(
            DecodingError.Context(codingPath: codingPath, debugDescription: "is too large or not whole")
        )
    }

    func decode<Message: Decodable>(_ type: Message.Type) throws -> Message { try Message(from: self) }
}

/// The members of an object.
private struct JSONMembers<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let members: [String: JSONValue]
    let codingPath: [any CodingKey]

    var allKeys: [Key] { members.keys.compactMap { Key(stringValue: $0) } }

    func contains(_ key: Key) -> Bool { members[key.stringValue] != nil }

    func decodeNil(forKey key: Key) throws -> Bool { try member(key).decodeNil() }

    func decode(_ type: String.Type, forKey key: Key) throws -> String { try member(key).decode(type) }

    func decode<Message: Decodable>(_ type: Message.Type, forKey key: Key) throws -> Message {
        try member(key).decode(type)
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type,
        forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> { try member(key).container(keyedBy: type) }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try member(key).unkeyedContainer()
    }

    func superDecoder() throws -> any Decoder { JSONValueDecoder(.object(members), below: codingPath) }

    func superDecoder(forKey key: Key) throws -> any Decoder { try member(key) }

    private func member(_ key: Key) throws -> JSONValueDecoder {
        if let value = members[key.stringValue] { return JSONValueDecoder(value, below: codingPath, key: key) }
        let context = DecodingError.Context(codingPath: codingPath, debugDescription: "is missing")
        throw DecodingError.keyNotFound(key, context)
    }
}

/// The elements of a list.
private struct JSONElements: UnkeyedDecodingContainer {
    let elements: [JSONValue]
    let codingPath: [any CodingKey]
    private(set) var currentIndex = 0

    var count: Int? { elements.count }
    var isAtEnd: Bool { currentIndex == elements.count }

    init(elements: [JSONValue], codingPath: [any CodingKey]) {
        self.elements = elements
        self.codingPath = codingPath
    }

    mutating func decodeNil() throws -> Bool {
        let isNil = try next().decodeNil()
        if isNil { currentIndex += 1 }
        return isNil
    }

    mutating func decode<Message: Decodable>(_ type: Message.Type) throws -> Message {
        try taking { element in try element.decode(type) }
    }

    mutating func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type
    ) throws -> KeyedDecodingContainer<Nested> {
        try taking { element in try element.container(keyedBy: type) }
    }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
        try taking { element in try element.unkeyedContainer() }
    }

    mutating func superDecoder() throws -> any Decoder { try taking { $0 } }

    private func next() throws -> JSONValueDecoder {
        let key = JSONIndex(intValue: currentIndex)
        if !isAtEnd { return JSONValueDecoder(elements[currentIndex], below: codingPath, key: key) }
        let context = DecodingError.Context(codingPath: codingPath + [key], debugDescription: "is missing")
        throw DecodingError.valueNotFound(JSONValue.self, context)
    }

    /// An element counts as taken once it is understood.
    private mutating func taking<Value>(_ body: (JSONValueDecoder) throws -> Value) throws -> Value {
        let value = try body(try next())
        currentIndex += 1
        return value
    }
}

/// A place in a list.
struct JSONIndex: CodingKey {
    let number: Int
    var intValue: Int? { number }
    var stringValue: String { String(number) }

    init(intValue: Int) { number = intValue }
    init?(stringValue: String) { nil }
}
