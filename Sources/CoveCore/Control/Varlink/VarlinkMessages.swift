/// A method call as it travels.
public struct VarlinkCall: Sendable, Equatable {
    /// The interface's name, a dot, and the method's.
    public var method: String
    /// The method's parameters, an object.
    public var parameters: JSONValue
    /// The caller takes several replies.
    public var more: Bool
    /// The caller takes no reply.
    public var oneway: Bool

    /// Makes a call.
    public init(method: String, parameters: JSONValue = .empty, more: Bool = false, oneway: Bool = false) {
        self.method = method
        self.parameters = parameters
        self.more = more
        self.oneway = oneway
    }

    /// Reads a call; members that Varlink does not name are ignored.
    public init(parsing bytes: [UInt8]) throws(JSONError) {
        let value = try JSONValue(parsing: bytes)
        guard let method = value["method"]?.text else { throw JSONError("is missing", member: "method") }
        let parameters = value["parameters"] ?? .empty
        guard case .object = parameters else { throw JSONError("must be an object", member: "parameters") }
        self.init(
            method: method,
            parameters: parameters,
            more: try Self.flag("more", of: value),
            oneway: try Self.flag("oneway", of: value)
        )
        if try Self.flag("upgrade", of: value) { throw JSONError("is not offered", member: "upgrade") }
    }

    private static func flag(_ name: String, of value: JSONValue) throws(JSONError) -> Bool {
        guard let member = value[name], member != .null else { return false }
        guard let truth = member.truth else { throw JSONError("must be true or false", member: name) }
        return truth
    }

    /// The call as a message, its NUL included.
    public var message: [UInt8] {
        var members: [String: JSONValue] = ["method": .string(method)]
        if parameters != .empty { members["parameters"] = parameters }
        if more { members["more"] = .bool(true) }
        if oneway { members["oneway"] = .bool(true) }
        return JSONValue.object(members).message
    }
}

/// A reply as it travels.
public struct VarlinkReply: Sendable, Equatable {
    /// What the method returned, or what belongs to the error.
    public var parameters: JSONValue
    /// More replies follow.
    public var continues: Bool
    /// The error's full name; nil for success.
    public var error: String?

    /// Makes a reply.
    public init(parameters: JSONValue = .empty, continues: Bool = false, error: String? = nil) {
        self.parameters = parameters
        self.continues = continues
        self.error = error
    }

    /// Reads a reply.
    public init(parsing bytes: [UInt8]) throws(JSONError) {
        let value = try JSONValue(parsing: bytes)
        guard case .object(let members) = value else { throw JSONError("a reply must be an object") }
        parameters = members["parameters"] ?? .empty
        continues = members["continues"]?.truth ?? false
        error = members["error"]?.text
    }

    /// The reply as a message, its NUL included.
    public var message: [UInt8] {
        var members: [String: JSONValue] = ["parameters": parameters]
        if continues { members["continues"] = .bool(true) }
        if let error { members["error"] = .string(error) }
        return JSONValue.object(members).message
    }
}
