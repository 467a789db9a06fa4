internal import CoveCore
internal import Synchronization

/// An exclusive write lock on one address (RFC 4918, 6): while it is held, nobody else changes what is there.
struct DAVLock: Sendable {
    let path: RemotePath
    /// With its angle brackets, as the server gave it.
    let token: String
    /// Nothing was there, and the server made an empty file for the lock.
    let hasMadeFile: Bool

    static let request = Array(
        """
        <?xml version="1.0" encoding="utf-8"?><d:lockinfo xmlns:d="DAV:"><d:lockscope><d:exclusive/></d:lockscope>\
        <d:locktype><d:write/></d:locktype><d:owner>Cove</d:owner></d:lockinfo>
        """.utf8
    )
}

extension WebDAVProvider {
    /// Locks an address, which may be free, for half a minute; throws `busy` when somebody else goes on holding it.
    func lock(_ path: RemotePath) async throws(ProviderError) -> DAVLock {
        for attempt in 0..<20 {
            if let lock = try await lockOnce(path) { return lock }
            do { try await Task.sleep(for: min(.milliseconds(20).doubled(attempt), .milliseconds(300))) } catch {
                throw .cancelled
            }
        }
        throw .busy
    }

    /// Nil when somebody else holds it.
    func lockOnce(_ path: RemotePath) async throws(ProviderError) -> DAVLock? {
        var request = HTTPRequest("LOCK", address.url(path))
        request.headers = [
            ("Timeout", "Second-30"), ("Depth", "0"), ("Content-Type", "application/xml; charset=utf-8"),
        ]
        request.body = .bytes(DAVLock.request)
        let response = try await ask(request)
        switch response.status {
        case 200, 201:
            guard let token = response.head["lock-token"], token.hasPrefix("<"), token.hasSuffix(">") else {
                // Apache answers so when it has lost count of its locks.
                return nil
            }
            return DAVLock(path: path, token: token, hasMadeFile: response.status == 201)
        case 423: return nil
        case 404, 409: throw .noSuchItem
        default: throw try await refusal(response, making: path)
        }
    }

    /// Sends a request under a lock; one that is refused as if the lock were not held is sent again under another.
    func locking(
        _ path: RemotePath,
        isRefusal: (HTTPResponse) -> Bool = { $0.status == 412 || $0.status == 423 },
        _ send: (DAVLock) async throws(ProviderError) -> HTTPResponse
    ) async throws(ProviderError) -> HTTPResponse {
        for _ in 0..<4 {
            let response = try await lockingOnce(path, send)
            guard isRefusal(response) else { return response }
            log("\(path): the server forgot a lock (\(response.status))")
        }
        throw .busy
    }

    /// Sends a request under a lock, which goes in any case.
    ///
    /// A file that the server made for the lock alone goes too when the request is refused, or `noSuchItem` says that
    /// it was not sent, and nothing is in it: a server may have done what it refused. After a broken line it stays: it may be
    /// what was to come there.
    private func lockingOnce(
        _ path: RemotePath,
        _ send: (DAVLock) async throws(ProviderError) -> HTTPResponse
    ) async throws(ProviderError) -> HTTPResponse {
        let lock = try await lock(path)
        let outcome: Result<HTTPResponse, ProviderError>
        do throws(ProviderError) {
            outcome = .success(try await send(lock))
        } catch {
            outcome = .failure(error)
        }
        let isUnused: Bool
        switch outcome {
        case .success(let response): isUnused = !response.head.isSuccess
        case .failure(let error): isUnused = error == .noSuchItem
        }
        // Whoever called it off does not wait for this to be called off too.
        await Task {
            if lock.hasMadeFile, isUnused, let there = try? await self.properties(path), there.size == 0 {
                _ = try? await self.send("DELETE", path, [condition(lock)])
            }
            await unlock(lock)
        }.value
        return try outcome.get()
    }

    /// Gives a lock back, with a second try where the first met a bad moment, which was short; one that stays ends by itself.
    func unlock(_ lock: DAVLock) async {
        let start = System.monotonic()
        var attempts = 0
        repeat {
            let answer = try? await send("UNLOCK", lock.path, [("Lock-Token", lock.token)])
            if let answer, answer.status < 500, answer.status != 401 { return }
            attempts += 1
        } while attempts < 2 && System.monotonic() - start < .seconds(2)
    }

    /// The header that shows a server that its lock is ours.
    func condition(_ lock: DAVLock) -> (name: String, value: String) {
        ("If", "<\(address.url(lock.path))> (\(lock.token))")
    }
}
