internal import CoveCore

/// What Cove relies on when it asks what has changed.
extension ConformanceCheck {
    /// So long a change may be on its way to whoever asks for it.
    private static let tellingTime = TimeSpan.seconds(15)

    static let following: [ConformanceCheck] = [
        anchors,
        ConformanceCheck(promise: "who tells of changes by itself tells each one, or that the anchor has expired") {
            bench in
            // All others are listed again and again.
            guard !bench.provider.mustBePolled else { return }
            // Of what nobody has looked at nothing need be told.
            _ = try await bench.list()
            var anchor: Anchor? = try await bench.changes(since: nil).anchor
            let file = bench.reference("f").path
            let version = try await bench.create("f", [1]).contentVersion
            try await expect("a new file", from: &anchor, bench) { change in
                if case .updated(let item, file.parent) = change { item.name == file.name?.bytes } else { false }
            }
            let changed = try await bench.modify("f", version, [1, 2]).contentVersion
            try await expect("a changed file", from: &anchor, bench) { change in
                if case .updated(let item, file.parent) = change {
                    item.name == file.name?.bytes && item.contentVersion == changed
                } else {
                    false
                }
            }
            try await bench.delete("f", changed)
            try await expect("a deleted file", from: &anchor, bench) { change in
                if case .removed(file) = change { true } else { false }
            }
        },
    ]

    /// Also where nothing can be written.
    static let anchors = ConformanceCheck(
        promise: "changes begin with an anchor and end, and nobody's anchor has expired"
    ) { bench in
        let first = try await bench.changes(since: nil)
        try demand(first.events.isEmpty && !first.moreComing, "without an anchor it tells more than the current one")
        do throws(ProviderError) {
            var (anchor, parts) = (first.anchor, 0)
            var changes: Changes
            repeat {
                changes = try await bench.changes(since: anchor)
                anchor = changes.anchor
                parts += 1
                guard parts < 1000 else { throw .failed("of changes that nobody made there is ever more to come", nil) }
            } while changes.moreComing
        } catch {
            // A source that can't tell changes says so of every one.
            guard error == .anchorExpired else { throw error }
        }
        let nobodys = Anchor(Array("cove-check-\(DocumentID.random())".utf8))
        try await demand(.anchorExpired, of: "changes since an anchor that was never given") {
            () throws(ProviderError) in try await bench.changes(since: nobodys)
        }
    }

    /// Waits until a change in the folder of the check is told, or that the folder is to be listed.
    private static func expect(
        _ what: String,
        from anchor: inout Anchor?,
        _ bench: CheckBench,
        _ isIt: (RemoteChange) -> Bool
    ) async throws {
        let end = System.monotonic() + tellingTime
        repeat {
            do throws(ProviderError) {
                let changes = try await bench.changes(since: anchor)
                anchor = changes.anchor
                let isTold = changes.events.contains { change in
                    if case .directoryChanged(bench.folder) = change { return true }
                    return isIt(change)
                }
                if isTold { return }
                if changes.moreComing { continue }
            } catch {
                guard error == .anchorExpired else { throw error }
                // Then all that is shown is listed again.
                anchor = try await bench.changes(since: nil).anchor
                return
            }
            try await Task.sleep(for: TimeSpan.milliseconds(100))
        } while System.monotonic() < end
        throw Failure(why: "it says that it tells of changes, and did not tell of \(what)")
    }
}
