internal import CoveCore

extension S3Provider {
    /// Runs a change of some keys; on a server without conditions, while no other device that uses Cove changes them.
    ///
    /// A device first writes a claim and then lists all claims on the key: of two that do so at least one sees the
    /// other's and goes back, so that never both go on. A claim that is ten minutes old is nobody's any more.
    func exclusively<R: Sendable>(
        _ keys: [[UInt8]],
        _ body: () async throws(ProviderError) -> R
    ) async throws(ProviderError) -> R {
        if features.putsConditionally { return try await body() }
        var claims: [[UInt8]] = []
        let result: Result<R, ProviderError>
        do throws(ProviderError) {
            // In one order everywhere, lest two wait for each other.
            for key in keys.sorted(by: { $0.lexicographicallyPrecedes($1) }) { claims.append(try await claim(key)) }
            result = .success(try await body())
        } catch {
            result = .failure(error)
        }
        let (client, held) = (client, claims)
        // Also for a task that was called off: nobody else could go on.
        await Task { for claim in held { _ = try? await client.ask(S3Call("DELETE", claim)) } }.value
        return try result.get()
    }

    private func claim(_ key: [UInt8]) async throws(ProviderError) -> [UInt8] {
        let hash = Digest.hash(key, .sha256).hexadecimal.prefix(32)
        let place = address.prefix + Array(".cove/claims/\(hash)/".utf8)
        for attempt in 0..<60 {
            let own = place + Array("\(DocumentID.random())".utf8)
            var call = S3Call("PUT", own)
            call.isRepeatable = true
            _ = try await client.send(call)
            let others: [S3Object]
            do throws(ProviderError) {
                others = try await client.list(place, delimiter: false).objects.filter { $0.key != own }
            } catch {
                _ = try? await client.ask(S3Call("DELETE", own))
                throw error
            }
            let live = others.filter { client.now.seconds - $0.modified.seconds < 600 }
            for old in others where !live.contains(old) { _ = try await client.ask(S3Call("DELETE", old.key)) }
            if live.isEmpty { return own }
            _ = try? await client.ask(S3Call("DELETE", own))
            try await rest(milliseconds: Int64.random(in: 10...(50 << Int64(min(attempt, 4)))))
        }
        throw .busy
    }

    /// Waits; throws when the task is called off.
    func rest(milliseconds: Int64) async throws(ProviderError) {
        do { try await Task.sleep(for: .milliseconds(milliseconds)) } catch { throw .cancelled }
    }
}
