internal import CoveCore

/// Devices that know of no apps, in an account that has some.
extension SyncEngine {
    /// True where this device knows documents only, and another one has made the account one of apps: then nothing is exchanged.
    func isLeftBehind() async -> Bool {
        let generation = host.context.generation
        guard generation.isLegacy else { return false }
        if generation.isHeld { return true }
        do throws(ProviderError) {
            let folder = try await host.provider.lookup(DriveFolder.name, in: RemoteReference(id: nil, path: .root))
            let place = RemoteReference(id: folder.id, path: RemotePath([DriveFolder.name]))
            _ = try await host.provider.lookup(DriveFolder.account, in: place)
        } catch .noSuchItem {
            return false
        } catch {
            // What can't be told now is asked before anything is exchanged: nothing is until then.
            disconnect(error)
            return true
        }
        if generation.hold() {
            host.log.notice("the account was migrated on another device; `cove account migrate` goes on here")
        }
        return true
    }

    /// The device was migrated: everything goes on.
    func noteMigrated() {
        // What was taken in before and what came since are compared anew.
        requestPoll(listing: true)
        wake()
    }
}
