extension CoordinationInterface {
    /// What `Attend` takes.
    public struct AttendRequest: Codable, Sendable {
        /// The session to go on with.
        public var resume: String?
        /// True for a program that goes on with the presenters that the session still has.
        public var keepsPresenters: Bool?
        /// Makes a request.
        public init(resume: String? = nil, keepsPresenters: Bool? = nil) {
            self.resume = resume
            self.keepsPresenters = keepsPresenters
        }
    }

    /// What `Attend` replies: first the session's token, then messages.
    public struct AttendReply: Codable, Sendable {
        /// The session's token.
        public var session: String?
        /// The presenters that a session of before still has.
        public var presenters: [String]?
        /// The claims that a session of before has been granted.
        public var claims: [String]?
        /// The claims that those presenters have let in, and of whose end they will hear.
        public var letIn: [String]?
        /// The next message.
        public var message: Message?
        /// Makes a reply.
        public init(
            session: String? = nil,
            presenters: [String]? = nil,
            claims: [String]? = nil,
            letIn: [String]? = nil,
            message: Message? = nil
        ) {
            self.session = session
            self.presenters = presenters
            self.claims = claims
            self.letIn = letIn
            self.message = message
        }
    }

    /// What `Claim` takes, and `Prepare` without `within`, `openFiles` and `answering`.
    public struct ClaimRequest: Codable, Sendable {
        /// Whose claim it is; nil for the connection's.
        public var session: String?
        /// Any text that names the coordinator within the session.
        public var coordinator: String?
        /// Claims of one purpose never wait for each other; nil beside a presenter, whose own it is.
        public var purpose: String?
        /// The coordinator's own presenter, which is not asked.
        public var presenter: String?
        /// What is wanted, at once.
        public var intents: [Intent]
        /// The longest wait, seconds.
        public var timeout: Double?
        /// Claims of the caller's own that it ends after this one; nil for all that its connection asked for.
        public var within: [String]?
        /// `wait`, `ignore` or `fail`; nil for the first.
        public var openFiles: String?
        /// Claims, as messages name them, whose questions the presenter answers with what this one is for.
        public var answering: [String]?

        /// Makes a request.
        public init(
            session: String? = nil,
            coordinator: String? = nil,
            purpose: String? = nil,
            presenter: String? = nil,
            intents: [Intent],
            timeout: Double? = nil,
            within: [String]? = nil,
            openFiles: String? = nil,
            answering: [String]? = nil
        ) {
            self.answering = answering
            self.openFiles = openFiles
            self.within = within
            self.session = session
            self.coordinator = coordinator
            self.purpose = purpose
            self.presenter = presenter
            self.intents = intents
            self.timeout = timeout
        }
    }

    /// What `Claim` replies.
    public struct ClaimReply: Codable, Sendable {
        /// The claim's token.
        public var claim: String
        /// Its items, in the order of the intents.
        public var items: [Granted]
        /// Files of it that other programs still have open for writing; nil for none.
        public var openFiles: [OpenFile]?
        /// Makes a reply.
        public init(claim: String, items: [Granted], openFiles: [OpenFile]? = nil) {
            self.claim = claim
            self.items = items
            self.openFiles = openFiles
        }
    }

    /// What `Prepare` replies.
    public struct PrepareReply: Codable, Sendable {
        /// What is released when the batch is done.
        public var claim: String
        /// Makes a reply.
        public init(claim: String) { self.claim = claim }
    }

    /// What `Moved` takes.
    public struct MovedRequest: Codable, Sendable {
        /// The mover's claim.
        public var claim: String
        /// Where the item was.
        public var path: PathParameter
        /// Where it is.
        public var newPath: PathParameter
        /// The claim's session, where another process than its own asks.
        public var session: String?

        private enum CodingKeys: String, CodingKey { case claim, newPath, session }

        /// Makes a request.
        public init(claim: String, path: PathParameter, newPath: PathParameter, session: String? = nil) {
            self.session = session
            self.claim = claim
            self.path = path
            self.newPath = newPath
        }

        /// Reads the path's members beside the others.
        public init(from decoder: any Decoder) throws {
            path = try PathParameter(from: decoder)
            let members = try decoder.container(keyedBy: CodingKeys.self)
            claim = try members.decode(String.self, forKey: .claim)
            newPath = try members.decode(PathParameter.self, forKey: .newPath)
            session = try members.decodeIfPresent(String.self, forKey: .session)
        }

        /// Writes the path's members beside the others.
        public func encode(to encoder: any Encoder) throws {
            try path.encode(to: encoder)
            var members = encoder.container(keyedBy: CodingKeys.self)
            try members.encode(claim, forKey: .claim)
            try members.encode(newPath, forKey: .newPath)
            try members.encodeIfPresent(session, forKey: .session)
        }
    }

    /// What `MovedOut` takes.
    public struct MovedOutRequest: Codable, Sendable {
        /// The mover's claim.
        public var claim: String
        /// Where the item was.
        public var path: PathParameter
        /// Its absolute path on the other file system.
        public var outside: String
        /// The claim's session, where another process than its own asks.
        public var session: String?

        private enum CodingKeys: String, CodingKey { case claim, outside, session }

        /// Makes a request.
        public init(claim: String, path: PathParameter, outside: String, session: String? = nil) {
            self.session = session
            self.claim = claim
            self.path = path
            self.outside = outside
        }

        /// Reads the path's members beside the others.
        public init(from decoder: any Decoder) throws {
            path = try PathParameter(from: decoder)
            let members = try decoder.container(keyedBy: CodingKeys.self)
            claim = try members.decode(String.self, forKey: .claim)
            outside = try members.decode(String.self, forKey: .outside)
            session = try members.decodeIfPresent(String.self, forKey: .session)
        }

        /// Writes the path's members beside the others.
        public func encode(to encoder: any Encoder) throws {
            try path.encode(to: encoder)
            var members = encoder.container(keyedBy: CodingKeys.self)
            try members.encode(claim, forKey: .claim)
            try members.encode(outside, forKey: .outside)
            try members.encodeIfPresent(session, forKey: .session)
        }
    }

    /// What `Release` takes.
    public struct ReleaseRequest: Codable, Sendable {
        /// The claim.
        public var claim: String
        /// Its session, where another process than its own asks.
        public var session: String?
        /// Makes a request.
        public init(claim: String, session: String? = nil) {
            self.claim = claim
            self.session = session
        }
    }

    /// What `Cancel` takes.
    public struct CancelRequest: Codable, Sendable {
        /// The session.
        public var session: String
        /// Its coordinator.
        public var coordinator: String
        /// Makes a request.
        public init(session: String, coordinator: String) {
            self.session = session
            self.coordinator = coordinator
        }
    }

    /// What `AddPresenter`, `MovePresenter` and `RemovePresenter` take.
    public struct PresenterRequest: Codable, Sendable {
        /// The session.
        public var session: String
        /// The presenter; nil to add one.
        public var presenter: String?
        /// The presented item; without members for none.
        public var path: PathParameter
        /// The kinds it implements.
        public var messages: [String]?
        /// The attributes it wants to hear of.
        public var observes: [String]?
        /// That of all claims with it.
        public var purpose: String?

        private enum CodingKeys: String, CodingKey { case session, presenter, messages, observes, purpose }

        /// Adds a presenter.
        public init(
            session: String,
            path: PathParameter?,
            messages: [String],
            observes: [String] = [],
            purpose: String? = nil
        ) {
            self.purpose = purpose
            self.session = session
            self.path = path ?? PathParameter()
            self.messages = messages
            self.observes = observes
        }

        /// Moves or removes a presenter.
        public init(session: String, presenter: String, path: PathParameter? = nil) {
            self.session = session
            self.presenter = presenter
            self.path = path ?? PathParameter()
        }

        /// Reads the path's members beside the others.
        public init(from decoder: any Decoder) throws {
            path = try PathParameter(from: decoder)
            let members = try decoder.container(keyedBy: CodingKeys.self)
            session = try members.decode(String.self, forKey: .session)
            presenter = try members.decodeIfPresent(String.self, forKey: .presenter)
            messages = try members.decodeIfPresent([String].self, forKey: .messages)
            observes = try members.decodeIfPresent([String].self, forKey: .observes)
            purpose = try members.decodeIfPresent(String.self, forKey: .purpose)
        }

        /// Writes the path's members beside the others.
        public func encode(to encoder: any Encoder) throws {
            try path.encode(to: encoder)
            var members = encoder.container(keyedBy: CodingKeys.self)
            try members.encode(session, forKey: .session)
            try members.encodeIfPresent(presenter, forKey: .presenter)
            try members.encodeIfPresent(messages, forKey: .messages)
            try members.encodeIfPresent(observes, forKey: .observes)
            try members.encodeIfPresent(purpose, forKey: .purpose)
        }
    }

    /// What `AddPresenter` replies.
    public struct PresenterReply: Codable, Sendable {
        /// The presenter's token.
        public var presenter: String
        /// Makes a reply.
        public init(presenter: String) { self.presenter = presenter }
    }

    /// What `Reply` takes.
    public struct AnswerRequest: Codable, Sendable {
        /// The session.
        public var session: String
        /// The message's number.
        public var message: Int
        /// What went wrong; nil when all is well.
        public var error: String?
        /// The error as an errno.
        public var errno: Int32?

        /// Makes an answer.
        public init(session: String, message: Int, error: String? = nil, errno: Int32? = nil) {
            self.session = session
            self.message = message
            self.error = error
            self.errno = errno
        }
    }

    /// What `List` replies.
    public struct ListReply: Codable, Sendable {
        /// The claims, or the next of them.
        public var claims: [ClaimStatus]
        /// The presenters, or the next of them.
        public var presenters: [PresenterStatus]
        /// Makes a reply.
        public init(claims: [ClaimStatus], presenters: [PresenterStatus]) {
            self.claims = claims
            self.presenters = presenters
        }
    }
}
