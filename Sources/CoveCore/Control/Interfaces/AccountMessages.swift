extension AccountInterface {
    /// What `Status` replies.
    public struct StatusReply: Codable, Sendable {
        /// The account.
        public var status: AccountStatus
        /// Makes a reply.
        public init(status: AccountStatus) { self.status = status }
    }

    /// What `Statistics` replies.
    public struct StatisticsReply: Codable, Sendable {
        /// The counters.
        public var statistics: Statistics
        /// Device and inode of the program that the daemon runs, `DEVICE:INODE`.
        public var program: String?
        /// Makes a reply.
        public init(statistics: Statistics, program: String? = nil) {
            self.statistics = statistics
            self.program = program
        }
    }

    /// What `Sync` takes.
    public struct SyncRequest: Codable, Sendable {
        /// What to sync; all where it is nil.
        public var path: PathParameter?
        /// Reply only when nothing is left.
        public var wait: Bool?
        /// Reply after this time at the latest.
        public var timeoutSeconds: Double?
        /// Carry out a remote deletion of unusual size.
        public var acceptDeletions: Bool?
        /// Send a local deletion of unusual size.
        public var acceptLocalDeletions: Bool?

        private enum CodingKeys: String, CodingKey { case wait, timeoutSeconds, acceptDeletions, acceptLocalDeletions }

        /// Asks for all, without waiting.
        public init(path: PathParameter? = nil) { self.path = path }

        /// Reads the path's members beside the others.
        public init(from decoder: any Decoder) throws {
            path = try PathParameter(from: decoder)
            let members = try decoder.container(keyedBy: CodingKeys.self)
            wait = try members.decodeIfPresent(Bool.self, forKey: .wait)
            timeoutSeconds = try members.decodeIfPresent(Double.self, forKey: .timeoutSeconds)
            acceptDeletions = try members.decodeIfPresent(Bool.self, forKey: .acceptDeletions)
            acceptLocalDeletions = try members.decodeIfPresent(Bool.self, forKey: .acceptLocalDeletions)
        }

        /// Writes the path's members beside the others.
        public func encode(to encoder: any Encoder) throws {
            try path?.encode(to: encoder)
            var members = encoder.container(keyedBy: CodingKeys.self)
            try members.encodeIfPresent(wait, forKey: .wait)
            try members.encodeIfPresent(timeoutSeconds, forKey: .timeoutSeconds)
            try members.encodeIfPresent(acceptDeletions, forKey: .acceptDeletions)
            try members.encodeIfPresent(acceptLocalDeletions, forKey: .acceptLocalDeletions)
        }
    }

    /// What `Sync` replies: the status while it goes on, the report at its end.
    public struct SyncReply: Codable, Sendable {
        /// The account while it goes on.
        public var status: AccountStatus?
        /// How it ended; nil when nobody waits.
        public var report: SyncReport?
        /// Makes a reply.
        public init(status: AccountStatus? = nil, report: SyncReport? = nil) {
            self.status = status
            self.report = report
        }
    }

    /// What `Conflicts` replies.
    public struct ConflictsReply: Codable, Sendable {
        /// The conflicts, or the next of them.
        public var conflicts: [ConflictStatus]
        /// Makes a reply.
        public init(conflicts: [ConflictStatus]) { self.conflicts = conflicts }
    }

    /// What `ExcludedList` replies.
    public struct ExcludedReply: Codable, Sendable {
        /// What is excluded, or the next of it.
        public var items: [ExcludedItem]
        /// Makes a reply.
        public init(items: [ExcludedItem]) { self.items = items }
    }

    /// What `TrashList` replies.
    public struct TrashReply: Codable, Sendable {
        /// The deleted documents, or the next of them.
        public var entries: [TrashEntry]
        /// Makes a reply.
        public init(entries: [TrashEntry]) { self.entries = entries }
    }

    /// What `TrashRestore` takes.
    public struct RestoreRequest: Codable, Sendable {
        /// Names the deleted document.
        public var documentID: String
        /// Makes a request.
        public init(documentID: String) { self.documentID = documentID }
    }

    /// What `TrashEmpty` takes.
    public struct EmptyRequest: Codable, Sendable {
        /// Only what was deleted longer ago.
        public var olderThanSeconds: Double?
        /// Makes a request.
        public init(olderThanSeconds: Double?) { self.olderThanSeconds = olderThanSeconds }
    }

    /// What `TrashEmpty` replies.
    public struct EmptyReply: Codable, Sendable {
        /// How many documents are gone for good.
        public var count: Int
        /// Makes a reply.
        public init(count: Int) { self.count = count }
    }

    /// What `Migrate` is asked.
    public struct MigrateRequest: Codable, Sendable {
        /// True to be told only, nil for false.
        public var dryRun: Bool?
        /// Identifiers of folders that become no containers.
        public var except: [String]?
        /// Makes a request.
        public init(dryRun: Bool? = nil, except: [String]? = nil) { (self.dryRun, self.except) = (dryRun, except) }
    }

    /// What `Migrate` replies.
    public struct MigrateReply: Codable, Sendable {
        /// False where there was nothing to do.
        public var isNew: Bool
        /// The identifiers of the account's containers.
        public var containers: [String]
        /// Makes a reply.
        public init(isNew: Bool, containers: [String]) { (self.isNew, self.containers) = (isNew, containers) }
    }

    /// What `Diagnose` replies.
    public struct DiagnoseReply: Codable, Sendable {
        /// What was found.
        public var findings: [DoctorFinding]
        /// Makes a reply.
        public init(findings: [DoctorFinding]) { self.findings = findings }
    }

    /// What `Unmount` takes.
    public struct UnmountRequest: Codable, Sendable {
        /// Detach the mount even while programs use it.
        public var lazy: Bool?
        /// Makes a request.
        public init(lazy: Bool) { self.lazy = lazy }
    }

    /// What `Unmount` replies.
    public struct UnmountReply: Codable, Sendable {
        /// Changes that wait in the journal for the next mount.
        public var queuedOperations: Int
        /// Makes a reply.
        public init(queuedOperations: Int) { self.queuedOperations = queuedOperations }
    }

    /// What `Upgrade` takes.
    public struct UpgradeRequest: Codable, Sendable {
        /// The executable's absolute path.
        public var program: String
        /// Makes a request.
        public init(program: String) { self.program = program }
    }
}
