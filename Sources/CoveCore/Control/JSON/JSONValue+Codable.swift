extension JSONValue {
    /// Turns a message into JSON.
    ///
    /// Throws for a number that JSON can't hold.
    public init(encoding message: some Encodable) throws(JSONError) {
        let encoder = JSONValueEncoder()
        do { try message.encode(to: encoder) } catch { throw JSONError("can't be written as JSON: \(error)") }
        self = encoder.value
    }

    /// Turns JSON into a message.
    ///
    /// Throws the member that is missing or of the wrong type.
    public func decode<Message: Decodable>(as type: Message.Type = Message.self) throws(JSONError) -> Message {
        do {
            return try Message(from: JSONValueDecoder(self))
        } catch let error as DecodingError {
            throw JSONError(error)
        } catch {
            throw JSONError("can't be read: \(error)")
        }
    }
}

extension JSONError {
    /// Says what a decoder found wrong, and with which member.
    public init(_ error: DecodingError) {
        func path(_ context: DecodingError.Context) -> String {
            context.codingPath.map { $0.intValue.map(String.init) ?? $0.stringValue }.joined(separator: ".")
        }
        switch error {
        case .typeMismatch(let type, let context):
            self.init("must be \(Self.word(for: type))", member: path(context))
        case .dataCorrupted(let context):
            self.init(context.debugDescription, member: path(context))
        case .valueNotFound(_, let context):
            self.init("must not be null", member: path(context))
        case .keyNotFound(let key, let context):
            let parent = path(context)
            self.init("is missing", member: parent.isEmpty ? key.stringValue : "\(parent).\(key.stringValue)")
        @unknown default:
            self.init("can't be read")
        }
    }

    private static func word(for type: any Any.Type) -> String {
        let name = "\(type)"
        if name.hasPrefix("Array") { return "a list" }
        if name.hasPrefix("Dictionary") || name == "KeyedContainer" { return "an object" }
        return switch type {
        case is String.Type: "a text"
        case is Bool.Type: "true or false"
        case is any BinaryInteger.Type, is any BinaryFloatingPoint.Type: "a number"
        default: "of another type"
        }
    }
}
