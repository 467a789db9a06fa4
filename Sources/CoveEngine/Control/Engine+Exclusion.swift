public import CoveCore

/// Keeping items out of the cloud.
extension Engine {
    /// How often what leaves this disk while it is fetched is fetched again.
    private static let fetches = 3

    /// Keeps an item, with all that is in it, on this device alone, or no longer does; it is fetched before.
    ///
    /// What the cloud has of it is deleted there. Throws `EBUSY` for a container, `EINVAL` for the mount point, `EAGAIN` where its bytes
    /// don't stay here for long enough, `ENODATA` for what stays here for another reason than its own, and what a fetch fails with.
    public func setExcluded(_ path: RemotePath, _ isExcluded: Bool) async throws(Errno) {
        for attempt in 1...Self.fetches {
            do throws(Errno) {
                let id = try catalog.read { database throws(Errno) in try database.entry(atPath: path)?.item ?? .root }
                guard isExcluded else {
                    return try await onQueue { [self] () throws(Errno) in try namespace.include(id) }
                }
                try await namespace.waitForDownload(path) { _ in }
                return try await onQueue { [self] () throws(Errno) in try exclude(id) }
            } catch .wouldBlock where attempt < Self.fetches {
                // Something was let go of meanwhile,
            } catch .stale where attempt < Self.fetches {
                // or has other bytes by now.
            } catch .noSuchEntry where !isExcluded {
                return try await onQueue { [self] () throws(Errno) in try include(path) }
            }
        }
    }

    /// The same of what is here, and has been.
    func exclude(_ id: ItemID) throws(Errno) {
        for entry in try catalog.read({ database throws(Errno) in try database.entries(of: id) }) {
            try access.requireMovable(entry.parent, entry.name)
        }
        try namespace.exclude(id)
    }

    /// A name that nothing has.
    private func include(_ path: RemotePath) throws(Errno) {
        guard let name = path.name else { throw .invalidArgument }
        let parent = try catalog.read { database throws(Errno) in try database.entry(atPath: path.parent)?.item ?? .root
        }
        try requireWritable()
        try namespace.include(Place(parent, name.bytes))
    }

    /// What is excluded by its own name, a person's first; and names that are kept for what comes back there.
    public func excludedItems() -> [ExcludedItem] {
        let found = try? catalog.read { database throws(Errno) -> [ExcludedItem] in
            var items: [ExcludedItem] = []
            for excluded in try database.excludedPlaces() {
                guard let parent = try database.path(ofDirectory: excluded.place.parent) else { continue }
                let text = PathParameter(parent.appending(FileName(unchecked: excluded.place.name)))
                let isThere = try database.entry(excluded.place.parent, excluded.place.name) != nil
                let path = text.path ?? String(decoding: excluded.place.name, as: UTF8.self)
                items.append(
                    ExcludedItem(
                        path: path,
                        pathBase64: text.pathBase64,
                        isAsked: excluded.isAsked,
                        isThere: isThere
                    )
                )
            }
            return items
        }
        return found ?? []
    }

    /// True for what is excluded, itself or with a folder above it.
    func isExcluded(_ entry: EntryRow?) throws(Errno) -> Bool {
        guard let entry, !entry.isUploaded else { return false }
        return try catalog.read { database throws(Errno) in
            if try namespace.isExcluded(entry.place, database) { return true }
            return try namespace.keepsOut(entry.parent, byExclusion: true, database)
        }
    }
}
