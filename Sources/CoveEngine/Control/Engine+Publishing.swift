public import CoveCore
internal import Synchronization

/// Links by which anybody can read what a file holds now.
extension Engine {
    /// For how long a link lives where nobody says it.
    public static let publishedLife = TimeSpan.seconds(7 * 86_400)
    private static let greatestLife = TimeSpan.seconds(3650 * 86_400)

    /// Has the provider make a link to the version of a file that is shown, which lives for a while.
    ///
    /// Throws `ENOTSUP` for what is no file and where the provider makes no links, and `EAGAIN` for what is not sent yet.
    public func publish(
        _ path: RemotePath,
        for life: TimeSpan
    ) async throws(ActionError) -> (publication: Publication, version: ContentVersion) {
        func refusal(_ errno: Errno, _ message: String) -> ActionError {
            ActionError(path: path, errno: errno, message: message)
        }
        guard life >= .seconds(1), life <= Self.greatestLife else {
            throw refusal(.invalidArgument, "a link lives for a second at least and for ten years at most")
        }
        let item: (reference: RemoteReference, version: ContentVersion)
        do throws(Errno) {
            item = try await onQueue { [self] () throws(Errno) in try published(path) }
        } catch {
            switch error {
            case .isDirectory: throw refusal(.notSupported, "only a file can be published; pack the folder first")
            case .notSupported: throw refusal(error, "only a file can be published, and this is none")
            case .noData: throw refusal(.notSupported, "it stays on this device, and has no place at the source")
            case .wouldBlock:
                throw refusal(error, "what was changed here is still waiting to be sent; run `cove sync --wait` first")
            case .noSuchEntry: throw refusal(error, "no such item; check the name")
            default: throw refusal(error, "\(error)")
            }
        }
        // What answers now may be another account than the one that is shown.
        guard syncEngine?.isConnected == true else {
            throw refusal(.hostUnreachable, "the source can't be reached; try again when it can")
        }
        guard provider.capabilities.publishes else {
            throw refusal(.notSupported, "this source gives no links to files; copy it to a bucket or a Nextcloud")
        }
        if configuration.isReadOnly {
            throw refusal(.readOnly, "the account is mounted read-only; mount it without --read-only to publish")
        }
        do throws(ProviderError) {
            counters.providerRequests.add(1, ordering: .relaxed)
            let made = try await provider.publish(item.reference, version: item.version, until: clock.now() + life)
            return (made, item.version)
        } catch {
            switch error {
            case .conflict, .versionNoLongerAvailable:
                throw refusal(.stale, "another device has changed it; run `cove sync` and try again")
            default: throw refusal(error.errno, "\(error)")
            }
        }
    }

    /// What the provider has of a file that is there as it is here.
    private func published(_ path: RemotePath) throws(Errno) -> (reference: RemoteReference, version: ContentVersion) {
        let status = try item(at: path)
        guard status.kind != "directory" else { throw .isDirectory }
        guard status.kind == "file" else { throw .notSupported }
        guard status.state != "local" else { throw .noData }
        guard !status.isDirty else { throw .wouldBlock }
        return try catalog.read { database throws(Errno) in
            guard let entry = try database.entry(atPath: path) else { throw .noSuchEntry }
            guard try database.journalRow(entry.id) == nil, let version = entry.remoteVersion,
                var reference = try database.remoteReference(of: entry)
            else { throw .wouldBlock }
            reference.isFile = true
            return (reference, version)
        }
    }
}
