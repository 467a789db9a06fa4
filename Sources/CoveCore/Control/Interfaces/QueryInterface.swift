/// `io.cove.Query`: finding items.
public enum QueryInterface {
    /// The interface's name.
    public static let name = "io.cove.Query"

    /// The interface's definition.
    public static let definition = """
        # Finding items of one Cove account by what is known of them, whether their bytes are here or not.
        interface io.cove.Query

        # What is known of an item; what it has not, or was not asked for, is missing. Dates are seconds since 1970.
        # DownloadingStatus: NotDownloaded or Current
        type Values (
          FSName: ?string,
          DisplayName: ?string,
          URL: ?string,
          Path: ?string,
          FSSize: ?int,
          FSCreationDate: ?float,
          FSContentChangeDate: ?float,
          ContentType: ?string,
          ContentTypeTree: ?[]string,
          Kind: ?string,
          IsUbiquitous: ?bool,
          HasUnresolvedConflicts: ?bool,
          DownloadingStatus: ?string,
          IsDownloading: ?bool,
          PercentDownloaded: ?float,
          DownloadingError: ?string,
          DownloadRequested: ?bool,
          IsUploaded: ?bool,
          IsUploading: ?bool,
          PercentUploaded: ?float,
          UploadingError: ?string,
          ContainerDisplayName: ?string,
          DocumentID: ?string,
          IsExternalDocument: ?bool,
          URLInLocalContainer: ?string,
          ItemID: ?int,
          IsExcludedFromSync: ?bool,
          IsShared: ?bool,
          CurrentUserRole: ?string,
          CurrentUserPermissions: ?string,
          OwnerNameComponents: ?string,
          MostRecentEditorNameComponents: ?string
        )

        # One item; path is below the mount point, path_base64 stands for one that is not UTF-8. id names the result among those
        # of the account as long as it is one: another name of the same item is another result.
        type Result (
          id: int,
          path: ?string,
          path_base64: ?string,
          itemID: int,
          documentID: string,
          values: Values
        )

        # Finds all items of which a predicate holds, in scopes (documents, data, external; documents and data where none is
        # named) and below a folder. attributes: the values that each result tells. sort: keys, with - for the largest first.
        # With more, results come as they are found; without, all in one reply. Folders that nobody has opened are
        # listed first, with listedOnly they are not. unlisted, in the last reply: how many could not be or were not.
        method Run(
          predicate: string,
          path: ?string,
          path_base64: ?string,
          scopes: ?[]string,
          attributes: ?[]string,
          sort: ?[]string,
          listedOnly: ?bool
        ) -> (results: []Result, unlisted: ?int)

        # The same, and then what becomes of the results, until the caller closes the connection or the daemon ends; needs more.
        # First come replies with results that are found, then one with gathered, and after it changes: results that are new,
        # changed ones, and the ids of those that are none any more. With isPart the next reply has more of the same moment.
        # interval: seconds between updates at least, 0 to 3600; 0.05 where it is missing. sort adds its keys to the attributes:
        # keeping them in order is the caller's.
        method Follow(
          predicate: string,
          path: ?string,
          path_base64: ?string,
          scopes: ?[]string,
          attributes: ?[]string,
          sort: ?[]string,
          listedOnly: ?bool,
          interval: ?float
        ) -> (results: []Result, changed: ?[]Result, removed: ?[]int, isPart: ?bool, gathered: ?bool, unlisted: ?int)

        # Where an item is, below the mount point.
        type Place (path: ?string, path_base64: ?string)

        # What is known of some items, 1000 at most, whether their bytes are here or not. Those that are not there, and the
        # account's root, are left out.
        method Values(items: []Place, attributes: []string) -> (results: []Result)

        # What happened; what to do. errno is set where a system call would have failed so.
        error Failed (message: string, errno: ?int, path: ?string, path_base64: ?string)

        """

    /// What `Run` takes.
    public struct RunRequest: Codable, Sendable {
        /// The predicate as text, or as JSON in a text that begins with `{`.
        public var predicate: String
        /// The folder that results are below.
        public var path: PathParameter
        /// Names of scopes.
        public var scopes: [String]?
        /// Names of keys.
        public var attributes: [String]?
        /// Names of keys, with `-` before those whose largest come first.
        public var sort: [String]?
        /// Leave folders that nobody has opened.
        public var listedOnly: Bool?

        private enum CodingKeys: String, CodingKey { case predicate, scopes, attributes, sort, listedOnly }

        /// Makes a request.
        public init(predicate: String, path: PathParameter = PathParameter()) {
            self.predicate = predicate
            self.path = path
        }

        /// Reads a request.
        public init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            path = try PathParameter(from: decoder)
            predicate = try container.decode(String.self, forKey: .predicate)
            scopes = try container.decodeIfPresent([String].self, forKey: .scopes)
            attributes = try container.decodeIfPresent([String].self, forKey: .attributes)
            sort = try container.decodeIfPresent([String].self, forKey: .sort)
            listedOnly = try container.decodeIfPresent(Bool.self, forKey: .listedOnly)
        }

        /// Writes a request.
        public func encode(to encoder: any Encoder) throws {
            try path.encode(to: encoder)
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(predicate, forKey: .predicate)
            try container.encodeIfPresent(scopes, forKey: .scopes)
            try container.encodeIfPresent(attributes, forKey: .attributes)
            try container.encodeIfPresent(sort, forKey: .sort)
            try container.encodeIfPresent(listedOnly, forKey: .listedOnly)
        }
    }

    /// What `Run` replies.
    public struct RunReply: Codable, Sendable {
        /// Items that were found, or the next of them.
        public var results: [QueryResultMessage]
        /// How many folders were not looked into; set in the last reply.
        public var unlisted: Int?

        /// Makes a reply.
        public init(results: [QueryResultMessage], unlisted: Int? = nil) {
            self.results = results
            self.unlisted = unlisted
        }
    }
}

extension QueryInterface {
    /// What `Follow` takes.
    public struct FollowRequest: Codable, Sendable {
        /// What is asked.
        public var query: RunRequest
        /// Seconds between updates, at least.
        public var interval: Double?

        private enum CodingKeys: String, CodingKey { case interval }

        /// Makes a request.
        public init(_ query: RunRequest, interval: Double? = nil) {
            self.query = query
            self.interval = interval
        }

        /// Reads a request.
        public init(from decoder: any Decoder) throws {
            query = try RunRequest(from: decoder)
            interval = try decoder.container(keyedBy: CodingKeys.self).decodeIfPresent(Double.self, forKey: .interval)
        }

        /// Writes a request.
        public func encode(to encoder: any Encoder) throws {
            try query.encode(to: encoder)
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encodeIfPresent(interval, forKey: .interval)
        }
    }

    /// What `Follow` replies, again and again.
    public struct FollowReply: Codable, Sendable {
        /// Results that are new.
        public var results: [QueryResultMessage]
        /// Results that have changed.
        public var changed: [QueryResultMessage]?
        /// What is none any more, by its id.
        public var removed: [Int]?
        /// True where the next reply has more of the same moment.
        public var isPart: Bool?
        /// True once, when all is gathered.
        public var gathered: Bool?
        /// How many folders were not looked into when all was gathered.
        public var unlisted: Int?

        /// Makes a reply.
        public init(results: [QueryResultMessage] = []) { self.results = results }
    }
}

extension QueryInterface {
    /// What `Values` takes.
    public struct ValuesRequest: Codable, Sendable {
        /// No more items are told of in one call.
        public static let most = 1000

        /// Where the items are.
        public var items: [PathParameter]
        /// Names of keys.
        public var attributes: [String]

        /// Makes a request.
        public init(items: [PathParameter], attributes: [String]) {
            self.items = items
            self.attributes = attributes
        }
    }

    /// What `Values` replies.
    public struct ValuesReply: Codable, Sendable {
        /// The items that are there.
        public var results: [QueryResultMessage]

        /// Makes a reply.
        public init(results: [QueryResultMessage]) { self.results = results }
    }
}

/// One result as it travels.
public struct QueryResultMessage: Codable, Sendable, Equatable {
    /// Names the result.
    public var id: Int
    /// Where it is, below the mount point.
    public var path: PathParameter
    /// Names the item.
    public var itemID: Int
    /// Names the document.
    public var documentID: String
    /// What was asked for.
    public var values: QueryValues

    /// What is of any length in it.
    public var texts: [String] { [path.path ?? path.pathBase64 ?? ""] + values.allTexts }

    private enum CodingKeys: String, CodingKey { case id, itemID, documentID, values }

    /// Writes a result.
    public init(_ result: QueryResult) {
        id = Int(result.id)
        path = PathParameter(result.path)
        itemID = Int(clamping: result.item.rawValue)
        documentID = "\(result.document)"
        values = QueryValues(result.values)
    }

    /// Reads a result.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        path = try PathParameter(from: decoder)
        id = try container.decode(Int.self, forKey: .id)
        itemID = try container.decode(Int.self, forKey: .itemID)
        documentID = try container.decode(String.self, forKey: .documentID)
        values = try container.decode(QueryValues.self, forKey: .values)
    }

    /// Writes a result.
    public func encode(to encoder: any Encoder) throws {
        try path.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(id, forKey: .id)
        try container.encode(itemID, forKey: .itemID)
        try container.encode(documentID, forKey: .documentID)
        try container.encode(values, forKey: .values)
    }
}
