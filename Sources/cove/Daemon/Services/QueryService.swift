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
                    try await run(engine, try request.request(), invocation)
                }
            ]
        )
    }

    private static func texts(of result: QueryResultMessage) -> [String] { ["\(result.path)", "\(result.values)"] }

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
                    if !messages.allSatisfy({ room.take(texts(of: $0)) }) { failure = .expectedMore }
                    return failure == nil
                }
                do throws(VarlinkError) {
                    let last = try await AccountService.sendBatches(
                        messages,
                        invocation,
                        texts: texts(of:),
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

extension QueryInterface.RunRequest {
    /// What is asked; throws what is wrong with it.
    fileprivate func request() throws(VarlinkError) -> QueryRequest {
        func keys(_ names: [String]?, _ parameter: String) throws(VarlinkError) -> [QueryKey] {
            var keys: [QueryKey] = []
            for name in names ?? [] {
                guard let key = QueryKey(named: name) else { throw .invalidParameter(parameter) }
                keys.append(key)
            }
            return keys
        }
        var request = QueryRequest(try wanted())
        for name in scopes ?? [] {
            guard let scope = QueryScope(rawValue: name) else { throw .invalidParameter("scopes") }
            request.scopes.insert(scope)
        }
        for name in sort ?? [] {
            guard let order = QuerySort(name) else { throw .invalidParameter("sort") }
            guard !request.order.contains(where: { $0.key == order.key }) else { throw .invalidParameter("sort") }
            request.order.append(order)
        }
        request.attributes = try keys(attributes, "attributes")
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
                return try QueryPredicate(json: try JSONValue(parsing: Array(predicate.utf8)))
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
