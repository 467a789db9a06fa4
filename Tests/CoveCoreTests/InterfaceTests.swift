import Testing

@testable import CoveCore

/// What the definitions of the interfaces say is what the messages have.
@Suite struct InterfaceTests {
    /// A method with the messages that serve it.
    struct Method: Sendable, CustomTestStringConvertible {
        let interface: String
        let name: String
        let parameters: @Sendable ([String]) throws -> Shape
        let reply: @Sendable ([String]) throws -> Shape
        /// True for what can be read as parameters; throws where it would not be written as it was read.
        let readsParameters: @Sendable (JSONValue) throws -> Bool
        /// The same of a reply.
        let readsReply: @Sendable (JSONValue) throws -> Bool
        let request: String

        init<Parameters: Codable & SendableMetatype, Reply: Codable & SendableMetatype>(
            _ interface: String,
            _ name: String,
            _: Parameters.Type,
            _: Reply.Type
        ) {
            self.interface = interface
            self.name = name
            request = "\(Parameters.self)"
            parameters = { try Shape(read: Parameters.self, words: $0) }
            reply = { try Shape(read: Reply.self, words: $0) }
            readsParameters = { try FuzzTests.isStable(Parameters.self, $0) }
            readsReply = { try FuzzTests.isStable(Reply.self, $0) }
        }

        var testDescription: String { "\(interface).\(name)" }
    }

    private typealias Account = AccountInterface
    private typealias Item = ItemInterface
    private typealias Coordination = CoordinationInterface
    private typealias Query = QueryInterface
    private typealias None = VarlinkNothing

    private static let definitions = [
        Account.name: Account.definition, Item.name: Item.definition, Coordination.name: Coordination.definition,
        Query.name: Query.definition,
    ]

    static let methods: [Method] = [
        Method(Account.name, "Status", None.self, Account.StatusReply.self),
        Method(Account.name, "Statistics", None.self, Account.StatisticsReply.self),
        Method(Account.name, "Sync", Account.SyncRequest.self, Account.SyncReply.self),
        Method(Account.name, "Pause", None.self, None.self),
        Method(Account.name, "Resume", None.self, None.self),
        Method(Account.name, "Trace", Account.TraceRequest.self, Account.TraceReply.self),
        Method(Account.name, "Conflicts", None.self, Account.ConflictsReply.self),
        Method(Account.name, "ExcludedList", None.self, Account.ExcludedReply.self),
        Method(Account.name, "TrashList", None.self, Account.TrashReply.self),
        Method(Account.name, "TrashRestore", Account.RestoreRequest.self, PathParameter.self),
        Method(Account.name, "TrashEmpty", Account.EmptyRequest.self, Account.EmptyReply.self),
        Method(Account.name, "BeginErasure", None.self, None.self),
        Method(Account.name, "FinishErasure", None.self, Account.EmptyReply.self),
        Method(Account.name, "Migrate", Account.MigrateRequest.self, Account.MigrateReply.self),
        Method(Account.name, "Diagnose", None.self, Account.DiagnoseReply.self),
        Method(Account.name, "Unmount", Account.UnmountRequest.self, Account.UnmountReply.self),
        Method(Account.name, "Upgrade", Account.UpgradeRequest.self, None.self),
        Method(Item.name, "Status", Item.StatusRequest.self, Item.StatusReply.self),
        Method(Item.name, "Info", Item.Request.self, Item.InfoReply.self),
        Method(Item.name, "List", Item.Request.self, Item.ListReply.self),
        Method(Item.name, "Download", Item.Request.self, Item.DownloadReply.self),
        Method(Item.name, "Evict", Item.Request.self, Item.EvictReply.self),
        Method(Item.name, "Pin", Item.Request.self, None.self),
        Method(Item.name, "Unpin", Item.Request.self, None.self),
        Method(Item.name, "Exclude", Item.Request.self, None.self),
        Method(Item.name, "Include", Item.Request.self, None.self),
        Method(Item.name, "SetPolicy", Item.Request.self, None.self),
        Method(Item.name, "Thumbnail", Item.Request.self, Item.ThumbnailReply.self),
        Method(Item.name, "SetThumbnail", Item.Request.self, None.self),
        Method(Item.name, "Actions", Item.Request.self, Item.ActionsReply.self),
        Method(Item.name, "Adopt", Item.AdoptRequest.self, Item.AdoptReply.self),
        Method(Item.name, "Publish", Item.Request.self, Item.PublishReply.self),
        Method(Item.name, "Perform", Item.PerformRequest.self, Item.PerformReply.self),
        Method(Item.name, "Versions", Item.VersionRequest.self, Item.VersionsReply.self),
        Method(Item.name, "ReadVersion", Item.VersionRequest.self, Item.VersionBytes.self),
        Method(Item.name, "RestoreVersion", Item.VersionRequest.self, None.self),
        Method(Item.name, "ResolveConflicts", Item.VersionRequest.self, Item.VersionCountReply.self),
        Method(Item.name, "RemoveVersions", Item.VersionRequest.self, Item.VersionCountReply.self),
        Method(Query.name, "Values", Query.ValuesRequest.self, Query.ValuesReply.self),
        Method(Query.name, "Follow", Query.FollowRequest.self, Query.FollowReply.self),
        Method(Query.name, "Run", Query.RunRequest.self, Query.RunReply.self),
        Method(Coordination.name, "Attend", Coordination.AttendRequest.self, Coordination.AttendReply.self),
        Method(Coordination.name, "Claim", Coordination.ClaimRequest.self, Coordination.ClaimReply.self),
        Method(Coordination.name, "Moved", Coordination.MovedRequest.self, None.self),
        Method(Coordination.name, "MovedOut", Coordination.MovedOutRequest.self, None.self),
        Method(Coordination.name, "Release", Coordination.ReleaseRequest.self, None.self),
        Method(Coordination.name, "Cancel", Coordination.CancelRequest.self, None.self),
        Method(Coordination.name, "Prepare", Coordination.ClaimRequest.self, Coordination.PrepareReply.self),
        Method(Coordination.name, "AddPresenter", Coordination.PresenterRequest.self, Coordination.PresenterReply.self),
        Method(Coordination.name, "MovePresenter", Coordination.PresenterRequest.self, None.self),
        Method(Coordination.name, "RemovePresenter", Coordination.PresenterRequest.self, None.self),
        Method(Coordination.name, "Reply", Coordination.AnswerRequest.self, None.self),
        Method(Coordination.name, "List", None.self, Coordination.ListReply.self),
    ]

    private func shape(of method: Method) throws -> (interface: InterfaceShape, parameters: Shape, reply: Shape) {
        let interface = try InterfaceShape(try #require(Self.definitions[method.interface]))
        let found = try #require(interface.methods[method.name])
        return (interface, found.parameters, found.reply)
    }

    @Test func `every method is here`() throws {
        for (name, definition) in Self.definitions {
            let defined = try InterfaceShape(definition).methods.keys.sorted()
            #expect(defined == Self.methods.filter { $0.interface == name }.map(\.name).sorted())
        }
    }

    @Test(arguments: methods)
    func `a reply has the members that the definition names`(method: Method) throws {
        let defined = try shape(of: method)
        let read = try method.reply(defined.interface.words)
        #expect(read.canRead(defined.reply), "it reads \(read), and is to read \(defined.reply)")
    }

    /// Several methods may be served by one message, whose members they then use between them.
    @Test(arguments: Set(methods.map { $0.interface + " " + $0.request }).sorted())
    func `a request has the members that the definitions name`(request: String) throws {
        let served = Self.methods.filter { $0.interface + " " + $0.request == request }
        var used: Set<String> = []
        for method in served {
            let defined = try shape(of: method)
            guard case .object(let members) = try method.parameters(defined.interface.words),
                case .object(let named) = defined.parameters
            else {
                Issue.record("\(method.name): no object")
                continue
            }
            used.formUnion(named.keys)
            for (name, member) in named {
                let read = try #require(members[name], "\(method.name): \(name)")
                #expect(
                    read.shape.canRead(member.shape),
                    "\(method.name): \(name) is \(read.shape), not \(member.shape)"
                )
                // What the definition lets be missing may be missing; the rest is asked for by the method.
                #expect(read.isOptional || !member.isOptional, "\(method.name): \(name)")
            }
            if method.name == served.last?.name { #expect(Set(members.keys) == used, "\(request)") }
        }
    }
}
