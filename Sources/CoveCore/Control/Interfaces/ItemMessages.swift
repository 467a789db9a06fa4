extension ItemInterface {
    /// What every method for one item takes.
    public struct Request: Codable, Sendable {
        /// The item.
        public var path: PathParameter
        /// `Download`: reply only when all is there.
        public var wait: Bool?

        /// `SetPolicy`: a `ContentPolicy`.
        public var policy: String?
        /// `SetThumbnail`: the file that was handed over.
        public var picture: String?
        /// `Publish`: for how long.
        public var seconds: Int64?

        private enum CodingKeys: String, CodingKey { case wait, policy, picture, seconds }

        /// Makes a request.
        public init(
            path: PathParameter,
            wait: Bool? = nil,
            policy: String? = nil,
            picture: String? = nil,
            seconds: Int64? = nil
        ) {
            self.path = path
            self.wait = wait
            self.policy = policy
            self.picture = picture
            self.seconds = seconds
        }

        /// Reads the path's members beside the others.
        public init(from decoder: any Decoder) throws {
            path = try PathParameter(from: decoder)
            let container = try decoder.container(keyedBy: CodingKeys.self)
            wait = try container.decodeIfPresent(Bool.self, forKey: .wait)
            policy = try container.decodeIfPresent(String.self, forKey: .policy)
            picture = try container.decodeIfPresent(String.self, forKey: .picture)
            seconds = try container.decodeIfPresent(Int64.self, forKey: .seconds)
        }

        /// Writes the path's members beside the others.
        public func encode(to encoder: any Encoder) throws {
            try path.encode(to: encoder)
            var members = encoder.container(keyedBy: CodingKeys.self)
            try members.encodeIfPresent(wait, forKey: .wait)
            try members.encodeIfPresent(policy, forKey: .policy)
            try members.encodeIfPresent(picture, forKey: .picture)
            try members.encodeIfPresent(seconds, forKey: .seconds)
        }
    }

    /// What `Thumbnail` gives back.
    public struct ThumbnailReply: Codable, Sendable {
        /// The path of a PNG file.
        public var file: String?

        /// Makes a reply.
        public init(file: String?) { self.file = file }
    }

    /// What `Publish` gives back.
    public struct PublishReply: Codable, Sendable {
        /// The link.
        public var url: String
        /// When it ends, seconds since 1970.
        public var expires: Double
        /// What the source calls the content.
        public var version: String

        /// Makes a reply.
        public init(url: String, expires: Double, version: String) {
            self.url = url
            self.expires = expires
            self.version = version
        }
    }

    /// What `Actions` gives back.
    public struct ActionsReply: Codable, Sendable {
        /// The actions for the item.
        public var actions: [ProviderAction]

        /// Makes a reply.
        public init(actions: [ProviderAction]) { self.actions = actions }
    }

    /// What `Perform` takes.
    public struct PerformRequest: Codable, Sendable {
        /// The action's id.
        public var action: String
        /// The items.
        public var paths: [String]

        /// Makes a request.
        public init(action: String, paths: [String]) {
            self.action = action
            self.paths = paths
        }
    }

    /// What `Perform` gives back.
    public struct PerformReply: Codable, Sendable {
        /// What a person is to be told.
        public var message: String?

        /// Makes a reply.
        public init(message: String?) { self.message = message }
    }

    /// What `Status` takes.
    public struct StatusRequest: Codable, Sendable {
        /// The items.
        public var paths: [String]
        /// Makes a request.
        public init(paths: [String]) { self.paths = paths }
    }

    /// What `Status` replies.
    public struct StatusReply: Codable, Sendable {
        /// The items that were found, in the order asked for.
        public var items: [ItemStatus]
        /// Why others could not be told, by path.
        public var failures: [String: String]
        /// Makes a reply.
        public init(items: [ItemStatus], failures: [String: String]) {
            self.items = items
            self.failures = failures
        }
    }

    /// What `Info` replies.
    public struct InfoReply: Codable, Sendable {
        /// The item.
        public var item: ItemStatus
        /// Makes a reply.
        public init(item: ItemStatus) { self.item = item }
    }

    /// What `List` replies.
    public struct ListReply: Codable, Sendable {
        /// The items, or the next of them.
        public var items: [ItemStatus]
        /// Makes a reply.
        public init(items: [ItemStatus]) { self.items = items }
    }

    /// What `Download` replies: the progress while it goes on, nothing at its end.
    public struct DownloadReply: Codable, Sendable {
        /// How far it is.
        public var progress: TransferStatus?
        /// Makes a reply.
        public init(progress: TransferStatus? = nil) { self.progress = progress }
    }

    /// What `Evict` replies.
    public struct EvictReply: Codable, Sendable {
        /// Bytes freed on this disk.
        public var freedBytes: Int64
        /// Makes a reply.
        public init(freedBytes: Int64) { self.freedBytes = freedBytes }
    }
}
