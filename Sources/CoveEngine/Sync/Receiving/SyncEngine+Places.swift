internal import CoveCore

/// Changes told of directories that are on the move.
///
/// A provider tells where a change was when it looked; meanwhile a push may have moved the directory, or the catalog does
/// not know yet that another device did. No such change is let go.
extension SyncEngine {
    /// Remembers that a directory was moved at the provider.
    func noteMove(_ old: RemotePath, _ new: RemotePath) {
        recentMoves.append((old, new, clock.monotonic()))
        if recentMoves.count > 1000 { recentMoves.removeFirst(500) }
    }

    /// The directories to list, since pushes moved them after a change in them was told.
    func placesNow(of event: Seen) -> [RemotePath] {
        guard event.time != .distantPast, let last = recentMoves.last, last.time >= event.time else { return [] }
        let told = event.change.directory
        let place = place(of: told, since: event.time)
        return place == told ? [] : [place]
    }

    /// Where a directory is by now, as far as pushes of this device have moved it.
    private func place(of told: RemotePath, since time: MonotonicTime) -> RemotePath {
        var path = told
        for (old, new, moved) in recentMoves where moved >= time && (path == old || path.isInside(old)) {
            path = RemotePath(new.names + path.names.dropFirst(old.names.count))
        }
        return path
    }

    func isKnown(_ path: RemotePath) async -> Bool {
        let host = host
        let found = try? await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in try database.directory(atRemotePath: path) != nil }
        }
        return found ?? true
    }

    /// Finds the directory that a change was told of and the catalog does not have there, and has it listed.
    ///
    /// It is on its way to the provider, or the provider has it there since a moment.
    func seek(_ told: RemotePath) async {
        do throws(ProviderError) {
            var path = told
            if try await !comesUp(path) {
                path = place(of: told, since: .distantPast)
                guard path != told, try await comesUp(path) else { return }
            }
            enqueue([.directoryChanged(path)], seen: .distantPast)
        } catch {
            takeAgain(.directoryChanged(told))
            if error.parksAccount { disconnect(error) }
        }
    }

    /// Looks for each directory on a path that the catalog does not know; true when it knows all of them then.
    private func comesUp(_ path: RemotePath) async throws(ProviderError) -> Bool {
        let host = host
        var sought: Place?
        while true {
            let found = try await host.onContentQueue { () throws(Errno) in
                try host.catalog.read { database throws(Errno) in try self.firstUnknown(path, database) }
            }
            guard let (place, isListed) = found else { return true }
            if let doubt = doubt(.distantFuture, of: nil, at: place), case .busy(let document) = doubt {
                // Whoever seeks it comes again.
                guard await isIdleSoon(document) else { throw .busy }
                continue
            }
            // What is in a directory that nobody has listed is found when somebody does.
            guard isListed, place != sought else { return false }
            sought = place
            let seen = clock.monotonic()
            let (remote, directory) = try await look(for: place.name, in: place.parent)
            guard let remote, let directory, remote.kind == .directory else { return false }
            await update(remote, directory, seen: seen)
        }
    }

    private nonisolated func firstUnknown(
        _ path: RemotePath,
        _ database: Database
    ) throws(Errno) -> (place: Place, isListed: Bool)? {
        var current = ItemID.root
        for name in path.names {
            guard let entry = try database.entry(remoteParent: current, remoteName: name.bytes) else {
                return (Place(current, name.bytes), try database.item(current)?.residency == .whole)
            }
            current = entry.item
        }
        return nil
    }

    /// Takes a change up again that could not be taken in, later and later; where all directories are polled that does it.
    func takeAgain(_ change: RemoteChange) {
        if mustPoll, !host.provider.capabilities.risingDirectoryVersions { return }
        let pause = failedLooks.pause(change.directory, at: clock.monotonic())
        executor.after(pause) { [weak self, putOff = PutOff(putOff)] in
            self?.enqueue([change], seen: .distantPast)
            putOff.end()
        }
    }
}

extension RemoteChange {
    /// The directory it was told of.
    var directory: RemotePath {
        switch self {
        case .updated(_, let directory): directory
        case .removed(let path): path.parent
        case .directoryChanged(let path): path
        }
    }
}
