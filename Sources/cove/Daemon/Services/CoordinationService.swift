internal import CoveCore
internal import CoveEngine
internal import Synchronization

/// What `io.cove.Coordination` does.
enum CoordinationService {
    private typealias Interface = CoordinationInterface

    /// Messages that may wait for a session to take them; one that takes none for so long is ended.
    private static let waitingMessages = 20_000

    /// How many claims and presenters one reply tells of.
    private static let listed = 500

    /// What is kept of a caller's words, in bytes.
    private static let longestName = 255
    private static let longestPath = 4096
    private static let longestList = 1024

    /// The interface for an engine.
    static func interface(engine: Engine) -> VarlinkInterface {
        VarlinkInterface(
            name: Interface.name,
            definition: Interface.definition,
            methods: [
                "Attend": VarlinkMethod(lasts: true) {
                    (request: Interface.AttendRequest, invocation) async throws(VarlinkError) in
                    try await attend(engine, request, invocation)
                },
                "Claim": VarlinkMethod(lasts: true) {
                    (request: Interface.ClaimRequest, invocation) async throws(VarlinkError) in
                    try await claim(engine, request, invocation)
                },
                "Moved": VarlinkMethod { (request: Interface.MovedRequest, invocation) async throws(VarlinkError) in
                    guard let path = try checked(request.path), let newPath = try checked(request.newPath) else {
                        throw .invalidParameter("path")
                    }
                    let speaker = ClaimSpeaker(process: invocation.peer.process, session: request.session)
                    try failing { () throws(ClaimFailure) in
                        try engine.moved(request.claim, path, to: newPath, by: speaker)
                    }
                    return VarlinkNothing()
                },
                "MovedOut": VarlinkMethod {
                    (request: Interface.MovedOutRequest, invocation) async throws(VarlinkError) in
                    guard let path = try checked(request.path) else { throw .invalidParameter("path") }
                    try checkLength("outside", request.outside, longestPath)
                    let speaker = ClaimSpeaker(process: invocation.peer.process, session: request.session)
                    // What an app says is no reason for others to go to any place of this machine.
                    let place = invocation.peer.standing == .user ? request.outside : nil
                    try failing { () throws(ClaimFailure) in
                        try engine.movedOut(request.claim, path, to: place, by: speaker)
                    }
                    return VarlinkNothing()
                },
                "Release": VarlinkMethod { (request: Interface.ReleaseRequest, invocation) async throws(VarlinkError) in
                    let speaker = ClaimSpeaker(process: invocation.peer.process, session: request.session)
                    try failing { () throws(ClaimFailure) in try engine.releaseClaim(request.claim, by: speaker) }
                    invocation.scope.drop(token: request.claim)
                    return VarlinkNothing()
                },
                "Cancel": VarlinkMethod { (request: Interface.CancelRequest, _) async throws(VarlinkError) in
                    try checkLength("coordinator", request.coordinator, longestName)
                    let session = try session(engine, request.session)
                    try failing { () throws(ClaimFailure) in try engine.cancel(request.coordinator, session: session) }
                    return VarlinkNothing()
                },
                "Prepare": VarlinkMethod(lasts: true) {
                    (request: Interface.ClaimRequest, invocation) async throws(VarlinkError) in
                    try checkLengths(request)
                    let session = try session(engine, request.session ?? "")
                    let claim = try await failing { () async throws(ClaimFailure) in
                        try await engine.prepare(request, session: session)
                    }
                    // Nobody else will end it.
                    invocation.scope.whenUnread { try? engine.releaseClaim(claim) }
                    return Interface.PrepareReply(claim: claim)
                },
                "List": VarlinkMethod { (_: VarlinkNothing, invocation) async throws(VarlinkError) in
                    try await list(engine, invocation)
                },
            ].merging(presenterMethods(engine)) { own, _ in own }
        )
    }

    private static func presenterMethods(_ engine: Engine) -> [String: VarlinkMethod] {
        [
            "AddPresenter": VarlinkMethod { (request: Interface.PresenterRequest, _) async throws(VarlinkError) in
                let session = try session(engine, request.session)
                try checkLength("observes", (request.observes ?? []).joined(), longestList)
                try checkLength("purpose", request.purpose ?? "", longestName)
                let path = try checked(request.path)
                let presenter = try failing { () throws(ClaimFailure) in
                    try engine.addPresenter(
                        session: session,
                        at: path,
                        implements: request.messages ?? [],
                        observes: request.observes ?? [],
                        purpose: request.purpose
                    )
                }
                return Interface.PresenterReply(presenter: presenter)
            },
            "MovePresenter": VarlinkMethod { (request: Interface.PresenterRequest, _) async throws(VarlinkError) in
                let session = try session(engine, request.session)
                guard let presenter = request.presenter else { throw .invalidParameter("presenter") }
                let path = try checked(request.path)
                try failing { () throws(ClaimFailure) in
                    try engine.movePresenter(presenter, session: session, to: path)
                }
                return VarlinkNothing()
            },
            "RemovePresenter": VarlinkMethod { (request: Interface.PresenterRequest, _) async throws(VarlinkError) in
                let session = try session(engine, request.session)
                guard let presenter = request.presenter else { throw .invalidParameter("presenter") }
                try failing { () throws(ClaimFailure) in
                    try engine.removePresenter(presenter, session: session)
                }
                return VarlinkNothing()
            },
            "Reply": VarlinkMethod { (request: Interface.AnswerRequest, _) async throws(VarlinkError) in
                let session = try session(engine, request.session)
                let errno = request.errno.map { Errno($0) }
                let failure = errno != nil || request.error != nil
                engine.reply(
                    session: session,
                    message: request.message,
                    failure: failure ? ClaimFailure(errno ?? .inputOutput, request.error) : nil
                )
                return VarlinkNothing()
            },
        ]
    }

    /// Streams a session's messages until its connection ends, and the session with it.
    private static func attend(
        _ engine: Engine,
        _ request: Interface.AttendRequest,
        _ invocation: VarlinkInvocation
    ) async throws(VarlinkError) -> Interface.AttendReply {
        guard invocation.wantsMore else { throw .expectedMore }
        let (messages, continuation) = AsyncStream.makeStream(
            of: Interface.Message.self,
            bufferingPolicy: .bufferingOldest(waitingMessages)
        )
        let unread = UnreadChanges()
        let isOver = Atomic(false)
        let (session, reply) = try failing { () throws(ClaimFailure) in
            try engine.attend(
                process: invocation.peer.process,
                resuming: request.resume,
                keepsPresenters: request.keepsPresenters == true
            ) { message in
                guard unread.add(message) else { return true }
                if case .enqueued = continuation.yield(message) { return true }
                // The session ends, and its stream with it: by that its program knows that it has to begin another one.
                isOver.store(true, ordering: .releasing)
                continuation.finish()
                return false
            }
        }
        invocation.scope.whenEnded {
            engine.endSession(session)
            continuation.finish()
        }
        try await invocation.send(reply)
        for await message in messages {
            if isOver.load(ordering: .acquiring) { break }
            unread.remove(message)
            try await invocation.send(Interface.AttendReply(message: message))
        }
        return Interface.AttendReply()
    }

    private static func claim(
        _ engine: Engine,
        _ request: Interface.ClaimRequest,
        _ invocation: VarlinkInvocation
    ) async throws(VarlinkError) -> Interface.ClaimReply {
        try checkLengths(request)
        let scope = invocation.scope
        let session: Int
        if let token = request.session {
            session = try self.session(engine, token)
        } else {
            session = try failing { () throws(ClaimFailure) in
                try scope.session { () throws(ClaimFailure) in
                    let session = try engine.beginConnection(process: invocation.peer.process)
                    scope.hold(1)
                    scope.whenEnded { engine.endSession(session) }
                    return session
                }
            }
        }
        let reply = try await failing { () async throws(ClaimFailure) in
            try await engine.claim(request, session: session, within: request.within ?? scope.tokens)
        }
        scope.note(token: reply.claim)
        // Nobody else will end it.
        scope.whenUnread { try? engine.releaseClaim(reply.claim) }
        return reply
    }

    private static func list(
        _ engine: Engine,
        _ invocation: VarlinkInvocation
    ) async throws(VarlinkError) -> Interface.ListReply {
        var last = Interface.ListReply(claims: [], presenters: [])
        // What is there is told part by part, so that long lists are never held.
        func add(
            _ claims: [Interface.ClaimStatus],
            _ presenters: [Interface.PresenterStatus]
        ) async throws(VarlinkError) {
            if last.claims.count + last.presenters.count + claims.count + presenters.count > listed {
                try await invocation.send(last)
                last = Interface.ListReply(claims: [], presenters: [])
            }
            last.claims += claims
            last.presenters += presenters
        }
        try await engine.presenterStatuses { presenters throws(VarlinkError) in try await add([], presenters) }
        try await engine.claimStatuses { claims throws(VarlinkError) in try await add(claims, []) }
        return last
    }

    private static func checkLengths(_ request: Interface.ClaimRequest) throws(VarlinkError) {
        try checkLength("coordinator", request.coordinator ?? "", longestName)
        try checkLength("purpose", request.purpose ?? "", longestName)
        for intent in request.intents { _ = try checked(intent.path) }
    }

    private static func checked(_ parameter: PathParameter) throws(VarlinkError) -> RemotePath? {
        try checkLength("path", parameter.path ?? parameter.pathBase64 ?? "", longestPath)
        return try parameter.remotePath()
    }

    private static func checkLength(_ name: String, _ text: String, _ limit: Int) throws(VarlinkError) {
        guard text.utf8.count > limit else { return }
        let message = "\(name) is longer than \(limit) bytes"
        throw .failed(message, errno: .nameTooLong, interface: Interface.name)
    }

    private static func session(_ engine: Engine, _ token: String) throws(VarlinkError) -> Int {
        try failing { () throws(ClaimFailure) in try engine.session(token) }
    }

    private static func failing<Value>(_ body: () throws(ClaimFailure) -> Value) throws(VarlinkError) -> Value {
        do throws(ClaimFailure) { return try body() } catch { throw error.asVarlink }
    }

    private static func failing<Value: Sendable>(
        _ body: () async throws(ClaimFailure) -> Value
    ) async throws(VarlinkError) -> Value {
        do throws(ClaimFailure) { return try await body() } catch { throw error.asVarlink }
    }
}

extension ClaimFailure {
    /// The failure as it travels, with what to do.
    fileprivate var asVarlink: VarlinkError {
        let words: String
        switch errno {
        case .cancelled: words = "the claim was cancelled"
        case .deadlock: words = "it would wait for a claim that waits for it; ask for all items in one claim"
        case .timedOut: words = "others hold it for longer than that; see `cove claims`"
        default: words = errno.explanation
        }
        return .failed(message ?? words, errno: errno, path: path, interface: CoordinationInterface.name)
    }
}
