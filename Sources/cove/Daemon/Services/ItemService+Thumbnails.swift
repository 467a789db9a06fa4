internal import CoveCore
internal import CoveEngine

/// What `io.cove.Item` does for pictures.
extension ItemService {
    /// The methods for an engine.
    static func thumbnailMethods(_ engine: Engine) -> [String: VarlinkMethod] {
        typealias Item = ItemInterface
        return [
            "Thumbnail": VarlinkMethod { (request: Item.Request, _) async throws(VarlinkError) in
                let path = try request.itemPath()
                return Item.ThumbnailReply(
                    file: try await explaining { () async throws(Errno) in try await engine.thumbnail(at: path) }
                )
            },
            "SetThumbnail": VarlinkMethod { (request: Item.Request, _) async throws(VarlinkError) in
                let path = try request.itemPath()
                try await explaining { () async throws(Errno) in
                    try await engine.setThumbnail(at: path, try await image(request.picture, engine))
                }
                return VarlinkNothing()
            },
        ]
    }

    private static func image(_ name: String?, _ engine: Engine) async throws(Errno) -> [UInt8]? {
        guard let name else { return nil }
        let socket = engine.socketPath
        let taken = await OffPool.run {
            Result<[UInt8], Errno> { () throws(Errno) in try ThumbnailHandover.take(name, beside: socket) }
        }
        return try taken.get()
    }

    private static func explaining<Value: Sendable>(
        _ body: () async throws(Errno) -> Value
    ) async throws(VarlinkError) -> Value {
        try await explaining(by: words, body)
    }

    /// What an error says of pictures.
    private static func words(_ error: Errno) -> String? {
        switch error {
        case .isDirectory: "only files have thumbnails; name a file"
        case .invalidArgument:
            "that is no picture; give a PNG of at most 1024 by 1024 pixels, or install a thumbnailer for its kind"
        case .fileTooLarge: "that picture is too large; give one of at most 16 MiB"
        case .stale: "it has changed meanwhile; try again"
        default: nil
        }
    }
}
