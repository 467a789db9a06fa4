internal import FoundationEssentials

/// A path in a message: `path` where it is UTF-8, else its bytes as `path_base64`.
public struct PathParameter: Codable, Sendable, Equatable {
    /// The path as text.
    public var path: String?
    /// The path's bytes in base64, where they are no text.
    public var pathBase64: String?

    private enum CodingKeys: String, CodingKey {
        case path
        case pathBase64 = "path_base64"
    }

    /// No path.
    public init() {}

    /// Writes a path.
    public init(_ path: RemotePath) {
        if let text = String(validating: path.bytes, as: UTF8.self) {
            self.path = text
        } else {
            pathBase64 = Data(path.bytes).base64EncodedString()
        }
    }

    /// The path of an item's status.
    public init(_ item: ItemStatus) {
        path = item.pathBase64 == nil ? item.path : nil
        pathBase64 = item.pathBase64
    }

    /// The members a JSON object gets.
    public var members: [String: JSONValue] {
        var members: [String: JSONValue] = [:]
        if let path { members["path"] = .string(path) }
        if let pathBase64 { members["path_base64"] = .string(pathBase64) }
        return members
    }

    /// The path with every name checked; nil where neither member is given.
    ///
    /// Slashes at either end and doubled ones are dropped. Throws `org.varlink.service.InvalidParameter`.
    public func remotePath() throws(VarlinkError) -> RemotePath? {
        let bytes: [UInt8]
        switch (path, pathBase64) {
        case (nil, nil): return nil
        case (let path?, nil): bytes = Array(path.utf8)
        case (nil, let base64?):
            guard let data = Data(base64Encoded: base64) else { throw .invalidParameter("path_base64") }
            bytes = Array(data)
        case (_?, _?): throw .invalidParameter("path_base64")
        }
        var names: [FileName] = []
        for part in bytes.split(separator: 0x2F) {
            guard let name = FileName(validating: part) else {
                throw .invalidParameter(path == nil ? "path_base64" : "path")
            }
            names.append(name)
        }
        return RemotePath(names)
    }
}
