/// All interfaces of one server, `org.varlink.service` among them.
struct VarlinkService: Sendable {
    private static let serviceName = "org.varlink.service"
    private let interfaces: Set<String>
    /// By their full names.
    private let methods: [String: VarlinkMethod]

    init(product: String, version: String, interfaces: [VarlinkInterface]) {
        var all: [String: VarlinkInterface] = [:]
        for interface in interfaces { all[interface.name] = interface }
        var definitions = all.mapValues(\.definition)
        definitions[Self.serviceName] = Self.definition
        let info = Info(
            vendor: "Cove",
            product: product,
            version: version,
            url: "",
            interfaces: [Self.serviceName] + all.keys.sorted()
        )
        all[Self.serviceName] = Self.describing(info, definitions)
        self.interfaces = Set(all.keys)
        var methods: [String: VarlinkMethod] = [:]
        for interface in all.values {
            for (name, method) in interface.methods { methods["\(interface.name).\(name)"] = method }
        }
        self.methods = methods
    }

    /// True for a method that may last as long as others like.
    func lasts(_ method: String) -> Bool { methods[method]?.lasts ?? false }

    /// Finds and runs the method; the last reply of the call.
    func answer(
        _ call: VarlinkCall,
        peer: PeerCredentials,
        scope: ConnectionScope,
        outbox: ReplyOutbox
    ) async -> VarlinkReply {
        do throws(VarlinkError) {
            guard let method = methods[call.method] else {
                let interface = call.method.lastIndex(of: ".").map { String(call.method[..<$0]) }
                guard let interface, !interfaces.contains(interface) else { throw .methodNotFound(call.method) }
                throw .interfaceNotFound(interface)
            }
            let invocation = VarlinkInvocation(
                parameters: call.parameters,
                wantsMore: call.more && !call.oneway,
                peer: peer,
                scope: scope,
                outbox: outbox
            )
            return VarlinkReply(parameters: try await method.run(invocation))
        } catch {
            return VarlinkReply(parameters: error.parameters, error: error.name)
        }
    }

    private struct Info: Codable {
        var vendor: String
        var product: String
        var version: String
        var url: String
        var interfaces: [String]
    }

    private struct InterfaceName: Codable { var interface: String }
    private struct Description: Codable { var description: String }

    private static func describing(_ info: Info, _ definitions: [String: String]) -> VarlinkInterface {
        VarlinkInterface(
            name: serviceName,
            definition: definition,
            methods: [
                "GetInfo": VarlinkMethod { (_: VarlinkNothing, _) async throws(VarlinkError) in info },
                "GetInterfaceDescription": VarlinkMethod {
                    (wanted: InterfaceName, _) async throws(VarlinkError) in
                    guard let definition = definitions[wanted.interface] else {
                        throw .interfaceNotFound(wanted.interface)
                    }
                    return Description(description: definition)
                },
            ]
        )
    }

    private static let definition = """
        # Describes a service and the interfaces it offers.
        interface org.varlink.service

        # Says who made the service and which interfaces it offers.
        method GetInfo() -> (
          vendor: string,
          product: string,
          version: string,
          url: string,
          interfaces: []string
        )

        # Gives the definition of one interface.
        method GetInterfaceDescription(interface: string) -> (description: string)

        # The service does not offer the interface.
        error InterfaceNotFound (interface: string)

        # The interface has no such method.
        error MethodNotFound (method: string)

        # The interface defines the method but the service does not offer it.
        error MethodNotImplemented (method: string)

        # A parameter is missing or wrong.
        error InvalidParameter (parameter: string)

        # The caller may not do that.
        error PermissionDenied ()

        # The result needs several replies: call with `more`.
        error ExpectedMore ()

        """
}
