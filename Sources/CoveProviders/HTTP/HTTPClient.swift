internal import CoveCore
internal import Synchronization

/// HTTP over libcurl: one thread drives all the transfers of a source, connections are kept and shared.
final class HTTPClient: Sendable {
    private let loop: HTTPEventLoop
    private let options: HTTPOptions
    private let login = HTTPLogin()
    /// So many transfers to come use no connection that is there already.
    private let fresh = Mutex(0)
    /// The server takes no notice of the question whether it wants a body.
    private let isDeaf = Atomic(false)
    private let breaks = HTTPBreaks()
    private let total = Atomic(0)

    init(_ options: HTTPOptions = HTTPOptions()) throws(ProviderError) {
        self.options = options
        loop = try HTTPEventLoop(options)
    }

    deinit { loop.end() }

    /// How long a page of a listing may take.
    var pageLimit: TimeSpan { options.pageLimit }

    /// Sets who asks from now on.
    func use(_ credentials: Credentials?) { login.use(credentials) }

    /// True when the server wants the password itself, over a line that others can read, after it has offered Digest.
    func isDowngrade(_ head: HTTPHead) -> Bool { login.isDowngrade(head) }

    /// Connections from before may lead nowhere: as many new ones as there can be are made in their place.
    func renewConnections() { fresh.withLock { $0 = options.parallelRequests } }

    /// How many requests were made in all.
    var requestCount: Int { total.load(ordering: .relaxed) }

    /// How many answers have come in all.
    var answerCount: Int { breaks.answers }

    /// Asks, and gives the body to the receiver if the answer is a success; else the response has its beginning.
    ///
    /// A status is never an error here. A repeatable request is asked again after what passes by itself: a broken line,
    /// 429, 502, 503 and 504, unless the receiver has taken bytes.
    func send(
        _ request: HTTPRequest,
        to receiver: (any BodyReceiver)? = nil
    ) async throws(ProviderError) -> HTTPResponse {
        let answers = breaks.answers
        do throws(HTTPFailure) {
            return try await attempt(request, to: receiver)
        } catch {
            throw await judge(error, of: request, since: answers)
        }
    }

    /// Asks as `send` does; what kept the answer away is not judged yet.
    func attempt(
        _ request: HTTPRequest,
        to receiver: (any BodyReceiver)?
    ) async throws(HTTPFailure) -> HTTPResponse {
        var attempt = 0
        var left = request.isPatient ? options.patience : TimeSpan.seconds(2)
        while true {
            let outcome = await loggedIn(request, receiver)
            attempt += 1
            if request.mayChange { options.trace?({ request.summary(outcome) }) }
            let isLast = attempt > options.repetitions || !request.isRepeatable || Task.isCancelled
            switch outcome {
            case .success(let response):
                guard request.isRepeatable, !Task.isCancelled else { return response }
                switch response.status {
                case 429, 503:
                    // A server that is busy for longer is everybody's matter.
                    let rest = response.head.retryAfter ?? .milliseconds(100).doubled(min(attempt, 6))
                    guard rest <= left, !isLast || request.isPatient && left > .zero else { return response }
                    // It rests for a while also where the server says that it need not, and that counts.
                    let start = System.monotonic()
                    await Self.rest(rest, attempt)
                    left = left - max(rest, System.monotonic() - start)
                case 502, 504:
                    if isLast { return response }
                    await Self.rest(.zero, attempt)
                default: return response
                }
            case .failure(var failure):
                failure.isRepeated = attempt > 1
                guard !isLast, failure.isTransient, !failure.hasDelivered else { throw failure }
                await Self.rest(.zero, attempt)
            }
        }
    }

    /// What a failure means for who has asked: a server that breaks off whenever it is asked for one name, and answers
    /// others, is there.
    func judge(_ failure: HTTPFailure, of request: HTTPRequest, since answers: Int) async -> ProviderError {
        guard failure.isBreak, !Task.isCancelled else { return failure.error }
        // Once it may be the line; a look at a name that broke each time it was asked for tells more.
        let isKnown = breaks.count(request.subject) > 1
        let isLook = request.method == "PROPFIND" || request.method == "HEAD"
        guard isKnown || isLook && failure.isRepeated else { return failure.error }
        if breaks.answers == answers {
            var other = HTTPRequest("OPTIONS", request.origin + "/")
            other.patience = 1
            guard case .success = await once(other, nil, HTTPLogin.Answer()) else { return failure.error }
        }
        return .failed("the server breaks off when it is asked for this", .connectionReset)
    }

    /// A little more or less than the time, lest many come back at once.
    private static func rest(_ least: TimeSpan, _ attempt: Int) async {
        let most = TimeSpan.milliseconds(100).doubled(min(attempt, 4))
        try? await Task.sleep(for: least + .random(in: most / 2...most))
    }

    /// Asks, and asks again with what the server wants to be told of who asks.
    private func loggedIn(
        _ request: HTTPRequest,
        _ receiver: (any BodyReceiver)?
    ) async -> Result<HTTPResponse, HTTPFailure> {
        for _ in 0..<2 {
            let answer = login.answer(to: request)
            let outcome = await once(request, receiver, answer)
            guard case .success(let response) = outcome, response.status == 401, !Task.isCancelled,
                login.learn(from: response.head, to: answer)
            else { return outcome }
        }
        return await once(request, receiver, login.answer(to: request))
    }

    private func once(
        _ request: HTTPRequest,
        _ receiver: (any BodyReceiver)?,
        _ answer: HTTPLogin.Answer
    ) async -> Result<HTTPResponse, HTTPFailure> {
        total.add(1, ordering: .relaxed)
        let transfer: HTTPTransfer
        do throws(ProviderError) {
            transfer = try HTTPTransfer(
                request,
                receiver,
                options,
                authorization: answer.header,
                mayExpect: !isDeaf.load(ordering: .relaxed)
            )
        } catch {
            return .failure(HTTPFailure(error: error))
        }
        let isFresh = fresh.withLock { left in
            defer { left = max(0, left - 1) }
            return left > 0
        }
        if isFresh { transfer.useNewConnection() }
        let loop = loop
        receiver?.connect { [weak loop, weak transfer] in
            if let loop, let transfer { loop.resume(transfer) }
        }
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                transfer.onEnd { continuation.resume(returning: $0) }
                loop.submit(transfer)
            }
        } onCancel: {
            loop.cancel(transfer)
        }
        if case .success = result {
            breaks.noteAnswer(request.subject)
            if transfer.wasIgnored { isDeaf.store(true, ordering: .relaxed) }
        }
        return result
    }
}

/// Which names a server breaks off at, and how many answers came in all.
private final class HTTPBreaks: Sendable {
    private static let most = 1000
    private let counts = Mutex<[String: Int]>([:])
    private let answered = Atomic(0)

    var answers: Int { answered.load(ordering: .relaxed) }

    /// Counts one more break; gives how many there were since the last answer.
    func count(_ subject: String) -> Int {
        counts.withLock { counts in
            if counts.count >= Self.most { counts.removeAll() }
            counts[subject, default: 0] += 1
            return counts[subject, default: 0]
        }
    }

    func noteAnswer(_ subject: String) {
        answered.add(1, ordering: .relaxed)
        counts.withLock { if !$0.isEmpty { $0[subject] = nil } }
    }
}
