/// Writes a message straight into a value.
final class JSONValueEncoder: Encoder {
    private enum Place {
        case member(String)
        case element(Int)
    }

    let codingPath: [any CodingKey]
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    private var scalar: JSONValue?
    fileprivate var members: [String: JSONValue] = [:]
    fileprivate var elements: [JSONValue]?
    /// Parts that are written piece by piece.
    private var parts: [(Place, JSONValueEncoder)] = []

    init(at codingPath: [any CodingKey] = []) { self.codingPath = codingPath }

    /// What was written; an object without members where nothing was.
    var value: JSONValue {
        if let scalar { return scalar }
        var members = members
        var elements = elements
        for (place, part) in parts {
            switch place {
            case .member(let name): members[name] = part.value
            case .element(let index): elements?[index] = part.value
            }
        }
        return elements.map { .array($0) } ?? .object(members)
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(JSONMemberWriter<Key>(encoder: self))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        elements = elements ?? []
        return JSONElementWriter(encoder: self)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer { self }

    fileprivate func whole(_ message: some Encodable, at key: any CodingKey) throws -> JSONValue {
        let encoder = JSONValueEncoder(at: codingPath + [key])
        try message.encode(to: encoder)
        return encoder.value
    }

    fileprivate func part(for key: any CodingKey) -> JSONValueEncoder {
        let part = JSONValueEncoder(at: codingPath + [key])
        if let index = key.intValue, elements != nil {
            elements?.append(.null)
            parts.append((.element(index), part))
        } else {
            parts.append((.member(key.stringValue), part))
        }
        return part
    }
}

extension JSONValueEncoder: SingleValueEncodingContainer {
    func encodeNil() { scalar = .null }
    func encode(_ value: Bool) { scalar = .bool(value) }
    func encode(_ value: String) { scalar = .string(value) }
    func encode(_ value: Float) throws { try encode(Double(value)) }

    func encode(_ value: Double) throws {
        guard value.isFinite else {
            let context = EncodingError.Context(codingPath: codingPath, debugDescription: "JSON has no such number")
            throw EncodingError.invalidValue(value, context)
        }
        // Whole ones are written without a fraction, where that loses nothing.
        scalar =
            value.magnitude < 0x1p53 ? Int64(exactly: value).map { .integer($0) } ?? .double(value) : .double(value)
    }

    func encode<Number: FixedWidthInteger & Encodable>(_ value: Number) throws {
        scalar = Int64(exactly: value).map { .integer($0) } ?? .double(Double(value))
    }

    func encode<Message: Encodable>(_ value: Message) throws { try value.encode(to: self) }
}

/// Adds members to an object.
private struct JSONMemberWriter<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let encoder: JSONValueEncoder
    var codingPath: [any CodingKey] { encoder.codingPath }

    func encodeNil(forKey key: Key) { encoder.members[key.stringValue] = .null }
    func encode(_ value: String, forKey key: Key) { encoder.members[key.stringValue] = .string(value) }

    func encode<Message: Encodable>(_ value: Message, forKey key: Key) throws {
        let member = try encoder.whole(value, at: key)
        encoder.members[key.stringValue] = member
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type,
        forKey key: Key
    ) -> KeyedEncodingContainer<Nested> { encoder.part(for: key).container(keyedBy: type) }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        encoder.part(for: key).unkeyedContainer()
    }

    func superEncoder() -> any Encoder { encoder }
    func superEncoder(forKey key: Key) -> any Encoder { encoder.part(for: key) }
}

/// Adds elements to a list.
private struct JSONElementWriter: UnkeyedEncodingContainer {
    let encoder: JSONValueEncoder
    var codingPath: [any CodingKey] { encoder.codingPath }
    var count: Int { encoder.elements?.count ?? 0 }

    private var next: JSONIndex { JSONIndex(intValue: count) }

    init(encoder: JSONValueEncoder) { self.encoder = encoder }

    func encodeNil() { encoder.elements?.append(.null) }
    func encode(_ value: String) { encoder.elements?.append(.string(value)) }

    func encode<Message: Encodable>(_ value: Message) throws {
        let element = try encoder.whole(value, at: next)
        encoder.elements?.append(element)
    }

    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
        encoder.part(for: next).container(keyedBy: type)
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { encoder.part(for: next).unkeyedContainer() }

    func superEncoder() -> any Encoder { encoder.part(for: next) }
}
