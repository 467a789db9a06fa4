extension AccessInterface {
    /// What `CreateBookmark` takes.
    public struct CreateBookmarkRequest: Codable, Sendable {
        /// Who is to use it; the caller's own app where it is missing.
        public var app: String?
        /// The document.
        public var path: PathParameter
        /// Values that can be read without resolving it.
        public var keys: [String]?
        /// A folder from which the place is told too.
        public var base: String?
        /// True for one that lets its app read only.
        public var readOnly: Bool?
        /// True for one that knows the document by its identity alone.
        public var minimal: Bool?

        private enum CodingKeys: String, CodingKey { case app, keys, base, readOnly, minimal }

        /// Makes a request.
        public init(app: String?, path: RemotePath) {
            self.app = app
            self.path = PathParameter(path)
        }

        /// Reads a request.
        public init(from decoder: any Decoder) throws {
            path = try PathParameter(from: decoder)
            let members = try decoder.container(keyedBy: CodingKeys.self)
            app = try members.decodeIfPresent(String.self, forKey: .app)
            keys = try members.decodeIfPresent([String].self, forKey: .keys)
            base = try members.decodeIfPresent(String.self, forKey: .base)
            readOnly = try members.decodeIfPresent(Bool.self, forKey: .readOnly)
            minimal = try members.decodeIfPresent(Bool.self, forKey: .minimal)
        }

        /// Writes a request.
        public func encode(to encoder: any Encoder) throws {
            try path.encode(to: encoder)
            var members = encoder.container(keyedBy: CodingKeys.self)
            try members.encodeIfPresent(app, forKey: .app)
            try members.encodeIfPresent(keys, forKey: .keys)
            try members.encodeIfPresent(base, forKey: .base)
            try members.encodeIfPresent(readOnly, forKey: .readOnly)
            try members.encodeIfPresent(minimal, forKey: .minimal)
        }
    }

    /// What `CreateBookmark` replies.
    public struct CreateBookmarkReply: Codable, Sendable {
        /// The bookmark, in base64.
        public var bookmark: String
        /// Makes a reply.
        public init(bookmark: String) { self.bookmark = bookmark }
    }

    /// What `ResolveBookmark` and `BookmarkValues` take.
    public struct BookmarkRequest: Codable, Sendable {
        /// Who uses it; the caller's own app where it is missing.
        public var app: String?
        /// The bookmark, in base64.
        public var bookmark: String
        /// The folder from which its place is told now.
        public var base: String?
        /// Makes a request.
        public init(app: String? = nil, bookmark: String, base: String? = nil) {
            self.app = app
            self.bookmark = bookmark
            self.base = base
        }
    }

    /// What `ResolveBookmark` replies.
    public struct ResolveReply: Codable, Sendable {
        /// The document, from the mount point.
        public var path: String
        /// The name that the app has for it, from the mount point.
        public var reference: String?
        /// What the app names to use it where it has no name for it.
        public var scope: String?
        /// True where a new bookmark is to be made.
        public var isStale: Bool
        /// True where it is to be read only.
        public var isReadOnly: Bool
        /// Makes a reply.
        public init(path: String, reference: String?, scope: String?, isStale: Bool, isReadOnly: Bool) {
            self.path = path
            self.reference = reference
            self.scope = scope
            self.isStale = isStale
            self.isReadOnly = isReadOnly
        }
    }

    /// What `BookmarkValues` replies.
    public struct ValuesReply: Codable, Sendable {
        /// A JSON object.
        public var values: String
        /// Makes a reply.
        public init(values: String) { self.values = values }
    }

    /// What `StartScope` and `StopScope` take.
    public struct ScopeRequest: Codable, Sendable {
        /// Who uses it; the caller's own app where it is missing.
        public var app: String?
        /// What was given or resolved.
        public var scope: String
        /// Makes a request.
        public init(app: String? = nil, scope: String) {
            self.app = app
            self.scope = scope
        }
    }

    /// What `StopScope` replies.
    public struct StopReply: Codable, Sendable {
        /// True while anybody still uses it.
        public var isInUse: Bool
        /// Makes a reply.
        public init(isInUse: Bool) { self.isInUse = isInUse }
    }
}
