internal import CoveCore

/// Reaching the provider, and what is done before anything is exchanged with it.
extension SyncEngine {
    func connect(_ now: Timestamp) async {
        guard !isConnecting else { return }
        guard now >= nextConnect else { return alarm(at: nextConnect, now: now) }
        isConnecting = true
        hasNetworkChanged = false
        defer {
            isConnecting = false
            host.connected.open()
        }
        do throws(ProviderError) {
            try await host.provider.start()
            try await checkIdentity()
            if try await !isLeftBehind() { try await takeUpUnderway() }
            connectAttempts = 0
            hasPolled = false
            news.stirred = clock.monotonic()
            news.isRefused = false
            shared.withLock { state in
                state.isConnected = true
                state.reason = nil
            }
            host.coordinator.findPresentedConflicts()
            host.namespace.fetchKept(afresh: true)
            tellReleases()
            await withdrawErasure()
            await refreshQuota()
            requestPoll()
        } catch {
            connectAttempts = hasNetworkChanged ? 1 : connectAttempts + 1
            // A quick first retry, then a longer and longer one, each moved at random so that devices don't march in step.
            let delay = min(.seconds(60), TimeSpan.milliseconds(500).doubled(min(connectAttempts, 7)))
            nextConnect = host.journalTime() + .random(in: delay / 2...delay)
            shared.withLock { $0.reason = "\(error)" }
            host.log.info("connecting failed: \(error)")
            alarm(at: nextConnect, now: host.journalTime())
        }
    }

    /// Refuses a source that is not the one this account was made for, as an unmounted disk's empty folder.
    func checkIdentity() async throws(ProviderError) {
        guard let identity = await host.provider.sourceIdentity() else { return }
        let host = host
        let known = try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in try database.meta("source") }
        }
        guard let known else {
            return try await host.onContentQueue { () throws(Errno) in
                try host.catalog.write { database throws(Errno) in try database.setMeta("source", identity) }
            }
        }
        guard known == identity else {
            throw .serverUnreachable(
                "\(host.configuration.source) is not the folder this account was made for; "
                    + "mount the right disk there, log in as the user from before, or use another --account"
            )
        }
    }

    func refreshQuota() async {
        lastQuota = host.journalTime()
        if let quota = try? await host.provider.quota() { shared.withLock { $0.quota = quota } }
    }

    /// The source went away: everything waits until it is back.
    func disconnect(_ error: ProviderError) {
        shared.withLock { state in
            state.isConnected = false
            state.reason = "\(error)"
        }
        host.log.info("offline: \(error)")
        connectAttempts = max(connectAttempts, 1)
        nextConnect = host.journalTime() + .milliseconds(500)
        alarm(at: nextConnect, now: host.journalTime())
    }

    /// The network has changed: what could not be reached may be there again.
    func retryConnecting() {
        hasNetworkChanged = true
        connectAttempts = 0
        nextConnect = .epoch
        news.asked = .distantPast
        wake()
    }
}
