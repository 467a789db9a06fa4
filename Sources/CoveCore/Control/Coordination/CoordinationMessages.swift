extension CoordinationInterface {
    /// One item of a claim.
    public struct Intent: Codable, Sendable, Equatable {
        /// Reading or writing.
        public var kind: IntentKind
        /// Names of `ReadingOption` or `WritingOption`.
        public var options: [String]
        /// The item, or where it is to be.
        public var path: PathParameter

        private enum CodingKeys: String, CodingKey { case kind, options }

        /// Makes an intent to read.
        public init(reading path: PathParameter, _ options: [ReadingOption] = []) {
            kind = .reading
            self.options = options.map(\.rawValue)
            self.path = path
        }

        /// Makes an intent to write.
        public init(writing path: PathParameter, _ option: WritingOption? = nil) {
            kind = .writing
            options = option.map { [$0.rawValue] } ?? []
            self.path = path
        }

        /// Reads the path's members beside the others.
        public init(from decoder: any Decoder) throws {
            path = try PathParameter(from: decoder)
            let members = try decoder.container(keyedBy: CodingKeys.self)
            kind = try members.decode(IntentKind.self, forKey: .kind)
            options = try members.decodeIfPresent([String].self, forKey: .options) ?? []
        }

        /// Writes the path's members beside the others.
        public func encode(to encoder: any Encoder) throws {
            try path.encode(to: encoder)
            var members = encoder.container(keyedBy: CodingKeys.self)
            try members.encode(kind, forKey: .kind)
            try members.encode(options, forKey: .options)
        }
    }

    /// One item of a claim that was granted.
    public struct Granted: Codable, Sendable, Equatable {
        /// Where the item is now.
        public var path: PathParameter
        /// The absolute path of a snapshot.
        public var snapshot: String?
        /// The document; nil where nothing is there yet.
        public var documentID: String?

        private enum CodingKeys: String, CodingKey { case snapshot, documentID }

        /// Makes the item.
        public init(path: PathParameter, snapshot: String? = nil, documentID: String? = nil) {
            self.path = path
            self.snapshot = snapshot
            self.documentID = documentID
        }

        /// Reads the path's members beside the others.
        public init(from decoder: any Decoder) throws {
            path = try PathParameter(from: decoder)
            let members = try decoder.container(keyedBy: CodingKeys.self)
            snapshot = try members.decodeIfPresent(String.self, forKey: .snapshot)
            documentID = try members.decodeIfPresent(String.self, forKey: .documentID)
        }

        /// Writes the path's members beside the others.
        public func encode(to encoder: any Encoder) throws {
            try path.encode(to: encoder)
            var members = encoder.container(keyedBy: CodingKeys.self)
            try members.encodeIfPresent(snapshot, forKey: .snapshot)
            try members.encodeIfPresent(documentID, forKey: .documentID)
        }
    }

    /// What a presenter, or a session, is told or asked.
    public struct Message: Codable, Sendable, Equatable {
        /// Names it in `Reply`; rises within a session.
        public var number: Int
        /// The presenter; nil for what the session itself is told.
        public var presenter: String?
        /// A `MessageKind`; kinds not known are to be answered and otherwise ignored.
        public var kind: String
        /// The presented item, or the subitem; absent for what the session is told.
        public var path: PathParameter
        /// Where it moved to.
        public var newPath: PathParameter?
        /// Where it moved to, on another file system: an absolute path.
        public var outside: String?
        /// True when a claim waits for the reply.
        public var wantsReply: Bool
        /// The claim that is asked for, or that ended.
        public var claim: String?
        /// The version that came, went or was resolved.
        public var version: VersionStatus?
        /// Attributes that changed.
        public var attributes: [String]

        private enum CodingKeys: String, CodingKey {
            case number, presenter, kind, newPath, outside, wantsReply, claim, version, attributes
        }

        /// Makes a message.
        public init(
            number: Int,
            presenter: String?,
            kind: MessageKind,
            path: PathParameter? = nil,
            newPath: PathParameter? = nil,
            outside: String? = nil,
            claim: String? = nil,
            version: VersionStatus? = nil,
            attributes: [String] = []
        ) {
            self.number = number
            self.presenter = presenter
            self.kind = kind.rawValue
            self.path = path ?? PathParameter()
            self.newPath = newPath
            self.outside = outside
            wantsReply = kind.wantsReply
            self.claim = claim
            self.version = version
            self.attributes = attributes
        }

        /// Reads the path's members beside the others.
        public init(from decoder: any Decoder) throws {
            path = try PathParameter(from: decoder)
            let members = try decoder.container(keyedBy: CodingKeys.self)
            number = try members.decode(Int.self, forKey: .number)
            presenter = try members.decodeIfPresent(String.self, forKey: .presenter)
            kind = try members.decode(String.self, forKey: .kind)
            newPath = try members.decodeIfPresent(PathParameter.self, forKey: .newPath)
            outside = try members.decodeIfPresent(String.self, forKey: .outside)
            wantsReply = try members.decode(Bool.self, forKey: .wantsReply)
            claim = try members.decodeIfPresent(String.self, forKey: .claim)
            version = try members.decodeIfPresent(VersionStatus.self, forKey: .version)
            attributes = try members.decodeIfPresent([String].self, forKey: .attributes) ?? []
        }

        /// Writes the path's members beside the others.
        public func encode(to encoder: any Encoder) throws {
            try path.encode(to: encoder)
            var members = encoder.container(keyedBy: CodingKeys.self)
            try members.encode(number, forKey: .number)
            try members.encodeIfPresent(presenter, forKey: .presenter)
            try members.encode(kind, forKey: .kind)
            try members.encodeIfPresent(newPath, forKey: .newPath)
            try members.encodeIfPresent(outside, forKey: .outside)
            try members.encode(wantsReply, forKey: .wantsReply)
            try members.encodeIfPresent(claim, forKey: .claim)
            try members.encodeIfPresent(version, forKey: .version)
            try members.encode(attributes, forKey: .attributes)
        }
    }

    /// A file that a program has open for writing.
    public struct OpenFile: Codable, Sendable, Equatable {
        /// Its path, as text.
        public var path: String
        /// The process; 0 where it can't be seen.
        public var process: Int32
        /// The name of its program.
        public var program: String
        /// Makes one.
        public init(path: String, process: Int32, program: String) {
            self.path = path
            self.process = process
            self.program = program
        }
    }

    /// A claim in `List`.
    public struct ClaimStatus: Codable, Sendable, Equatable {
        /// Its token.
        public var claim: String
        /// `waiting`, `presenters`, `contents` or `granted`.
        public var state: String
        /// `session`, `connection`, `program` or `sync`.
        public var holder: String
        /// The holder's process.
        public var process: Int32
        /// The name of its program.
        public var program: String
        /// The coordinator it was asked for with.
        public var coordinator: String?
        /// Its purpose.
        public var purpose: String?
        /// Its items.
        public var intents: [Intent]
        /// The claims that it waits for.
        public var waitsFor: [String]
        /// How long it has been in the queue.
        public var seconds: Double
        /// The files that it waits for to be closed.
        public var openFiles: [OpenFile]?

        /// Makes a status.
        public init(
            claim: String,
            state: String,
            holder: String,
            process: Int32,
            program: String,
            coordinator: String?,
            purpose: String?,
            intents: [Intent],
            waitsFor: [String],
            seconds: Double
        ) {
            self.claim = claim
            self.state = state
            self.holder = holder
            self.process = process
            self.program = program
            self.coordinator = coordinator
            self.purpose = purpose
            self.intents = intents
            self.waitsFor = waitsFor
            self.seconds = seconds
        }
    }

    /// A presenter in `List`.
    public struct PresenterStatus: Codable, Sendable, Equatable {
        /// Its token.
        public var presenter: String
        /// Its process.
        public var process: Int32
        /// The name of its program.
        public var program: String
        /// What it presents.
        public var path: PathParameter
        /// The kinds it implements.
        public var messages: [String]
        /// Messages that wait for its reply.
        public var unanswered: Int

        private enum CodingKeys: String, CodingKey { case presenter, process, program, messages, unanswered }

        /// Makes a status.
        public init(
            presenter: String,
            process: Int32,
            program: String,
            path: PathParameter?,
            messages: [String],
            unanswered: Int
        ) {
            self.presenter = presenter
            self.process = process
            self.program = program
            self.path = path ?? PathParameter()
            self.messages = messages
            self.unanswered = unanswered
        }

        /// Reads the path's members beside the others.
        public init(from decoder: any Decoder) throws {
            path = try PathParameter(from: decoder)
            let members = try decoder.container(keyedBy: CodingKeys.self)
            presenter = try members.decode(String.self, forKey: .presenter)
            process = try members.decode(Int32.self, forKey: .process)
            program = try members.decode(String.self, forKey: .program)
            messages = try members.decode([String].self, forKey: .messages)
            unanswered = try members.decode(Int.self, forKey: .unanswered)
        }

        /// Writes the path's members beside the others.
        public func encode(to encoder: any Encoder) throws {
            try path.encode(to: encoder)
            var members = encoder.container(keyedBy: CodingKeys.self)
            try members.encode(presenter, forKey: .presenter)
            try members.encode(process, forKey: .process)
            try members.encode(program, forKey: .program)
            try members.encode(messages, forKey: .messages)
            try members.encode(unanswered, forKey: .unanswered)
        }
    }
}
