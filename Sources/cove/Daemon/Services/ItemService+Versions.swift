internal import CoveCore
internal import CoveEngine
internal import FoundationEssentials

/// What `io.cove.Item` does for versions.
extension ItemService {
    /// Bytes in one reply; with what base64 adds a message may hold so many.
    private static let part = 256 << 10

    /// The methods for an engine.
    static func versionMethods(_ engine: Engine) -> [String: VarlinkMethod] {
        typealias Item = ItemInterface
        return [
            "Versions": VarlinkMethod { (request: Item.VersionRequest, invocation) async throws(VarlinkError) in
                let path = try request.file()
                let versions = try await explaining { () async throws(Errno) in try await engine.allVersions(of: path) }
                let last = try await AccountService.sendBatches(
                    versions,
                    invocation,
                    texts: { [$0.id, $0.host ?? "", $0.contentVersion ?? ""] }
                ) {
                    Item.VersionsReply(versions: $0)
                }
                return Item.VersionsReply(versions: last)
            },
            "ReadVersion": VarlinkMethod { (request: Item.VersionRequest, invocation) async throws(VarlinkError) in
                let (path, version) = (try request.file(), try request.named())
                guard invocation.wantsMore else { throw .expectedMore }
                try await send(
                    try await explaining { () async throws(Errno) in try await engine.versionContent(version, of: path)
                    },
                    invocation
                )
                return Item.VersionBytes(data: "")
            },
            "RestoreVersion": VarlinkMethod { (request: Item.VersionRequest, _) async throws(VarlinkError) in
                let (path, version) = (try request.file(), try request.named())
                try await explaining { () async throws(Errno) in try await engine.restoreVersion(version, of: path) }
                return VarlinkNothing()
            },
            "ResolveConflicts": VarlinkMethod { (request: Item.VersionRequest, _) async throws(VarlinkError) in
                let path = try request.file()
                await engine.lookForConflicts(of: path)
                let count = try await explaining { () async throws(Errno) in
                    try await offPool { () throws(Errno) in
                        try engine.resolveConflicts(of: path, request.version)
                    }
                }
                return Item.VersionCountReply(count: count)
            },
            "RemoveVersions": VarlinkMethod { (request: Item.VersionRequest, _) async throws(VarlinkError) in
                let path = try request.file()
                let count = try await explaining { () async throws(Errno) in
                    try await offPool { () throws(Errno) in try engine.removeVersions(of: path, request.version) }
                }
                return Item.VersionCountReply(count: count)
            },
        ]
    }

    private static func send(
        _ content: VersionContent,
        _ invocation: VarlinkInvocation
    ) async throws(VarlinkError) {
        var offset: Int64 = 0
        while true {
            let position = offset
            let bytes = try await explaining { () async throws(Errno) in
                try await offPool { () throws(Errno) in try content.read(at: position, count: part) }
            }
            if bytes.isEmpty { return }
            try await invocation.send(ItemInterface.VersionBytes(data: Data(bytes).base64EncodedString()))
            offset += Int64(bytes.count)
        }
    }

    private static func offPool<Value: Sendable>(
        _ body: @escaping @Sendable () throws(Errno) -> Value
    ) async throws(Errno) -> Value {
        try await OffPool.run { Result { () throws(Errno) in try body() } }.get()
    }

    private static func explaining<Value: Sendable>(
        _ body: () async throws(Errno) -> Value
    ) async throws(VarlinkError) -> Value {
        try await explaining(by: words, body)
    }

    /// What an error says of versions.
    private static func words(_ error: Errno) -> String? {
        switch error {
        case .noData: "it has no such version; see `cove versions ls`"
        case .isDirectory, .invalidArgument: "only files have versions; name a file"
        case .notPermitted: "the source keeps it, and it alone can delete it"
        case .notSupported: "no versions are kept here"
        default: nil
        }
    }
}

extension ItemInterface.VersionRequest {
    /// The file asked for; throws `InvalidParameter` when there is none.
    fileprivate func file() throws(VarlinkError) -> RemotePath {
        guard let path = try path.remotePath() else { throw .invalidParameter("path") }
        return path
    }

    /// The version asked for; throws `InvalidParameter` when there is none.
    fileprivate func named() throws(VarlinkError) -> String {
        guard let version else { throw .invalidParameter("version") }
        return version
    }
}
