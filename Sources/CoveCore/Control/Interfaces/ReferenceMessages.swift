extension AccessInterface {
    /// A reference as it is told.
    public struct Reference: Codable, Sendable, Equatable {
        /// Where it is, from the mount point; nil while its folder is not here.
        public var path: String?
        /// Whose it is.
        public var app: String
        /// The container that has it.
        public var container: String
        /// Where its document is, from the mount point; nil where that is not there.
        public var target: String?
        /// False where the app may only read it.
        public var mayWrite: Bool
        /// When it was made, in seconds since 1970.
        public var made: Double

        /// Tells a reference.
        public init(path: String?, app: String, container: String, target: String?, mayWrite: Bool, made: Double) {
            self.path = path
            self.app = app
            self.container = container
            self.target = target
            self.mayWrite = mayWrite
            self.made = made
        }
    }

    /// A grant as it is told.
    public struct Grant: Codable, Sendable, Equatable {
        /// Names it.
        public var id: Int64
        /// Whose it is.
        public var app: String
        /// Where the document is, from the mount point; nil where it is not there.
        public var path: String?
        /// The document.
        public var documentID: String
        /// False where the app may only read it.
        public var mayWrite: Bool
        /// How it was given.
        public var source: String
        /// When it was given, in seconds since 1970.
        public var made: Double
        /// The reference that came with it, from the mount point.
        public var reference: String?

        /// Tells a grant.
        public init(
            id: Int64,
            app: String,
            path: String?,
            documentID: String,
            mayWrite: Bool,
            source: String,
            made: Double,
            reference: String?
        ) {
            self.id = id
            self.app = app
            self.path = path
            self.documentID = documentID
            self.mayWrite = mayWrite
            self.source = source
            self.made = made
            self.reference = reference
        }
    }

    /// What `Give` takes.
    public struct GiveRequest: Codable, Sendable {
        /// Who gets it.
        public var app: String
        /// The document.
        public var path: PathParameter
        /// True where the app may only read it.
        public var readOnly: Bool?

        private enum CodingKeys: String, CodingKey { case app, readOnly }

        /// Makes a request.
        public init(app: String, path: RemotePath, readOnly: Bool? = nil) {
            self.app = app
            self.path = PathParameter(path)
            self.readOnly = readOnly
        }

        /// Reads a request.
        public init(from decoder: any Decoder) throws {
            path = try PathParameter(from: decoder)
            let members = try decoder.container(keyedBy: CodingKeys.self)
            app = try members.decode(String.self, forKey: .app)
            readOnly = try members.decodeIfPresent(Bool.self, forKey: .readOnly)
        }

        /// Writes a request.
        public func encode(to encoder: any Encoder) throws {
            try path.encode(to: encoder)
            var members = encoder.container(keyedBy: CodingKeys.self)
            try members.encode(app, forKey: .app)
            try members.encodeIfPresent(readOnly, forKey: .readOnly)
        }
    }

    /// What `Give` replies.
    public struct GiveReply: Codable, Sendable {
        /// The reference, from the mount point.
        public var reference: String
        /// What the app names to use the document by another way.
        public var scope: String?
        /// Makes a reply.
        public init(reference: String, scope: String?) {
            self.reference = reference
            self.scope = scope
        }
    }

    /// What `References` and `Grants` take.
    public struct AppRequest: Codable, Sendable {
        /// The app; nil for all.
        public var app: String?
        /// Makes a request.
        public init(app: String? = nil) { self.app = app }
    }

    /// What `References` replies.
    public struct ReferencesReply: Codable, Sendable {
        /// The references.
        public var references: [Reference]
        /// Makes a reply.
        public init(references: [Reference]) { self.references = references }
    }

    /// What `Grants` replies.
    public struct GrantsReply: Codable, Sendable {
        /// The grants.
        public var grants: [Grant]
        /// Makes a reply.
        public init(grants: [Grant]) { self.grants = grants }
    }

    /// What `Revoke` takes.
    public struct RevokeRequest: Codable, Sendable {
        /// The grant.
        public var id: Int64
        /// Makes a request.
        public init(id: Int64) { self.id = id }
    }
}
