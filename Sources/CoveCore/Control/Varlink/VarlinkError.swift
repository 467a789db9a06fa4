/// Why a call failed: the error's full name and what belongs to it.
public struct VarlinkError: Error, Sendable, Equatable {
    /// The interface's name, a dot, and the error's.
    public var name: String
    /// The error's parameters, an object.
    public var parameters: JSONValue

    /// Makes an error of any interface.
    public init(name: String, parameters: JSONValue = .empty) {
        self.name = name
        self.parameters = parameters
    }

    private init(service name: String, _ parameter: String, _ value: String) {
        self.init(name: "org.varlink.service.\(name)", parameters: .object([parameter: .string(value)]))
    }

    /// No such interface is served.
    public static func interfaceNotFound(_ name: String) -> VarlinkError {
        VarlinkError(service: "InterfaceNotFound", "interface", name)
    }

    /// The interface has no such method.
    public static func methodNotFound(_ name: String) -> VarlinkError {
        VarlinkError(service: "MethodNotFound", "method", name)
    }

    /// A parameter is missing or wrong.
    public static func invalidParameter(_ name: String) -> VarlinkError {
        VarlinkError(service: "InvalidParameter", "parameter", name)
    }

    /// The result is longer than one message: the call must ask for `more`.
    public static let expectedMore = VarlinkError(name: "org.varlink.service.ExpectedMore")

    /// An error of the service itself, with what happened and what to do.
    static func io(_ name: String, _ message: String) -> VarlinkError {
        VarlinkError(name: "io.cove.\(name)", parameters: .object(["message": .string(message)]))
    }

    /// The name of what a server says that has no room for one more connection; the call was not looked at.
    public static let tooManyConnections = "io.cove.TooManyConnections"

    /// The peer may not do that.
    public static let permissionDenied = VarlinkError(name: "org.varlink.service.PermissionDenied")
}

extension VarlinkError {
    /// The failure that every `io.cove` interface declares: one line for a person, and the errno where there is one.
    public static func failed(
        _ message: String,
        errno: Errno? = nil,
        path: RemotePath? = nil,
        interface: String
    ) -> VarlinkError {
        var parameters: [String: JSONValue] = ["message": .string(message)]
        if let errno { parameters["errno"] = .integer(Int64(errno.rawValue)) }
        if let path { parameters.merge(PathParameter(path).members) { _, new in new } }
        return VarlinkError(name: "\(interface).Failed", parameters: .object(parameters))
    }

    /// The errno that came with the failure.
    public var errno: Errno? {
        guard case .integer(let number)? = parameters["errno"], let value = Int32(exactly: number) else { return nil }
        return Errno(value)
    }
}

extension VarlinkError: CustomStringConvertible {
    /// One line for a person.
    public var description: String {
        if let message = parameters["message"]?.text { return message }
        let detail = parameters == .empty ? "" : " \(parameters.description)"
        return "the daemon answered \(name)\(detail)"
    }
}
