internal import CoveCore
internal import Synchronization

/// Devices that know of no apps, in an account that has some.
extension SyncEngine {
    /// True where this device knows documents only, and another one has made the account one of apps: then nothing is exchanged.
    func isLeftBehind() async throws(ProviderError) -> Bool {
        let host = host
        let generation = host.context.generation
        guard generation.isLegacy else { return false }
        if generation.isHeld { return true }
        do throws(ProviderError) {
            let folder = try await host.provider.lookup(DriveFolder.name, in: RemoteReference(id: nil, path: .root))
            let place = RemoteReference(id: folder.id, path: RemotePath([DriveFolder.name]))
            _ = try await host.provider.lookup(DriveFolder.account, in: place)
        } catch .noSuchItem {
            return false
        }
        let isNew = try await host.onContentQueue { () throws(Errno) in try generation.hold(host.catalog) }
        if isNew { host.log.notice("the account was migrated on another device; `cove account migrate` goes on here") }
        return true
    }

    /// Takes in what the account says of apps, and nothing else, on a device that has not heeded it so far.
    func takeInDrive() async throws(ProviderError) {
        try await beginAlone()
        defer { endAlone() }
        let host = host
        if !shared.withLock({ $0.isConnected }) {
            try await host.provider.start()
            try await checkIdentity()
        }
        let drive: RemoteItem
        let seen = clock.monotonic()
        do throws(ProviderError) {
            host.counters.providerRequests.add(1, ordering: .relaxed)
            drive = try await host.provider.lookup(DriveFolder.name, in: RemoteReference(id: nil, path: .root))
        } catch .noSuchItem {
            return
        }
        await take([Seen(change: .updated(drive, directory: .root), time: seen)])
        for path in [DriveFolder.path, DriveFolder.apps, DriveFolder.containers, DriveFolder.references] {
            // One that was never listed is listed when it is read.
            let listed = try await host.onContentQueue { () throws(Errno) in
                try host.catalog.read { database throws(Errno) -> ItemID? in
                    guard let id = try database.directory(atRemotePath: path) else { return nil }
                    return try database.item(id)?.residency == .whole ? id : nil
                }
            }
            guard let listed else { continue }
            let gone = try await relist(listed)
            await take(gone.map { Seen(change: $0, time: .distantPast) })
        }
    }

    /// The device was migrated: everything goes on, from a new connection.
    ///
    /// `folders`: of containers that others have made, under the names that they have here. Who asks for them next finds
    /// them; what can't be had now comes with the poll.
    func noteMigrated(showing folders: [FileName]) async {
        do throws(ProviderError) { try await takeIn(folders) } catch {
            host.log.info("folders of containers can't be looked for yet: \(error)")
        }
        shared.withLock { $0.isConnected = false }
        nextConnect = .epoch
        // What was taken in before and what came since are compared anew.
        requestPoll(listing: true)
        wake()
    }

    private func takeIn(_ folders: [FileName]) async throws(ProviderError) {
        if folders.isEmpty { return }
        try await beginAlone()
        defer { endAlone() }
        let root = RemoteReference(id: nil, path: .root)
        for name in folders {
            let seen = clock.monotonic()
            host.counters.providerRequests.add(1, ordering: .relaxed)
            do throws(ProviderError) {
                let folder = try await host.provider.lookup(name, in: root)
                await take([Seen(change: .updated(folder, directory: .root), time: seen)])
            } catch {
                // Its container may have none yet; the poll tells.
                if error.parksAccount { throw error }
            }
        }
    }

    /// Waits until nobody polls or connects, and keeps others from it; `cancelled` when the engine ends meanwhile.
    private func beginAlone() async throws(ProviderError) {
        while isPollingNow || isConnecting, !isStopped {
            await withCheckedContinuation { continuation in
                executor.after(.milliseconds(20)) { continuation.resume() }
            }
        }
        guard !isStopped else { throw .cancelled }
        (isPollingNow, isConnecting) = (true, true)
    }

    private func endAlone() {
        (isPollingNow, isConnecting) = (false, false)
        wake()
    }
}
