public import CoveCore
internal import Dispatch
internal import Synchronization

/// What people ask the account to do.
extension Engine {
    /// Keeps a document, or all below a directory, on this disk; or no longer does.
    public func setPinned(_ path: RemotePath, _ pinned: Bool) throws(Errno) {
        try namespace.setPinned(try item(of: path), pinned)
    }

    /// Gives a document, or a directory and all below it that has no other, a policy.
    public func setPolicy(_ path: RemotePath, _ policy: ContentPolicy) throws(Errno) {
        try namespace.setPolicy(try item(of: path), policy, clearing: false)
    }

    private func item(of path: RemotePath) throws(Errno) -> ItemID {
        try catalog.read { database throws(Errno) in try database.entry(atPath: path)?.item ?? .root }
    }

    /// Sends what waits without settling, and asks the provider for its changes.
    public func sync(_ path: RemotePath?, acceptDeletions: Bool, acceptLocalDeletions: Bool) async {
        for item in contents.live.all() { try? contents.save(item, closing: false) }
        await syncEngine?.sync(acceptDeletions: acceptDeletions, acceptLocalDeletions: acceptLocalDeletions)
    }

    /// Waits until all is sent and fetched that can be, something waits for a person, or time is up.
    ///
    /// What has failed is told at the end, and keeps nothing else from being waited for; nor is what the process that asks, or
    /// one above it, claims itself.
    public func waitUntilSettled(
        _ path: RemotePath?,
        timeout: TimeSpan?,
        for process: Int32? = nil
    ) async -> SyncReport {
        let deadline = timeout.map { clock.monotonic() + $0 } ?? .distantFuture
        while true {
            let status = accountStatus()
            let isBusy = syncEngine?.shared.withLock { $0.isBusy } ?? false
            let remaining = status.queuedOperations
            let isSettled = remaining == 0 && !isBusy && status.state == "idle"
            let isOffline = status.state == "offline" && status.reason != nil && timeout == nil
            // A look at the source that is going on may find that nothing waits any more.
            let isWaiting = status.state == "waiting-for-approval" && !isBusy
            let isPaused = ["paused", "paused-not-migrated"].contains(status.state)
            let isStuck = isWaiting || isPaused || isOffline || status.standstill != nil
            // By the same status: what has failed a moment later, or is tried again by then, would not be told.
            let hasFailures = status.errors.contains { $0.retryInSeconds != nil }
            let hasFailed = !isBusy && remaining > 0 && hasFailures && !canSendMore()
            let isHeld =
                process.map { remaining > 0 && !isBusy && ((try? coordinator.isAllHeld(by: $0)) ?? false) } ?? false
            if isSettled || isStuck || hasFailed || isHeld || clock.monotonic() >= deadline {
                var errors = status.errors.filter { $0.retryInSeconds != nil }
                if let reason = status.reason {
                    errors.append(ItemError(path: "/", message: reason, retryInSeconds: nil))
                }
                if isHeld {
                    let message = "what waits is claimed by the program that asks: it is sent when the claim ends"
                    errors.append(ItemError(path: "/", message: message, retryInSeconds: nil))
                }
                if let still = status.standstill, !errors.contains(where: { LocalPath.isSame($0.path, still.path) }) {
                    errors.append(ItemError(path: still.path, message: still.reason, retryInSeconds: nil))
                }
                return SyncReport(isSettled: isSettled, remaining: remaining, errors: errors)
            }
            try? await Task.sleep(for: .milliseconds(20))
        }
    }

    /// True while something waits that neither failed nor waits for what did.
    private func canSendMore() -> Bool {
        let found = try? catalog.read { database throws(Errno) in try database.canSendMore() }
        return found ?? false
    }

    /// Stops sending; the tree goes on to work.
    public func pause() async { await syncEngine?.setPaused(true) }

    /// Goes on to send.
    public func resume() async { await syncEngine?.setPaused(false) }

    /// Deleted documents that can be restored, newest first.
    public func trash() -> [TrashEntry] {
        let rows = (try? catalog.read { database throws(Errno) in try database.trash(pending: nil) }) ?? []
        return rows.reversed().compactMap { row in
            guard row.kind != .directory else { return nil }
            return TrashEntry(
                documentID: row.document.description,
                path: row.path.description,
                time: row.deleted.secondsSinceEpoch,
                size: row.size,
                location: row.item != nil ? "local" : "remote"
            )
        }
    }

    /// Deletes trashed documents for good; returns how many.
    public func emptyTrash(olderThan age: TimeSpan?) async -> Int {
        await syncEngine?.expireTrash(olderThan: age ?? .zero) ?? 0
    }
}
