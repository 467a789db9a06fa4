internal import CoveCore
internal import Synchronization

/// HTTP over libcurl: one thread drives all the transfers of a source, connections are kept and shared.
final class HTTPClient: Sendable {
    private let loop: HTTPEventLoop
    private let options: HTTPOptions
    /// So many transfers to come use no connection that is there already.
    private let fresh = Mutex(0)
    private let login = Mutex<(login: HTTPOptions.Login?, scheme: HTTPOptions.Scheme)>((nil, .none))

    init(_ options: HTTPOptions = HTTPOptions()) throws(ProviderError) {
        self.options = options
        loop = try HTTPEventLoop(options)
    }

    deinit { loop.end() }

    /// Sets who asks from now on.
    func use(_ login: HTTPOptions.Login?, _ scheme: HTTPOptions.Scheme) {
        self.login.withLock { $0 = (login, scheme) }
    }

    /// Connections from before may lead nowhere: as many new ones as there can be are made in their place.
    func renewConnections() { fresh.withLock { $0 = options.parallelRequests } }

    /// Asks, and gives the body to the receiver if the answer is a success; else the response has its beginning.
    ///
    /// A status is never an error here. A repeatable request is asked again after what passes by itself: a broken line,
    /// 429, 502, 503 and 504, unless the receiver has taken bytes.
    func send(
        _ request: HTTPRequest,
        to receiver: (any BodyReceiver)? = nil
    ) async throws(ProviderError) -> HTTPResponse {
        var attempt = 0
        while true {
            let outcome = await once(request, receiver)
            attempt += 1
            let isLast = attempt > options.repetitions || !request.isRepeatable || Task.isCancelled
            switch outcome {
            case .success(let response):
                guard !isLast, [429, 502, 503, 504].contains(response.status) else { return response }
                let asked = response.head["retry-after"].flatMap { Int64($0) }
                // Who asks for a longer rest gets it from the engine, which then waits with all of the account.
                if let asked, asked > 2 { return response }
                await Self.rest(asked.map { $0 * 1000 } ?? 0, attempt)
            case .failure(let failure):
                guard !isLast, failure.isTransient, !failure.hasDelivered else { throw failure.error }
                await Self.rest(0, attempt)
            }
        }
    }

    private static func rest(_ milliseconds: Int64, _ attempt: Int) async {
        let most: Int64 = 100 << Int64(min(attempt, 4))
        try? await Task.sleep(for: .milliseconds(milliseconds + Int64.random(in: most / 2...most)))
    }

    private func once(
        _ request: HTTPRequest,
        _ receiver: (any BodyReceiver)?
    ) async -> Result<HTTPResponse, HTTPFailure> {
        let (login, scheme) = login.withLock { $0 }
        let transfer: HTTPTransfer
        do throws(ProviderError) {
            transfer = try HTTPTransfer(request, receiver, options, login, scheme)
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
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                transfer.onEnd { continuation.resume(returning: $0) }
                loop.submit(transfer)
            }
        } onCancel: {
            loop.cancel(transfer)
        }
    }
}
