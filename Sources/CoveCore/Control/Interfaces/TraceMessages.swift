/// One step of what happens to a file, as `cove trace` shows it.
public struct TraceEvent: Codable, Sendable, Equatable {
    /// What happened.
    public enum Step: String, Codable, Sendable, CaseIterable {
        /// A program calls open(2).
        case open
        /// No claim of another program is in its way.
        case claim
        /// The provider is asked for bytes.
        case provide
        /// The first of them are here.
        case contents
        /// All of them are.
        case provided
        /// Nobody waits for the rest any more, or the bytes have changed while they were sent: the provider is told to stop.
        case stop
        /// The provider could not give them, or did not take some.
        case fail
        /// The program has the file open, which it may have made.
        case grant
        /// The open failed.
        case refuse
        /// The program has closed it.
        case close
        /// The provider is given the bytes of a file.
        case send
        /// It has taken them.
        case sent
    }

    /// When, in seconds since 1970.
    public var time: Double
    /// What happened.
    public var step: String
    /// The item's number, as stat(2) tells it.
    public var itemID: Int
    /// Where it is.
    public var path: PathParameter
    /// The program's process.
    public var process: Int?
    /// The program.
    public var program: String?
    /// What there is to say beside.
    public var detail: String?
    /// How many events before this one were lost, as nobody took them.
    public var lost: Int?

    private enum CodingKeys: String, CodingKey { case time, step, itemID, process, program, detail, lost }

    /// A step of an item, now, of which no more is known yet.
    public init(_ step: Step, of item: ItemID) {
        time = 0
        self.step = step.rawValue
        itemID = Int(clamping: item.rawValue)
        path = PathParameter()
    }

    /// Reads the path's members beside the others.
    public init(from decoder: any Decoder) throws {
        path = try PathParameter(from: decoder)
        let members = try decoder.container(keyedBy: CodingKeys.self)
        time = try members.decode(Double.self, forKey: .time)
        step = try members.decode(String.self, forKey: .step)
        itemID = try members.decode(Int.self, forKey: .itemID)
        process = try members.decodeIfPresent(Int.self, forKey: .process)
        program = try members.decodeIfPresent(String.self, forKey: .program)
        detail = try members.decodeIfPresent(String.self, forKey: .detail)
        lost = try members.decodeIfPresent(Int.self, forKey: .lost)
    }

    /// Writes the path's members beside the others.
    public func encode(to encoder: any Encoder) throws {
        try path.encode(to: encoder)
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encode(time, forKey: .time)
        try members.encode(step, forKey: .step)
        try members.encode(itemID, forKey: .itemID)
        try members.encodeIfPresent(process, forKey: .process)
        try members.encodeIfPresent(program, forKey: .program)
        try members.encodeIfPresent(detail, forKey: .detail)
        try members.encodeIfPresent(lost, forKey: .lost)
    }
}

extension AccountInterface {
    /// What `Trace` takes.
    public struct TraceRequest: Codable, Sendable {
        /// The file, or the directory with all below it; everything where it is nil.
        public var path: PathParameter?

        /// Asks for everything.
        public init(path: PathParameter? = nil) { self.path = path }

        /// Reads the path's members.
        public init(from decoder: any Decoder) throws { path = try PathParameter(from: decoder) }

        /// Writes the path's members.
        public func encode(to encoder: any Encoder) throws { try path?.encode(to: encoder) }
    }

    /// What `Trace` replies, once for each event; the first reply has none, and says that it follows from now on.
    public struct TraceReply: Codable, Sendable {
        /// What happened.
        public var event: TraceEvent?

        /// Makes a reply.
        public init(event: TraceEvent? = nil) { self.event = event }
    }
}
