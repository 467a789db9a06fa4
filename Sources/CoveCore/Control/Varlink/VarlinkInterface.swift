/// One interface a server offers: its name, its definition, and what its methods do.
public struct VarlinkInterface: Sendable {
    /// The name in reverse-domain form.
    public let name: String
    /// The definition in Varlink's interface language.
    public let definition: String
    /// The methods by their name without the interface's.
    public let methods: [String: VarlinkMethod]

    /// Makes an interface.
    public init(name: String, definition: String, methods: [String: VarlinkMethod]) {
        self.name = name
        self.definition = definition
        self.methods = methods
    }
}

extension VarlinkInterface {
    /// The same, with a look at each call before it is carried out.
    public func guarded(
        by check: @escaping @Sendable (_ method: String, VarlinkInvocation) async throws(VarlinkError) -> Void
    ) -> VarlinkInterface {
        var guarded: [String: VarlinkMethod] = [:]
        for (name, method) in methods {
            guarded[name] = VarlinkMethod(
                lasts: method.lasts,
                run: { invocation async throws(VarlinkError) in
                    try await check(name, invocation)
                    return try await method.run(invocation)
                }
            )
        }
        return VarlinkInterface(name: self.name, definition: definition, methods: guarded)
    }
}

/// What a method does.
///
/// It begins on the connection's thread and goes on in Swift's cooperative pool once it has waited, and so must not block.
public struct VarlinkMethod: Sendable {
    let run: @Sendable (VarlinkInvocation) async throws(VarlinkError) -> JSONValue
    /// True for a call that may last as long as others like: a server that stops does not wait for it.
    let lasts: Bool

    fileprivate init(
        lasts: Bool,
        run: @escaping @Sendable (VarlinkInvocation) async throws(VarlinkError) -> JSONValue
    ) {
        self.lasts = lasts
        self.run = run
    }

    /// The same method, before which something is checked.
    public func checking(_ check: @escaping @Sendable () throws(VarlinkError) -> Void) -> VarlinkMethod {
        let run = run
        return VarlinkMethod(lasts: lasts) { invocation async throws(VarlinkError) in
            try check()
            return try await run(invocation)
        }
    }

    /// Makes a method from its parameters and its last reply.
    ///
    /// Parameters of the wrong shape are refused before the body.
    public init<Parameters: Decodable & SendableMetatype, Reply: Encodable & SendableMetatype>(
        lasts: Bool = false,
        _ body: @escaping @Sendable (Parameters, VarlinkInvocation) async throws(VarlinkError) -> Reply
    ) {
        self.lasts = lasts
        run = { invocation async throws(VarlinkError) -> JSONValue in
            let parameters: Parameters
            do throws(JSONError) {
                parameters = try invocation.parameters.decode()
            } catch {
                throw .invalidParameter(error.member.isEmpty ? error.message : error.member)
            }
            return try VarlinkInvocation.encode(try await body(parameters, invocation))
        }
    }
}

/// Parameters or a reply without members.
public struct VarlinkNothing: Codable, Sendable, Equatable {
    /// Makes nothing.
    public init() {}
}

/// One call being handled.
public struct VarlinkInvocation: Sendable {
    /// The parameters as they came.
    public let parameters: JSONValue
    /// The caller takes several replies.
    public let wantsMore: Bool
    /// Who calls.
    public let peer: PeerCredentials
    /// The connection that the call came on.
    public let scope: ConnectionScope
    let outbox: ReplyOutbox

    /// Sends progress to a caller that takes several replies; dropped while the caller is slow.
    public func report(_ reply: some Encodable) {
        guard wantsMore, let value = try? Self.encode(reply) else { return }
        outbox.offer(VarlinkReply(parameters: value, continues: true).message)
    }

    /// Sends one of several replies, none of which may be lost.
    ///
    /// Throws `ExpectedMore` when the caller takes only one.
    public func send(_ reply: some Encodable) async throws(VarlinkError) {
        guard wantsMore else { throw .expectedMore }
        let value = try Self.encode(reply)
        guard await outbox.send(VarlinkReply(parameters: value, continues: true).message) else {
            throw .io("Gone", "the caller has gone")
        }
    }

    static func encode(_ reply: some Encodable) throws(VarlinkError) -> JSONValue {
        do {
            return try JSONValue(encoding: reply)
        } catch {
            throw .io("Internal", "a reply \(error.description)")
        }
    }
}
