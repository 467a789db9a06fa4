internal import CoveCore
internal import CoveEngine

/// What `io.cove.Access` does.
enum AccessService {
    typealias Access = AccessInterface

    /// The interface for an engine.
    static func interface(engine: Engine) -> VarlinkInterface {
        var methods = appMethods(engine)
        for (name, method) in containerMethods(engine) { methods[name] = method }
        for (name, method) in viewMethods(engine) { methods[name] = method }
        for (name, method) in grantMethods(engine) { methods[name] = method }
        for (name, method) in bookmarkMethods(engine) { methods[name] = method }
        methods = methods.mapValues { method in
            method.checking { () throws(VarlinkError) in try requireMigrated(engine, Access.name) }
        }
        return VarlinkInterface(name: Access.name, definition: Access.definition, methods: methods)
    }

    private static func appMethods(_ engine: Engine) -> [String: VarlinkMethod] {
        [
            "Apps": VarlinkMethod { (_: VarlinkNothing, invocation) async throws(VarlinkError) in
                let own = try app(of: invocation)
                let apps = await engine.apps().filter { own == nil || $0.identifier == own }
                let programs = await engine.programs()
                return Access.AppsReply(apps: apps.map { told($0, programs) })
            },
            "RegisterApp": VarlinkMethod { (request: Access.RegisterRequest, invocation) async throws(VarlinkError) in
                let own = try app(of: invocation)
                let manifest = try manifest(request.manifest, of: own)
                if own != nil, manifest.executables != nil || manifest.units != nil {
                    throw failure(.accessDenied, "an app may not say what its programs are known by; the user may")
                }
                let isHeeded = try await failing { () throws(AccessError) in try await engine.register(manifest) }
                guard let record = await engine.apps().first(where: { $0.identifier == manifest.identifier }) else {
                    throw failure(.stale, "the app was removed meanwhile")
                }
                return Access.RegisterReply(app: told(record, await engine.programs()), isHeeded: isHeeded)
            },
            "RemoveApp": VarlinkMethod { (request: Access.IdentifierRequest, invocation) async throws(VarlinkError) in
                try requireUser(invocation)
                let identifier = try identifier(request.identifier, "identifier")
                try await failing { () throws(AccessError) in try await engine.removeApp(identifier) }
                return VarlinkNothing()
            },
        ]
    }

    private static func told(_ record: AppRecord, _ programs: [AppIdentifier: KnownPrograms]) -> Access.App {
        let known = programs[record.identifier]
        return Access.App(
            record,
            executables: (known?.executables ?? []).map { Access.Executable(path: $0.path, problem: $0.problem) },
            units: known?.units ?? []
        )
    }

    private static func containerMethods(_ engine: Engine) -> [String: VarlinkMethod] {
        [
            "Containers": VarlinkMethod { (_: VarlinkNothing, invocation) async throws(VarlinkError) in
                let own = try app(of: invocation)
                let containers = await engine.containers().filter { own == nil || $0.record.app == own }
                return Access.ContainersReply(
                    containers: containers.map { Access.Container($0.record, path: $0.folder) }
                )
            },
            "CreateContainer": VarlinkMethod { (request: Access.CreateRequest, invocation) async throws(VarlinkError) in
                let wanted = try identifier(request.app, "app")
                let container = try identifier(request.identifier, "identifier")
                if let own = try app(of: invocation), own != wanted {
                    throw failure(.accessDenied, "an app makes containers of its own only")
                }
                let record = try await failing { () throws(AccessError) in
                    try await engine.createContainer(
                        container,
                        for: wanted,
                        name: request.name,
                        isPublic: request.isPublic
                    )
                }
                return await reply(record, engine)
            },
            "SetPublic": VarlinkMethod { (request: Access.PublicRequest, invocation) async throws(VarlinkError) in
                try requireUser(invocation)
                let identifier = try identifier(request.identifier, "identifier")
                let record = try await failing { () throws(AccessError) in
                    try await engine.setPublic(request.isPublic, identifier)
                }
                return await reply(record, engine)
            },
            "ContainerPath": VarlinkMethod { (request: Access.PathRequest, invocation) async throws(VarlinkError) in
                var asking = try request.app.map { text throws(VarlinkError) in try identifier(text, "app") }
                if let own = try app(of: invocation) {
                    if let asking, asking != own { throw failure(.accessDenied, "an app asks for itself only") }
                    asking = own
                }
                let container = try request.identifier.map { text throws(VarlinkError) in
                    try identifier(text, "identifier")
                }
                let path = await engine.place(ofContainer: container, for: asking)
                return Access.PathReply(path: path?.description)
            },
        ]
    }

    private static func viewMethods(_ engine: Engine) -> [String: VarlinkMethod] {
        [
            "View": VarlinkMethod { (request: Access.ViewRequest, invocation) async throws(VarlinkError) in
                try requireUser(invocation)
                let app = try await known(request.app, engine)
                let container = await engine.place(ofContainer: nil, for: app)
                do throws(Errno) {
                    let covered = try await engine.foldersToCover(for: app)
                    return Access.ViewReply(
                        container: container?.description,
                        covered: covered.map(\.description)
                    )
                } catch {
                    throw error.failure(interface: Access.name)
                }
            },
            "EnterView": VarlinkMethod { (request: Access.ViewRequest, invocation) async throws(VarlinkError) in
                try requireUser(invocation)
                let app = try await known(request.app, engine)
                guard let process = request.process else { throw .invalidParameter("process") }
                do throws(Errno) {
                    try await engine.enterView(of: app, process: process)
                } catch .invalidArgument {
                    throw failure(.invalidArgument, "process \(process) is in no PID namespace of its own")
                } catch .exists {
                    throw failure(.exists, "process \(process) is another app's already")
                } catch {
                    throw error.failure(interface: Access.name)
                }
                return VarlinkNothing()
            },
        ]
    }

    private static func grantMethods(_ engine: Engine) -> [String: VarlinkMethod] {
        [
            "Give": VarlinkMethod { (request: Access.GiveRequest, invocation) async throws(VarlinkError) in
                try requireUser(invocation)
                let app = try await known(request.app, engine)
                guard let path = try request.path.remotePath() else { throw .invalidParameter("path") }
                let given = try await failing { () throws(AccessError) in
                    try await engine.give(path, to: app, isReadOnly: request.readOnly ?? false)
                }
                return Access.GiveReply(reference: given.reference.description, scope: given.scope)
            },
            "References": VarlinkMethod { (request: Access.AppRequest, invocation) async throws(VarlinkError) in
                let app = try asked(request, invocation)
                do throws(Errno) {
                    return Access.ReferencesReply(references: try await engine.references(of: app))
                } catch {
                    throw error.failure(interface: Access.name)
                }
            },
            "Grants": VarlinkMethod { (request: Access.AppRequest, invocation) async throws(VarlinkError) in
                let app = try asked(request, invocation)
                do throws(Errno) {
                    return Access.GrantsReply(grants: try await engine.grants(of: app))
                } catch {
                    throw error.failure(interface: Access.name)
                }
            },
            "Revoke": VarlinkMethod { (request: Access.RevokeRequest, invocation) async throws(VarlinkError) in
                try requireUser(invocation)
                try await failing { () throws(AccessError) in try await engine.revoke(request.id) }
                return VarlinkNothing()
            },
        ]
    }

    /// The app that a call is about: the caller's own, where it is an app's.
    private static func asked(
        _ request: Access.AppRequest,
        _ invocation: VarlinkInvocation
    ) throws(VarlinkError) -> AppIdentifier? {
        let wanted = try request.app.map { text throws(VarlinkError) in try identifier(text, "app") }
        guard let own = try app(of: invocation) else { return wanted }
        if let wanted, wanted != own { throw failure(.accessDenied, "an app asks for itself only") }
        return own
    }

    private static func reply(_ record: ContainerRecord, _ engine: Engine) async -> Access.ContainerReply {
        let path = await engine.place(ofContainer: record.identifier, for: nil)
        return Access.ContainerReply(container: Access.Container(record, path: path))
    }

    /// An app that the account knows.
    static func known(_ text: String, _ engine: Engine) async throws(VarlinkError) -> AppIdentifier {
        let app = try identifier(text, "app")
        guard await engine.apps().contains(where: { $0.identifier == app }) else {
            throw failure(.noSuchEntry, "no such app; register it with `cove app register`")
        }
        return app
    }

    private static func manifest(_ text: String, of app: AppIdentifier?) throws(VarlinkError) -> AppManifest {
        guard text.utf8.count <= AppManifest.greatestSize else {
            throw failure(.fileTooLarge, "the manifest is too long; leave out what is not for Cove")
        }
        do throws(JSONError) {
            let value = try JSONValue(parsing: Array(text.utf8))
            do throws(ManifestError) {
                return try AppManifest(value, of: app)
            } catch {
                throw JSONError(error.description)
            }
        } catch {
            throw failure(.invalidArgument, "the manifest can't be used: \(error); mend it")
        }
    }

    static func identifier(_ text: String, _ parameter: String) throws(VarlinkError) -> AppIdentifier {
        guard let identifier = AppIdentifier(text) else {
            throw failure(.invalidArgument, "\(text): no identifier; write it like com.acme.notes")
        }
        return identifier
    }

    /// The app whose view the caller has; nil for the user's own programs.
    static func app(of invocation: VarlinkInvocation) throws(VarlinkError) -> AppIdentifier? {
        switch invocation.peer.standing {
        case .user: return nil
        case .app(let app): return app
        case .unknown(let words): throw failure(.accessDenied, words)
        }
    }

    /// Refuses what a device has only once the account is one of apps.
    static func requireMigrated(_ engine: Engine, _ interface: String) throws(VarlinkError) {
        if engine.isLegacy {
            let message = "the account is not migrated; run `cove account migrate`"
            throw .failed(message, errno: .notSupported, interface: interface)
        }
    }

    /// Refuses what an app may not do.
    static func requireUser(_ invocation: VarlinkInvocation) throws(VarlinkError) {
        guard try app(of: invocation) == nil else {
            throw failure(.accessDenied, "an app may not do that; the user may")
        }
    }

    static func failure(_ errno: Errno, _ message: String) -> VarlinkError {
        .failed(message, errno: errno, interface: Access.name)
    }

    static func failing<Value: Sendable>(
        _ body: () async throws(AccessError) -> Value
    ) async throws(VarlinkError) -> Value {
        do throws(AccessError) {
            return try await body()
        } catch {
            var failure = failure(error.errno, error.description)
            if error.isOfOwnBookmark { failure.name = Access.refusal }
            throw failure
        }
    }
}
