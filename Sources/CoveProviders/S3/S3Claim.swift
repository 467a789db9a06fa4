internal import CoveCore

extension S3Provider {
    /// Runs a change of some keys; on a server without conditions, while no other device that uses Cove changes them.
    ///
    /// A device first writes a claim and then lists all claims on the key: of two that do so at least one sees the
    /// other's and goes back, so that never both go on. A claim that is ten minutes old is nobody's any more. One of this
    /// device that nothing here holds was left by a broken line or a crash, and goes first.
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
        for claim in claims { await takeBack(claim) }
        return try result.get()
    }

    /// Ends a claim, also for a task that was called off: nobody else could go on.
    ///
    /// Where that fails it is tried again.
    private func takeBack(_ claim: [UInt8]) async {
        let client = client
        @Sendable func isGone() async -> Bool {
            switch try? await client.ask(S3Call("DELETE", claim)) {
            case .success: true
            case .failure(let failure): failure.status == 404
            case nil: false
            }
        }
        let isOver = await Task { await isGone() }.value
        drop(claim)
        guard !isOver else { return }
        Task { [weak self] in
            for attempt in 0..<12 {
                try? await Task.sleep(for: .milliseconds(500 << min(attempt, 6)))
                if self == nil { return }
                if await isGone() { return }
            }
        }
    }

    /// Takes back what this device left when a line broke, or when it died.
    func dropLeftClaims() async throws(ProviderError) {
        let place = address.prefix + Array(".cove/claims/".utf8)
        var token: String?
        repeat {
            let listing = try await client.list(place, delimiter: false, from: token)
            for claim in listing.objects where isLeft(claim.key) {
                _ = try await client.ask(S3Call("DELETE", claim.key))
            }
            if listing.next == token { return }
            token = listing.next
        } while token != nil
    }

    /// True for a claim of this device that nothing here holds.
    private func isLeft(_ claim: [UInt8]) -> Bool {
        guard let slash = claim.lastIndex(of: 0x2F) else { return false }
        return claim[(slash + 1)...].starts(with: Array("\(owner)-".utf8)) && !isHeld(claim)
    }

    private func claim(_ key: [UInt8]) async throws(ProviderError) -> [UInt8] {
        let hash = Digest.hash(key, .sha256).hexadecimal.prefix(32)
        let place = address.prefix + Array(".cove/claims/\(hash)/".utf8)
        for attempt in 0..<60 {
            let own = place + Array("\(owner)-\(DocumentID.random())".utf8)
            hold(own)
            do throws(ProviderError) {
                var call = S3Call("PUT", own)
                call.isRepeatable = true
                _ = try await client.send(call)
                let others = try await client.list(place, delimiter: false).objects.filter { $0.key != own }
                let live = others.filter { client.now.seconds - $0.modified.seconds < 600 && !isLeft($0.key) }
                for old in others where !live.contains(old) { _ = try? await client.ask(S3Call("DELETE", old.key)) }
                if live.isEmpty { return own }
            } catch {
                await takeBack(own)
                throw error
            }
            await takeBack(own)
            try await rest(milliseconds: Int64.random(in: 10...(50 << Int64(min(attempt, 4)))))
        }
        throw .busy
    }

    /// Waits; throws when the task is called off.
    func rest(milliseconds: Int64) async throws(ProviderError) {
        do { try await Task.sleep(for: .milliseconds(milliseconds)) } catch { throw .cancelled }
    }
}
