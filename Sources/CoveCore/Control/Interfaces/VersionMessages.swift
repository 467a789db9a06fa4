/// A content that a document had before, or another side of a conflict.
public struct VersionStatus: Codable, Sendable, Equatable {
    /// Names it for `cove versions show` and the like, within its document.
    public var id: String
    /// The document.
    public var documentID: String
    /// Bytes.
    public var size: Int64
    /// When it was last written to, seconds since 1970.
    public var modificationTime: Double
    /// When other bytes took its place, or the conflict was found, seconds since 1970.
    public var replacedTime: Double
    /// The device that saved it; nil where that is not known.
    public var host: String?
    /// What the source calls it; nil for what the source never had.
    public var contentVersion: String?
    /// True when its bytes are on this disk.
    public var isLocal: Bool
    /// True for the other side of a conflict, which is a file of its own.
    public var isConflict: Bool
    /// That file, relative to the mount point.
    public var conflictPath: String?

    /// Makes a status.
    public init(
        id: String,
        documentID: String,
        size: Int64,
        modificationTime: Double,
        replacedTime: Double,
        host: String?,
        contentVersion: String?,
        isLocal: Bool,
        isConflict: Bool = false,
        conflictPath: String? = nil
    ) {
        self.id = id
        self.documentID = documentID
        self.size = size
        self.modificationTime = modificationTime
        self.replacedTime = replacedTime
        self.host = host
        self.contentVersion = contentVersion
        self.isLocal = isLocal
        self.isConflict = isConflict
        self.conflictPath = conflictPath
    }
}

extension ItemInterface {
    /// What the methods for versions take.
    public struct VersionRequest: Codable, Sendable {
        /// The file.
        public var path: PathParameter
        /// Which of its versions; all where it is nil and that makes sense.
        public var version: String?

        private enum CodingKeys: String, CodingKey { case version }

        /// Makes a request.
        public init(path: PathParameter, version: String? = nil) {
            self.path = path
            self.version = version
        }

        /// Reads the path's members beside the others.
        public init(from decoder: any Decoder) throws {
            path = try PathParameter(from: decoder)
            version = try decoder.container(keyedBy: CodingKeys.self).decodeIfPresent(String.self, forKey: .version)
        }

        /// Writes the path's members beside the others.
        public func encode(to encoder: any Encoder) throws {
            try path.encode(to: encoder)
            var members = encoder.container(keyedBy: CodingKeys.self)
            try members.encodeIfPresent(version, forKey: .version)
        }
    }

    /// What `Versions` replies.
    public struct VersionsReply: Codable, Sendable {
        /// The versions, or the next of them.
        public var versions: [VersionStatus]
        /// Makes a reply.
        public init(versions: [VersionStatus]) { self.versions = versions }
    }

    /// What `ReadVersion` replies: the next bytes.
    public struct VersionBytes: Codable, Sendable {
        /// The bytes in base64; empty in the last reply.
        public var data: String
        /// Makes a reply.
        public init(data: String) { self.data = data }
    }

    /// What `ResolveConflicts` and `RemoveVersions` reply.
    public struct VersionCountReply: Codable, Sendable {
        /// How many there were.
        public var count: Int
        /// Makes a reply.
        public init(count: Int) { self.count = count }
    }
}
