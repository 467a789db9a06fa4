internal import CoveCore
internal import Synchronization

/// The conflicts of documents: which there are, and their end.
extension History {
    /// A conflict whose two sides are both here: it ends when one is gone, or the copy has a name that is none of a copy.
    struct Conflict {
        var row: ConflictRow
        var copy: EntryRow
        var document: EntryRow
    }

    /// The conflicts that a document is a side of, newest first; all without a document.
    func conflicts(of document: DocumentID?, _ database: Database) throws(Errno) -> [Conflict] {
        var conflicts: [Conflict] = []
        for row in try database.conflicts(of: document) {
            guard let copy = try database.entry(document: row.copy), ConflictName(copy.name) != nil,
                let document = try database.entry(document: row.document), document.id != copy.id
            else { continue }
            conflicts.append(Conflict(row: row, copy: copy, document: document))
        }
        return conflicts
    }

    /// Lists the folder that a file is in, where nobody has; the other sides of its conflicts are files there.
    func listFolder(of path: RemotePath) -> Pending<Void>? {
        let folder = try? catalog.glance { database throws(Errno) -> ItemID? in
            guard let entry = try database.entry(atPath: path) else { return nil }
            return try database.item(entry.parent)?.residency == .whole ? nil : entry.parent
        }
        return folder.map { namespace.listing(of: $0) }
    }

    /// Finds the conflicts of a file in a folder that nobody has listed; without a connection those that are known must do.
    func lookForConflicts(of path: RemotePath) async {
        guard sync?.isConnected == true, let listing = listFolder(of: path) else { return }
        do throws(Errno) {
            try await listing.value()
        } catch {
            log.notice("\(path): its folder can't be listed: \(error)")
        }
    }

    /// Has the presenters of files told of conflicts in folders that nobody has listed.
    ///
    /// Without a connection nothing is done: once there is one, all that is presented is looked for.
    func findConflicts(of paths: [RemotePath]) {
        guard conflictSearch.add(paths) else { return }
        Task { [self] in
            while let path = conflictSearch.next() {
                guard sync?.isConnected == true else { continue }
                // A file of which nobody here knows has other sides all the same.
                guard let place = try? await namespace.placeAskingSource(at: path, following: true, mustFollow: false)
                else {
                    continue
                }
                await lookForConflicts(of: place.path)
            }
        }
    }

    /// Says that a person has dealt with a file's conflicts, or with one; how many there were.
    ///
    /// All files stay. The copies get names that say no more than whose they are, by which other devices know of it.
    func resolveConflicts(of path: RemotePath, _ id: String?) throws(Errno) -> Int {
        try requireWritable()
        let renamed = try catalog.write { database throws(Errno) -> [(ItemID, [UInt8])] in
            let entry = try self.file(path, database)
            var chosen = try self.conflicts(of: entry.document, database)
            if let id { chosen.removeAll { $0.document.id != entry.id || "\($0.row.copy)" != id } }
            guard id == nil || !chosen.isEmpty else { throw .noData }
            var names: [(ItemID, [UInt8])] = []
            for conflict in chosen {
                guard let name = try self.settledName(of: conflict.copy, database) else { continue }
                let place = Place(conflict.copy.parent, name)
                // What stays on this device does so by its new name too.
                _ = try self.namespace.admitMove(of: conflict.copy, to: place, isExchange: false, database)
                try self.namespace.move(conflict.copy, to: place.parent, name, at: clock.now(), database)
                names += [(conflict.copy.parent, conflict.copy.name), (conflict.copy.parent, name)]
            }
            return names
        }
        let kernel = kernel
        for (parent, name) in renamed { kernel?.invalidateEntry(parent, name) }
        if !renamed.isEmpty { wakeSync() }
        return renamed.count / 2
    }

    /// A free name for a copy whose conflict is dealt with.
    private func settledName(of copy: EntryRow, _ database: Database) throws(Errno) -> [UInt8]? {
        guard let base = ConflictName(copy.name)?.settled else { return nil }
        var number = 1
        while true {
            let name = number == 1 ? base.bytes : base.inserting(" \(number)").bytes
            let here = try database.entry(copy.parent, name)
            let there = try database.entry(remoteParent: copy.parent, remoteName: name)
            if here == nil, there == nil { return name }
            number += 1
        }
    }
}

/// The paths whose conflicts are looked for, one after the other.
final class ConflictSearch: Sendable {
    private let state = EngineMutex<(paths: Set<RemotePath>, isRunning: Bool)>(.conflictSearch, ([], false))

    /// Adds some; true when nobody works on them yet: who asked does.
    func add(_ paths: [RemotePath]) -> Bool {
        state.withLock { state in
            state.paths.formUnion(paths)
            defer { state.isRunning = state.isRunning || !state.paths.isEmpty }
            return !state.isRunning && !state.paths.isEmpty
        }
    }

    /// The next one; nil when there is none, and the work is over.
    func next() -> RemotePath? {
        state.withLock { state in
            let path = state.paths.popFirst()
            if path == nil { state.isRunning = false }
            return path
        }
    }
}
