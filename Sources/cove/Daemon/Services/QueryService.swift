internal import CoveCore
internal import CoveEngine
internal import Synchronization

/// What `io.cove.Query` does.
enum QueryService {
    /// The interface for an engine.
    static func interface(engine: Engine) -> VarlinkInterface {
        typealias Query = QueryInterface
        return VarlinkInterface(
            name: Query.name,
            definition: Query.definition,
            methods: [
                "Run": VarlinkMethod(lasts: true) {
                    (request: Query.RunRequest, invocation) async throws(VarlinkError) in
                    try await run(engine, try request.request(invocation, engine), invocation)
                },
                "Values": VarlinkMethod { (request: Query.ValuesRequest, _) async throws(VarlinkError) in
                    try AccessService.requireMigrated(engine, Query.name)
                    guard request.items.count <= Query.ValuesRequest.most else { throw .invalidParameter("items") }
                    var paths: [RemotePath] = []
                    for item in request.items { if let path = try item.remotePath() { paths.append(path) } }
                    let attributes = try keys(request.attributes, "attributes")
                    do throws(Errno) {
                        let results = try await engine.values(at: paths, attributes)
                        return Query.ValuesReply(results: results.map { QueryResultMessage($0) })
                    } catch {
                        throw error.failure(interface: Query.name)
                    }
                },
                "Follow": VarlinkMethod(lasts: true) {
                    (request: Query.FollowRequest, invocation) async throws(VarlinkError) in
                    let interval = request.interval ?? 0.05
                    guard interval >= 0, interval <= 3600 else { throw .invalidParameter("interval") }
                    return try await follow(
                        engine,
                        try request.query.request(invocation, engine),
                        .seconds(interval),
                        invocation
                    )
                },
            ]
        )
    }

    /// Keys by their names.
    fileprivate static func keys(_ names: [String]?, _ parameter: String) throws(VarlinkError) -> [QueryKey] {
        var keys: [QueryKey] = []
        for name in names ?? [] {
            guard let key = QueryKey(named: name) else { throw .invalidParameter(parameter) }
            keys.append(key)
        }
        return keys
    }

    private static func run(
        _ engine: Engine,
        _ request: QueryRequest,
        _ invocation: VarlinkInvocation
    ) async throws(VarlinkError) -> QueryInterface.RunReply {
        var all: [QueryResultMessage] = []
        // What a caller that does not want more gets is one message.
        var room = MessageRoom()
        var failure: VarlinkError?
        let unlisted: Int
        do throws(Errno) {
            unlisted = try await engine.query(request) { found in
                let messages = found.map { QueryResultMessage($0) }
                guard invocation.wantsMore else {
                    all += messages
                    if !messages.allSatisfy({ room.take($0.texts) }) { failure = .expectedMore }
                    return failure == nil
                }
                do throws(VarlinkError) {
                    let last = try await AccountService.sendBatches(
                        messages,
                        invocation,
                        texts: \.texts,
                        { QueryInterface.RunReply(results: $0) }
                    )
                    if !last.isEmpty { try await invocation.send(QueryInterface.RunReply(results: last)) }
                } catch {
                    failure = error
                }
                return failure == nil
            }
        } catch {
            throw error.failure(interface: QueryInterface.name)
        }
        if let failure { throw failure }
        return QueryInterface.RunReply(results: all, unlisted: unlisted)
    }
}

/// Telling what becomes of results.
extension QueryService {
    private static func follow(
        _ engine: Engine,
        _ request: QueryRequest,
        _ interval: TimeSpan,
        _ invocation: VarlinkInvocation
    ) async throws(VarlinkError) -> QueryInterface.FollowReply {
        guard invocation.wantsMore else { throw .expectedMore }
        let following = Task { () -> VarlinkError? in
            var failure: VarlinkError?
            do throws(Errno) {
                try await engine.follow(request, interval: interval) { event in
                    do throws(VarlinkError) {
                        for reply in replies(to: event) { try await invocation.send(reply) }
                    } catch {
                        failure = error
                    }
                    return failure == nil
                }
            } catch .busy {
                let words = "too many queries go on already; end some of them"
                return .failed(words, errno: .busy, interface: QueryInterface.name)
            } catch {
                return error.failure(interface: QueryInterface.name)
            }
            return failure
        }
        // Nothing may happen that would show that nobody listens.
        invocation.scope.whenEnded { following.cancel() }
        if let error = await following.value { throw error }
        return QueryInterface.FollowReply()
    }

    /// What tells of an event, in messages that are not too long.
    private static func replies(to event: QueryEvent) -> [QueryInterface.FollowReply] {
        var replies: [QueryInterface.FollowReply] = []
        func add(_ results: [QueryResult], _ list: WritableKeyPath<QueryInterface.FollowReply, [QueryResultMessage]>) {
            for messages in batches(results.map { QueryResultMessage($0) }) {
                var reply = QueryInterface.FollowReply()
                reply[keyPath: list] = messages
                replies.append(reply)
            }
        }
        switch event {
        case .found(let results): add(results, \.results)
        case .gathered(let unlisted):
            var reply = QueryInterface.FollowReply()
            (reply.gathered, reply.unlisted) = (true, unlisted)
            replies.append(reply)
        case .changed(let changes):
            add(changes.added, \.results)
            add(changes.changed, \.changedResults)
            for start in stride(from: 0, to: changes.removed.count, by: AccountService.batch) {
                var reply = QueryInterface.FollowReply()
                let end = min(start + AccountService.batch, changes.removed.count)
                reply.removed = changes.removed[start..<end].map { Int($0) }
                replies.append(reply)
            }
            for index in replies.indices where index < replies.count - 1 || changes.isPart {
                replies[index].isPart = true
            }
        }
        return replies
    }

    private static func batches(_ results: [QueryResultMessage]) -> [[QueryResultMessage]] {
        var batches: [[QueryResultMessage]] = []
        var (batch, room): ([QueryResultMessage], MessageRoom) = ([], MessageRoom())
        for result in results {
            if batch.count == AccountService.batch || !room.take(result.texts) {
                if !batch.isEmpty { batches.append(batch) }
                (batch, room) = ([], MessageRoom())
                _ = room.take(result.texts)
            }
            batch.append(result)
        }
        if !batch.isEmpty { batches.append(batch) }
        return batches
    }
}

extension QueryInterface.FollowReply {
    fileprivate var changedResults: [QueryResultMessage] {
        get { changed ?? [] }
        set { changed = newValue }
    }
}

extension QueryInterface.RunRequest {
    /// What is asked; throws what is wrong with it.
    fileprivate func request(
        _ invocation: VarlinkInvocation,
        _ engine: Engine
    ) throws(VarlinkError) -> QueryRequest {
        var request = QueryRequest(try wanted())
        if case .app(let app) = invocation.peer.standing { request.app = app }
        for name in scopes ?? [] {
            guard let scope = QueryScope(rawValue: name) else { throw .invalidParameter("scopes") }
            if scope == .external { try AccessService.requireMigrated(engine, QueryInterface.name) }
            request.scopes.insert(scope)
        }
        for name in sort ?? [] {
            guard let order = QuerySort(name) else { throw .invalidParameter("sort") }
            guard !request.order.contains(where: { $0.key == order.key }) else { throw .invalidParameter("sort") }
            request.order.append(order)
        }
        request.attributes = try QueryService.keys(attributes, "attributes")
        request.folder = try path.remotePath() ?? .root
        request.listedOnly = listedOnly ?? false
        return request
    }

    private func wanted() throws(VarlinkError) -> QueryPredicate {
        let problem: String
        if predicate.utf8.count > QueryPredicate.longestText {
            problem = "it has more than \(QueryPredicate.longestText) bytes"
        } else if predicate.hasPrefix("{") {
            do throws(JSONError) {
                return try QueryPredicate(json: try JSONValue(parsing: Array(predicate.utf8), nestedTo: 250))
            } catch {
                problem = "\(error)"
            }
        } else {
            do throws(QueryPredicateError) { return try QueryPredicate(parsing: predicate) } catch {
                problem = "\(error)"
            }
        }
        throw .failed(
            "the predicate can't be read: \(problem)",
            errno: .invalidArgument,
            interface: QueryInterface.name
        )
    }
}
