internal import CoveCore
internal import Synchronization

/// Items at the provider under hidden names that nobody comes back for.
///
/// A device hides what has to make room for others and moves it on right after. Where it died in between for good, or what
/// it hid was not what it meant to delete, any device brings the item back under a name that people see.
extension SyncEngine {
    /// Who hid an item may be on its way with it still: for so long since it was first seen here.
    private static let strayRest = TimeSpan.seconds(600)
    /// How long to rest before one is brought to light again that came back.
    private static let strayPause = TimeSpan.seconds(60)
    /// How far apart the clocks of two devices may be.
    static let clockDifference = TimeSpan.seconds(86_400)
    /// True for a hidden name that no entry, deletion or unanswered operation of this device stands for.
    nonisolated func isStray(_ name: FileName, in directory: ItemID, _ database: Database) throws(Errno) -> Bool {
        guard name.isPassing else { return false }
        let place = Place(directory, name.bytes)
        if try database.entry(remoteParent: directory, remoteName: name.bytes) != nil { return false }
        if try database.pendingTrash(remoteParent: directory, remoteName: name.bytes) != nil { return false }
        return try database.underway(at: place) == nil
    }

    /// Brings a hidden item to light, once it is nobody's work any more.
    func takeStray(_ remote: RemoteItem, _ directory: RemotePath) async throws(ProviderError) {
        let name = FileName(unchecked: remote.name)
        let path = directory.appending(name)
        let now = clock.monotonic()
        let stray = shared.withLock { $0.strays.see(path, now) }
        guard !host.configuration.isReadOnly else { return }
        let passing = PassingName(name)
        let isNobodys = if isLeft(passing) { true } else { try await isOwn(passing) }
        var due = stray.first + (isNobodys ? .zero : Self.strayRest)
        // What is still there after that is not tried again and again.
        if let tried = stray.tried { due = max(due, tried + Self.strayPause) }
        if due > now || shared.withLock({ $0.isPaused }) {
            guard !stray.isAwaited else { return }
            shared.withLock { $0.strays.rows[path]?.isAwaited = true }
            executor.after(max(due - now, .seconds(60))) { [weak self] in
                self?.shared.withLock { $0.strays.rows[path]?.isAwaited = false }
                self?.enqueue([.directoryChanged(directory)], seen: .distantPast)
            }
            return
        }
        let shown = passing?.original ?? Self.recoveredName(name)
        // Whatever becomes of it, it is not tried again at once.
        shared.withLock { $0.strays.rows[path]?.tried = now }
        try await bringToLight(RemoteReference(id: remote.id, path: path), remote.kind, as: shown, isMerging: false)
    }

    /// True for a hidden name from which its device has certainly gone on, whatever its clock says.
    private nonisolated func isLeft(_ name: PassingName?) -> Bool {
        // Names that don't tell since when are those of earlier versions.
        guard let since = name?.since else { return true }
        return host.journalTime() - since > Self.clockDifference
    }

    /// True for what this device has hidden itself, and does not stand for any more.
    private func isOwn(_ name: PassingName?) async throws(ProviderError) -> Bool {
        guard let document = name?.document else { return false }
        let host = host
        return try await host.onContentQueue { () throws(Errno) in
            try host.catalog.read { database throws(Errno) in
                if try database.hasHidden(document) { return true }
                if try database.entry(document: document) != nil { return true }
                return try database.trash(document: document) != nil
            }
        }
    }

    /// What an item is called whose hidden name does not tell what it was.
    static func recoveredName(_ name: FileName) -> FileName {
        FileName(unchecked: Array("recovered ".utf8) + name.bytes.suffix(8))
    }

    /// Gives a hidden item a name that people see, its own or one beside it; an empty directory goes.
    ///
    /// With `isMerging`, what is in a directory goes to the directory that has its name now, as far as names are free there.
    func bringToLight(
        _ hidden: RemoteReference,
        _ kind: ItemKind,
        as name: FileName,
        isMerging: Bool
    ) async throws(ProviderError) {
        let parent = RemoteReference(id: nil, path: hidden.path.parent)
        defer { enqueue([.directoryChanged(parent.path)], seen: .distantPast) }
        do throws(ProviderError) {
            if kind == .directory {
                try await revealItems(in: hidden)
                if isMerging, try await isDirectory(name, in: parent) {
                    try await merge(hidden, into: parent.path.appending(name), depth: 0)
                }
                do throws(ProviderError) {
                    return try await host.provider.delete(hidden, base: .directory)
                } catch .directoryNotEmpty {
                } catch .notPermitted {}
            }
            try await show(hidden, kind == .directory ? .directory : nil, in: parent, as: name)
        } catch .noSuchItem {
            // Another device was faster.
        }
    }

    /// Moves a hidden item to its name, or to one beside it that is free.
    private func show(
        _ hidden: RemoteReference,
        _ base: ContentVersion?,
        in parent: RemoteReference,
        as name: FileName
    ) async throws(ProviderError) {
        for free in name.recoveryNames {
            do throws(ProviderError) {
                _ = try await move(hidden, base, parent, free)
                return host.log.notice("\(parent.path.appending(free)): it had a hidden name at the source")
            } catch .filenameCollision {}
        }
        throw .failed("its name is hidden at the source, and no other is free", nil)
    }

    /// Gives what other devices hid in a directory that was hidden itself its name back: they don't find it there any more.
    private func revealItems(in directory: RemoteReference) async throws(ProviderError) {
        for item in try await items(in: directory) {
            let name = FileName(unchecked: item.name)
            guard let passing = PassingName(name) else { continue }
            let hidden = RemoteReference(id: item.id, path: directory.path.appending(name))
            let base = item.kind == .directory ? nil : item.contentVersion
            do throws(ProviderError) {
                try await show(hidden, base, in: directory, as: passing.original ?? Self.recoveredName(name))
            } catch .noSuchItem {
                // It moved on by itself.
            } catch .conflict {
                // It changes right now: it is looked at again with the rest.
            }
        }
    }

    private func items(in directory: RemoteReference) async throws(ProviderError) -> [RemoteItem] {
        var items: [RemoteItem] = []
        var pages = ListedPages(of: directory.path, at: host.configuration.source)
        var listing: Listing
        repeat {
            listing = try await host.provider.list(directory, page: pages.next)
            items += listing.items
        } while try pages.advance(listing)
        return items
    }

    private func isDirectory(_ name: FileName, in parent: RemoteReference) async throws(ProviderError) -> Bool {
        do throws(ProviderError) {
            return try await host.provider.lookup(name, in: parent).kind == .directory
        } catch .noSuchItem {
            return false
        }
    }

    /// Moves what is in one directory into another, as far as names are free there.
    private func merge(_ source: RemoteReference, into target: RemotePath, depth: Int) async throws(ProviderError) {
        let items = try await items(in: source)
        defer { enqueue([.directoryChanged(target)], seen: .distantPast) }
        for item in items where host.namespace.problem(with: item) == nil {
            let name = FileName(unchecked: item.name)
            if name.isReserved { continue }
            let child = RemoteReference(id: item.id, path: source.path.appending(name))
            let base = item.kind == .directory ? nil : item.contentVersion
            do throws(ProviderError) {
                _ = try await move(child, base, RemoteReference(id: nil, path: target), name)
            } catch .filenameCollision(let other) {
                guard item.kind == .directory, other?.kind == .directory, depth < 100 else { continue }
                try await merge(child, into: target.appending(name), depth: depth + 1)
                do throws(ProviderError) {
                    try await host.provider.delete(child, base: .directory)
                } catch .directoryNotEmpty {
                } catch .notPermitted {}
            } catch .noSuchItem {
                // It moved on by itself.
            } catch .conflict {
                // It changes right now: it stays with the rest.
            }
        }
    }

    /// Looks everywhere for hidden items; returns those that nothing here stands for.
    func findStrays() async -> [RemotePath] {
        let start = clock.monotonic()
        requestPoll(listing: true)
        let deadline = start + .seconds(20)
        while shared.withLock({ $0.isPolling || !$0.inbox.isEmpty }), clock.monotonic() < deadline {
            guard shared.withLock({ $0.isConnected }) else { break }
            await withCheckedContinuation { continuation in
                executor.after(.milliseconds(20)) { continuation.resume() }
            }
        }
        return shared.withLock { state in
            state.strays.rows.filter { _, row in row.last >= start && row.tried.map { $0 < row.last } ?? true }
                .keys.sorted()
        }
    }
}

/// The hidden items that nothing here stands for, by their paths at the provider.
struct Strays: Sendable {
    /// One that was not seen for so long is there no more.
    private static let memory = TimeSpan.seconds(3600)

    struct Row: Sendable {
        /// When it was seen first, and last.
        let first: MonotonicTime
        var last: MonotonicTime
        /// When it was brought to light, so that it should not be there any more.
        var tried: MonotonicTime?
        /// True when it is going to be looked at again.
        var isAwaited = false
    }

    var rows: [RemotePath: Row] = [:]
    /// With so many, those are forgotten that are there no more.
    private var limit = 1000

    /// Notes that an item is there.
    mutating func see(_ path: RemotePath, _ now: MonotonicTime) -> Row {
        if rows.count >= limit {
            rows = rows.filter { now - $0.value.last < Self.memory }
            limit = max(1000, 2 * rows.count)
        }
        var row = rows[path] ?? Row(first: now, last: now)
        row.last = now
        rows[path] = row
        return row
    }
}
