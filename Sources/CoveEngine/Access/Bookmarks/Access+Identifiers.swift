internal import CoveCore
internal import Synchronization

/// What the provider itself calls documents, where it does: by that a bookmark finds one that the catalog does not know.
extension Access {
    /// A bookmark is made as an app is suspended, and can do without.
    private static let patience = TimeSpan.seconds(5)

    /// What the provider calls an entry for good; nil where it has none, does not say so now, or says what can't be.
    ///
    /// A bookmark is made without it then: whoever makes one need not be online.
    func persistentIdentifier(of entry: EntryRow) async -> PersistentIdentifier? {
        guard provider.capabilities.persistentIdentifiers, sync?.isConnected == true else { return nil }
        let place = try? await inCatalog { database throws(Errno) in try database.remoteReference(of: entry) }
        guard let reference = place ?? nil else { return nil }
        do throws(ProviderError) {
            return try await asking(for: Self.patience) { [provider] () throws(ProviderError) in
                try await provider.persistentIdentifier(of: reference)
            }
        } catch {
            log.info("\(reference.path): a bookmark is made without the source's identifier: \(error)")
            return nil
        }
    }

    /// The entry of what the provider knows by an identifier; nil where it knows nothing by it.
    ///
    /// It is looked for in folders that nobody listed, too, and nothing is downloaded.
    func entry(ofPersistent identifier: PersistentIdentifier) async throws(AccessError) -> EntryRow? {
        let path: RemotePath
        do throws(ProviderError) {
            path = try await asking { [provider] () throws(ProviderError) in
                try await provider.path(ofPersistent: identifier)
            }
        } catch .noSuchItem {
            return nil
        } catch .unsupported {
            return nil
        } catch {
            throw AccessError(
                error.errno,
                "it is not known here, and where it is now can't be asked: \(error); try again later, the bookmark stays good"
            )
        }
        // What is in the provider's trash is gone.
        if path.names.contains(where: \.isReserved) { return nil }
        let found = try await failing("it can't be looked for") { () throws(Errno) -> EntryRow? in
            guard let name = path.name, let parent = try await walk(path.parent),
                try await find(name, in: parent) != nil
            else { return nil }
            return try await onQueue { [catalog] () throws(Errno) in
                try catalog.read { database throws(Errno) in try database.entry(parent, name.bytes) }
            }
        }
        guard let found else {
            // It may have come there a moment ago; what has its former place is not it.
            sync?.enqueue([.directoryChanged(path.parent)], seen: .distantPast)
            throw AccessError(
                .noSuchEntry,
                "the source says that it is at \(path), where nothing is; try again after `cove sync --wait`"
            )
        }
        return found
    }

    /// Asks the provider for something, no longer than a program waits for it, or than a limit.
    private func asking<Value: Sendable>(
        for limit: TimeSpan? = nil,
        _ body: @escaping @Sendable () async throws(ProviderError) -> Value
    ) async throws(ProviderError) -> Value {
        let answer = Pending<Result<Value, ProviderError>>()
        let work = Task { [self] in
            await connected.pass()
            do throws(ProviderError) {
                // What answers may be another source than the one that is shown.
                guard sync?.isConnected == true else { throw .serverUnreachable("it is away, or not the one it was") }
                counters.providerRequests.add(1, ordering: .relaxed)
                answer.fulfill(.success(.success(try await body())))
            } catch {
                answer.fulfill(.success(.failure(error)))
            }
        }
        let patience = min(limit ?? .seconds(3600), configuration.stallLimit)
        let clock = Task {
            try? await Task.sleep(for: patience)
            answer.fulfill(.success(.failure(.timedOut)))
        }
        defer {
            work.cancel()
            clock.cancel()
        }
        let result: Result<Value, ProviderError>
        do throws(Errno) { result = try await answer.value() } catch { throw .failed("\(error)", error) }
        return try result.get()
    }
}
