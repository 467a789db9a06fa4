public import CoveCore
internal import Synchronization

/// Why an action can't be carried out, with the item it is about.
public struct ActionError: Error, Sendable {
    /// The item, relative to the mount point.
    public let path: RemotePath
    /// `ENOTSUP` no such action for it, `EBUSY` or `EAGAIN` not at the provider yet, else what the provider failed with.
    public let errno: Errno
    /// What happened and what to do.
    public let message: String
}

/// What a provider can do besides what every provider does.
extension Engine {
    /// The provider's actions for an item.
    public func actions(for path: RemotePath) throws(Errno) -> [ProviderAction] {
        let kind = try item(at: path).kind
        return provider.actions.filter { $0.isFor(kind) }
    }

    /// Has the provider do one of them with items; what a person is to be told, nil for nothing.
    public func perform(_ id: String, on paths: [RemotePath]) async throws(ActionError) -> String? {
        guard let first = paths.first else { return nil }
        guard let action = provider.actions.first(where: { $0.id == id }) else {
            throw ActionError(path: first, errno: .notSupported, message: "the source has no action \(id)")
        }
        guard paths.count == 1 || action.takesSeveral else {
            throw ActionError(path: first, errno: .invalidArgument, message: "\(id) takes one item at a time")
        }
        // What answers now may be another account than the one that is shown.
        guard syncEngine?.isConnected == true else {
            throw ActionError(
                path: first,
                errno: .hostUnreachable,
                message: "the source is away, or not the one it was"
            )
        }
        let found: Result<[RemoteReference], ActionError> = await withCheckedContinuation { continuation in
            contentQueue.async { [self] in
                continuation.resume(
                    returning: Result { () throws(ActionError) in
                        var items: [RemoteReference] = []
                        for path in paths { items.append(try reference(path, for: action)) }
                        return items
                    }
                )
            }
        }
        let items = try found.get()
        do throws(ProviderError) {
            counters.providerRequests.add(1, ordering: .relaxed)
            let message = try await provider.perform(id, on: items)
            // It may have changed what it was given.
            for directory in Set(items.map(\.path.parent)) {
                syncEngine?.enqueue([.directoryChanged(directory)], seen: .distantPast)
            }
            return message
        } catch {
            throw ActionError(path: first, errno: error.errno, message: "\(id): \(error)")
        }
    }

    /// What the provider has of an item; all that was made of it here is there.
    private func reference(_ path: RemotePath, for action: ProviderAction) throws(ActionError) -> RemoteReference {
        let kind: String
        let found: (reference: RemoteReference?, isDirty: Bool)
        do throws(Errno) {
            kind = try item(at: path).kind
            found = try catalog.read { database throws(Errno) in
                guard let entry = try database.entry(atPath: path) else { return (.root, false) }
                let isDirty = try database.journalRow(entry.id) != nil
                return (try database.remoteReference(of: entry), isDirty)
            }
        } catch {
            throw ActionError(path: path, errno: error, message: "\(error)")
        }
        guard action.isFor(kind) else {
            throw ActionError(path: path, errno: .notSupported, message: "\(action.id) is not for a \(kind)")
        }
        guard let reference = found.reference, !found.isDirty else {
            throw ActionError(
                path: path,
                errno: .busy,
                message: "the source does not have it as it is here yet; run `cove sync --wait` first"
            )
        }
        return reference
    }
}
