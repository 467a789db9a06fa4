internal import CoveCore
internal import Synchronization

/// Whether a file is still what the provider has under its name.
extension SyncEngine {
    /// How long it is waited for that what was found is taken in.
    private static let takingLimit = TimeSpan.seconds(1)

    /// Takes in what the provider has under a file's name now; false when the name stands for something else since.
    func isCurrent(_ id: ItemID) async -> Bool {
        let end = clock.monotonic() + Self.takingLimit
        do throws(ProviderError) {
            if let isCurrent = try await judge(id) { return isCurrent }
            // Another look that goes on beside this one may be taking it in.
            while clock.monotonic() < end {
                try? await Task.sleep(for: TimeSpan.milliseconds(20))
                if try await !isNamed(id) { return false }
            }
            return true
        } catch {
            host.log.info("item \(id): whether it is current can't be found out: \(error)")
            if error.parksAccount { disconnect(error) }
            return true
        }
    }

    /// Asks the provider once; nil when it has another version, which could not be taken in now.
    private func judge(_ id: ItemID) async throws(ProviderError) -> Bool? {
        let host = host
        func known() async throws(ProviderError) -> (entry: EntryRow?, isReplaced: Bool) {
            try await host.onContentQueue { () throws(Errno) in
                try host.catalog.read { database throws(Errno) -> (EntryRow?, Bool) in
                    let entries = try database.entries(of: id)
                    let isOne = entries.count == 1 && entries.first?.isUploaded == true
                    let isReplaced = entries.isEmpty ? try database.isReplaced(id) : false
                    return (isOne ? entries.first : nil, isReplaced)
                }
            }
        }
        var (found, isReplaced) = try await known()
        if let document = found?.document, isPushing(document) {
            // Another version of it may be on its way in.
            _ = await isIdleSoon(document)
            (found, isReplaced) = try await known()
        }
        if isReplaced { return false }
        guard let entry = found, entry.remoteItem == id else { return true }
        let place = entry.remotePlace
        let seen = clock.monotonic()
        let (remote, directory) = try await look(for: place.name, in: place.parent)
        guard let directory else { return true }
        if let remote {
            if remote.contentVersion == entry.remoteVersion, remote.kind == .file { return true }
            await update(remote, directory, seen: seen)
        } else {
            await remove([directory.appending(FileName(unchecked: place.name))])
        }
        return try await isNamed(id) ? nil : false
    }

    private func isNamed(_ id: ItemID) async throws(ProviderError) -> Bool {
        let host = host
        return try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in try !database.entries(of: id).isEmpty }
        }
    }
}
