internal import CoveCore
internal import CoveEngine
internal import FoundationEssentials

/// Bookmarks and scopes.
extension AccessService {
    static func bookmarkMethods(_ engine: Engine) -> [String: VarlinkMethod] {
        [
            "CreateBookmark": VarlinkMethod {
                (request: Access.CreateBookmarkRequest, invocation) async throws(VarlinkError) in
                let app = try asking(request.app, invocation)
                guard let path = try request.path.remotePath() else { throw .invalidParameter("path") }
                var wanted = BookmarkRequest()
                wanted.keys = request.keys ?? []
                wanted.base = try folder(request.base)
                wanted.isReadOnly = request.readOnly ?? false
                wanted.isMinimal = request.minimal ?? false
                let isOwn = try self.app(of: invocation) != nil
                let asked = wanted
                let bytes = try await failing { () throws(AccessError) in
                    try await engine.makeBookmark(of: path, for: app, isAskedByApp: isOwn, asked)
                }
                return Access.CreateBookmarkReply(bookmark: Data(bytes).base64EncodedString())
            },
            "ResolveBookmark": VarlinkMethod {
                (request: Access.BookmarkRequest, invocation) async throws(VarlinkError) in
                let app = try asking(request.app, invocation)
                let bytes = try bytes(request)
                let base = try folder(request.base)
                let target = try await failing { () throws(AccessError) in
                    try await engine.resolve(bookmark: bytes, for: app, base: base)
                }
                return Access.ResolveReply(
                    path: target.path.description,
                    reference: target.reference?.description,
                    scope: target.scope,
                    isStale: target.isStale,
                    isReadOnly: target.isReadOnly
                )
            },
            "BookmarkValues": VarlinkMethod { (request: Access.BookmarkRequest, _) async throws(VarlinkError) in
                guard let open = Engine.openPart(ofBookmark: try bytes(request)),
                    let value = try? JSONValue(parsing: open)
                else { throw failure(.invalidArgument, "it is no bookmark") }
                return Access.ValuesReply(values: (value["values"] ?? .empty).description)
            },
            "StartScope": VarlinkMethod { (request: Access.ScopeRequest, invocation) async throws(VarlinkError) in
                let app = try asking(request.app, invocation)
                let path = try await failing { () throws(AccessError) in
                    try await engine.startScope(request.scope, for: app, process: invocation.peer.process)
                }
                return Access.PathReply(path: path?.description)
            },
            "StopScope": VarlinkMethod { (request: Access.ScopeRequest, invocation) async throws(VarlinkError) in
                let isInUse = try await failing { () throws(AccessError) in
                    try await engine.stopScope(request.scope, process: invocation.peer.process)
                }
                return Access.StopReply(isInUse: isInUse)
            },
        ]
    }

    /// The app that a call is for: the caller's own, or the one that the user names.
    private static func asking(
        _ text: String?,
        _ invocation: VarlinkInvocation
    ) throws(VarlinkError) -> AppIdentifier {
        let named = try text.map { text throws(VarlinkError) in try identifier(text, "app") }
        guard let own = try app(of: invocation) else {
            guard let named else { throw .invalidParameter("app") }
            return named
        }
        guard named == nil || named == own else { throw failure(.accessDenied, "an app asks for itself only") }
        return own
    }

    private static func folder(_ text: String?) throws(VarlinkError) -> RemotePath? {
        guard let text else { return nil }
        var parameter = PathParameter()
        parameter.path = text
        return try parameter.remotePath()
    }

    /// A bookmark's bytes; another text for the same ones is none.
    private static func bytes(_ request: Access.BookmarkRequest) throws(VarlinkError) -> [UInt8] {
        guard request.bookmark.utf8.count <= 128 << 10, let data = Data(base64Encoded: request.bookmark),
            data.base64EncodedString() == request.bookmark
        else { throw failure(.accessDenied, "it is no bookmark; make a new one") }
        return Array(data)
    }
}
